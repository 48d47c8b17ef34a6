//! A ready mini-batch.

use crate::prefetch::bytes_held;
use edgecut_dist_sampler::{BatchKey, SampledEdgeAttributes};

/// Everything that a training step needs, as plain arrays.
///
/// Nodes of each type are numbered in the order of discovery, seeds first. Layer `l` of `L` (the first is 0) computes the
/// nodes within `L - 1 - l` hops of the seeds from those within `L - l` hops; both are prefixes of the node list, and the
/// layer's edges are the rows of that first prefix in [`EdgeBatch`].
#[derive(Clone, Debug, PartialEq)]
pub struct MiniBatch {
    /// What names the batch.
    pub key: BatchKey,
    /// The number of seeds; 0 when this rank has run out of seeds before the others, and then all arrays are empty.
    pub num_seeds: usize,
    /// Nodes by node type.
    pub nodes: Vec<NodeBatch>,
    /// Edges by edge type.
    pub edges: Vec<EdgeBatch>,
    /// The label of each seed, -1 where unlabelled; empty if the loader does not fetch labels.
    pub labels: Vec<i64>,
}

impl MiniBatch {
    /// A batch without seeds.
    pub fn empty(key: BatchKey) -> Self {
        Self { key, num_seeds: 0, nodes: Vec::new(), edges: Vec::new(), labels: Vec::new() }
    }

    /// The bytes of memory that the arrays hold, unused capacity included.
    pub fn num_bytes(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(NodeBatch::num_bytes).sum();
        let edges: usize = self.edges.iter().map(EdgeBatch::num_bytes).sum();
        nodes + edges + bytes_held(&self.labels) + bytes_held(&self.nodes) + bytes_held(&self.edges)
    }
}

/// The nodes of one type in a batch. Arrays that the loader was not asked for are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeBatch {
    /// Global ids, by number in the batch.
    pub input_nodes: Vec<u32>,
    /// Prefix lengths: `hop_offsets[h]` nodes are within `h` hops of the seeds; `num_hops + 1` entries.
    pub hop_offsets: Vec<u32>,
    /// Where neighborhoods are disjoint, the seed, from 0, whose neighborhood each node belongs to.
    pub batch: Vec<u32>,
    /// Ids in the dataset.
    pub original_ids: Vec<u32>,
    /// In-degrees in the whole graph.
    pub degrees: Vec<u32>,
    /// Times; empty as well for types without.
    pub times: Vec<i64>,
    /// Where the features of each node are kept already: its slot in the loader's [`CachedRows`](crate::CachedRows), or
    /// [`NodeBatch::NOT_CACHED`]. Empty if the loader has none, or fetches no features of this type.
    pub cache_slots: Vec<u32>,
    /// `[input_nodes.len(), feature_dim]`, row-major; with `cache_slots` of the nodes that are not cached alone, in order.
    pub features: Vec<f32>,
    /// Features per node.
    pub feature_dim: usize,
}

impl NodeBatch {
    /// Stands for the slot of a node that is not cached.
    pub const NOT_CACHED: u32 = u32::MAX;

    /// The bytes of memory that the arrays hold, unused capacity included.
    pub fn num_bytes(&self) -> usize {
        let ids =
            [&self.input_nodes, &self.hop_offsets, &self.batch, &self.original_ids, &self.degrees, &self.cache_slots];
        ids.into_iter().map(bytes_held).sum::<usize>() + bytes_held(&self.times) + bytes_held(&self.features)
    }
}

/// The sampled edges of one type: a CSR whose row is the destination, both in the batch's numbering.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdgeBatch {
    /// Offsets into `indices`, one more than there are rows; a row for each node that was expanded.
    pub indptr: Vec<u32>,
    /// The source of every edge.
    pub indices: Vec<u32>,
    /// What every edge carries, where it is wanted and the type has it.
    pub attributes: SampledEdgeAttributes,
}

impl EdgeBatch {
    /// The bytes of memory that the arrays hold, unused capacity included.
    pub fn num_bytes(&self) -> usize {
        let SampledEdgeAttributes { times, weights, features, .. } = &self.attributes;
        let structure = bytes_held(&self.indptr) + bytes_held(&self.indices);
        structure + bytes_held(times) + bytes_held(weights) + bytes_held(features)
    }
}
