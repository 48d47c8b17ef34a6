//! Sampling of the neighborhood of a batch over all parts.

use crate::SampleError;
use crate::batch_key::BatchKey;
use crate::config::{Fanout, SamplerConfig};
use crate::hop_times::{HopClock, HopTimes};
use crate::node::SamplingNode;
use crate::relabel::{DisjointRelabel, Numbering, Relabel};
use crate::reply::{HopReply, SectionReply};
use crate::route::Routes;
use crate::rule::{Rule, Temporal, TemporalStrategy, TimeAttr};
use crate::seeds::{Excluded, SampleSeeds};
use crate::subgraph::{SampledEdges, SampledNodes, SampledSubgraph};
use crate::transport::bytes_of;
use crate::wire::{HopRequest, HopSection, Refusal, WantedOfEdges, words_per_row};
use bytes::Bytes;
use edgecut_graph::{EdgeTypeId, EdgeTypeMeta, GlobalNodeId, Meta, NodeTypeId, PartitionBook};
use futures::future::try_join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::task::AbortOnDropHandle;

/// Distance, in nodes, between a prefetch in the number table and its use.
const NODES_AHEAD: usize = 24;

/// A sampler of multi-hop neighborhoods of seeds, whose nodes any part may own.
pub struct DistNeighborSampler {
    node: Arc<SamplingNode>,
    /// `[hop][edge type]`. `None` draws nothing.
    fanouts: Vec<Vec<Option<Fanout>>>,
    rule: Rule,
    disjoint: bool,
    edge_attributes: WantedOfEdges,
    clock: HopClock,
}

/// A batch that is being sampled.
struct Draft {
    numbers: Numbers,
    hop_offsets: Vec<Vec<u32>>,
    edges: Vec<SampledEdges>,
    times: Vec<i64>,
    excluded: Excluded,
}

/// The nodes found so far, by node type.
enum Numbers {
    Shared(Vec<Relabel>),
    Disjoint(Vec<DisjointRelabel>),
}

impl Numbers {
    fn of_type(&self, t: usize) -> &dyn Numbering {
        match self {
            Self::Shared(relabels) => &relabels[t],
            Self::Disjoint(relabels) => &relabels[t],
        }
    }
}

/// The plan of one hop: the frontier of each node type grouped by owner, and the request to each part.
struct HopPlan {
    /// Source and destination type of each edge type.
    edge_types: Vec<(NodeTypeId, NodeTypeId)>,
    routes: Vec<Routes>,
    requests: Vec<HopRequest>,
}

impl DistNeighborSampler {
    /// Makes a sampler on `node`.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if the fan-outs do not fit the graph's edge types, or if the configuration needs weights
    /// or times that the graph does not have.
    pub fn new(node: Arc<SamplingNode>, config: SamplerConfig) -> Result<Self, SampleError> {
        let layout = |what: String| SampleError::Layout { what };
        if config.num_neighbors.num_hops() > usize::from(u16::MAX) {
            return Err(layout("num_neighbors has more than 65535 hops".into()));
        }
        let fanouts = config.num_neighbors.of_graph(node.part().meta()).map_err(layout)?;
        let SamplerConfig { replace, weighted, temporal, disjoint, edge_attributes, .. } = config;
        let rule = Rule { replace, weighted, temporal };
        check_rule(node.part().meta(), &fanouts, rule).map_err(layout)?;
        let clock = HopClock::new(fanouts.len(), node.part().meta().edge_types.len());
        Ok(Self { node, fanouts, rule, disjoint: disjoint || temporal.is_some(), edge_attributes, clock })
    }

    /// Returns the node on which the sampler runs.
    pub fn node(&self) -> &Arc<SamplingNode> {
        &self.node
    }

    /// Returns the number of hops.
    pub fn num_hops(&self) -> usize {
        self.fanouts.len()
    }

    /// Returns whether each seed has a separate neighborhood.
    pub fn is_disjoint(&self) -> bool {
        self.disjoint
    }

    /// Returns the time spent on the hops of all batches so far.
    pub fn times(&self) -> HopTimes {
        self.clock.count()
    }

    /// Returns the attributes to fetch for the sampled edges.
    pub fn edge_attributes(&self) -> WantedOfEdges {
        self.edge_attributes
    }

    /// Returns whether edges are drawn in proportion to their weights.
    pub fn is_weighted(&self) -> bool {
        self.rule.weighted
    }

    /// Returns the times that limit sampling, if any.
    pub fn temporal(&self) -> Option<Temporal> {
        self.rule.temporal
    }

