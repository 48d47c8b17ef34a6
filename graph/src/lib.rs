//! Graph data for Edgecut: ids, datasets and the on-disk format of a partitioned graph.
//!
//! Every structure is typed: a graph has node types and edge types. A homogeneous graph has one of each
//! ([`DEFAULT_NODE_TYPE`], [`DEFAULT_RELATION`]).
//!
//! * [`Dataset`] is a whole graph with original ids, as read from files or generated.
//! * [`readers`] reads and generates datasets.
//! * [`small_graphs`] reads, generates and splits sets of many small graphs ([`GraphDataset`]).
//! * [`Part`] is one part of a partitioned graph, memory-mapped. `docs/src/format.md` is the contract of its files.
//! * [`part_writer`] writes the parts of a graph.
//! * [`PartitionBook`] maps each node to the part that owns it.
#![forbid(unsafe_op_in_unsafe_fn)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod classes;
mod dataset;
mod edge_type_names;
mod error;
mod fanout;
mod grouping;
mod hop_kernel;
mod ids;
mod memory;
mod named_values;
mod npy;
mod parallel;
mod part;
pub mod part_writer;
mod permutation;
pub mod readers;
pub mod rng;
mod scan;
mod share;
pub mod small_graphs;
mod time_unit;
mod unique_keys;
mod update;

pub use classes::{count_distinct_labels, max_classes};
pub use dataset::{
    Dataset, Division, EdgeAttributes, EdgeData, EdgeId, EdgeIdKind, EdgeIds, EdgeLabelKind, EdgeLabelValues,
    EdgeLabels, EdgeLabelsMeta, EdgeList, EdgeOverlap, FewReceivers, GivenNegatives, GroupLimits, HeldOutEdges,
    HoldOut, HoldOutChoice, KeptDuplicate, KnownPairs, NO_SPLIT, NegativesMeta, NodeData, NodeKeys, NodeLabel,
    NodeOverlap, NodeSplit, OriginalIds, OverlapPolicy, Overlaps, Reciprocity, RowNumber, Split, SplitOrder, Splits,
    TargetKind, TargetMeta, Targets, TextArray, UndeclaredReverse, why_too_small,
};
pub use edge_type_names::{EdgeTypeNames, reverse_relation};
pub use error::GraphError;
pub use fanout::Fanout;
pub use hop_kernel::{HopError, HopKernel, PlainHop};
pub use ids::{DEFAULT_NODE_TYPE, DEFAULT_RELATION, DiskPartId, EdgeTypeId, GlobalNodeId, NodeTypeId, PartitionId};
pub use memory::{
    Buffer, FeatureDtype, FeatureDtypes, Features, GatheredRows, GrowingArray, OutOfRange, WorkObserver, Workspace,
    end_on_unreadable_pages, prefetch, prefetch_all, shown_bytes, uninit,
};
pub use named_values::{NamedValue, named_values};
pub use npy::{
    FileMeta, NpyElement, checksum, map_features, map_npy, npy_header, npy_shape, read_npy, write_features, write_npy,
};
pub use part::{
    BUILT_FEATURES_FILE, Csc, DiskBook, EdgeTypeMeta, EdgesInMemory, FEATURES_FILE, FORMAT_NAME, FeaturesChecksum,
    HotNodes, HotnessRule, ID_MAP_FILE, LabelId, META_FILE, Meta, NodeLabelMeta, NodeTypeMeta, NodesInMemory, Part,
    PartEdges, PartLabel, PartMeta, PartNodes, PartitionBook, Provenance, Report, SeedEdgeEnds, SeedEdgeSet,
    SplitIndex, TRANSFORMS_FILE, TableIdSource, TableIds, TextIds, TypeDigests, Updates, edge_dir, has_built_features,
    is_folder_name, label_dir, listed_files, node_dir, node_file, part_dir, possible_files, remedy_without_parts,
    write_built_features,
};
pub use permutation::Permutation;
pub use share::Share;
pub use small_graphs::{AttributeRows, GraphData, GraphDataset, GraphView, OneHotLabels};
pub use time_unit::TimeUnit;
pub use unique_keys::check_unique_keys;
pub use update::{
    EdgeUpdate, GraphUpdate, Neighbor, NewNodes, NodeUpdate, PartQuantities, PartsUpdate, RemovedCounts, UpdateRules,
    UpdatedEdges, UpdatedParts, known_pairs,
};
