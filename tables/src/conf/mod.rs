//! The configuration: tables of nodes and edges, their columns and the transforms of features.
//!
//! The keys are those of GraphStorm's `gconstruct-v0.1`, with additions that the guide lists.

mod features;
mod labels;
mod read;
mod settle_split;
mod tables;

pub(crate) use features::Feature;
pub(crate) use labels::{GivenKeys, Label, LabelColumn, SplitFiles, SplitRule};
pub(crate) use read::joined;
pub(crate) use tables::{EdgeTable, NodeTable, RemovedTable};

use std::path::PathBuf;

/// A configuration file.
pub(crate) struct Conf {
    /// The file.
    pub(crate) path: PathBuf,
    /// The tables of nodes. Several tables may have the same node type.
    pub(crate) nodes: Vec<NodeTable>,
    /// The tables of edges. Several tables may have the same relation.
    pub(crate) edges: Vec<EdgeTable>,
    /// The tables of removed nodes, in the configuration of an update.
    pub(crate) removed_nodes: Vec<RemovedTable>,
    /// The tables of removed edges, in the configuration of an update.
    pub(crate) removed_edges: Vec<RemovedTable>,
    /// The features and labels that are left out, each as its path in the configuration and the reason.
    pub(crate) unsupported: Vec<String>,
}
