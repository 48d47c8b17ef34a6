//! A whole graph in memory, with original ids: its nodes and edges, held-out edges, overlaps of training and held-out
//! data, and consistency checks.

mod checks;
mod directions;
mod edge_ids;
mod edge_labels;
mod edges;
mod feature_types;
mod given_negatives;
mod held_out;
mod held_out_index;
mod in_memory;
mod known_pairs;
mod merged_edges;
mod node_label;
mod nodes;
mod overlap;
mod receivers;
mod reciprocity;
mod split_nodes;
mod split_order;
mod splits;
mod stored_bytes;
mod targets;
mod undirected;
mod unlabeled;

pub use checks::why_too_small;
pub(crate) use checks::{bad_weight, first_bad_weight, is_too_small};
pub use edge_ids::{EdgeId, EdgeIdKind, EdgeIds, TextArray};
pub(crate) use edge_labels::check_classes;
pub use edge_labels::{EdgeLabelKind, EdgeLabelValues, EdgeLabels, EdgeLabelsMeta, NO_SPLIT};
pub use edges::{EdgeAttributes, EdgeData, EdgeList, HeldOutEdges};
pub(crate) use feature_types::plan_feature_dtypes;
pub use given_negatives::{GivenNegatives, NegativesMeta};
pub use held_out::{HoldOut, HoldOutChoice, NodeKeys, OriginalIds};
pub(crate) use held_out_index::Candidate;
pub use in_memory::Dataset;
pub use known_pairs::KnownPairs;
pub(crate) use known_pairs::{JoinedNodes, pair_key};
pub use merged_edges::KeptDuplicate;
pub use node_label::NodeLabel;
pub use nodes::NodeData;
pub use overlap::{EdgeOverlap, NodeOverlap, OverlapPolicy, Overlaps, UndeclaredReverse};
pub(crate) use overlap::{
    OverlapFilter, SettledOverlaps, TypedEdges, check_declared, count_edge_overlaps, declared_reverses,
};
pub use receivers::FewReceivers;
pub use reciprocity::Reciprocity;
pub use split_nodes::NodeSplit;
pub use split_order::{Division, GroupLimits, RowNumber, SplitOrder};
pub use splits::{Split, Splits};
pub(crate) use targets::{MAX_TARGETS, wrong_target};
pub use targets::{TargetKind, TargetMeta, Targets};
pub(crate) use undirected::sorted_edges;
