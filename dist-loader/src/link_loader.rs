//! Makes batches of edges ahead of the trainer.

use crate::ahead::{BatchIter, run_ahead};
use crate::batch::MiniBatch;
use crate::cached_rows::CachedRows;
use crate::edge_seeds::{EdgeIndex, EdgeSeeds, SeedEdge};
use crate::error::LoaderError;
use crate::fill::{Filling, fill};
use crate::hotness::Hotness;
use crate::link_batch::{LinkBatch, Negatives};
use crate::loader::{LoaderConfig, check_degrees, count, measured};
use crate::negatives::{Exclude, NegativeSampler, NegativeSampling};
use crate::prefetch::{Made, PrefetchBudget};
use crate::seeds::{SeedPlan, Shuffle};
use crate::shared_candidates::EdgeRelations;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{
    BatchKey, DistNeighborSampler, SampleError, SampleSeeds, SampledSubgraph, SamplingNode, Wanted,
};
use edgecut_graph::{EdgeTypeId, Meta};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most negatives of one batch; each is a seed of its neighborhood.
const MAX_NEGATIVES: usize = 1 << 25;

/// How edges become batches, beside what [`LoaderConfig`] says.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The negatives that are drawn.
    pub negatives: NegativeSampling,
    /// Whether no message flows over a batch's own edges and their reverses, which would give the answer away. They are left
    /// out of what was drawn, as in DGL, so that a node next to them may have fewer neighbors than its fan-out.
    pub exclude_seed_edges: bool,
    /// Pairs of edge types that are each other's reverse, beside those that names tell: `rev_writes` is that of `writes`,
    /// and a type that joins a node type to itself may hold both directions.
    pub reverse_types: Vec<(EdgeTypeId, EdgeTypeId)>,
}

/// Gives a rank its mini-batches of edges, epoch by epoch. All ranks of the job take the same number of steps.
pub struct DistLinkNeighborLoader {
    maker: Arc<LinkMaker>,
    plan: Arc<SeedPlan>,
    concurrency: usize,
    prefetch_bytes: usize,
    budget: Arc<PrefetchBudget>,
    num_steps: usize,
    total_seeds: usize,
}

