//! Why a graph could not be split or written.

use edgecut_graph::GraphError;
use std::ffi::OsString;
use std::path::PathBuf;
use thiserror::Error;

/// An error of partitioning, with what to do about it.
#[derive(Debug, Error)]
pub enum PartitionError {
    /// The dataset or a file of a partitioned graph is wrong, or could not be read or written.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// No part was asked for.
    #[error("0 parts were asked for; a graph has at least one")]
    NoParts,
    /// A part would stay empty.
    #[error("{num_parts} parts were asked for, but the graph has only {num_nodes} nodes")]
    TooManyParts {
        /// Parts asked for.
        num_parts: u32,
        /// Nodes over all types.
        num_nodes: usize,
    },
    /// The graph has more nodes than ids.
    #[error("{num_nodes} nodes over all types are more than can be split: 2^32 - 1")]
    TooManyNodes {
        /// Nodes over all types.
        num_nodes: usize,
    },
    /// METIS counts in 32 bits.
    #[error(
        "the graph is too large for METIS: {count} {what}, more than 2^31 - 1; use --method ldg, which has no such limit"
    )]
    TooLargeForMetis {
        /// How many there are.
        count: u64,
        /// Of what.
        what: &'static str,
    },
    /// METIS gave up.
    #[error("METIS found no partition (it ran out of memory, was interrupted by SIGTERM, or failed inside)")]
    Metis {
        /// What METIS said.
        source: metis::Error,
    },
    /// A name that cannot be a folder, or that two types share.
    #[error("dataset {dataset}: {why}")]
    Names {
        /// The dataset's name.
        dataset: String,
        /// Which name, and why not.
        why: String,
    },
    /// An assignment that does not fit the dataset.
    #[error("assignment: {why}")]
    Assignment {
        /// What does not fit.
        why: String,
    },
    /// The output is there already.
    #[error("{} exists already; give --overwrite to replace it, or another output folder", path.display())]
    Exists {
        /// The output folder.
        path: PathBuf,
    },
    /// The output folder holds something else, and stays.
    #[error("{} exists, and is no partitioned graph: it is not replaced even with --overwrite", path.display())]
    NotAPartition {
        /// The output folder.
        path: PathBuf,
    },
    /// The output folder holds something beside the parts, which stays.
    #[error(
        "{} holds {entry:?}, which is not of the partitioned graph: it is not replaced even with --overwrite; move that away, or give another output folder",
        path.display()
    )]
    HoldsOther {
        /// The output folder.
        path: PathBuf,
        /// The first entry, by name, that is neither `META.json` nor a part.
        entry: OsString,
    },
    /// The system refused a change of folders.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The caller's [`Progress`](crate::Progress) asked to stop.
    #[error("stopped; nothing was written")]
    Cancelled,
}
