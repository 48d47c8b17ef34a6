//! Sampling of the neighborhood of a batch over all parts.

use crate::batch::batch_builder::BatchBuilder;
use crate::batch::hop_plan::{HopPlan, HopSettings};
use crate::batch::hop_times::{HopClock, HopTimes};
use crate::batch::seeds::SampleSeeds;
use crate::batch::subgraph::SampledSubgraph;
use crate::batch_key::BatchKey;
use crate::config::fan_out::Fanout;
use crate::config::node_fields::EdgeFields;
use crate::config::num_neighbors::NumNeighbors;
use crate::config::sampler_config::SamplerConfig;
use crate::config::sampling_policy::{SamplingPolicy, Temporal};
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::requests::Refusal;
use crate::rpc::server_requests::WireSampler;
use bytes::Bytes;
use edgecut_graph::EdgeTypeId;
use futures::future::{BoxFuture, try_join_all};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// A sampler of multi-hop neighborhoods of seeds, whose nodes any part may own.
///
/// ```
/// # let graph = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_node.rs"));
/// use edgecut_dist_sampler::{BatchKey, DistNeighborSampler, Fanout, SampleSeeds, SamplerConfig};
/// use edgecut_graph::NodeTypeId;
/// use std::sync::Arc;
/// let config = SamplerConfig::new(vec![Fanout::Count(5), Fanout::Count(3)]);
/// let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config)?);
/// let seeds = SampleSeeds::of_type(NodeTypeId(0), vec![7, 3], 1);
/// let key = BatchKey { seed: 1, epoch: 0, batch: 0 };
/// let sampled = graph.handle().block_on(sampler.sample(seeds, key))?;
///
/// assert_eq!(sampled.nodes[0].ids[..2], [7, 3]);
/// assert_eq!(sampled.nodes[0].hop_offsets.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DistNeighborSampler {
    graph: Arc<DistGraph>,
    /// `[hop][edge type]`.
    fanouts: Vec<Vec<Fanout>>,
    rule: SamplingPolicy,
    disjoint: bool,
    edge_attributes: EdgeFields,
    positions: bool,
    clock: HopClock,
    /// The most bytes of a neighborhood, if it is for a client.
    max_bytes: Option<usize>,
    /// True once a server has refused a batch of this sampler as too large.
    pub(crate) is_too_large: AtomicBool,
}

impl DistNeighborSampler {
    /// Makes a sampler on `node`.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if the fan-outs do not fit the graph's edge types, or if the configuration needs weights
    /// or times that the graph does not have.
    pub fn new(graph: Arc<DistGraph>, config: SamplerConfig) -> Result<Self, SampleError> {
        let layout = |what: String| SampleError::Layout { what };
        if config.num_neighbors.num_hops() > usize::from(u16::MAX) {
            return Err(layout("num_neighbors has more than 65535 hops".into()));
        }
        let fanouts = config.num_neighbors.of_graph(graph.part().meta()).map_err(layout)?;
        let SamplerConfig { replace, weighted, temporal, labor, disjoint, isolated, .. } = config;
        let SamplerConfig { edge_attributes, positions, .. } = config;
        let rule = SamplingPolicy { replace, weighted, temporal, labor, isolated };
        let rule = rule.checked(graph.part().meta(), &fanouts).map_err(layout)?;
        let clock = HopClock::new(fanouts.len(), graph.part().meta().edge_types.len());
        Ok(Self {
            graph,
            fanouts,
            rule,
            disjoint: disjoint || temporal.is_some(),
            edge_attributes,
            positions,
            clock,
            max_bytes: None,
            is_too_large: AtomicBool::new(false),
        })
    }

    /// Makes the sampler that a client has described.
    ///
    /// # Errors
    /// As [`DistNeighborSampler::new`].
    pub(crate) fn from_wire(graph: Arc<DistGraph>, sampler: WireSampler) -> Result<Self, SampleError> {
        let layout = |what: String| SampleError::Layout { what };
        let WireSampler { fanouts, rule, disjoint, positions } = sampler;
        let num_types = graph.part().meta().edge_types.len();
        if fanouts.len() > usize::from(u16::MAX) || fanouts.iter().any(|hop| hop.len() != num_types) {
            return Err(layout(format!("the fan-outs do not fit {num_types} edge types, or are too many")));
        }
        let rule = rule.checked(graph.part().meta(), &fanouts).map_err(layout)?;
        let clock = HopClock::new(fanouts.len(), num_types);
        Ok(Self {
            max_bytes: Some(graph.config.max_message_bytes),
            graph,
            fanouts,
            rule,
            disjoint: disjoint || rule.temporal.is_some(),
            edge_attributes: EdgeFields::default(),
            positions,
            clock,
            is_too_large: AtomicBool::new(false),
        })
    }

    /// Returns the configuration, with the fan-outs of each edge type and without what has no effect.
    pub fn config(&self) -> SamplerConfig {
        let SamplingPolicy { replace, weighted, temporal, labor, isolated } = self.rule;
        SamplerConfig {
            num_neighbors: NumNeighbors::of_types(self.graph.part().meta(), &self.fanouts),
            replace,
            weighted,
            labor,
            temporal,
            disjoint: self.disjoint,
            isolated,
            edge_attributes: self.edge_attributes,
            positions: self.positions,
        }
    }

    /// Returns the settings that matter to a neighborhood.
    pub(crate) fn on_wire(&self) -> WireSampler {
        WireSampler {
            fanouts: self.fanouts.clone(),
            rule: self.rule,
            disjoint: self.disjoint,
            positions: self.draws_positions(),
        }
    }

