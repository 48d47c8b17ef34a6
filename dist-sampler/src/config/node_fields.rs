//! The attributes of nodes and edges to fetch.

use edgecut_graph::{EdgeIdKind, EdgeTypeMeta, Meta, NodeTypeMeta};
use serde::{Deserialize, Serialize};

/// The attributes of nodes to fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFields {
    /// Labels, `i64`, or targets, `f32`.
    pub labels: bool,
    /// Times, `i64`.
    pub times: bool,
    /// Original ids, `u32`.
    pub original_ids: bool,
    /// In-degrees in the whole graph, over all edge types into the node's type and over all times, `u32`.
    pub degrees: bool,
    /// Sums of the weights of in-edges in the whole graph, over all edge types into the node's type and over all times,
    /// `f32`. Edges without weights count 1.
    pub in_weights: bool,
    /// Features, as stored.
    pub features: bool,
}

/// The attributes of edges to fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeFields {
    /// Times, `i64`.
    pub times: bool,
    /// Weights, `f32`.
    pub weights: bool,
    /// Features, as stored.
    pub features: bool,
    /// Labels, `i64`, or targets, `f32`.
    pub labels: bool,
    /// Ids that are numbers, `i64`.
    #[serde(default)]
    pub ids: bool,
}

impl NodeFields {
    /// Features and nothing else.
    pub const FEATURES: Self =
        Self { labels: false, times: false, original_ids: false, degrees: false, in_weights: false, features: true };

    /// Returns the bytes of a node in a reply to `fetch`, over all wanted attributes.
    pub(crate) fn bytes_per_node(self, of_type: &NodeTypeMeta) -> usize {
        let size = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
        size(self.labels, of_type.label_bytes())
            + size(self.times, 8)
            + size(self.original_ids, 4)
            + size(self.degrees, 4)
            + size(self.in_weights, 4)
            + size(self.features, of_type.feature_bytes())
    }
}

impl EdgeFields {
    /// Returns whether any attribute is wanted.
    pub fn any(self) -> bool {
        self.times || self.weights || self.features || self.labels || self.ids
    }

    /// Returns the attributes that edges of a type have.
    pub fn all_of(of_type: &EdgeTypeMeta) -> Self {
        Self {
            times: of_type.has_times,
            weights: of_type.has_weights,
            features: of_type.feature_dim > 0,
            labels: of_type.labels.is_some(),
            ids: of_type.ids == Some(EdgeIdKind::Numbers),
        }
    }

    /// Returns the attributes that batches for other programs have: all attributes except for labels and for ids of tables.
    pub fn of_batches(meta: &Meta) -> Self {
        let all = Self { times: true, weights: true, features: true, labels: false, ids: meta.provenance.edge_ids };
        let has_any = meta.edge_types.iter().any(|of_type| all.and(Self::all_of(of_type)).any());
        if has_any { all } else { Self::default() }
    }

    /// Returns the attributes that are in both sets.
    pub fn and(self, other: Self) -> Self {
        Self {
            times: self.times && other.times,
            weights: self.weights && other.weights,
            features: self.features && other.features,
            labels: self.labels && other.labels,
            ids: self.ids && other.ids,
        }
    }

    /// Returns the bytes of an edge in a reply.
    pub(crate) fn bytes_per_edge(self, of_type: &EdgeTypeMeta) -> usize {
        let size = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
        size(self.times, 8)
            + size(self.weights, 4)
            + size(self.features, of_type.feature_bytes())
            + size(self.labels, of_type.labels.map_or(0, |labels| labels.values.bytes()))
            + size(self.ids, size_of::<i64>())
    }
}
