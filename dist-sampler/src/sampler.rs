//! Samples the neighborhood of a batch over all parts.

use crate::SampleError;
use crate::batch_key::BatchKey;
use crate::config::{Fanout, SamplerConfig};
use crate::node::SamplingNode;
use crate::relabel::Relabel;
use crate::reply::{HopReply, SectionReply};
use crate::route::Routes;
use crate::subgraph::{SampledEdges, SampledNodes, SampledSubgraph};
use crate::transport::bytes_of;
use crate::wire::{HopRequest, HopSection, Refusal};
use bytes::Bytes;
use edgecut_graph::{GlobalNodeId, NodeTypeId};
use futures::future::try_join_all;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// How many nodes ahead of the one that is numbered the next are looked up.
const NODES_AHEAD: usize = 24;

/// Samples multi-hop neighborhoods of seeds, whichever parts own them.
pub struct DistNeighborSampler {
    node: Arc<SamplingNode>,
    /// `[hop][edge type]`; `None` where nothing is drawn.
    fanouts: Vec<Vec<Option<Fanout>>>,
    replace: bool,
}

/// A batch being sampled.
struct Draft {
    relabels: Vec<Relabel>,
    hop_offsets: Vec<Vec<u32>>,
    edges: Vec<SampledEdges>,
}

/// One hop, laid out: the frontier of each node type grouped by owner, and what each part is asked.
struct HopPlan {
    /// Source and destination type of each edge type.
    edge_types: Vec<(NodeTypeId, NodeTypeId)>,
    routes: Vec<Routes>,
    requests: Vec<HopRequest>,
}

impl DistNeighborSampler {
    /// A sampler on `node`.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if no fan-out is given, or they do not fit the graph's edge types.
    pub fn new(node: Arc<SamplingNode>, config: SamplerConfig) -> Result<Self, SampleError> {
        let layout = |what: String| SampleError::Layout { what };
        if !(1..=usize::from(u16::MAX)).contains(&config.num_neighbors.num_hops()) {
            return Err(layout("num_neighbors needs a fan-out for each hop".into()));
        }
        let fanouts = config.num_neighbors.of_graph(node.part().meta()).map_err(layout)?;
        Ok(Self { node, fanouts, replace: config.replace })
    }

    /// Where the sampler runs.
    pub fn node(&self) -> &Arc<SamplingNode> {
        &self.node
    }

    /// The number of hops.
    pub fn num_hops(&self) -> usize {
        self.fanouts.len()
    }

    /// Samples the neighborhood of `seeds`, distinct global ids of one node type. The result depends on `key`, the
    /// seeds and their order, the fan-outs and the graph alone.
    ///
    /// # Errors
    /// [`SampleError::NoSuchNode`] for a seed that is out of range or given twice, or an error of a peer.
    pub async fn sample(
        self: &Arc<Self>,
        node_type: NodeTypeId,
        seeds: Vec<u32>,
        key: BatchKey,
    ) -> Result<SampledSubgraph, SampleError> {
        let this = self.clone();
        let mut draft = self.node.workers.run(move || this.start(node_type, &seeds)).await??;
        for hop in 0..self.num_hops() {
            let this = self.clone();
            let (planned, plan) = self
                .node
                .workers
                .run(move || {
                    let plan = this.plan(&draft, hop, key);
                    (draft, plan)
                })
                .await?;
            let replies = self.ask_all(&plan).await?;
            draft = self.node.workers.run(move || stitch(planned, &plan, &replies)).await??;
        }
        let this = self.clone();
        self.node.workers.run(move || this.finish(draft)).await
    }

    fn start(&self, node_type: NodeTypeId, seeds: &[u32]) -> Result<Draft, SampleError> {
        let part = self.node.part();
        let book = &part.meta().node_types[node_type.index()].book;
        let mut relabels = self.node.take_relabels();
        for (position, &seed) in seeds.iter().enumerate() {
            if !book.contains(GlobalNodeId(seed)) {
                let what = format!("seed {position} is node {seed}, but the graph has {}", book.num_nodes());
                return Err(SampleError::NoSuchNode { what });
            }
            if relabels[node_type.index()].number(seed) as usize != position {
                return Err(SampleError::NoSuchNode { what: format!("seed {position} is given twice in its batch") });
            }
        }
        let hop_offsets = relabels.iter().map(|relabel| vec![relabel.nodes().len() as u32]).collect();
        let edges = vec![SampledEdges { indptr: vec![0], indices: Vec::new() }; part.meta().edge_types.len()];
        Ok(Draft { relabels, hop_offsets, edges })
    }

