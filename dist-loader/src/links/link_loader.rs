//! A loader of batches of edges, made ahead of the trainer.

use crate::batch::cached_rows::CachedRows;
use crate::error::LoaderError;
use crate::links::edge_relations::EdgeRelations;
use crate::links::link_batch::LinkBatch;
use crate::links::link_batches::LinkBatches;
use crate::links::negatives::{Exclude, NegativeSampler, NegativeSampling};
use crate::loader_config::{LoaderConfig, check_degrees};
use crate::prefetch::batch_iter::BatchIter;
use crate::prefetch::seed_loader::SeedLoader;
use crate::seeds::edge_seeds::{EdgeIndex, EdgeSeeds};
use crate::seeds::epoch_segment::EpochSegment;
use crate::seeds::seed_plan::{SeedPlan, Shuffle};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistNeighborSampler, Hotness};
use edgecut_graph::{EdgeTypeId, Part, Split};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most negatives of one batch. Each is a seed of its neighborhood.
const MAX_NEGATIVES: usize = 1 << 25;

/// The configuration of link batches, in addition to [`LoaderConfig`].
///
/// ```
/// use edgecut_dist_loader::{Exclude, LinkConfig, NegativeDistribution, NegativeSampling};
/// let negatives = NegativeSampling {
///     num: 10,
///     distribution: NegativeDistribution::Degree,
///     exclude: Exclude::Edges,
///     shared: false,
/// };
/// let link = LinkConfig { negatives, exclude_seed_edges: true, reverse_types: Vec::new(), weights: false };
/// assert_eq!(link.negatives.num, 10);
/// ```
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
    /// True to fetch the weights of the edges of a batch. They must be training edges.
    pub weights: bool,
}

/// A loader of a rank's mini-batches of edges, epoch by epoch. All ranks of the job take the same number of steps.
///
/// ```
/// # let loader = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_link_loader.rs"));
/// use edgecut_dist_loader::Negatives;
/// let batch = loader.epoch(0).next().expect("a batch")?;
/// assert_eq!(batch.src.len(), 32);
/// let Negatives::OfEach { num: 2, dst } = &batch.negatives else { panic!("two negatives per edge") };
/// assert_eq!(dst.len(), 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DistLinkNeighborLoader {
    loader: SeedLoader<LinkBatches>,
}

impl DistLinkNeighborLoader {
    /// Makes a loader for `seeds`. Every rank of `world` must call this, in the same order as other collectives.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a batch size of 0, for shared negatives with exclusion of edges or in temporal
    /// sampling, for too many negatives per batch, for more distinct negatives than there are nodes, for wrong reverse
    /// types, for edges without requested weights, and for edges without times in temporal sampling. [`LoaderError::Seeds`] if servers do not tell the edges. [`LoaderError::Directory`] if negatives cannot be looked up. [`LoaderError::Agree`] if the ranks
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
        let graph = sampler.node();
        let part = graph.part();
        let listed = matches!(seeds, EdgeSeeds::Listed(_));
        let edge_types: Vec<EdgeTypeId> = match &seeds {
            EdgeSeeds::Split(_, edge_types) => edge_types.clone(),
            EdgeSeeds::Labeled(_, edge_type) => vec![*edge_type],
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
        if let Some(why) = too_few_nodes(part, &edge_types, link.negatives) {
            return invalid(why);
        }
        if link.weights
            && let Some(why) = lacks_weights(part, &seeds, &edge_types)
        {
            return invalid(why);
        }
        let relations = Arc::new(EdgeRelations::new(part, &link.reverse_types)?);
        let index = EdgeIndex::new(graph, seeds).map_err(|source| LoaderError::Seeds { source: Box::new(source) })?;
        index.check_len()?;
        if let (Some(_), Some(why)) = (sampler.temporal(), index.lacks_times(part)) {
            return invalid(why);
        }
        let negatives = Arc::new(NegativeSampler::new(link.negatives, &sampler, &edge_types, world)?);
        let mut plan = SeedPlan::new(index.len(), listed, Shuffle::Permutation, &config, graph, world);
        let agreed = plan.agree(config.even_batches, world)?;
        let batches = LinkBatches {
            sampler,
            index: Arc::new(index),
            negatives,
            num_negatives: link.negatives,
            exclude_seed_edges: link.exclude_seed_edges,
            relations,
            weights: link.weights,
            wanted: config.wanted,
            cache: config.cache.clone(),
        };
        Ok(Self { loader: SeedLoader::new(batches, plan, agreed, &config) })
    }