impl DistLinkNeighborLoader {
    /// A loader for `seeds`. Every rank of `world` has to call this, in the same order as the others.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a batch size of 0, shared negatives that must be no edges or have no time,
    /// or edges without times where times count; [`LoaderError::Agree`] if the ranks cannot agree on the steps.
    pub fn new(
        sampler: Arc<DistNeighborSampler>,
        seeds: EdgeSeeds,
        config: LoaderConfig,
        link: LinkConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let invalid = |what: String| Err(LoaderError::Config { what });
        if config.batch_size == 0 {
            return invalid("the batch size has to be at least 1".into());
        }
        if link.negatives.shared && link.negatives.exclude != Exclude::Nothing {
            return invalid(
                "negatives that a whole batch shares may be neighbors of some of its edges: draw them for each edge, or do not \
                 exclude edges"
                    .into(),
            );
        }
        if link.negatives.shared && sampler.temporal().is_some() {
            return invalid("negatives that a whole batch shares have no time: draw them for each edge".into());
        }
        check_degrees(&sampler, config.wanted)?;
        let node = sampler.node();
        let part = node.part();
        let listed = matches!(seeds, EdgeSeeds::Listed(_));
        let edge_types: Vec<EdgeTypeId> = match &seeds {
            EdgeSeeds::Split(_, edge_types) => edge_types.clone(),
            EdgeSeeds::Listed(edges) => {
                edges.iter().map(|edge| edge.edge_type).collect::<BTreeSet<_>>().into_iter().collect()
            }
        };
        if !link.negatives.shared && config.batch_size.saturating_mul(link.negatives.num) > MAX_NEGATIVES {
            let (batch_size, num) = (config.batch_size, link.negatives.num);
            return invalid(format!(
                "{num} negatives for each of {batch_size} edges are more than {MAX_NEGATIVES} in a batch: take fewer, or share them"
            ));
        }
        if let Some(&(one, other)) = link.reverse_types.iter().find(|pair| !are_opposite(part.meta(), **pair)) {
            let name = |e: EdgeTypeId| &part.meta().edge_types[e.index()].relation;
            return invalid(format!(
                "edge types {} and {} are not each other's reverse: what one goes from the other has to go to",
                name(one),
                name(other)
            ));
        }
        let index = EdgeIndex::new(part, seeds);
        if index.len() > u32::MAX as usize {
            return invalid(format!("{} seed edges in one part are more than 2^32: partition into more", index.len()));
        }
        if let (Some(_), Some(why)) = (sampler.temporal(), index.lacks_times(part)) {
            return invalid(why);
        }
        let negatives = Arc::new(NegativeSampler::new(link.negatives, node, &edge_types, world)?);
        let mut plan = SeedPlan::new(index.len(), listed, Shuffle::Permutation, &config, node, world);
        let (num_steps, total_seeds) = plan.agree(config.even_batches, world)?;
        let relations = Arc::new(EdgeRelations {
            ends: part.edge_type_ids().map(|e| (part.edges(e).src_type, part.edges(e).dst_type)).collect(),
            reverses: reverse_types(part.meta(), &link.reverse_types),
        });
        let maker = LinkMaker {
            sampler,
            index: Arc::new(index),
            negatives,
            num_negatives: link.negatives,
            exclude_seed_edges: link.exclude_seed_edges,
            relations,
            wanted: config.wanted,
            cache: config.cache,
        };
        Ok(Self {
            maker: Arc::new(maker),
            plan: Arc::new(plan),
            concurrency: config.concurrency,
            prefetch_bytes: config.prefetch_bytes,
            budget: PrefetchBudget::new(config.prefetch_bytes),
            num_steps,
            total_seeds,
        })
    }

    /// The same loader, which leaves out the features of cached nodes from now on. Other ranks need not know.
    pub fn with_cache(self, cache: Arc<CachedRows>) -> Self {
        let maker = LinkMaker { cache: Some(cache), ..(*self.maker).clone() };
        Self { maker: Arc::new(maker), ..self }
    }

    /// What draws the neighborhoods.
    pub fn sampler(&self) -> &Arc<DistNeighborSampler> {
        &self.maker.sampler
    }

    /// Steps per epoch, the same on every rank: a rank whose edges run out earlier gets empty batches.
    pub fn num_steps(&self) -> usize {
        self.num_steps
    }

    /// The most bytes of finished batches that waited at once, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.budget.peak_bytes()
    }

    /// Seed edges over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.total_seeds
    }

    /// The batches of `epoch`, in order, as [`DistNeighborLoader::epoch`](crate::DistNeighborLoader::epoch) makes them.
    pub fn epoch(&self, epoch: u64) -> BatchIter<LinkBatch> {
        self.epoch_map(epoch, |batch| batch)
    }

    /// The same; each batch goes through `prepare` on the sampling threads.
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(LinkBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        let (maker, plan, prepare) = (self.maker.clone(), self.plan.clone(), Arc::new(prepare));
        let order = plan.order(epoch);
        let budget = self.budget.clone();
        run_ahead(self.maker.node(), self.concurrency, budget, self.num_steps, move |step| {
            let (maker, prepare, (seeds, key)) = (maker.clone(), prepare.clone(), plan.batch(&order, epoch, step));
            let make = async move {
                let batch = maker.make(seeds, key).await?;
                let num_bytes = batch.num_bytes();
                let batch = maker.node().run_on_workers(move || prepare(batch)).await?;
                Ok(Made { batch, num_bytes })
            };
            (key, make)
        })
    }

    /// How often nodes are inputs of the first `num_batches` batches of this rank in `epoch`; see
    /// [`DistNeighborLoader::hotness`](crate::DistNeighborLoader::hotness).
    ///
    /// # Errors
    /// [`LoaderError::Batch`] if a neighborhood cannot be sampled.
    pub fn hotness(&self, epoch: u64, num_batches: usize) -> Result<Hotness, LoaderError> {
        let (maker, plan) = (self.maker.clone(), self.plan.clone());
        let order = plan.order(epoch);
        let num_batches = num_batches.min(plan.num_batches());
        // Neighborhoods are smaller than batches, so their sizes are learned apart.
        let budget = PrefetchBudget::new(self.prefetch_bytes);
        let sampled = run_ahead(self.maker.node(), self.concurrency, budget, num_batches, move |step| {
            let (maker, (seeds, key)) = (maker.clone(), plan.batch(&order, epoch, step));
            (key, async move { maker.sample(&seeds, key).await.map(|sampled| measured(sampled.subgraph)) })
        });
        count(sampled, self.maker.node())
    }
}

