//! The errors of partitioning.

use edgecut_graph::GraphError;
use std::path::PathBuf;
use thiserror::Error;

/// An error of partitioning. Its message says what to do about it.
#[derive(Debug, Error)]
pub enum PartitionError {
    /// The dataset or a file of a partitioned graph is invalid, or could not be read or written.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Zero parts were requested.
    #[error("cannot split a graph into 0 parts: ask for at least 1 part")]
    NoParts,
    /// More parts were requested than there are nodes, so some part would be empty.
    #[error("cannot split a graph of {num_nodes} nodes into {num_parts} parts: each part needs at least one node")]
    TooManyParts {
        /// The requested number of parts.
        num_parts: u32,
        /// The number of nodes over all types.
        num_nodes: usize,
    },
    /// The graph has more nodes than 32-bit ids can number.
    #[error("cannot split a graph of {num_nodes} nodes over all types: the limit is 2^32 - 1 nodes")]
    TooManyNodes {
        /// The number of nodes over all types.
        num_nodes: usize,
    },
    /// A count exceeds METIS's 32-bit integers.
    #[error(
        "the graph is too large for METIS: {count} {what}, more than 2^31 - 1; use `method=semi-external`, which has no \
         such limit"
    )]
    TooLargeForMetis {
        /// The count.
        count: u64,
        /// The counted quantity, such as `weights`.
        what: &'static str,
    },
    /// METIS failed.
    #[error(
        "METIS failed to partition the graph (it ran out of memory, was interrupted by SIGTERM, or hit an internal \
         error); `method=semi-external` takes less memory"
    )]
    Metis {
        /// The error that METIS returned.
        source: ::metis::Error,
    },
    /// METIS needs more memory than the limit.
    #[error(
        "METIS takes about {} for this graph, more than `memory_limit` {}: raise it, or use `method=semi-external` or `method=ldg`",
        mebibytes(*needed),
        mebibytes(*limit)
    )]
    MetisMemory {
        /// The estimated bytes of METIS with the arrays beside it.
        needed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The limit of memory is too small for the graph.
    #[error(
        "the graph needs at least {} of memory for arrays with an entry per node, more than `memory_limit` {}: raise it",
        mebibytes(*needed),
        mebibytes(*limit)
    )]
    MemoryLimit {
        /// The smallest possible limit in bytes.
        needed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A type's name that cannot be a folder name, or that two types share.
    #[error("dataset {dataset}: {why}")]
    Names {
        /// The dataset's name.
        dataset: String,
        /// The name, and the reason why it is rejected.
        why: String,
    },
    /// An assignment that does not fit the dataset.
    #[error("the assignment does not fit the dataset: {why}")]
    Assignment {
        /// The mismatch.
        why: String,
    },
    /// The nodes of other parts cannot be ranked by the given rule.
    #[error("`hotness`: {why}")]
    Hotness {
        /// The reason.
        why: String,
    },
    /// Edges that are to be removed do not exist.
    #[error("{number} edges to remove do not exist; the first one is of edge type {edge_type}, from node {} to node {}", pair[0], pair[1])]
    MissingEdges {
        /// The position of the edge type.
        edge_type: usize,
        /// The original ids of the ends of the first one.
        pair: [u32; 2],
        /// The number of pairs of nodes without an edge.
        number: u64,
    },
    /// The output folder exists already.
    #[error("{} exists already: `overwrite` replaces it, or choose another output folder", path.display())]
    Exists {
        /// The output folder.
        path: PathBuf,
    },
    /// The parts in the output folder have changed since they were read.
    #[error("{} has changed while it was updated, for example by another update: update it again", path.display())]
    Changed {
        /// The output folder.
        path: PathBuf,
    },
    /// The output folder is not a partitioned graph. It is never replaced.
    #[error(
        "{} is not a partitioned graph, and `overwrite` does not replace it: choose another output folder",
        path.display()
    )]
    NotAPartition {
        /// The output folder.
        path: PathBuf,
    },
    /// The output folder holds an entry beside the parts. It is not replaced, so that the entry is not lost.
    #[error(
        "{} holds {entry:?}, which does not belong to the partitioned graph: `overwrite` would delete it, so move it \
         away, or choose another output folder",
        path.display()
    )]
    HoldsOther {
        /// The output folder.
        path: PathBuf,
        /// The first entry, by its path in the folder, that `META.json` does not list.
        entry: PathBuf,
    },
    /// The folder of the updated parts holds an entry beside them. It is not replaced, so that the entry is not lost.
    #[error(
        "{} holds {entry:?}, which does not belong to the partitioned graph, and an update replaces the folder: move it \
         away, or write the updated parts to another folder (`output_dir`)",
        path.display()
    )]
    UpdateWouldDelete {
        /// The folder of the parts.
        path: PathBuf,
        /// The first entry, by its path in the folder, that `META.json` does not list.
        entry: PathBuf,
    },
    /// A file system operation on a folder failed.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The caller's [`Progress`](crate::Progress) asked to stop.
    #[error("stopped; nothing was written")]
    Cancelled,
}

/// Formats a number of bytes in units that `memory_limit` accepts, rounded up.
fn mebibytes(bytes: u64) -> String {
    format!("{}MiB", bytes.div_ceil(1 << 20))
}
