//! The share of one part in a request about many items.

use crate::arrays::bytes_of;
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::local_part::LocalPart;
use crate::part::requests::Refusal;
use crate::rpc::peer_request::PeerRequest;
use bytes::Bytes;
use futures::future::{try_join, try_join_all};

/// The words that describe a part's share of the items, and the positions of these items in the whole list.
#[derive(Clone, Default)]
pub(crate) struct PartRequest {
    pub(crate) positions: Vec<u32>,
    pub(crate) words: Vec<u32>,
}

impl PartRequest {
    /// Adds the item at a position of the whole list.
    pub(crate) fn push(&mut self, position: usize, words: impl IntoIterator<Item = u32>) {
        self.positions.push(position as u32);
        self.words.extend(words);
    }

    /// Cuts the share into pieces of at most `max_items`, as positions and words.
    pub(crate) fn pieces(&self, max_items: usize, words_per_item: usize) -> impl Iterator<Item = (&[u32], &[u32])> {
        self.positions.chunks(max_items).zip(self.words.chunks(max_items * words_per_item))
    }
}

/// The sizes of the requests to other parts.
#[derive(Clone, Copy)]
pub(super) struct PieceSizes {
    /// The most items in a request.
    pub(super) max_items: usize,
    pub(super) words_per_item: usize,
    /// The bytes of a reply per item.
    pub(super) reply_bytes: usize,
}

impl DistGraph {
    /// Asks each part for its share of the items, other parts in pieces. `answer` answers for the own part, which touches
    /// about `lines` cache lines. Returns the positions and the answers of all pieces.
    pub(super) async fn ask_owners<'a, R: PeerRequest + Send + Sync + 'static>(
        &self,
        asked: &'a mut [PartRequest],
        sizes: PieceSizes,
        request: impl Fn(Bytes) -> R,
        lines: impl FnOnce(&LocalPart, &R) -> usize,
        answer: impl FnOnce(&LocalPart, &R) -> Result<Bytes, Refusal> + Send + 'static,
    ) -> Result<Vec<(&'a [u32], Bytes)>, SampleError> {
        let own = self.part().id().index();
        let of_own = request(bytes_of(std::mem::take(&mut asked[own].words)));
        let asked: &'a [PartRequest] = asked;
        let mut remote = Vec::new();
        for (peer, asked) in self.peers.iter().zip(asked) {
            let Some(peer) = peer else { continue };
            for (positions, words) in asked.pieces(sizes.max_items, sizes.words_per_item) {
                let request = request(bytes_of(words.to_vec()));
                remote.push(async move {
                    let data = peer.ask(request, Some(sizes.reply_bytes * positions.len())).await?;
                    Ok::<_, SampleError>((positions, data))
                });
            }
        }
        let local = self.part.clone();
        let lines = lines(&local, &of_own);
        let look = async {
            let found = self.workers.run_sized(lines, move || answer(&local, &of_own)).await?;
            found.map_err(Refusal::by_own_part)
        };
        let (mine, mut answers) = try_join(look, try_join_all(remote)).await?;
        answers.push((&asked[own].positions[..], mine));
        Ok(answers)
    }
}