    /// Samples the neighborhood of `seeds`. The result depends only on `key`, the seeds and their order, the
    /// configuration and the graph.
    ///
    /// # Errors
    /// [`SampleError::NoSuchNode`] for a seed that is out of range or given twice, [`SampleError::Layout`] for seeds
    /// that lack times or neighborhoods that this sampler needs, or an error of a peer.
    pub async fn sample(self: &Arc<Self>, seeds: SampleSeeds, key: BatchKey) -> Result<SampledSubgraph, SampleError> {
        let this = self.clone();
        // The draft moves to a worker and back in each step, so that no CPU work runs on the async runtime.
        let mut draft = self.node.workers.run(move || this.start(seeds)).await??;
        for hop in 0..self.num_hops() {
            let start = Instant::now();
            let this = self.clone();
            let (planned, plan) = self
                .node
                .workers
                .run(move || {
                    let plan = this.plan(&draft, hop, key);
                    (draft, plan)
                })
                .await?;
            let replies = self.ask_all(&plan, hop).await?;
            let this = self.clone();
            let numbered = move |edge_type, elapsed| this.clock.add_drawing(hop, edge_type, elapsed);
            draft = self.node.workers.run(move || stitch_hop(planned, &plan, &replies, numbered)).await??;
            self.clock.add_hop(hop, start.elapsed());
        }
        let this = self.clone();
        self.node.workers.run(move || this.finish(draft)).await
    }

    fn start(&self, seeds: SampleSeeds) -> Result<Draft, SampleError> {
        let meta = self.node.part().meta();
        let num_types = meta.node_types.len();
        seeds.check(num_types, self.disjoint, self.rule.temporal.is_some())?;
        let mut numbers = if self.disjoint {
            Numbers::Disjoint((0..num_types).map(|_| DisjointRelabel::default()).collect())
        } else {
            Numbers::Shared(self.node.take_relabels())
        };
        for (t, nodes) in seeds.nodes.iter().enumerate() {
            let book = &meta.node_types[t].book;
            let batch = seeds.batch.get(t).filter(|_| self.disjoint).map_or(&[][..], |batch| &batch[..]);
            match &mut numbers {
                Numbers::Shared(relabels) => number_seeds(&mut relabels[t], book, nodes, batch)?,
                Numbers::Disjoint(relabels) => number_seeds(&mut relabels[t], book, nodes, batch)?,
            }
        }
        let hop_offsets = (0..num_types).map(|t| vec![numbers.of_type(t).nodes().len() as u32]).collect();
        let edges = vec![SampledEdges { indptr: vec![0], ..SampledEdges::default() }; meta.edge_types.len()];
        Ok(Draft { numbers, hop_offsets, edges, times: seeds.times, excluded: Excluded::new(&seeds.excluded) })
    }

    /// Groups the frontier by owner and prepares the request to each part.
    fn plan(&self, draft: &Draft, hop: usize, key: BatchKey) -> HopPlan {
        let part = self.node.part();
        let meta = part.meta();
        let width = words_per_row(self.disjoint, self.rule);
        let mut routes = Vec::with_capacity(meta.node_types.len());
        // The words sent for each frontier: its rows, and with them their seeds and times if the sampler needs these.
        let mut words = Vec::with_capacity(meta.node_types.len());
        for (t, node_type) in meta.node_types.iter().enumerate() {
            let from = hop.checked_sub(1).map_or(0, |last| draft.hop_offsets[t][last]) as usize;
            let to = draft.hop_offsets[t][hop] as usize;
            let numbers = draft.numbers.of_type(t);
            let of_type = Routes::new(&node_type.book, &numbers.nodes()[from..to]);
            words.push(if width == 1 { Vec::new() } else { self.words(&of_type, numbers, from, &draft.times) });
            routes.push(of_type);
        }
        let request = |p: usize| {
            let mut sections = Vec::new();
            let mut rows = Vec::new();
            for edge_type in part.edge_type_ids() {
                let dst_type = part.edges(edge_type).dst_type.index();
                // An edge type without a fan-out gets a section without rows, so that sections stay aligned with edge
                // types.
                let (fanout, mine): (_, &[u32]) = match self.fanouts[hop][edge_type.index()] {
                    Some(fanout) if width == 1 => (fanout, &routes[dst_type].rows[p]),
                    Some(fanout) => (fanout, &words[dst_type][p]),
                    None => (Fanout::All, &[]),
                };
                rows.extend_from_slice(mine);
                sections.push(HopSection { edge_type, fanout: fanout.count(), num_rows: (mine.len() / width) as u32 });
            }
            HopRequest {
                stream: key.stream(),
                hop: hop as u16,
                rule: self.rule,
                disjoint: self.disjoint,
                positions: self.edge_attributes.any(),
                sections,
                rows: bytes_of(rows),
            }
        };
        let requests = (0..meta.num_parts as usize).map(request).collect();
        let edge_types = part.edge_type_ids().map(|e| (part.edges(e).src_type, part.edges(e).dst_type)).collect();
        HopPlan { edge_types, routes, requests }
    }

