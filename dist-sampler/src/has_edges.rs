//! Lookups of edges between pairs of nodes, answered by the owners of the destinations.

use crate::SampleError;
use crate::node::SamplingNode;
use crate::transport::bytes_of;
use crate::wire::{HasEdgesRequest, Refusal};
use edgecut_graph::{EdgeTypeId, GlobalNodeId};
use futures::future::try_join_all;
use std::sync::Arc;

/// The most pairs in one request to a peer.
const PAIRS_PIECE: usize = 1 << 17;

impl SamplingNode {
    /// Tests whether each of `pairs` (source and destination, global ids) is an edge of a type. The owners of the
    /// destinations search their in-neighbors. With `held_out`, held-out edges count as edges.
    ///
    /// # Errors
    /// An error of a peer, or [`SampleError::NoSuchNode`] for a destination that is out of range.
    pub async fn has_edges(
        self: &Arc<Self>,
        edge_type: EdgeTypeId,
        pairs: &[(u32, u32)],
        held_out: bool,
    ) -> Result<Vec<bool>, SampleError> {
        let part = self.part();
        let book = &part.meta().node_types[part.edges(edge_type).dst_type.index()].book;
        let mut asked = vec![(Vec::new(), Vec::new()); part.meta().num_parts as usize];
        for (position, &(src, dst)) in pairs.iter().enumerate() {
            if !book.contains(GlobalNodeId(dst)) {
                let what = format!("destination {dst} is out of range: the graph has {} nodes", book.num_nodes());
                return Err(SampleError::NoSuchNode { what });
            }
            let owner = book.owner(GlobalNodeId(dst));
            let (positions, words): &mut (Vec<usize>, Vec<u32>) = &mut asked[owner.index()];
            positions.push(position);
            words.extend([dst - book.range(owner).start, src]);
        }
        let own = part.id().index();
        let piece = PAIRS_PIECE.min(self.config.max_message_bytes / (2 * size_of::<u32>())).max(1);
        let mut remote = Vec::new();
        for (peer, (positions, words)) in self.peers.iter().zip(&asked) {
            let Some(peer) = peer else { continue };
            for (positions, words) in positions.chunks(piece).zip(words.chunks(2 * piece)) {
                remote.push(async move {
                    let found = peer.has_edges(edge_type, held_out, words.to_vec()).await?;
                    Ok::<_, SampleError>((positions, found))
                });
            }
        }
        let request = HasEdgesRequest { edge_type, held_out, pairs: bytes_of(asked[own].1.clone()) };
        let local = self.part.clone();
        let look = async {
            let found = self.workers.run(move || local.has_edges(&request)).await?;
            found.map_err(|refusal| SampleError::Internal {
                what: match refusal {
                    Refusal::TooLarge => "the reply for the pairs of nodes is too large".into(),
                    Refusal::Invalid(why) | Refusal::Failed(why) => why,
                },
            })
        };
        let (mine, others) = futures::future::try_join(look, try_join_all(remote)).await?;
        let mut found = vec![false; pairs.len()];
        let own_answer = std::iter::once((&asked[own].0[..], mine));
        for (positions, data) in own_answer.chain(others) {
            positions.iter().zip(&data[..]).for_each(|(&position, &is_edge)| found[position] = is_edge == 1);
        }
        Ok(found)
    }
}
