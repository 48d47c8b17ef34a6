//! Seed edges, which processes ask the owners for.

use crate::arrays::{bytes_of, ids_in};
use crate::error::SampleError;
use crate::node::dist_graph::DistGraph;
use crate::part::local_part::LocalPart;
use crate::part::requests::Refusal;
use crate::servers::requests::SeedEdgesRequest;
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, SeedEdgeEnds, SeedEdgeSet, Split};
use std::sync::Arc;

/// The words of an edge in a reply: its ends, the low and the high half of its time, and its position.
const WORDS_PER_EDGE: usize = 5;
/// The position of an edge that carries no messages.
const NO_POSITION: u32 = u32::MAX;
/// The words before the edges: the low and the high half of the number of edges of the part.
const WORDS_BEFORE: usize = 2;

impl DistGraph {
    /// Returns the number of seed edges of a type that a part has, see [`edgecut_graph::Part::num_seed_edges`]. The part
    /// must be one of [`DistGraph::seed_share`]. Must not be called from async code.
    ///
    /// ```
    /// # let node = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_node.rs"));
    /// use edgecut_graph::{EdgeTypeId, SeedEdgeSet, Split};
    /// let edges = node.part().meta().edge_types[0].num_edges as usize;
    /// assert_eq!(node.num_seed_edges(0, EdgeTypeId(0), SeedEdgeSet::Links(Split::Train))?, edges);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// # let node = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_node.rs"));
    /// use edgecut_graph::{EdgeTypeId, SeedEdgeSet, Split};
    /// let edges = node.seed_edges(0, EdgeTypeId(0), SeedEdgeSet::Links(Split::Train), vec![0, 5]);
    /// assert_eq!(node.handle().block_on(edges)?.len(), 2);
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
        let num_nodes = |name: &str| {
            let of_type = self.part().meta().node_types.iter().find(|t| t.name == name);
            of_type.map_or(0, |t| t.book.num_nodes()) as u32
        };
        let ends = (num_nodes(&meta.src_type), num_nodes(&meta.dst_type));
        let edge = |words: &[u32]| {
            let time = (u64::from(words[3]) << 32 | u64::from(words[2])) as i64;
            let position = Some(words[4]).filter(|&position| position != NO_POSITION);
            SeedEdgeEnds { src: words[0], dst: words[1], time: has_times.then_some(time), position }
        };
        let edges: Vec<SeedEdgeEnds> = words[WORDS_BEFORE..].chunks_exact(WORDS_PER_EDGE).map(edge).collect();
        match edges.iter().find(|edge| edge.src >= ends.0 || edge.dst >= ends.1) {
            None => Ok(edges),
            Some(edge) => {
                let why = format!("the reply has edge {} to {}, which the graph does not have", edge.src, edge.dst);
                Err(peer.failed(&request, why))
            }
        }
    }
}

impl LocalPart {
    /// Returns seed edges, in the layout of [`ArrayReply`](crate::rpc::wire::ArrayReply).
    pub(crate) fn seed_edges(&self, request: &SeedEdgesRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let positions = ids_in(&request.positions).map_err(Refusal::Invalid)?;
        self.edges(request.edge_type)?;
        let total = self.part.num_seed_edges(request.edge_type, request.set);
        if let Some(at) = positions.iter().find(|&&at| at as usize >= total) {
            return Err(Refusal::Invalid(format!("edge {at} was requested, but the part has {total}")));
        }
        let num_words = WORDS_BEFORE + WORDS_PER_EDGE * positions.len();
        if num_words * size_of::<u32>() > max_bytes {
            return Err(Refusal::TooLarge);
        }
        let mut words = Vec::with_capacity(num_words);
        words.extend([total as u32, (total as u64 >> 32) as u32]);
        for &at in positions {
            let SeedEdgeEnds { src, dst, time, position } =
                self.part.seed_edge(request.edge_type, request.set, at as usize);
            let time = time.unwrap_or(0) as u64;
            words.extend([src, dst, time as u32, (time >> 32) as u32, position.unwrap_or(NO_POSITION)]);
        }
        Ok(bytes_of(words))
    }
}
