//! A sampled neighborhood as plain arrays.

/// The neighborhood of a batch's seeds.
///
/// The nodes of each type are numbered in the order of discovery, seeds first. A node is expanded once, at the hop
/// after the one that found it. One CSR per edge type therefore holds all sampled edges, and the nodes and edges of the
/// first hops are prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledSubgraph {
    /// Nodes by node type.
    pub nodes: Vec<SampledNodes>,
    /// Edges by edge type.
    pub edges: Vec<SampledEdges>,
    /// The time of each seed, if the sampler fetches times of edges in temporal sampling; else empty.
    pub seed_times: Vec<i64>,
}

/// The nodes of one type in a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledNodes {
    /// Global ids, by number in the batch.
    pub ids: Vec<u32>,
    /// `num_hops + 1` prefix lengths: the first `hop_offsets[h]` nodes are within `h` hops of the seeds.
    /// `hop_offsets[0]` is the number of seeds of this type.
    pub hop_offsets: Vec<u32>,
    /// The seed to whose neighborhood each node belongs. Empty unless neighborhoods are disjoint.
    pub batch: Vec<u32>,
}

/// The sampled edges of one type, as a CSR with a row per destination.
///
/// Row `r` belongs to node `r` of the destination type. Every expanded node has a row, that is, every node except those
/// found by the last hop. Invariants: `indptr` starts at 0, never decreases and ends at `indices.len()`. Each index is
/// the number of a node of the source type in the batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledEdges {
    /// Offsets into `indices`, one per row plus one.
    pub indptr: Vec<u32>,
    /// The number of each edge's source in the batch. Within a row in the order of the original edge list.
    pub indices: Vec<u32>,
    /// The position of each edge among the in-edges of its destination. Empty unless positions are kept or edge attributes are requested.
    pub positions: Vec<u32>,
}