    /// Groups the frontier by owner and says what each part is asked.
    fn plan(&self, draft: &Draft, hop: usize, key: BatchKey) -> HopPlan {
        let part = self.node.part();
        let meta = part.meta();
        let routes: Vec<Routes> = meta
            .node_types
            .iter()
            .enumerate()
            .map(|(t, node_type)| {
                let from = hop.checked_sub(1).map_or(0, |last| draft.hop_offsets[t][last]);
                let to = draft.hop_offsets[t][hop];
                Routes::new(&node_type.book, &draft.relabels[t].nodes()[from as usize..to as usize])
            })
            .collect();
        let request = |p: usize| {
            let (mut sections, mut rows) = (Vec::new(), Vec::new());
            for edge_type in part.edge_type_ids() {
                // Of an edge type of which nothing is drawn no row is asked for: each row then has no neighbors.
                let (fanout, mine): (_, &[u32]) = match self.fanouts[hop][edge_type.index()] {
                    Some(fanout) => (fanout, &routes[part.edges(edge_type).dst_type.index()].rows[p]),
                    None => (Fanout::All, &[]),
                };
                rows.extend_from_slice(mine);
                let (replace, num_rows) = (self.replace, mine.len() as u32);
                sections.push(HopSection { edge_type, fanout: fanout.count(), replace, num_rows });
            }
            HopRequest { stream: key.stream(), hop: hop as u16, sections, rows: bytes_of(rows) }
        };
        let requests = (0..meta.num_parts as usize).map(request).collect();
        let edge_types = part.edge_type_ids().map(|e| (part.edges(e).src_type, part.edges(e).dst_type)).collect();
        HopPlan { edge_types, routes, requests }
    }

    /// One request to every peer that owns part of the frontier, all at once, and our own share meanwhile.
    async fn ask_all(&self, plan: &HopPlan) -> Result<Vec<Bytes>, SampleError> {
        let mut remote = Vec::new();
        for (part, peer) in self.node.peers.iter().enumerate() {
            let request = plan.requests[part].clone();
            if let (Some(peer), false) = (peer.clone(), request.rows.is_empty()) {
                let task = AbortOnDropHandle::new(tokio::spawn(async move { peer.sample_hop(request).await }));
                remote.push(async move {
                    let reply =
                        task.await.map_err(|e| SampleError::Internal { what: format!("sample part {part}: {e}") })?;
                    reply.map(|data| (part, data))
                });
            }
        }
        let own = self.node.part().id().index();
        let (local, request) = (self.node.part.clone(), plan.requests[own].clone());
        let drawn = self.node.workers.run(move || local.sample_hop(&request, usize::MAX)).await?;
        let mut replies = vec![Bytes::new(); plan.requests.len()];
        replies[own] = drawn.map_err(|refusal| SampleError::Internal {
            what: match refusal {
                Refusal::TooLarge => "a hop is larger than memory can address".into(),
                Refusal::Invalid(why) | Refusal::Failed(why) => why,
            },
        })?;
        for (part, data) in try_join_all(remote).await? {
            replies[part] = data;
        }
        Ok(replies)
    }

    fn finish(&self, draft: Draft) -> SampledSubgraph {
        let nodes = draft.relabels.iter().zip(draft.hop_offsets);
        let nodes =
            nodes.map(|(relabel, hop_offsets)| SampledNodes { ids: relabel.nodes().to_vec(), hop_offsets }).collect();
        self.node.keep_relabels(draft.relabels);
        SampledSubgraph { nodes, edges: draft.edges }
    }
}

/// Puts the replies together in the order of the frontier, edge type by edge type, and numbers the new nodes.
fn stitch(mut draft: Draft, plan: &HopPlan, replies: &[Bytes]) -> Result<Draft, SampleError> {
    let replies: Vec<HopReply<'_>> =
        replies.iter().zip(&plan.requests).map(|(data, request)| HopReply::new(&request.sections, data)).collect();
    for (e, &(src_type, dst_type)) in plan.edge_types.iter().enumerate() {
        let mut sections: Vec<SectionReply<'_>> = replies.iter().map(|reply| reply.section(e)).collect();
        let SampledEdges { indptr, indices } = &mut draft.edges[e];
        let relabel = &mut draft.relabels[src_type.index()];
        let drawn: usize = sections.iter().map(|section| section.neighbors.len()).sum();
        if indices.len() + drawn > u32::MAX as usize {
            let what = "a batch has more than 2^32 edges: give a smaller batch size or fan-out".into();
            return Err(SampleError::Layout { what });
        }
        indices.reserve(drawn);
        for &owner in &plan.routes[dst_type.index()].owners {
            let section = &mut sections[owner as usize];
            let upcoming = section.neighbors;
            let neighbors = section.next_row();
            indices.extend(neighbors.iter().enumerate().map(|(i, &id)| {
                if let Some(&soon) = upcoming.get(i + NODES_AHEAD) {
                    relabel.prefetch(soon);
                }
                relabel.number(id)
            }));
            indptr.push(indices.len() as u32);
        }
    }
    for (offsets, relabel) in draft.hop_offsets.iter_mut().zip(&draft.relabels) {
        offsets.push(relabel.nodes().len() as u32);
    }
    Ok(draft)
}
