//! The configuration: tables of nodes and edges, their columns and the transforms of features.
//!
//! The keys are those of GraphStorm's `gconstruct-v0.1`. `time_col`, `weight_col` and `na_values` are additions.

mod features;
mod labels;
mod read;
mod tables;
mod value;

pub(crate) use features::{Feature, Transform};
pub(crate) use labels::{Label, LabelColumn, SplitFiles, SplitRule};
pub(crate) use tables::{EdgeTable, Format, NodeTable, Source, TimeColumn};

use std::path::PathBuf;

/// A configuration file.
pub(crate) struct Conf {
    /// The file.
    pub(crate) path: PathBuf,
    /// The tables of nodes. Several tables may have the same node type.
    pub(crate) nodes: Vec<NodeTable>,
    /// The tables of edges. Several tables may have the same relation.
    pub(crate) edges: Vec<EdgeTable>,
    /// The features and labels that are left out, each as its path in the configuration and the reason.
    pub(crate) unsupported: Vec<String>,
}