    /// Returns whether neighborhoods have the positions of their edges: to keep them, or to fetch attributes by them.
    pub(crate) fn draws_positions(&self) -> bool {
        self.positions || self.edge_attributes.any()
    }

    /// Returns the node on which the sampler runs.
    pub fn node(&self) -> &Arc<DistGraph> {
        &self.graph
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
    pub fn edge_attributes(&self) -> EdgeFields {
        self.edge_attributes
    }

    /// Returns whether batches keep the positions of the sampled edges.
    pub fn keeps_positions(&self) -> bool {
        self.positions
    }

    /// Returns whether edges are drawn in proportion to their weights.
    pub fn is_weighted(&self) -> bool {
        self.rule.weighted
    }

    /// Returns whether only edges within a part are drawn.
    pub fn is_isolated(&self) -> bool {
        self.rule.isolated
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
    pub fn sample(
        self: &Arc<Self>,
        seeds: SampleSeeds,
        key: BatchKey,
    ) -> BoxFuture<'_, Result<SampledSubgraph, SampleError>> {
        Box::pin(async move {
            let keeps_times = self.edge_attributes.times && self.rule.temporal.is_some();
            let seed_times = if keeps_times { seeds.times.clone() } else { Vec::new() };
            Ok(SampledSubgraph { seed_times, ..self.sample_hops(seeds, key).await? })
        })
    }

    async fn sample_hops(self: &Arc<Self>, seeds: SampleSeeds, key: BatchKey) -> Result<SampledSubgraph, SampleError> {
        // Requests to servers have no numbers of draws.
        let is_sent = self.graph.is_client() && seeds.draws.is_empty();
        if is_sent && !self.is_too_large.load(Ordering::Relaxed) {
            let start = Instant::now();
            if let Some(sampled) = self.sample_on_server(&seeds, key).await? {
                // The server draws all hops, so their time is that of the first one here.
                self.clock.add_hop(0, start.elapsed());
                return Ok(sampled);
            }
            // Batches of one sampler have similar sizes, so the next ones are not tried.
            self.is_too_large.store(true, Ordering::Relaxed);
        }
        // The own part of a client has no edges.
        if self.rule.labor.is_some() && !self.graph.is_client() {
            self.graph.find_sources().await?;
        }
        let this = self.clone();
        let start = move || {
            let num_types = this.graph.part().meta().node_types.len();
            seeds.check(num_types, this.disjoint, this.rule.temporal.is_some())?;
            BatchBuilder::start(&this.graph, seeds, this.disjoint)
        };
        // The draft moves to a worker and back in each step, so that no CPU work runs on the async runtime.
        let mut draft = self.graph.workers.run(start).await??;
        for hop in 0..self.num_hops() {
            let start = Instant::now();
            let this = self.clone();
            let plan = move || {
                let plan = this.settings(hop).plan(&draft, hop, key);
                (draft, plan)
            };
            let (mut planned, plan) = self.graph.workers.run(plan).await?;
            let replies = self.ask_all(&plan, hop).await?;
            let this = self.clone();
            let add = move || {
                let numbered = |edge_type, elapsed| this.clock.add_drawing(hop, edge_type, elapsed);
                planned.add_hop(&plan, &replies, numbered).map(|()| planned)
            };
            draft = self.graph.workers.run(add).await??;
            if let Some(max_bytes) = self.max_bytes.filter(|&max| draft.num_bytes() > max) {
                return Err(SampleError::BatchTooLarge { max_bytes });
            }
            self.clock.add_hop(hop, start.elapsed());
        }
        let this = self.clone();
        self.graph.workers.run(move || draft.finish(&this.graph)).await
    }

    fn settings(&self, hop: usize) -> HopSettings<'_> {
        HopSettings {
            part: self.graph.part(),
            fanouts: &self.fanouts[hop],
            rule: self.rule,
            disjoint: self.disjoint,
            positions: self.draws_positions(),
        }
    }

    /// Sends one request to every peer that owns part of the frontier, all at once, and draws the own share meanwhile.
    async fn ask_all(self: &Arc<Self>, plan: &HopPlan, hop: usize) -> Result<Vec<Bytes>, SampleError> {
        let mut remote = Vec::new();
        for (part, peer) in self.graph.peers.iter().enumerate() {
            let request = plan.requests[part].clone();
            if let (Some(peer), false) = (peer.clone(), request.rows.is_empty()) {
                // If one peer fails, dropping the handles of the others aborts their requests.
                let task = AbortOnDropHandle::new(tokio::spawn(async move { peer.sample_hop(request).await }));
                remote.push(async move {
                    let reply =
                        task.await.map_err(|source| SampleError::process(format!("sample part {part}"), source))?;
                    reply.map(|data| (part, data))
                });
            }
        }
        let own = self.graph.part().id().index();
        let local = self.graph.part.clone();
        let request = plan.requests[own].clone();
        let this = self.clone();
        let drawn = move |edge_type: EdgeTypeId, elapsed| this.clock.add_drawing(hop, edge_type.index(), elapsed);
        let max_bytes = self.max_bytes.unwrap_or(usize::MAX);
        let drawn = self.graph.workers.run(move || local.sample_hop(&request, max_bytes, drawn)).await?;
        let mut replies = vec![Bytes::new(); plan.requests.len()];
        replies[own] = drawn.map_err(|refusal| match (refusal, self.max_bytes) {
            (Refusal::TooLarge, Some(max_bytes)) => SampleError::BatchTooLarge { max_bytes },
            (refusal, _) => refusal.by_own_part(),
        })?;
        for (part, data) in try_join_all(remote).await? {
            replies[part] = data;
        }
        Ok(replies)
    }
}
