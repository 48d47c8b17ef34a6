//! Lookups of nodes by original id or by in-edge, across parts.

use crate::arrays::{bytes_of, ids_in};
use crate::dist_graph::DistGraph;
use crate::dist_graph::part_request::{PartRequest, PieceSizes};
use crate::error::SampleError;
use crate::part::directory::{OriginalsPage, Share, Shares, edges_into};
use crate::part::local_part::LocalPart;
use crate::part::requests::{FindRequest, LookUpBy, LookUpRequest, OriginalsRequest, Refusal};
use crate::rpc::peer::Peer;
use bytes::Bytes;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_graph::{NodeTypeId, PartitionId};
use futures::StreamExt;
use futures::future::{BoxFuture, try_join_all};
use std::ops::Range;
use std::sync::Arc;

/// The most keys in one request to a peer.
const KEYS_PIECE: usize = 1 << 18;
/// The number of peers to ask for their original ids at the same time.
const PEERS_AT_ONCE: usize = 16;

impl DistGraph {
    /// Builds the directory of a node type's original ids. With it, [`DistGraph::find_originals`] asks one part for
    /// each id instead of all parts for all ids. Every rank of `world` must call this, in the same order as other
    /// collectives. Does nothing if the directory exists. Must not be called from async code.
    ///
    /// Each part answers for an even share of the original ids. It reads this share from all parts, so the format of
    /// the parts does not depend on the directory. A rank keeps 4 bytes per node of its part's share, and 8 more per
    /// node with `with_degrees`, which [`DistGraph::find_by_in_edge`] needs. A graph of one part needs no memory for
    /// it.
    ///
    /// # Errors
    /// An error of a peer or of the job, or [`SampleError::Layout`] if the parts belong to different graphs.
    pub fn make_directory(
        &self,
        node_type: NodeTypeId,
        with_degrees: bool,
        world: &mut ProcessGroup,
    ) -> Result<(), SampleError> {
        if self.is_client() {
            // Servers have no directory. Lookups of original ids ask all of them.
            if with_degrees {
                return Err(SampleError::Layout { what: "servers answer no lookups by in-edge".into() });
            }
            return Ok(());
        }
        let directory = self.part.directory(node_type);
        let has_all = directory.is_complete() && (!with_degrees || directory.totals().is_some());
        if has_all {
            return Ok(());
        }
        let num_parts = self.part().meta().num_parts as usize;
        let needs_share = !self.part().has_original_order(node_type);
        let is_filled = directory.globals().is_some() && (!with_degrees || directory.degree_sums().is_some());
        if needs_share && !is_filled {
            directory.fill(self.handle().block_on(self.gather_share(node_type, with_degrees))?);
        }
        if with_degrees {
            let total = if needs_share {
                directory.degree_sums().and_then(|sums| sums.last()).copied().unwrap_or(0)
            } else {
                edges_into(self.part(), node_type).iter().map(|edges| edges.csc.num_edges() as u64).sum()
            };
            let mut totals = vec![0; num_parts];
            let (_, mine) = self.replicas();
            // The ranks that hold the same part have the same total, so only one of them adds it.
            if mine == 0 {
                totals[self.part().id().index()] = total;
            }
            world.all_reduce(&mut totals, ReduceOp::Sum)?;
            for part in 1..num_parts {
                totals[part] += totals[part - 1];
            }
            directory.set_totals(totals);
        } else {
            // No rank may look up ids before all shares are filled. With degrees, the all-reduce ensures the same.
            world.barrier()?;
        }
        directory.set_complete();
        Ok(())
    }

    /// Returns the number of in-edges of all nodes of a type, over all edge types and parts. It is known after
    /// [`DistGraph::make_directory`] with degrees.
    pub fn num_in_edges(&self, node_type: NodeTypeId) -> Option<u64> {
        self.part.directory(node_type).totals().and_then(|totals| totals.last()).copied()
    }

