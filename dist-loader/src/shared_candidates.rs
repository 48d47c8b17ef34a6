//! The negatives that the edges of a batch share, and the pairs among them that are positive.

use crate::link_batch::{LinkBatch, Negatives};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use rustc_hash::FxHashMap;

/// The ends of each edge type, and the types that hold the reverses of its edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeRelations {
    /// The source type and the destination type of each edge type.
    pub ends: Vec<(NodeTypeId, NodeTypeId)>,
    /// By edge type the types in which the reverse of an edge may be. A type that joins a node type to itself is among
    /// its own.
    pub reverses: Vec<Vec<EdgeTypeId>>,
}

/// Edges of a batch that have the same destination type, and the destinations that all of them are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCandidates {
    /// The type of the edges' destinations and of the candidates.
    pub dst_type: NodeTypeId,
    /// Positions of the edges in the batch, ascending.
    pub edges: Vec<u32>,
    /// Numbers of the candidates in `graph.nodes[dst_type]`.
    pub candidates: Vec<u32>,
    /// The pairs that are no negatives, each as a position in `edges` and a position in `candidates`; ascending, each once.
    /// A candidate is no negative of an edge if it is the edge's own source, or if an edge of the batch, or the reverse of
    /// one, joins the edge's source to it by the edge's type. The edge's own destination is among these.
    pub masked: Vec<(u32, u32)>,
}

impl LinkBatch {
    /// The shared negatives by destination type, for types that an edge of the batch ends in and that have a candidate;
    /// empty if each edge has its own negatives. With `in_batch` the candidates are all seeds of the type: the drawn
    /// negatives and the ends of all edges of the batch.
    ///
    /// Nodes are compared by id, so that a node that the batch holds several times is masked in each place.
    pub fn shared_candidates(&self, in_batch: bool) -> Vec<SharedCandidates> {
        let Negatives::Shared(drawn) = &self.negatives else { return Vec::new() };
        let positives = self.positives();
        let mut groups = Vec::new();
        for (t, drawn) in drawn.iter().enumerate() {
            let dst_type = NodeTypeId(t as u16);
            let of_type = |edge: &u32| self.ends(*edge as usize).1 == dst_type;
            let edges: Vec<u32> = (0..self.edge_types.len() as u32).filter(of_type).collect();
            let candidates = if in_batch {
                let seeds = self.graph.nodes.get(t).and_then(|nodes| nodes.hop_offsets.first());
                (0..seeds.copied().unwrap_or(0)).collect()
            } else {
                drawn.clone()
            };
            if !edges.is_empty() && !candidates.is_empty() {
                let masked = self.masked(&edges, &candidates, &positives);
                groups.push(SharedCandidates { dst_type, edges, candidates, masked });
            }
        }
        groups
    }

    /// The source type and the destination type of an edge.
    fn ends(&self, edge: usize) -> (NodeTypeId, NodeTypeId) {
        self.relations.ends[self.edge_types[edge].index()]
    }

    /// The global id of a node of the batch.
    fn id(&self, node_type: NodeTypeId, number: u32) -> u32 {
        self.graph.nodes[node_type.index()].input_nodes[number as usize]
    }

    /// By edge type and source the destinations that edges of the batch, or their reverses, lead to; global ids.
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

    /// See [`SharedCandidates::masked`]; all `edges` have the same destination type, that of the `candidates`.
    fn masked(
        &self,
        edges: &[u32],
        candidates: &[u32],
        positives: &FxHashMap<(EdgeTypeId, u32), Vec<u32>>,
    ) -> Vec<(u32, u32)> {
        let mut places: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let (_, candidate_type) = self.ends(edges[0] as usize);
        for (at, &number) in candidates.iter().enumerate() {
            places.entry(self.id(candidate_type, number)).or_default().push(at as u32);
        }
        let mut masked = Vec::with_capacity(edges.len());
        for (position, &edge) in edges.iter().enumerate() {
            let edge = edge as usize;
            let (src_type, dst_type) = self.ends(edge);
            let src = self.id(src_type, self.src[edge]);
            let own_source = (src_type == dst_type).then_some(src);
            let destinations = positives.get(&(self.edge_types[edge], src)).map_or(&[][..], Vec::as_slice);
            let start = masked.len();
            for id in destinations.iter().copied().chain(own_source) {
                let found = places.get(&id).map_or(&[][..], Vec::as_slice);
                masked.extend(found.iter().map(|&at| (position as u32, at)));
            }
            masked[start..].sort_unstable();
        }
        // The source of a self-loop is among its destinations too.
        masked.dedup();
        masked
    }
}
