//! A loader of batches of edges, made ahead of the trainer.

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

/// The most negatives of one batch. Each is a seed of its neighborhood.
const MAX_NEGATIVES: usize = 1 << 25;

/// The configuration of link batches, in addition to [`LoaderConfig`].
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The negatives to draw.
    pub negatives: NegativeSampling,
    /// True to exclude the edges of a batch and their reverses from message passing, since they would reveal the
    /// answer. They are removed from the drawn neighbors, as in DGL, so a node at such an edge may have fewer neighbors
    /// than its fan-out.
    pub exclude_seed_edges: bool,
    /// Pairs of edge types that are each other's reverse, in addition to those that names imply: `rev_writes` is the
    /// reverse of `writes`, and a type that connects a node type with itself may contain both directions.
    pub reverse_types: Vec<(EdgeTypeId, EdgeTypeId)>,
}

/// A loader of a rank's mini-batches of edges, epoch by epoch. All ranks of the job take the same number of steps.
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
    /// Makes a loader for `seeds`. Every rank of `world` must call this, in the same order as other collectives.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a batch size of 0, for shared negatives with exclusion of edges or in temporal
    /// sampling, for too many negatives per batch, for wrong reverse types, and for edges without times in temporal
    /// sampling. [`LoaderError::Directory`] if negatives cannot be looked up. [`LoaderError::Agree`] if the ranks
    /// cannot agree on the number of steps.
    pub fn new(
        sampler: Arc<DistNeighborSampler>,
        seeds: EdgeSeeds,
        config: LoaderConfig,
        link: LinkConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let invalid = |what: String| Err(LoaderError::Config { what });
        if config.batch_size == 0 {
            return invalid("the batch size must be at least 1".into());
        }
        if link.negatives.shared && link.negatives.exclude != Exclude::Nothing {
            return invalid(
                "negatives that a batch shares may be neighbors of some of its edges: draw them per edge, or do not \
                 exclude edges"
                    .into(),
            );
        }
        if link.negatives.shared && sampler.temporal().is_some() {
            return invalid(
                "negatives that a batch shares have no time: draw them per edge in temporal sampling".into(),
            );
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
            let batch_size = config.batch_size;
            let num = link.negatives.num;
            return invalid(format!(
                "{num} negatives for each of {batch_size} edges exceed {MAX_NEGATIVES} per batch: reduce one of them, \
                 or share the negatives"
            ));
        }
        if let Some(&(one, other)) = link.reverse_types.iter().find(|pair| !are_opposite(part.meta(), **pair)) {
            let name = |e: EdgeTypeId| &part.meta().edge_types[e.index()].relation;
            return invalid(format!(
                "edge types {} and {} are not each other's reverse: the source type of each must be the destination \
                 type of the other",
                name(one),
                name(other)
            ));
        }
        let index = EdgeIndex::new(part, seeds);
        if index.len() > u32::MAX as usize {
            return invalid(format!(
                "{} seed edges in one part exceed the limit of 2^32 - 1: partition into more parts",
                index.len()
            ));
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

    /// Returns the loader with a cache. From now on it does not fetch the features of cached nodes. Other ranks may use
    /// other caches.
    pub fn with_cache(self, cache: Arc<CachedRows>) -> Self {
        let maker = LinkMaker { cache: Some(cache), ..(*self.maker).clone() };
        Self { maker: Arc::new(maker), ..self }
    }

    /// Returns the sampler of the neighborhoods.
    pub fn sampler(&self) -> &Arc<DistNeighborSampler> {
        &self.maker.sampler
    }

    /// Returns the number of steps per epoch, the same on every rank. A rank that runs out of edges earlier gets empty
    /// batches.
    pub fn num_steps(&self) -> usize {
        self.num_steps
    }

    /// Returns the most bytes of finished batches that waited at the same time, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.budget.peak_bytes()
    }

    /// Returns the number of seed edges over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.total_seeds
    }

    /// Returns the batches of `epoch`, in order, made as in
    /// [`DistNeighborLoader::epoch`](crate::DistNeighborLoader::epoch).
    pub fn epoch(&self, epoch: u64) -> BatchIter<LinkBatch> {
        self.epoch_map(epoch, |batch| batch)
    }

    /// Returns the batches of `epoch` after `prepare`, which runs on the sampling threads.
    pub fn epoch_map<T: Send + 'static>(
        &self,
        epoch: u64,
        prepare: impl Fn(LinkBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        let maker = self.maker.clone();
        let plan = self.plan.clone();
        let prepare = Arc::new(prepare);
        let order = plan.order(epoch);
        let budget = self.budget.clone();
        run_ahead(self.maker.node(), self.concurrency, budget, self.num_steps, move |step| {
            let maker = maker.clone();
            let prepare = prepare.clone();
            let (seeds, key) = plan.batch(&order, epoch, step);
            let make = async move {
                let batch = maker.make(seeds, key).await?;
                let num_bytes = batch.num_bytes();
                let batch = maker.node().run_on_workers(move || prepare(batch)).await?;
                Ok(Made { batch, num_bytes })
            };
            (key, make)
        })
    }

    /// Counts how often nodes are inputs of the first `num_batches` batches of this rank in `epoch`. See
    /// [`DistNeighborLoader::hotness`](crate::DistNeighborLoader::hotness).
    ///
    /// # Errors
    /// [`LoaderError::Batch`] if a neighborhood cannot be sampled.
    pub fn hotness(&self, epoch: u64, num_batches: usize) -> Result<Hotness, LoaderError> {
        let maker = self.maker.clone();
        let plan = self.plan.clone();
        let order = plan.order(epoch);
        let num_batches = num_batches.min(plan.num_batches());
        // Neighborhoods are smaller than batches, so their sizes have an estimate of their own.
        let budget = PrefetchBudget::new(self.prefetch_bytes);
        let sampled = run_ahead(self.maker.node(), self.concurrency, budget, num_batches, move |step| {
            let maker = maker.clone();
            let (seeds, key) = plan.batch(&order, epoch, step);
            (key, async move { maker.sample(&seeds, key).await.map(|sampled| measured(sampled.subgraph)) })
        });
        count(sampled, self.maker.node())
    }
}

