//! A loader of batches of labeled edges, made ahead of the trainer.

use crate::batch::cached_rows::CachedRows;
use crate::edges::labeled_edges::{LabeledEdgeBatch, LabeledEdges};
use crate::error::LoaderError;
use crate::links::edge_relations::EdgeRelations;
use crate::loader_config::{LoaderConfig, check_degrees};
use crate::prefetch::batch_iter::BatchIter;
use crate::prefetch::seed_loader::SeedLoader;
use crate::seeds::edge_seeds::{EdgeIndex, EdgeSeeds};
use crate::seeds::epoch_segment::EpochSegment;
use crate::seeds::seed_plan::{SeedPlan, Shuffle};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistNeighborSampler, EdgeFields, Hotness};
use edgecut_graph::EdgeTypeId;
use std::sync::Arc;

/// The configuration of batches of labeled edges, in addition to [`LoaderConfig`].
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// The type of the edges.
    pub edge_type: EdgeTypeId,
    /// True to exclude the edges of a batch from message passing, with all other edges of their type between the same ends
    /// and with their reverses. Otherwise a model could read from the neighborhood what an edge is like, and learn to rely
    /// on it.
    pub exclude_seed_edges: bool,
    /// Pairs of edge types that are each other's reverse, as in [`LinkConfig`](crate::LinkConfig).
    pub reverse_types: Vec<(EdgeTypeId, EdgeTypeId)>,
    /// The attributes of the edges themselves to fetch. Attributes that the type lacks are left out.
    pub attributes: EdgeFields,
}

/// A loader of a rank's mini-batches of labeled edges, epoch by epoch. All ranks of the job take the same number of steps.
///
/// Temporal sampling draws the neighborhoods of an edge's ends at the edge's own time.
pub struct DistEdgeNeighborLoader {
    loader: SeedLoader<LabeledEdges>,
}

impl DistEdgeNeighborLoader {
    /// Makes a loader for `seeds`, all of which are edges of one type that carry messages. Every rank of `world` must call
    /// this, in the same order as other collectives.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a batch size of 0, for seeds of other types, held-out edges and listed edges without a
    /// position, for wrong reverse types, and for edges without times in temporal sampling. [`LoaderError::Seeds`] if
    /// servers do not tell the edges. [`LoaderError::Agree`] if the ranks cannot agree on the number of steps.
    pub fn new(
        sampler: Arc<DistNeighborSampler>,
        seeds: EdgeSeeds,
        config: LoaderConfig,
        edges: EdgeConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let invalid = |what: String| Err(LoaderError::Config { what });
        if config.batch_size == 0 {
            return invalid("the batch size must be at least 1".into());
        }
        check_degrees(&sampler, config.wanted)?;
        check_seeds(&seeds, edges.edge_type)?;
        let graph = sampler.node();
        let part = graph.part();
        let listed = matches!(seeds, EdgeSeeds::Listed(_));
        let relations = Arc::new(EdgeRelations::new(part, &edges.reverse_types)?);
        let index = EdgeIndex::new(graph, seeds).map_err(|source| LoaderError::Seeds { source: Box::new(source) })?;
        index.check_len()?;
        if let (Some(_), Some(why)) = (sampler.temporal(), index.lacks_times(part)) {
            return invalid(why);
        }
        let mut plan = SeedPlan::new(index.len(), listed, Shuffle::Permutation, &config, graph, world);
        let agreed = plan.agree(config.even_batches, world)?;
        let batches = LabeledEdges {
            sampler,
            edge_type: edges.edge_type,
            index: Arc::new(index),
            exclude_seed_edges: edges.exclude_seed_edges,
            relations,
            wanted: config.wanted,
            of_seeds: edges.attributes,
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
    /// [`LoaderError::Config`] for other seeds than training edges. [`LoaderError::Agree`] if the ranks cannot agree on the
    /// seeds.
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

    /// Returns the number of edges over all ranks.
    pub fn total_seeds(&self) -> usize {
        self.loader.total_seeds()
    }

    /// Returns the batches of `epoch`, in order, made as in
    /// [`DistNeighborLoader::epoch`](crate::DistNeighborLoader::epoch).
    pub fn epoch(&self, epoch: u64) -> BatchIter<LabeledEdgeBatch> {
        self.epoch_map_from(epoch, 0, |batch| batch)
    }

    /// Returns the batches of `epoch` from `first_step` on, counted from 0, after `prepare`, which runs on the sampling
    /// threads. The batches before it are not made.
    pub fn epoch_map_from<T: Send + 'static>(
        &self,
        epoch: u64,
        first_step: usize,
        prepare: impl Fn(LabeledEdgeBatch) -> T + Send + Sync + 'static,
    ) -> BatchIter<T> {
        self.loader.epoch_map_from(epoch, first_step, prepare)
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

/// Checks that seeds are edges of a type that carry messages.
fn check_seeds(seeds: &EdgeSeeds, edge_type: EdgeTypeId) -> Result<(), LoaderError> {
    let is_of_type = match seeds {
        EdgeSeeds::Labeled(_, of_seeds) => *of_seeds == edge_type,
        EdgeSeeds::Split(edgecut_graph::Split::Train, of_seeds) => of_seeds[..] == [edge_type],
        EdgeSeeds::Split(..) => false,
        EdgeSeeds::Listed(edges) => {
            if let Some(at) = edges.iter().position(|edge| edge.position.is_none()) {
                let what = format!("edge {at} of the list has no position among the in-edges of its destination");
                return Err(LoaderError::Config { what });
            }
            edges.iter().all(|edge| edge.edge_type == edge_type)
        }
    };
    if is_of_type {
        return Ok(());
    }
    Err(LoaderError::Config { what: "the seeds are not edges of the configured type that carry messages".into() })
}
