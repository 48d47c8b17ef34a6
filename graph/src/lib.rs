//! Graph data for Edgecut: ids, datasets and the on-disk format of a partitioned graph.
//!
//! Every structure is typed: a graph has node types and edge types. A homogeneous graph has one of each
//! ([`DEFAULT_NODE_TYPE`], [`DEFAULT_RELATION`]).
//!
//! * [`Dataset`] is a whole graph with original ids, as read from files or generated.
//! * [`GraphDataset`] is a set of many small graphs, and [`graph_splits`] divides such a set.
//! * [`datasets`] reads and generates both.
//! * [`Part`] is one part of a partitioned graph, memory-mapped. `docs/src/format.md` is the contract of its files.
//! * [`parts`] writes the parts of a graph.
//! * [`PartitionBook`] maps each node to the part that owns it.
#![forbid(unsafe_op_in_unsafe_fn)]

mod book;
mod buffer;
mod classes;
mod csc;
mod dataset;
pub mod datasets;
mod error;
mod features;
mod gathered_rows;
mod graph_dataset;
pub mod graph_splits;
mod hop_kernel;
mod ids;
mod meta;
mod npy;
mod part;
pub mod parts;
mod permutation;
mod prefetch;
pub mod rng;
mod scan;
mod streaming;
pub mod uninit;

pub use book::PartitionBook;
pub use buffer::Buffer;
pub use classes::{count_distinct_labels, max_classes};
pub use csc::Csc;
pub use dataset::{
    Dataset, EdgeAttributes, EdgeData, EdgeList, EdgeOverlap, HeldOutEdges, HoldOut, HoldOutChoice, NodeData,
    NodeOverlap, OverlapPolicy, Overlaps, Split, Splits,
};
pub use error::GraphError;
pub use features::{FeatureDtype, Features};
pub use gathered_rows::GatheredRows;
pub use graph_dataset::{GraphData, GraphDataset, GraphView, NodeLabels};
pub use hop_kernel::{HopError, HopKernel, PlainHop};
pub use ids::{EdgeTypeId, GlobalNodeId, NodeTypeId, PartitionId};
pub use meta::{
    EdgeTypeMeta, FORMAT_NAME, FORMAT_VERSION, FileMeta, META_FILE, Meta, NodeTypeMeta, PartMeta, Provenance, Report,
    checksum, is_folder_name,
};
pub use npy::{NpyElement, NpyWriter, map_npy, npy_header, npy_shape, write_npy};
pub use part::{Part, PartEdges, PartNodes, edge_dir, edge_dir_name, node_dir, part_dir};
pub use permutation::Permutation;
pub use prefetch::{prefetch, prefetch_all};

/// The name of the only node type of a homogeneous graph.
pub const DEFAULT_NODE_TYPE: &str = "node";
/// The name of the only relation of a homogeneous graph.
pub const DEFAULT_RELATION: &str = "to";
