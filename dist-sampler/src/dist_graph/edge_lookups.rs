//! Lookups of edges between pairs of nodes, answered by the owners of the destinations.

use crate::dist_graph::DistGraph;
use crate::dist_graph::part_request::{PartRequest, PieceSizes};
use crate::error::SampleError;
use crate::part::local_part::LocalPart;
use crate::part::requests::HasEdgesRequest;
use crate::workers::ON_POOL;
use edgecut_graph::{EdgeTypeId, GlobalNodeId};
use futures::future::BoxFuture;
use std::sync::Arc;

/// The most pairs in one request to a peer.
const PAIRS_PIECE: usize = 1 << 17;

impl DistGraph {
    /// Tests whether each of `pairs` (source and destination, global ids) is an edge of a type. The owners of the
    /// destinations search their in-neighbors. With `held_out`, held-out edges count as edges.
    ///
    /// # Errors
    /// An error of a peer, or [`SampleError::NoSuchNode`] for a destination that is out of range.
    pub fn has_edges<'a>(
        self: &'a Arc<Self>,
        edge_type: EdgeTypeId,
        pairs: &'a [(u32, u32)],
        held_out: bool,
    ) -> BoxFuture<'a, Result<Vec<bool>, SampleError>> {
        Box::pin(async move {
            let part = self.part();
            let book = &part.meta().node_types[part.edges(edge_type).dst_type.index()].book;
            let mut asked = vec![PartRequest::default(); part.meta().num_parts as usize];
            for (position, &(src, dst)) in pairs.iter().enumerate() {
                if !book.contains(GlobalNodeId(dst)) {
                    let what = format!("destination {dst} is out of range: the graph has {} nodes", book.num_nodes());
                    return Err(SampleError::NoSuchNode { what });
                }
                let owner = book.owner(GlobalNodeId(dst));
                asked[owner.index()].push(position, [dst - book.range(owner).start, src]);
            }
            let max_items = PAIRS_PIECE.min(self.config.max_message_bytes / (2 * size_of::<u32>())).max(1);
            let sizes = PieceSizes { max_items, words_per_item: 2, reply_bytes: 1 };
            let answers = self
                .ask_owners(
                    &mut asked,
                    sizes,
                    |pairs| HasEdgesRequest { edge_type, held_out, pairs },
                    |_, _| ON_POOL,
                    LocalPart::has_edges,
                )
                .await?;
            let mut found = vec![false; pairs.len()];
            for (positions, data) in answers {
                positions
                    .iter()
                    .zip(&data[..])
                    .for_each(|(&position, &is_edge)| found[position as usize] = is_edge == 1);
            }
            Ok(found)
        })
    }
}