    /// Returns the request words of each part's rows. `from` is the number of the first node of the frontier.
    fn words(&self, routes: &Routes, numbers: &dyn Numbering, from: usize, times: &[i64]) -> Vec<Vec<u32>> {
        let mut words = vec![Vec::new(); routes.rows.len()];
        let mut rows: Vec<_> = routes.rows.iter().map(|rows| rows.iter()).collect();
        for (position, &owner) in routes.owners.iter().enumerate() {
            let words = &mut words[owner as usize];
            let row = rows[owner as usize].next();
            let batch = numbers.batch_of(from + position);
            words.extend(row);
            if self.disjoint {
                words.push(batch);
            }
            if self.rule.temporal.is_some() {
                let time = times[batch as usize] as u64;
                words.extend([time as u32, (time >> 32) as u32]);
            }
        }
        words
    }

    /// Sends one request to every peer that owns part of the frontier, all at once, and draws the own share meanwhile.
    async fn ask_all(self: &Arc<Self>, plan: &HopPlan, hop: usize) -> Result<Vec<Bytes>, SampleError> {
        let mut remote = Vec::new();
        for (part, peer) in self.node.peers.iter().enumerate() {
            let request = plan.requests[part].clone();
            if let (Some(peer), false) = (peer.clone(), request.rows.is_empty()) {
                // If one peer fails, dropping the handles of the others aborts their requests.
                let task = AbortOnDropHandle::new(tokio::spawn(async move { peer.sample_hop(request).await }));
                remote.push(async move {
                    let reply =
                        task.await.map_err(|e| SampleError::Internal { what: format!("sample part {part}: {e}") })?;
                    reply.map(|data| (part, data))
                });
            }
        }
        let own = self.node.part().id().index();
        let local = self.node.part.clone();
        let request = plan.requests[own].clone();
        let this = self.clone();
        let drawn = move |edge_type: EdgeTypeId, elapsed| this.clock.add_drawing(hop, edge_type.index(), elapsed);
        let drawn = self.node.workers.run(move || local.sample_hop(&request, usize::MAX, drawn)).await?;
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
        let nodes = match draft.numbers {
            Numbers::Shared(relabels) => {
                let of_type = |(relabel, hop_offsets): (&Relabel, _)| SampledNodes {
                    ids: relabel.nodes().to_vec(),
                    hop_offsets,
                    batch: Vec::new(),
                };
                let nodes = relabels.iter().zip(draft.hop_offsets).map(of_type).collect();
                self.node.keep_relabels(relabels);
                nodes
            }
            Numbers::Disjoint(relabels) => {
                let of_type = |(relabel, hop_offsets): (DisjointRelabel, _)| {
                    let (ids, batch) = relabel.into_parts();
                    SampledNodes { ids, hop_offsets, batch }
                };
                relabels.into_iter().zip(draft.hop_offsets).map(of_type).collect()
            }
        };
        SampledSubgraph { nodes, edges: draft.edges }
    }
}

/// Checks that the edges that are drawn have the weights and times that `rule` needs.
fn check_rule(meta: &Meta, fanouts: &[Vec<Option<Fanout>>], rule: Rule) -> Result<(), String> {
    let dataset = &meta.dataset;
    let drawn = |e: usize| fanouts.iter().any(|fanouts| fanouts[e].is_some());
    let lacking = |has: &dyn Fn(&EdgeTypeMeta) -> bool| {
        let mut types = meta.edge_types.iter().enumerate().filter(|(e, t)| drawn(*e) && !has(t));
        types.next().map(|(_, t)| format!("{}__{}__{}", t.src_type, t.relation, t.dst_type))
    };
    if let (true, Some(name)) = (rule.weighted, lacking(&|t| t.has_weights)) {
        return Err(format!(
            "weighted sampling needs a weight for each edge, and edge type {name} of dataset {dataset} has none: \
             partition it with weights, or give it a fan-out of 0"
        ));
    }
    let Some(temporal) = rule.temporal else { return Ok(()) };
    if rule.weighted && temporal.strategy == TemporalStrategy::Last {
        return Err("weights and the temporal strategy `last` exclude each other: sample without weights, or use the \
                    strategy `uniform`"
            .into());
    }
    match temporal.attr {
        TimeAttr::EdgeTime => match lacking(&|t| t.has_times) {
            Some(name) => Err(format!(
                "edge_time: edge type {name} of dataset {dataset} has no times: partition it with edge times, or give \
                 it a fan-out of 0"
            )),
            None => Ok(()),
        },
        TimeAttr::NodeTime => {
            if meta.node_types.iter().any(|t| t.has_times) {
                Ok(())
            } else {
                Err(format!("node_time: no nodes of dataset {dataset} have times: partition it with node times"))
            }
        }
    }
}