    /// Returns the global ids of nodes given by original id. Asks one part for each id if the directory of the type
    /// exists ([`DistGraph::make_directory`]), else all parts for all ids.
    ///
    /// # Errors
    /// [`SampleError::NoSuchNode`] for an id that no part owns, or an error of a peer.
    pub fn find_originals<'a>(
        &'a self,
        node_type: NodeTypeId,
        originals: &'a [u32],
    ) -> BoxFuture<'a, Result<Vec<u32>, SampleError>> {
        Box::pin(async move {
            let num_nodes = self.part().meta().node_types[node_type.index()].book.num_nodes();
            check_nodes(originals, originals, num_nodes)?;
            let found = if self.part.directory(node_type).is_complete() {
                let shares = Shares::new(self.part(), node_type);
                let mut asked = vec![PartRequest::default(); self.part().meta().num_parts as usize];
                for (position, &original) in originals.iter().enumerate() {
                    asked[shares.owner(original)].push(position, [original]);
                }
                self.look_up(node_type, LookUpBy::OriginalId, asked, originals.len()).await?
            } else {
                self.ask_all_parts(node_type, originals).await?
            };
            check_nodes(&found, originals, num_nodes)?;
            Ok(found)
        })
    }

    /// Returns the global ids of the destinations of in-edges given by number. The in-edges of all nodes of the type
    /// are counted node by node in the order of the *original* ids, so a number means the same node under any
    /// partitioning. A uniformly drawn number selects a node with a probability in proportion to its in-degree.
    ///
    /// # Errors
    /// [`SampleError::Layout`] before [`DistGraph::make_directory`] with degrees, [`SampleError::NoSuchNode`] for a
    /// number that is not below [`DistGraph::num_in_edges`], or an error of a peer.
    pub fn find_by_in_edge<'a>(
        &'a self,
        node_type: NodeTypeId,
        in_edges: &'a [u64],
    ) -> BoxFuture<'a, Result<Vec<u32>, SampleError>> {
        Box::pin(async move {
            let Some(totals) = self.part.directory(node_type).totals() else {
                let what = "lookups by in-edge need a directory with degrees: call make_directory first".into();
                return Err(SampleError::Layout { what });
            };
            let mut asked = vec![PartRequest::default(); totals.len()];
            for (position, &in_edge) in in_edges.iter().enumerate() {
                let owner = totals.partition_point(|&total| total <= in_edge);
                let Some(of_part) = asked.get_mut(owner) else {
                    let num = totals.last().copied().unwrap_or(0);
                    let what =
                        format!("in-edge {in_edge} (entry {position}) is out of range: the nodes have {num} in-edges");
                    return Err(SampleError::NoSuchNode { what });
                };
                let before = owner.checked_sub(1).map_or(0, |part| totals[part]);
                let in_share = in_edge - before;
                of_part.push(position, [in_share as u32, (in_share >> 32) as u32]);
            }
            self.look_up(node_type, LookUpBy::InEdge, asked, in_edges.len()).await
        })
    }

    /// Sends each part its keys and puts the results in the order of the whole list.
    async fn look_up(
        &self,
        node_type: NodeTypeId,
        by: LookUpBy,
        mut asked: Vec<PartRequest>,
        num_keys: usize,
    ) -> Result<Vec<u32>, SampleError> {
        let words_per_item = by.words_per_key();
        let max_items = KEYS_PIECE.min(self.config.max_message_bytes / size_of::<u32>() / words_per_item).max(1);
        let sizes = PieceSizes { max_items, words_per_item, reply_bytes: size_of::<u32>() };
        let answers = self
            .ask_owners(
                &mut asked,
                sizes,
                |keys| LookUpRequest { node_type, by, keys },
                LocalPart::lines_of_look_up,
                LocalPart::look_up,
            )
            .await?;
        let mut found = vec![u32::MAX; num_keys];
        for (positions, data) in answers {
            let ids = ids_in(&data).map_err(|what| SampleError::Internal { what })?;
            for (&position, &id) in positions.iter().zip(ids) {
                found[position as usize] = id;
            }
        }
        Ok(found)
    }

    /// Asks all parts for all ids. Returns `u32::MAX` for ids that no part owns.
    async fn ask_all_parts(&self, node_type: NodeTypeId, originals: &[u32]) -> Result<Vec<u32>, SampleError> {
        let mut found = Vec::with_capacity(originals.len());
        let piece = KEYS_PIECE.min(self.config.max_message_bytes / size_of::<u32>()).max(1);
        for piece in originals.chunks(piece) {
            let start = found.len();
            let asked = bytes_of(piece.to_vec());
            let part = self.part().clone();
            let own = asked.clone();
            let look = move || -> Vec<u32> {
                let own = ids_in(&own).unwrap_or_default();
                own.iter().map(|&id| part.find_original(node_type, id).map_or(u32::MAX, |node| node.0)).collect()
            };
            let lines = self.part.lines_of_find(node_type, piece.len());
            found.extend(self.workers.run_sized(lines, look).await?);
            let request = FindRequest { node_type, originals: asked };
            let ask = |peer: &Arc<Peer>| {
                let peer = peer.clone();
                let request = request.clone();
                async move {
                    let reply_bytes = request.originals.len();
                    peer.ask(request, Some(reply_bytes)).await
                }
            };
            let replies = try_join_all(self.peers.iter().flatten().map(ask)).await?;
            for reply in &replies {
                let ids = ids_in(reply).map_err(|what| SampleError::Internal { what })?;
                // One part at most answers with an id. The others answer `u32::MAX`.
                for (found, &id) in found[start..].iter_mut().zip(ids) {
                    *found = (*found).min(id);
                }
            }
        }
        Ok(found)
    }

    /// Reads this part's share of the original ids from all parts.
    async fn gather_share(&self, node_type: NodeTypeId, degrees: bool) -> Result<Share, SampleError> {
        let range = Shares::new(self.part(), node_type).range(self.part().id().0);
        let mut share = Share::new(range.len(), degrees);
        let words = self.config.fetch_chunk_bytes / size_of::<u32>();
        let mut request = OriginalsRequest { node_type, start: range.start, end: range.end, max_rows: 1, degrees };
        request.max_rows = (words / request.words_per_row()).clamp(1, u32::MAX as usize) as u32;
        let own = self.part().id();
        let mut left = Some(request.clone());
        while let Some(asked) = left {
            let local = self.part.clone();
            let of_part = asked.clone();
            let max_bytes = self.config.max_message_bytes;
            let look = move || local.originals(&of_part, max_bytes);
            let data = self.workers.run_sized(usize::MAX, look).await?.map_err(Refusal::by_own_part)?;
            left = self.place_page(&mut share, own, &asked, &range, &data)?;
        }
        // Each peer has one request in flight. A peer with further pages goes back to the waiting list.
        let peers = self.peers.iter().enumerate().filter_map(|(part, peer)| Some((part, peer.as_ref()?)));
        let ask = |(part, peer, asked): (usize, Arc<Peer>, OriginalsRequest)| async move {
            let data = peer.ask(asked.clone(), None).await?;
            Ok::<_, SampleError>((part, peer, asked, data))
        };
        let mut waiting: Vec<_> = peers.map(|(part, peer)| (part, peer.clone(), request.clone())).collect();
        let mut replies = futures::stream::FuturesUnordered::new();
        loop {
            while replies.len() < PEERS_AT_ONCE {
                let Some(next) = waiting.pop() else { break };
                replies.push(ask(next));
            }
            let Some(reply) = replies.next().await else { break };
            let (part, peer, asked, data) = reply?;
            let sender = PartitionId(part as u32);
            if let Some(rest) = self.place_page(&mut share, sender, &asked, &range, &data)? {
                waiting.push((part, peer, rest));
            }
        }
        if let Some(at) = share.missing() {
            let meta = self.part().meta();
            let dataset = &meta.dataset;
            let name = &meta.node_types[node_type.index()].name;
            let node = range.start as usize + at;
            let what = format!(
                "node {node} of type {name} of dataset {dataset} is in no part: the parts are not from one \
                 partitioning, partition the dataset again"
            );
            return Err(SampleError::Layout { what });
        }
        Ok(share)
    }

    /// Stores a page of a part's original ids. Returns the request for the next page, if any.
    fn place_page(
        &self,
        share: &mut Share,
        sender: PartitionId,
        asked: &OriginalsRequest,
        range: &Range<u32>,
        data: &Bytes,
    ) -> Result<Option<OriginalsRequest>, SampleError> {
        let owned = self.part().meta().node_types[asked.node_type.index()].book.range(sender);
        let page = OriginalsPage::read(data, asked, owned.len())
            .map_err(|why| SampleError::Layout { what: format!("original ids of part {sender}: {why}") })?;
        share.place(&page, range, &owned);
        let is_last = page.originals.len() == page.num_left;
        let next = page.originals.last().filter(|_| !is_last).map(|&last| last + 1);
        Ok(next.map(|start| OriginalsRequest { start, ..asked.clone() }))
    }
}

/// Returns an error that names the original id of the first node that is not in the graph.
fn check_nodes(ids: &[u32], originals: &[u32], num_nodes: usize) -> Result<(), SampleError> {
    let Some(at) = ids.iter().position(|&id| id as usize >= num_nodes) else { return Ok(()) };
    let what = format!("node {} (entry {at}) is not in the graph of {num_nodes} nodes", originals[at]);
    Err(SampleError::NoSuchNode { what })
}
