//! A mini-batch of nodes with its neighborhood.

use crate::bytes_held::bytes_held;
use edgecut_dist_sampler::{BatchKey, SampledEdgeAttributes};

/// All data of a training step, as plain arrays.
///
/// Nodes of each type are numbered in the order of discovery, seeds first. Layer `l` of `L` layers, counted from 0,
/// computes the nodes within `L - 1 - l` hops of the seeds from the nodes within `L - l` hops. Both are prefixes of the
/// node list. The edges of the layer are the rows of the shorter prefix in [`EdgeBatch`].
///
/// ```
/// # let loader = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_loader.rs"));
/// let batch = loader.epoch(0).next().expect("a batch")?;
/// let nodes = &batch.nodes[0];
/// // The first nodes are the seeds.
/// assert_eq!(nodes.input_nodes[..batch.num_seeds], (0..16).collect::<Vec<u32>>());
/// assert_eq!(nodes.features.len(), nodes.input_nodes.len() * nodes.feature_dim);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MiniBatch {
    /// The key of the batch.
    pub key: BatchKey,
    /// The number of seeds. It is 0, and all arrays are empty, if this rank has run out of seeds before other ranks.
    pub num_seeds: usize,
    /// The position of each seed: in the list of seeds that the loader was given, or else among the seeds of this rank's parts.
    /// For clusters of all nodes, their global ids.
    pub seed_positions: Vec<u32>,
    /// Nodes by node type.
    pub nodes: Vec<NodeBatch>,
    /// Edges by edge type.
    pub edges: Vec<EdgeBatch>,
    /// The label of each seed, -1 if unlabelled. Empty if the loader does not fetch labels.
    pub labels: Vec<i64>,
    /// `[num_seeds, target_dim]`, row-major: the targets of each seed, if its type has targets. NaN is an unknown value.
    pub targets: Vec<f32>,
    /// The targets per seed, also of a batch without seeds; 0 if the loader does not fetch labels.
    pub target_dim: usize,
    /// In temporal sampling with times of edges, the time of each seed whose neighborhood [`NodeBatch::batch`] names; else
    /// empty.
    pub seed_times: Vec<i64>,
}

impl MiniBatch {
    /// Makes a batch without seeds.
    pub fn empty(key: BatchKey) -> Self {
        Self { key, ..Self::default() }
    }

    /// Returns the bytes of memory that the arrays hold, including unused capacity.
    pub fn num_bytes(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(NodeBatch::num_bytes).sum();
        let edges: usize = self.edges.iter().map(EdgeBatch::num_bytes).sum();
        let positions = bytes_held(&self.seed_positions) + bytes_held(&self.seed_times);
        let of_seeds = bytes_held(&self.labels) + bytes_held(&self.targets) + positions;
        nodes + edges + of_seeds + bytes_held(&self.nodes) + bytes_held(&self.edges)
    }
}

/// The nodes of one type in a batch. Arrays that the loader was not configured to fetch are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeBatch {
    /// Global ids, by number in the batch.
    pub input_nodes: Vec<u32>,
    /// `num_hops + 1` prefix lengths: the first `hop_offsets[h]` nodes are within `h` hops of the seeds.
    pub hop_offsets: Vec<u32>,
    /// If neighborhoods are disjoint, the seed (counted from 0) to whose neighborhood each node belongs, else empty.
    pub batch: Vec<u32>,
    /// Ids in the dataset.
    pub original_ids: Vec<u32>,
    /// In-degrees in the whole graph.
    pub degrees: Vec<u32>,
    /// Sums of the weights of in-edges in the whole graph.
    pub in_weights: Vec<f32>,
    /// Times. Also empty for types without times.
    pub times: Vec<i64>,
    /// The slot of each node in the loader's [`CachedRows`](crate::CachedRows), or [`NodeBatch::NOT_CACHED`]. Empty if
    /// the loader has no cache or fetches no features of this type.
    pub cache_slots: Vec<u32>,
    /// `[input_nodes.len(), feature_dim]`, row-major. With `cache_slots`, only the rows of the nodes that are not
    /// cached, in order.
    pub features: Vec<f32>,
    /// Features per node.
    pub feature_dim: usize,
}

impl NodeBatch {
    /// The slot of a node that is not cached.
    pub const NOT_CACHED: u32 = u32::MAX;

    /// Returns the bytes of memory that the arrays hold, including unused capacity.
    pub fn num_bytes(&self) -> usize {
        let ids =
            [&self.input_nodes, &self.hop_offsets, &self.batch, &self.original_ids, &self.degrees, &self.cache_slots];
        let numbers = bytes_held(&self.times) + bytes_held(&self.in_weights) + bytes_held(&self.features);
        ids.into_iter().map(bytes_held).sum::<usize>() + numbers
    }
}

/// The sampled edges of one type, as a CSR with a row per destination. Nodes are given by their numbers in the batch.
///
/// ```
/// # let loader = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_loader.rs"));
/// let batch = loader.epoch(0).next().expect("a batch")?;
/// let edges = &batch.edges[0];
/// // One hop expands the 16 seeds, and draws at most 5 neighbors of each.
/// assert_eq!(edges.indptr.len(), 16 + 1);
/// assert!(edges.indptr.windows(2).all(|ends| ends[1] - ends[0] <= 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdgeBatch {
    /// Offsets into `indices`, one per row plus one. Each expanded node has a row.
    pub indptr: Vec<u32>,
    /// The source of every edge.
    pub indices: Vec<u32>,
    /// The position of every edge among the in-edges of its destination, in the order of the original edge list. Empty
    /// unless the sampler keeps positions.
    pub positions: Vec<u32>,
    /// The requested attributes of every edge. Attributes that the type lacks are empty.
    pub attributes: SampledEdgeAttributes,
}

impl EdgeBatch {
    /// Returns the bytes of memory that the arrays hold, including unused capacity.
    pub fn num_bytes(&self) -> usize {
        let SampledEdgeAttributes { times, weights, features, labels, targets, ids, .. } = &self.attributes;
        let structure = bytes_held(&self.indptr) + bytes_held(&self.indices) + bytes_held(&self.positions);
        let of_labels = bytes_held(labels) + bytes_held(targets);
        structure + of_labels + bytes_held(ids) + bytes_held(times) + bytes_held(weights) + bytes_held(features)
    }
}