/// Numbers the seeds of one type in order, so that the first nodes of the batch are its seeds.
fn number_seeds(
    numbers: &mut impl Numbering,
    book: &PartitionBook,
    seeds: &[u32],
    batch: &[u32],
) -> Result<(), SampleError> {
    for (position, &seed) in seeds.iter().enumerate() {
        if !book.contains(GlobalNodeId(seed)) {
            let what = format!("seed {position} is node {seed}, but the graph has {} nodes", book.num_nodes());
            return Err(SampleError::NoSuchNode { what });
        }
        if numbers.number(batch.get(position).copied().unwrap_or(0), seed) as usize != position {
            return Err(SampleError::NoSuchNode { what: format!("seed {position} occurs twice in its batch") });
        }
    }
    Ok(())
}

/// Adds the replies of a hop to the batch. `numbered` receives the index of each edge type and its time.
fn stitch_hop(
    mut draft: Draft,
    plan: &HopPlan,
    replies: &[Bytes],
    numbered: impl Fn(usize, Duration),
) -> Result<Draft, SampleError> {
    let Draft { numbers, hop_offsets, edges, excluded, .. } = &mut draft;
    match numbers {
        Numbers::Shared(relabels) => stitch(relabels, hop_offsets, edges, excluded, plan, replies, &numbered)?,
        Numbers::Disjoint(relabels) => stitch(relabels, hop_offsets, edges, excluded, plan, replies, &numbered)?,
    }
    Ok(draft)
}

/// Stitches the replies in the order of the frontier, edge type by edge type, and numbers the new nodes.
fn stitch<N: Numbering>(
    numbers: &mut [N],
    hop_offsets: &mut [Vec<u32>],
    edges: &mut [SampledEdges],
    excluded: &Excluded,
    plan: &HopPlan,
    replies: &[Bytes],
    numbered: &impl Fn(usize, Duration),
) -> Result<(), SampleError> {
    let replies: Vec<HopReply<'_>> =
        replies.iter().zip(&plan.requests).map(|(data, request)| HopReply::new(request, data)).collect();
    for (e, &(src_type, dst_type)) in plan.edge_types.iter().enumerate() {
        let start = Instant::now();
        let mut sections: Vec<SectionReply<'_>> = replies.iter().map(|reply| reply.section(e)).collect();
        let SampledEdges { indptr, indices, positions } = &mut edges[e];
        let drawn: usize = sections.iter().map(|section| section.neighbors.len()).sum();
        if indices.len() + drawn > u32::MAX as usize {
            let what = "a batch has 2^32 or more edges: reduce the batch size or the fan-out".into();
            return Err(SampleError::Layout { what });
        }
        indices.reserve(drawn);
        // Each reply lists its rows in the order of the frontier, so taking the next row of each owner restores that
        // order.
        for &owner in &plan.routes[dst_type.index()].owners {
            let row = indptr.len() - 1;
            let section = &mut sections[owner as usize];
            let upcoming = section.neighbors;
            let (neighbors, theirs) = section.next_row();
            let dst = &numbers[dst_type.index()];
            let batch = dst.batch_of(row);
            // Excluded edges are drawn by the owner and dropped here, so that requests do not have to carry them.
            let forbidden = if excluded.is_empty() { None } else { excluded.sources(e, dst.nodes()[row]) };
            let numbers = &mut numbers[src_type.index()];
            match forbidden {
                None => {
                    positions.extend_from_slice(theirs);
                    indices.extend(neighbors.iter().enumerate().map(|(i, &id)| {
                        if let Some(&soon) = upcoming.get(i + NODES_AHEAD) {
                            numbers.prefetch(soon);
                        }
                        numbers.number(batch, id)
                    }))
                }
                Some(forbidden) => {
                    for (i, &id) in neighbors.iter().enumerate().filter(|(_, id)| !forbidden.contains(id)) {
                        indices.push(numbers.number(batch, id));
                        positions.extend(theirs.get(i));
                    }
                }
            }
            indptr.push(indices.len() as u32);
        }
        numbered(e, start.elapsed());
    }
    for (offsets, numbers) in hop_offsets.iter_mut().zip(numbers) {
        offsets.push(numbers.nodes().len() as u32);
    }
    Ok(())
}
