//! Graphs from CSV and Parquet tables, as a JSON or YAML file describes them.
//!
//! [`read_tables`] reads the tables of a configuration in GraphStorm's format `gconstruct-v0.1`. It numbers the nodes,
//! fits and applies the transforms of features, and returns a [`Dataset`](edgecut_graph::Dataset) with the ids of the
//! tables ([`IdMaps`]) and the fitted transforms ([`Transforms`]).
//!
//! A table is read in pieces, which are files or row groups. Threads read pieces in parallel, and the results are taken
//! in the order of the pieces, so they do not depend on the threads.
//!
//! Invariant: a graph does not depend on the files of its tables. The same rows in arrays, CSV and Parquet give the
//! same parts (`programs/partition-graph/tests/tables.rs`): original ids are row numbers, sums are exact, and the transform of a
//! row depends on fitted values only.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod build;
mod conf;
mod config_values;
mod error;
mod id_list;
mod ids;
mod options;
mod saved_split;
mod table;
mod transform;

pub use build::{
    BuiltFeatures, DroppedRows, KnownEdges, KnownGraph, KnownLabel, KnownNodes, KnownSplit, PartFeatures, RemovedEdges,
    TableGraph, TableShape, TableUpdate, build_part_features, read_tables, read_update,
};
pub use error::TableError;
pub use id_list::{IdColumn, IdList, NO_NODE};
pub use ids::{IdMap, IdMaps, UserIds};
pub use options::{OnBadRows, RemoteTables, TableOptions, Unsupported};
pub use transform::Transforms;
