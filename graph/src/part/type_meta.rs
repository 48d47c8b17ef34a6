//! The descriptions of node types and edge types in `META.json`.

use super::PartitionBook;
use crate::EdgeTypeNames;
use crate::dataset::{EdgeIdKind, EdgeLabelsMeta, NegativesMeta, TargetMeta};
use crate::memory::FeatureDtype;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The description of one node type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTypeMeta {
    /// The name, which is also the name of the type's folder in each part.
    pub name: String,
    /// The global id range of each part.
    pub book: PartitionBook,
    /// The number of features per node, 0 if the type has none.
    pub feature_dim: usize,
    /// The stored type of features.
    pub feature_dtype: FeatureDtype,
    /// True if nodes have labels.
    pub has_labels: bool,
    /// The number of classes, 0 without labels.
    pub num_classes: usize,
    /// The numbers to predict for each node, if the type has targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<TargetMeta>,
    /// The number of training, validation and test nodes over all parts.
    pub split_sizes: [u64; 3],
    /// True if nodes have times.
    #[serde(default)]
    pub has_times: bool,
    /// True if each part lists the nodes of other parts that it will read most often.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_hotness: bool,
    /// True if each part maps its nodes to the ids that users know them by.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_id_map: bool,
    /// True if the nodes are rows of a table, so that edges cannot name new nodes. False for parts of earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_table: bool,
    /// True if the features of each part are built after the parts, and described in the part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_deferred_features: bool,
    /// The name of the label above, if the type has several labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_name: Option<String>,
    /// The labels after the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_labels: Vec<NodeLabelMeta>,
    /// The identity of the nodes. Parts of earlier versions have none.
    #[serde(default, skip_serializing_if = "TypeDigests::is_empty")]
    pub digests: TypeDigests,
}

/// The description of a label of a node type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLabelMeta {
    /// The name. The only label of a type has none.
    pub name: String,
    /// True for classes.
    #[serde(default)]
    pub has_labels: bool,
    /// The number of classes, 0 without classes.
    #[serde(default)]
    pub num_classes: usize,
    /// The numbers to predict for each node, if the label has numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<TargetMeta>,
    /// The number of training, validation and test nodes over all parts.
    pub split_sizes: [u64; 3],
    /// The digest of the names of the classes in a table, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<String>,
}

impl NodeTypeMeta {
    /// Returns the size of a stored row of features in bytes, 0 without features.
    pub fn feature_bytes(&self) -> usize {
        self.feature_dtype.row_bytes(self.feature_dim)
    }

    /// Returns true if nodes have labels or targets.
    pub fn is_labeled(&self) -> bool {
        self.has_labels || self.targets.is_some()
    }

    /// Returns the size of the label or the targets of a node in bytes.
    pub fn label_bytes(&self) -> usize {
        let of_class = if self.has_labels { size_of::<i64>() } else { 0 };
        of_class + self.targets.map_or(0, |targets| targets.dim * size_of::<f32>())
    }
}

/// The description of one edge type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeTypeMeta {
    /// The name of the source node type.
    pub src_type: String,
    /// The name of the relation.
    pub relation: String,
    /// The name of the destination node type.
    pub dst_type: String,
    /// The number of edges over all parts, without held-out edges.
    pub num_edges: u64,
    /// The number of features per edge, 0 if the type has none.
    #[serde(default)]
    pub feature_dim: usize,
    /// The stored type of features.
    #[serde(default)]
    pub feature_dtype: FeatureDtype,
    /// True if edges have weights.
    #[serde(default)]
    pub has_weights: bool,
    /// True if edges have times.
    #[serde(default)]
    pub has_times: bool,
    /// The number of held-out validation and test edges over all parts.
    #[serde(default)]
    pub held_out: [u64; 2],
    /// True if held-out edges have times.
    #[serde(default)]
    pub held_out_has_times: bool,
    /// The given negatives of the held-out validation and test edges.
    #[serde(default, skip_serializing_if = "are_none")]
    pub negatives: [Option<NegativesMeta>; 2],
    /// The labels and the sizes of the splits, if edges have labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<EdgeLabelsMeta>,
    /// The kind of the ids of the edges, if they have ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<EdgeIdKind>,
    /// The identity of the edges. Parts of earlier versions have none.
    #[serde(default, skip_serializing_if = "TypeDigests::is_empty")]
    pub digests: TypeDigests,
}

/// Digests of the nodes or edges of a type, none of which depends on the partitioning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeDigests {
    /// The digest of all arrays of the type in the original order: features, labels, targets, splits and times of nodes;
    /// ends, features, weights, times, labels, targets, splits and held-out edges of edges. Features that are built after the parts are not part
    /// of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The digests of the same arrays by what they hold: `features`, `labels`, `times` and `splits`; of edges also `ends`,
    /// `order`, `weights` and `held_out`. Parts of earlier versions have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arrays: BTreeMap<String, String>,
    /// The contents before the latest updates, if these only added nodes after the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_contents: Vec<String>,
    /// The digest of the ids of the nodes in their table, in the order of the rows. Absent if these are the row numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<String>,
    /// The digest of the features of a table, with their columns and fitted transforms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transforms: Option<String>,
    /// The digest of the names of classes in a table, in the order of their numbers. Absent if labels are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<String>,
}

impl TypeDigests {
    /// Returns true if all digests are absent.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn are_none(negatives: &[Option<NegativesMeta>; 2]) -> bool {
    negatives.iter().all(Option::is_none)
}

impl EdgeTypeMeta {
    /// Returns the names of the source type, the relation and the destination type, such as `author__writes__paper`.
    pub fn full_name(&self) -> String {
        self.names().full_name()
    }

    /// Returns the names of the source type, the relation and the destination type.
    pub fn names(&self) -> EdgeTypeNames<'_> {
        EdgeTypeNames { src: &self.src_type, relation: &self.relation, dst: &self.dst_type }
    }

    /// Returns the size of a stored row of features in bytes, 0 without features.
    pub fn feature_bytes(&self) -> usize {
        self.feature_dtype.row_bytes(self.feature_dim)
    }
}