/// Whether one edge type goes where the other comes from.
fn are_opposite(meta: &Meta, (one, other): (EdgeTypeId, EdgeTypeId)) -> bool {
    let (one, other) = (&meta.edge_types[one.index()], &meta.edge_types[other.index()]);
    (&one.src_type, &one.dst_type) == (&other.dst_type, &other.src_type)
}

/// The edge types in which the reverse of an edge of each type may be.
fn reverse_types(meta: &Meta, given: &[(EdgeTypeId, EdgeTypeId)]) -> Vec<Vec<EdgeTypeId>> {
    let types = &meta.edge_types;
    let is_reverse = |a: usize, b: usize| {
        let (from, to) = (&types[a], &types[b]);
        let ends = (&from.src_type, &from.dst_type) == (&to.dst_type, &to.src_type);
        let is_rev = |one: &str, other: &str| one.strip_prefix("rev_") == Some(other);
        let named = is_rev(&from.relation, &to.relation) || is_rev(&to.relation, &from.relation);
        let given = given.iter().any(|&(x, y)| [(x.index(), y.index()), (y.index(), x.index())].contains(&(a, b)));
        ends && (a == b || named || given)
    };
    let reverses_of = |a: usize| (0..types.len()).filter(|&b| is_reverse(a, b)).map(|b| EdgeTypeId(b as u16)).collect();
    (0..types.len()).map(reverses_of).collect()
}

/// Turns edges into a batch.
#[derive(Clone)]
struct LinkMaker {
    sampler: Arc<DistNeighborSampler>,
    index: Arc<EdgeIndex>,
    negatives: Arc<NegativeSampler>,
    num_negatives: NegativeSampling,
    exclude_seed_edges: bool,
    relations: Arc<EdgeRelations>,
    wanted: Wanted,
    cache: Option<Arc<CachedRows>>,
}

/// The ends of a batch's edges as seeds of its neighborhood, each node once (or once for each edge).
struct Ends {
    seeds: SampleSeeds,
    numbers: Vec<FxHashMap<(u32, u32), u32>>,
    disjoint: bool,
}

impl Ends {
    fn number(&mut self, node_type: usize, edge: usize, id: u32) -> u32 {
        let batch = if self.disjoint { edge as u32 } else { 0 };
        let nodes = &mut self.seeds.nodes[node_type];
        *self.numbers[node_type].entry((batch, id)).or_insert_with(|| {
            nodes.push(id);
            if self.disjoint {
                self.seeds.batch[node_type].push(batch);
            }
            nodes.len() as u32 - 1
        })
    }
}

/// Seeds, and where among them the ends of edges and their negatives are.
struct Numbered {
    seeds: SampleSeeds,
    src: Vec<u32>,
    dst: Vec<u32>,
    negatives: Negatives,
}

/// The neighborhood of edges, and where among its seeds their ends and their negatives are.
struct Sampled {
    subgraph: SampledSubgraph,
    edges: Vec<SeedEdge>,
    src: Vec<u32>,
    dst: Vec<u32>,
    negatives: Negatives,
}

impl LinkMaker {
    fn node(&self) -> &Arc<SamplingNode> {
        self.sampler.node()
    }