/// Returns whether each edge type ends in the node type in which the other starts.
fn are_opposite(meta: &Meta, (one, other): (EdgeTypeId, EdgeTypeId)) -> bool {
    let one = &meta.edge_types[one.index()];
    let other = &meta.edge_types[other.index()];
    (&one.src_type, &one.dst_type) == (&other.dst_type, &other.src_type)
}

/// Returns, for each edge type, the edge types that may contain the reverses of its edges.
fn reverse_types(meta: &Meta, given: &[(EdgeTypeId, EdgeTypeId)]) -> Vec<Vec<EdgeTypeId>> {
    let types = &meta.edge_types;
    let is_reverse = |a: usize, b: usize| {
        let from = &types[a];
        let to = &types[b];
        let ends = (&from.src_type, &from.dst_type) == (&to.dst_type, &to.src_type);
        let is_rev = |one: &str, other: &str| one.strip_prefix("rev_") == Some(other);
        let named = is_rev(&from.relation, &to.relation) || is_rev(&to.relation, &from.relation);
        let given = given.iter().any(|&(x, y)| [(x.index(), y.index()), (y.index(), x.index())].contains(&(a, b)));
        ends && (a == b || named || given)
    };
    let reverses_of = |a: usize| (0..types.len()).filter(|&b| is_reverse(a, b)).map(|b| EdgeTypeId(b as u16)).collect();
    (0..types.len()).map(reverses_of).collect()
}

/// The state that turns seed edges into batches.
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

/// The ends of a batch's edges as seeds of its neighborhood, each node once, or once per edge if neighborhoods are
/// disjoint.
struct Ends {
    seeds: SampleSeeds,
    numbers: Vec<FxHashMap<(u32, u32), u32>>,
    disjoint: bool,
}

impl Ends {
    /// Returns the number of a node among the seeds of its type, and adds it if it is new.
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

/// Seeds, and the numbers of the ends of edges and of their negatives among them.
struct Numbered {
    seeds: SampleSeeds,
    src: Vec<u32>,
    dst: Vec<u32>,
    negatives: Negatives,
}

/// The neighborhood of edges, and the numbers of their ends and negatives among its seeds.
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
        // Edges may be in a mapped file, and network threads must not wait for the disk.
        let reader = self.clone();
        let positions = positions.to_vec();
        let read = move || -> Vec<SeedEdge> {
            let part = reader.node().part();
            positions.iter().map(|&at| reader.index.edge(part, at as usize)).collect()
        };
        let edges = self.node().run_on_workers(read).await?;
        let drawn = self.negatives.draw(self.node(), key, &edges).await?;
        let maker = self.clone();
        let of = edges.clone();
        let number = move || maker.number_ends(&of, &drawn);
        let Numbered { seeds, src, dst, negatives } = self.node().run_on_workers(number).await?;
        let subgraph = self.sampler.sample(seeds, key).await?;
        Ok(Sampled { subgraph, edges, src, dst, negatives })
    }

    /// Numbers the ends of edges and their negatives as seeds.
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
        let negatives = if self.num_negatives.shared {
            // Shared negatives belong to no edge, so disjoint sampling puts them into a neighborhood after those of the
            // edges.
            Negatives::Shared(
                (drawn.iter().enumerate())
                    .map(|(t, ids)| ids.iter().map(|&id| ends.number(t, edges.len(), id)).collect())
                    .collect(),
            )
        } else {
            Negatives::OfEach {
                num: self.num_negatives.num,
                dst: (edges.iter().zip(drawn).enumerate())
                    .flat_map(|(i, (edge, ids))| ids.iter().map(move |&id| (types_of(edge).1, i, id)))
                    .map(|(t, i, id)| ends.number(t, i, id))
                    .collect(),
            }
        };
        Numbered { seeds: ends.seeds, src, dst, negatives }
    }

    /// Returns the edges of a batch and their reverses, by edge type.
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
