//! The ids of edges, fetched from their owners.

use crate::arrays::bytes_of;
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::requests::{EdgeIdsRequest, Refusal};
use bytes::Bytes;
use edgecut_graph::{EdgeIdKind, EdgeIds, EdgeTypeId, TextArray};
use futures::future::{BoxFuture, try_join_all};
use std::sync::Arc;

/// The bytes of an id that a request reckons with.
const BYTES_PER_ID: usize = 64;

impl DistGraph {
    /// Fetches the ids of edges of one type, numbers or texts. Edge `i` is the `positions[i]`-th in-edge of the node with the
    /// global id `destinations[i]`, as in [`DistGraph::fetch_edges`].
    ///
    /// # Errors
    /// [`SampleError::NoSuchNode`] if edges of the type have no ids, or an error of a peer.
    pub fn fetch_edge_ids<'a>(
        self: &'a Arc<Self>,
        edge_type: EdgeTypeId,
        destinations: &'a [u32],
        positions: &'a [u32],
    ) -> BoxFuture<'a, Result<EdgeIds, SampleError>> {
        Box::pin(self.ids_of_edges(edge_type, destinations, positions))
    }

    async fn ids_of_edges(
        self: &Arc<Self>,
        edge_type: EdgeTypeId,
        destinations: &[u32],
        positions: &[u32],
    ) -> Result<EdgeIds, SampleError> {
        let part = self.part();
        let of_type = &part.meta().edge_types[edge_type.index()];
        let Some(kind) = of_type.ids else {
            let what = format!("edges of type {} have no ids", of_type.full_name());
            return Err(SampleError::NoSuchNode { what });
        };
        let asked = self.by_owner(edge_type, destinations, positions);
        let piece = (self.config.fetch_chunk_bytes / BYTES_PER_ID).max(1);
        let mut found =
            Found { kind, numbers: vec![0; destinations.len()], texts: vec![Bytes::new(); destinations.len()] };
        let mut pieces = Vec::new();
        for (owner, asked) in asked.iter().enumerate() {
            for (at, words) in asked.pieces(piece, 2) {
                let request = EdgeIdsRequest { edge_type, edges: bytes_of(words.to_vec()) };
                pieces.push(async move {
                    let reply = self.edge_ids_of(owner, request.clone()).await?;
                    Ok::<_, SampleError>((owner, request, at, reply))
                });
            }
        }
        for (owner, request, at, reply) in try_join_all(pieces).await? {
            found.place(at, &reply).map_err(|why| match &self.peers[owner] {
                Some(peer) => peer.failed(&request, why),
                None => SampleError::Internal { what: why },
            })?;
        }
        Ok(match kind {
            EdgeIdKind::Numbers => EdgeIds::Numbers(found.numbers.into()),
            EdgeIdKind::Texts => EdgeIds::Texts(TextArray::of(&found.texts)),
        })
    }

    /// Returns the reply of the part `owner`.
    async fn edge_ids_of(&self, owner: usize, request: EdgeIdsRequest) -> Result<Bytes, SampleError> {
        if let Some(peer) = &self.peers[owner] {
            return peer.ask(request, None).await;
        }
        let local = self.part.clone();
        let read = self.workers.run(move || local.edge_ids(&request, usize::MAX)).await?;
        read.map_err(Refusal::by_own_part)
    }
}

/// The ids that were fetched so far, in the order of the request.
struct Found {
    kind: EdgeIdKind,
    numbers: Vec<i64>,
    texts: Vec<Bytes>,
}

impl Found {
    /// Reads a reply with the ids of the edges at the positions `at`.
    ///
    /// # Errors
    /// Describes a reply of another length.
    fn place(&mut self, at: &[u32], reply: &Bytes) -> Result<(), String> {
        if self.kind == EdgeIdKind::Numbers {
            if reply.len() != at.len() * size_of::<i64>() {
                return Err(wrong_length(reply, at));
            }
            let numbers: Vec<i64> = bytemuck::pod_collect_to_vec(&reply[..]);
            at.iter().zip(numbers).for_each(|(&at, number)| self.numbers[at as usize] = number);
            return Ok(());
        }
        let mut start = size_of_val(at);
        let lengths: Vec<u32> =
            bytemuck::pod_collect_to_vec(reply.get(..start).ok_or_else(|| wrong_length(reply, at))?);
        for (&edge, length) in at.iter().zip(lengths) {
            let end = start + length as usize;
            if end > reply.len() {
                return Err(wrong_length(reply, at));
            }
            self.texts[edge as usize] = reply.slice(start..end);
            start = end;
        }
        if start == reply.len() { Ok(()) } else { Err(wrong_length(reply, at)) }
    }
}

/// Describes a reply that has another length than the ids of the edges `at`.
fn wrong_length(reply: &Bytes, at: &[u32]) -> String {
    format!("the reply has {} bytes, which are not the ids of {} edges", reply.len(), at.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_another_length_are_refused() {
        let mut texts = Found { kind: EdgeIdKind::Texts, numbers: vec![0; 3], texts: vec![Bytes::new(); 3] };
        texts.place(&[2, 0], &Bytes::copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', b'c'])).unwrap();
        assert_eq!(texts.texts[..], [&b"bc"[..], b"", b"a"]);
        for wrong in [&[1, 0, 0, 0][..], &[1, 0, 0, 0, 2, 0, 0, 0, 1, 2], &[1, 0, 0, 0, 0, 0, 0, 0, 1, 2]] {
            assert!(texts.place(&[2, 0], &Bytes::copy_from_slice(wrong)).is_err());
        }
        let mut numbers = Found { kind: EdgeIdKind::Numbers, numbers: vec![0; 2], texts: Vec::new() };
        numbers.place(&[1], &Bytes::copy_from_slice(&7_i64.to_le_bytes())).unwrap();
        assert_eq!(numbers.numbers, [0, 7]);
        assert!(numbers.place(&[1, 0], &Bytes::copy_from_slice(&[0; 8])).is_err());
    }
}
