//! Edge types with the reverses of seed edges, although nothing declares them to be reverses.

use crate::links::edge_relations::EdgeRelations;
use crate::seeds::edge_seeds::{EdgeIndex, EdgeSeeds};
use edgecut_dist_sampler::{DistGraph, SampleError};
use edgecut_graph::EdgeTypeId;
use std::sync::Arc;

/// The most seed edges that are looked up.
const MAX_EDGES: usize = 1000;

/// An edge type with the reverses of at least half of some seed edges, which nothing declares as their reverse type. Messages
/// over its edges tell that the seed edges exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikelyReverse {
    /// The edge type.
    pub edge_type: EdgeTypeId,
    /// The number of seed edges whose reverse is an edge of the type.
    pub num_found: usize,
    /// The number of seed edges that were looked up.
    pub num_edges: usize,
}

impl EdgeRelations {
    /// Looks up the reverses of the first seed edges of this process, which have the type `edge_type`, in the types of the opposite
    /// direction that are not among [`EdgeRelations::reverses`]. Types are not compared if both the seed edges and the edges of
    /// the other type have times, since the same two nodes may meet again. Must not be called from async code.
    ///
    /// # Errors
    /// An error of a peer.
    pub fn likely_reverses(
        &self,
        graph: &Arc<DistGraph>,
        edge_type: EdgeTypeId,
        seeds: &EdgeSeeds,
    ) -> Result<Vec<LikelyReverse>, SampleError> {
        let seeds = match seeds {
            EdgeSeeds::Listed(edges) => EdgeSeeds::Listed(edges[..edges.len().min(MAX_EDGES)].to_vec()),
            of_parts => of_parts.clone(),
        };
        let part = graph.part();
        let index = EdgeIndex::new(graph, seeds)?;
        let have_times = index.lacks_times(part).is_none();
        let names = part.meta().edge_types[edge_type.index()].names();
        let known = &self.reverses[edge_type.index()];
        let mut compared = Vec::new();
        for (other, of_type) in (0..).map(EdgeTypeId).zip(&part.meta().edge_types) {
            let meets_again = have_times && of_type.has_times;
            if names.is_opposite_of(&of_type.names()) && !known.contains(&other) && !meets_again {
                compared.push(other);
            }
        }
        let mut found = Vec::new();
        if compared.is_empty() {
            return Ok(found);
        }
        let positions: Vec<u32> = (0..index.len().min(MAX_EDGES) as u32).collect();
        let edges = graph.handle().block_on(index.edges(graph, &positions))?;
        let reversed: Vec<(u32, u32)> = edges.iter().map(|edge| (edge.dst, edge.src)).collect();
        for other in compared {
            let are_edges = graph.handle().block_on(graph.has_edges(other, &reversed, false))?;
            let num_found = are_edges.into_iter().filter(|is_edge| *is_edge).count();
            if num_found > 0 && 2 * num_found >= reversed.len() {
                found.push(LikelyReverse { edge_type: other, num_found, num_edges: reversed.len() });
            }
        }
        Ok(found)
    }
}
