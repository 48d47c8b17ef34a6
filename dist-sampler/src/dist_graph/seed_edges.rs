//! Seed edges, which processes ask the owners for.

use crate::arrays::{bytes_of, ids_in};
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::requests::SeedEdgesRequest;
use crate::part::seed_edges::{NO_POSITION, WORDS_BEFORE, WORDS_PER_EDGE};
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, NegativesMeta, SeedEdgeEnds, SeedEdgeSet, Split};
use futures::future::BoxFuture;
use std::sync::Arc;

impl DistGraph {
    /// Returns the number of seed edges of a type that a part has, see [`edgecut_graph::Part::num_seed_edges`]. The part
    /// must be one of [`DistGraph::seed_share`]. Must not be called from async code.
    ///
    /// # Errors
    /// An error of a peer.
    pub fn num_seed_edges(&self, part: u32, edge_type: EdgeTypeId, set: SeedEdgeSet) -> Result<usize, SampleError> {
        let Some(peer) = &self.peers[part as usize] else {
            return Ok(self.part().num_seed_edges(edge_type, set));
        };
        let request = SeedEdgesRequest { edge_type, set, positions: Bytes::new() };
        let reply = self.handle().block_on(peer.ask(request.clone(), Some(WORDS_BEFORE * size_of::<u32>())))?;
        let words = ids_in(&reply).map_err(|why| peer.failed(&request, why))?;
        Ok((u64::from(words[1]) << 32 | u64::from(words[0])) as usize)
    }

    /// Returns the seed edges of a part at these positions, which must be below [`DistGraph::num_seed_edges`].
    ///
    /// # Errors
    /// An error of a peer.
    pub fn seed_edges(
        self: &Arc<Self>,
        part: u32,
        edge_type: EdgeTypeId,
        set: SeedEdgeSet,
        positions: Vec<u32>,
    ) -> BoxFuture<'_, Result<Vec<SeedEdgeEnds>, SampleError>> {
        Box::pin(async move {
            let Some(peer) = &self.peers[part as usize] else {
                let own = self.part().clone();
                // Edges may be in a mapped file, and network threads must not wait for the disk.
                let workers = &self.workers;
                return workers
                    .run(move || positions.iter().map(|&at| own.seed_edge(edge_type, set, at as usize)).collect())
                    .await;
            };
            let num_words = WORDS_BEFORE + WORDS_PER_EDGE * positions.len();
            let request = SeedEdgesRequest { edge_type, set, positions: bytes_of(positions) };
            let reply = peer.ask(request.clone(), Some(num_words * size_of::<u32>())).await?;
            let words = ids_in(&reply).map_err(|why| peer.failed(&request, why))?;
            let meta = &self.part().meta().edge_types[edge_type.index()];
            let has_times = match set {
                SeedEdgeSet::Links(Split::Valid | Split::Test) => meta.held_out_has_times,
                SeedEdgeSet::Links(Split::Train) | SeedEdgeSet::Labeled(_) => meta.has_times,
                SeedEdgeSet::Negatives(split) => {
                    let negatives = meta.negatives[usize::from(split == Split::Test)];
                    meta.held_out_has_times && matches!(negatives, Some(NegativesMeta::OfEach(_)))
                }
            };
            let expected = Expected {
                num_src: self.num_nodes_of(&meta.src_type),
                num_dst: self.num_nodes_of(&meta.dst_type),
                has_times,
                has_positions: !matches!(
                    set,
                    SeedEdgeSet::Links(Split::Valid | Split::Test) | SeedEdgeSet::Negatives(_)
                ),
            };
            let edges = words[WORDS_BEFORE..].chunks_exact(WORDS_PER_EDGE).map(|words| expected.edge(words));
            edges.collect::<Result<_, _>>().map_err(|why| peer.failed(&request, why))
        })
    }

    fn num_nodes_of(&self, node_type: &str) -> u32 {
        let of_type = self.part().meta().node_types.iter().find(|t| t.name == node_type);
        of_type.map_or(0, |t| t.book.num_nodes()) as u32
    }
}

/// The properties of the seed edges in a reply.
struct Expected {
    num_src: u32,
    num_dst: u32,
    has_times: bool,
    /// True for edges that carry messages.
    has_positions: bool,
}

impl Expected {
    /// Reads an edge of a reply.
    fn edge(&self, words: &[u32]) -> Result<SeedEdgeEnds, String> {
        let src = words[0];
        let dst = words[1];
        if src >= self.num_src || dst >= self.num_dst {
            return Err(format!("the reply has edge {src} to {dst}, which the graph does not have"));
        }
        let position = if words[4] == NO_POSITION { None } else { Some(words[4]) };
        // Positions find the weights and labels of edges, so a missing one would shift the values of the others.
        if position.is_some() != self.has_positions {
            let has = if self.has_positions { "no position" } else { "a position" };
            return Err(format!("the reply has {has} for the edge from {src} to {dst}"));
        }
        let time = (u64::from(words[3]) << 32 | u64::from(words[2])) as i64;
        Ok(SeedEdgeEnds { src, dst, time: if self.has_times { Some(time) } else { None }, position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    #[test]
    fn replies_with_missing_or_surplus_positions_are_refused() {
        let mut expected = Expected { num_src: 5, num_dst: 5, has_times: false, has_positions: true };
        assert_eq!(expected.edge(&[1, 2, 0, 0, 7]).unwrap().position, Some(7));
        assert_has(expected.edge(&[1, 2, 0, 0, NO_POSITION]).unwrap_err(), &["no position for the edge from 1 to 2"]);
        expected.has_positions = false;
        assert_eq!(expected.edge(&[1, 2, 0, 0, NO_POSITION]).unwrap().position, None);
        assert!(expected.edge(&[1, 2, 0, 0, 7]).is_err());
        assert!(expected.edge(&[1, 5, 0, 0, NO_POSITION]).is_err());
    }
}
