//! Seed edges of the part.

use crate::arrays::{bytes_of, ids_in};
use crate::part::local_part::LocalPart;
use crate::part::requests::{Refusal, SeedEdgesRequest};
use bytes::Bytes;
use edgecut_graph::SeedEdgeEnds;

/// The words of an edge in a reply: its ends, the low and the high half of its time, and its position.
pub(crate) const WORDS_PER_EDGE: usize = 5;
/// The position of an edge that carries no messages.
pub(crate) const NO_POSITION: u32 = u32::MAX;
/// The words before the edges: the low and the high half of the number of edges of the part.
pub(crate) const WORDS_BEFORE: usize = 2;

impl LocalPart {
    /// Returns seed edges, in the layout of [`ArrayReply`](crate::rpc::messages::ArrayReply).
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
