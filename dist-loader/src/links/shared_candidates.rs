//! Candidates that the edges of a batch share, and the positive pairs among them.

use crate::links::link_batch::{LinkBatch, Negatives};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use rustc_hash::FxHashMap;

/// The pairs of a batch that serve as shared negatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedNegatives {
    /// True to compare an edge with all seeds of its destination's type: the drawn negatives and the ends of all edges
    /// of the batch. False for the drawn negatives alone.
    pub in_batch: bool,
    /// True if the pair of a node with itself is a negative. A dot product cannot score such a pair low, so it is
    /// better left out. A decoder with a row per relation learns which relations connect a node with itself, and has to,
    /// because rankings against all nodes contain an edge's own source.
    pub self_pairs: bool,
}

/// The edges of a batch with the same destination type, and the candidates with which all of them are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCandidates {
    /// The type of the edges' destinations and of the candidates.
    pub dst_type: NodeTypeId,
    /// Positions of the edges in the batch, ascending.
    pub edges: Vec<u32>,
    /// Numbers of the candidates in `graph.nodes[dst_type]`.
    pub candidates: Vec<u32>,
    /// The pairs that are not negatives, each as (position in `edges`, position in `candidates`), ascending and
    /// distinct. A candidate is not a negative of an edge if an edge of the batch or the reverse of one connects the
    /// edge's source to it with the edge's type, which includes the edge's own destination. Without
    /// [`SharedNegatives::self_pairs`], neither is the edge's own source.
    pub masked: Vec<(u32, u32)>,
}

impl LinkBatch {
    /// Returns the shared candidates by destination type, for types in which an edge of the batch ends and that have a
    /// candidate. Returns nothing if each edge has its own negatives.
    ///
    /// Nodes are compared by global id, so a node that occurs several times in the batch is masked at each position.
    pub fn shared_candidates(&self, pairs: SharedNegatives) -> Vec<SharedCandidates> {
        let Negatives::Shared(drawn) = &self.negatives else { return Vec::new() };
        let positives = self.positives();
        let mut groups = Vec::new();
        for (t, drawn) in drawn.iter().enumerate() {
            let dst_type = NodeTypeId(t as u16);
            let edges: Vec<u32> =
                (0..self.edge_types.len() as u32).filter(|edge| self.ends(*edge as usize).1 == dst_type).collect();
            let candidates = if pairs.in_batch {
                let seeds = self.graph.nodes.get(t).and_then(|nodes| nodes.hop_offsets.first());
                (0..seeds.copied().unwrap_or(0)).collect()
            } else {
                drawn.clone()
            };
            if !edges.is_empty() && !candidates.is_empty() {
                let masked = self.masked(&edges, &candidates, &positives, pairs.self_pairs);
                groups.push(SharedCandidates { dst_type, edges, candidates, masked });
            }
        }
        groups
    }

    /// Returns the source type and the destination type of an edge.
    fn ends(&self, edge: usize) -> (NodeTypeId, NodeTypeId) {
        self.relations.ends[self.edge_types[edge].index()]
    }

    /// Returns the global id of a node of the batch.
    fn id(&self, node_type: NodeTypeId, number: u32) -> u32 {
        self.graph.nodes[node_type.index()].input_nodes[number as usize]
    }

    /// Returns, by edge type and source, the destinations of the edges of the batch and of their reverses, as global
    /// ids.
    fn positives(&self) -> FxHashMap<(EdgeTypeId, u32), Vec<u32>> {
        let mut positives: FxHashMap<(EdgeTypeId, u32), Vec<u32>> = FxHashMap::default();
        for (edge, &edge_type) in self.edge_types.iter().enumerate() {
            let (src_type, dst_type) = self.ends(edge);
            let src = self.id(src_type, self.src[edge]);
            let dst = self.id(dst_type, self.dst[edge]);
            positives.entry((edge_type, src)).or_default().push(dst);
            for &reverse in &self.relations.reverses[edge_type.index()] {
                positives.entry((reverse, dst)).or_default().push(src);
            }
        }
        for destinations in positives.values_mut() {
            destinations.sort_unstable();
            destinations.dedup();
        }
        positives
    }

    /// Computes [`SharedCandidates::masked`]. All `edges` have the destination type of the `candidates`.
    fn masked(
        &self,
        edges: &[u32],
        candidates: &[u32],
        positives: &FxHashMap<(EdgeTypeId, u32), Vec<u32>>,
        self_pairs: bool,
    ) -> Vec<(u32, u32)> {
        let mut positions_of: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let (_, candidate_type) = self.ends(edges[0] as usize);
        for (at, &number) in candidates.iter().enumerate() {
            positions_of.entry(self.id(candidate_type, number)).or_default().push(at as u32);
        }
        let mut masked = Vec::with_capacity(edges.len());
        for (position, &edge) in edges.iter().enumerate() {
            let edge = edge as usize;
            let (src_type, dst_type) = self.ends(edge);
            let src = self.id(src_type, self.src[edge]);
            let own_source = (src_type == dst_type && !self_pairs).then_some(src);
            let destinations = positives.get(&(self.edge_types[edge], src)).map_or(&[][..], Vec::as_slice);
            let start = masked.len();
            for id in destinations.iter().copied().chain(own_source) {
                let found = positions_of.get(&id).map_or(&[][..], Vec::as_slice);
                masked.extend(found.iter().map(|&at| (position as u32, at)));
            }
            masked[start..].sort_unstable();
        }
        // The source of a self-loop is also among its destinations.
        masked.dedup();
        masked
    }
}
