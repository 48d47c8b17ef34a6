//! Seed edges, which processes ask the owners for.

use crate::arrays::{bytes_of, ids_in};
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::requests::SeedEdgesRequest;
use crate::part::seed_edges::{NO_POSITION, WORDS_BEFORE, WORDS_PER_EDGE};
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, SeedEdgeEnds, SeedEdgeSet, Split};
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
    /// ```
    /// # let graph = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_node.rs"));
    /// use edgecut_graph::{EdgeTypeId, SeedEdgeSet, Split};
    /// let edges = graph.seed_edges(0, EdgeTypeId(0), SeedEdgeSet::Links(Split::Train), vec![0, 5]);
    /// assert_eq!(graph.handle().block_on(edges)?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An error of a peer.
    pub async fn seed_edges(
        self: &Arc<Self>,
        part: u32,
        edge_type: EdgeTypeId,
        set: SeedEdgeSet,
        positions: Vec<u32>,
    ) -> Result<Vec<SeedEdgeEnds>, SampleError> {
        let Some(peer) = &self.peers[part as usize] else {
            let own = self.part().clone();
            let read = move || positions.iter().map(|&at| own.seed_edge(edge_type, set, at as usize)).collect();
            // Edges may be in a mapped file, and network threads must not wait for the disk.
            return self.workers.run(read).await;
        };
        let num_words = WORDS_BEFORE + WORDS_PER_EDGE * positions.len();
        let request = SeedEdgesRequest { edge_type, set, positions: bytes_of(positions) };
        let reply = peer.ask(request.clone(), Some(num_words * size_of::<u32>())).await?;
        let words = ids_in(&reply).map_err(|why| peer.failed(&request, why))?;
        let meta = &self.part().meta().edge_types[edge_type.index()];
        let has_times = match set {
            SeedEdgeSet::Links(Split::Valid | Split::Test) => meta.held_out_has_times,
            SeedEdgeSet::Links(Split::Train) | SeedEdgeSet::Labeled(_) => meta.has_times,
        };
        let num_src = self.num_nodes_of(&meta.src_type);
        let num_dst = self.num_nodes_of(&meta.dst_type);
        let mut edges = Vec::with_capacity(words.len() / WORDS_PER_EDGE);
        for words in words[WORDS_BEFORE..].chunks_exact(WORDS_PER_EDGE) {
            let src = words[0];
            let dst = words[1];
            if src >= num_src || dst >= num_dst {
                let why = format!("the reply has edge {src} to {dst}, which the graph does not have");
                return Err(peer.failed(&request, why));
            }
            let time = (u64::from(words[3]) << 32 | u64::from(words[2])) as i64;
            let position = if words[4] == NO_POSITION { None } else { Some(words[4]) };
            edges.push(SeedEdgeEnds { src, dst, time: if has_times { Some(time) } else { None }, position });
        }
        Ok(edges)
    }

    fn num_nodes_of(&self, node_type: &str) -> u32 {
        let of_type = self.part().meta().node_types.iter().find(|t| t.name == node_type);
        of_type.map_or(0, |t| t.book.num_nodes()) as u32
    }
}