    /// Returns the loader with a cache. From now on it does not fetch the features of cached nodes. Other ranks may use
    /// other caches.
    pub fn with_cache(self, cache: Arc<CachedRows>) -> Self {
        Self { loader: self.loader.with_cache(cache) }
    }

    /// Returns a loader of the seeds of an epoch that are left after `before`, the segments of the epoch in which other
    /// numbers of processes have trained. Together with these segments, its batches have each seed of the epoch once. Its
    /// batches are those of this epoch only. Every rank must call this.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for listed seeds. [`LoaderError::Agree`] if the ranks cannot agree on the seeds.
    pub fn rest_of_epoch(
        &self,
        epoch: u64,
        before: &[EpochSegment],
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let batches = self.loader.seeds();
        let cells = batches.index.partition(batches.sampler.node(), world)?;
        Ok(Self { loader: self.loader.rest_of_epoch(epoch, before, &cells, world)? })
    }

    /// Returns the sampler of the neighborhoods.
    pub fn sampler(&self) -> &Arc<DistNeighborSampler> {
        &self.loader.seeds().sampler
    }

    /// Returns the number of steps per epoch, the same on every rank. A rank that runs out of edges earlier gets empty
    /// batches.
    pub fn num_steps(&self) -> usize {
        self.loader.num_steps()
    }

    /// Returns the most bytes of finished batches that waited at the same time, over all epochs so far.
    pub fn peak_prefetch_bytes(&self) -> usize {
        self.loader.peak_bytes()
    }

    /// Returns the number of seed edges over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.loader.total_seeds()
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
        self.epoch_map_from(epoch, 0, prepare)
    }

    /// Like [`epoch_map`](Self::epoch_map), from `first_step` on, counted from 0. The batches before it are not made.
    pub fn epoch_map_from<T: Send + 'static>(
        &self,
        epoch: u64,
        first_step: usize,
        prepare: impl Fn(LinkBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        self.loader.epoch_map_from(epoch, first_step, prepare)
    }

    /// Returns the number of batches of this rank with as many seeds as the configured batch size. They come before the others.
    /// With even batches, all batches count.
    pub fn num_full_batches(&self) -> usize {
        self.loader.num_full_batches()
    }

    /// Counts how often nodes are inputs of the first `num_batches` batches of this rank in `epoch`. See
    /// [`DistNeighborLoader::hotness`](crate::DistNeighborLoader::hotness).
    ///
    /// # Errors
    /// [`LoaderError::Batch`] if a neighborhood cannot be sampled.
    pub fn hotness(&self, epoch: u64, num_batches: usize) -> Result<Hotness, LoaderError> {
        self.loader.hotness(epoch, num_batches)
    }
}

/// Returns the reason why the seeds have no weights, if there is one.
fn lacks_weights(part: &Part, seeds: &EdgeSeeds, edge_types: &[EdgeTypeId]) -> Option<String> {
    if !matches!(seeds, EdgeSeeds::Split(Split::Train, _)) {
        return Some("only training edges have weights: do not request weights of other edges".into());
    }
    let all = &part.meta().edge_types;
    let edges = edge_types.iter().map(|edge_type| &all[edge_type.index()]).find(|edges| !edges.has_weights)?;
    Some(format!(
        "edges of type {}__{}__{} have no weights: store weights, or do not weight edges in the loss (`weighted_loss`)",
        edges.src_type, edges.relation, edges.dst_type
    ))
}

/// Returns the reason why no edge of some type can have distinct negatives, if there is one.
fn too_few_nodes(part: &Part, edge_types: &[EdgeTypeId], negatives: NegativeSampling) -> Option<String> {
    if negatives.exclude != Exclude::Edges {
        return None;
    }
    let num = negatives.num;
    for &edge_type in edge_types {
        let edges = &part.meta().edge_types[edge_type.index()];
        let nodes = &part.meta().node_types[part.edges(edge_type).dst_type.index()];
        let num_nodes = nodes.book.num_nodes();
        // An edge's own destination is not among its negatives.
        if num > 0 && num >= num_nodes {
            return Some(format!(
                "{num} distinct negatives were requested for an edge of type {}__{}__{}, but there are only {num_nodes} \
                 nodes of type {}, one of which is its destination: request fewer, or do not exclude edges",
                edges.src_type, edges.relation, edges.dst_type, nodes.name
            ));
        }
    }
    None
}