    async fn make(self: &Arc<Self>, positions: Vec<u32>, key: BatchKey) -> Result<LinkBatch, SampleError> {
        if positions.is_empty() {
            return Ok(LinkBatch::empty(MiniBatch::empty(key)));
        }
        let Sampled { subgraph, edges, src, dst, negatives } = self.sample(&positions, key).await?;
        let filling =
            Filling { wanted: self.wanted, of_edges: self.sampler.edge_attributes(), cache: self.cache.clone() };
        let graph = fill(self.node(), subgraph, &filling, key, edges.len(), Vec::new()).await?;
        let edge_types = edges.iter().map(|edge| edge.edge_type).collect();
        Ok(LinkBatch { graph, edge_types, src, dst, negatives, relations: self.relations.clone() })
    }

    async fn sample(self: &Arc<Self>, positions: &[u32], key: BatchKey) -> Result<Sampled, SampleError> {
        // Edges may lie in a mapped file, which the network's threads must not wait for.
        let (reader, positions) = (self.clone(), positions.to_vec());
        let read = move || -> Vec<SeedEdge> {
            let part = reader.node().part();
            positions.iter().map(|&at| reader.index.edge(part, at as usize)).collect()
        };
        let edges = self.node().run_on_workers(read).await?;
        let drawn = self.negatives.draw(self.node(), key, &edges).await?;
        let (maker, of) = (self.clone(), edges.clone());
        let number = move || maker.number_ends(&of, &drawn);
        let Numbered { seeds, src, dst, negatives } = self.node().run_on_workers(number).await?;
        let subgraph = self.sampler.sample(seeds, key).await?;
        Ok(Sampled { subgraph, edges, src, dst, negatives })
    }

    /// Makes seeds of the ends of edges and of their negatives.
    fn number_ends(&self, edges: &[SeedEdge], drawn: &[Vec<u32>]) -> Numbered {
        let part = self.node().part();
        let num_types = part.meta().node_types.len();
        let mut ends = Ends {
            seeds: SampleSeeds {
                nodes: vec![Vec::new(); num_types],
                batch: vec![Vec::new(); num_types],
                times: edges.iter().filter_map(|edge| edge.time).collect(),
                excluded: self.excluded(edges),
            },
            numbers: vec![FxHashMap::default(); num_types],
            disjoint: self.sampler.is_disjoint(),
        };
        let types_of = |edge: &SeedEdge| {
            let edges = part.edges(edge.edge_type);
            (edges.src_type.index(), edges.dst_type.index())
        };
        let src = edges.iter().enumerate().map(|(i, edge)| ends.number(types_of(edge).0, i, edge.src)).collect();
        let dst = edges.iter().enumerate().map(|(i, edge)| ends.number(types_of(edge).1, i, edge.dst)).collect();
        let negatives = match self.num_negatives.shared {
            false => Negatives::OfEach {
                num: self.num_negatives.num,
                dst: (edges.iter().zip(drawn).enumerate())
                    .flat_map(|(i, (edge, ids))| ids.iter().map(move |&id| (types_of(edge).1, i, id)))
                    .map(|(t, i, id)| ends.number(t, i, id))
                    .collect(),
            },
            true => Negatives::Shared(
                (drawn.iter().enumerate())
                    .map(|(t, ids)| ids.iter().map(|&id| ends.number(t, edges.len(), id)).collect())
                    .collect(),
            ),
        };
        Numbered { seeds: ends.seeds, src, dst, negatives }
    }

    /// A batch's edges and their reverses, by edge type.
    fn excluded(&self, edges: &[SeedEdge]) -> Vec<Vec<(u32, u32)>> {
        if !self.exclude_seed_edges {
            return Vec::new();
        }
        let mut excluded = vec![Vec::new(); self.relations.reverses.len()];
        for edge in edges {
            excluded[edge.edge_type.index()].push((edge.src, edge.dst));
            for &reverse in &self.relations.reverses[edge.edge_type.index()] {
                excluded[reverse.index()].push((edge.dst, edge.src));
            }
        }
        excluded
    }
}
