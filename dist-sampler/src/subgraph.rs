//! A sampled neighborhood as plain arrays.

/// The neighborhood of a batch's seeds.
///
/// Per node type the nodes are numbered in the order of discovery, seeds first; a node is expanded once, at the hop
/// after the one that found it. So per edge type one CSR holds every sampled edge, and what the first hops found are prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledSubgraph {
    /// Nodes by node type.
    pub nodes: Vec<SampledNodes>,
    /// Edges by edge type.
    pub edges: Vec<SampledEdges>,
}

/// The nodes of one type in a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledNodes {
    /// Global ids, by number in the batch.
    pub ids: Vec<u32>,
    /// `num_hops + 1` prefix lengths: `hop_offsets[h]` nodes are within `h` hops of the seeds. `hop_offsets[0]` is the
    /// number of seeds of this type.
    pub hop_offsets: Vec<u32>,
    /// The seed whose neighborhood each node belongs to, where neighborhoods are disjoint; else empty.
    pub batch: Vec<u32>,
}

/// The sampled edges of one type: a CSR whose row is the destination.
///
/// Row `r` belongs to node `r` of the destination type; there is a row for each expanded node, that is, all but those
/// that the last hop found. Invariants: `indptr` starts at 0, never decreases and ends at `indices.len()`; each index is
/// a node of the source type in the batch's numbering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledEdges {
    /// Offsets into `indices`, one more than there are rows.
    pub indptr: Vec<u32>,
    /// The source of every edge, by number in the batch; a row's are in the order of the original edge list.
    pub indices: Vec<u32>,
    /// Where they are wanted, the position of every edge among the in-edges of its destination; else empty.
    pub positions: Vec<u32>,
}
