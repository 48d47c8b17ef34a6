//! A loader of batches of nodes, made ahead of the trainer.

use crate::batch::collate::Collation;
use crate::error::LoaderError;
use crate::loader_config::LoaderConfig;
use crate::nodes::node_batches::{NodeBatches, SeedIds};
use crate::prefetch::seed_loader::SeedLoader;
use crate::seeds::seed_plan::{SeedPlan, Seeds, Shuffle, owned_seeds};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistNeighborSampler, DistRows};
use edgecut_graph::NodeTypeId;
use std::sync::Arc;

/// A loader of a rank's mini-batches, epoch by epoch. All ranks of the job take the same number of steps.
///
/// ```no_run
/// # use edgecut_dist_loader::*;
/// # fn train(loader: DistNeighborLoader) -> Result<(), LoaderError> {
/// for epoch in 0..10 {
///     for batch in loader.epoch(epoch) {
///         let batch = batch?;
///         println!("{} seeds, {} nodes", batch.num_seeds, batch.nodes[0].input_nodes.len());
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub type DistNeighborLoader = SeedLoader<NodeBatches>;

impl DistNeighborLoader {
    /// Makes a loader for `seeds` of `node_type`. Every rank of `world` must call this, in the same order as other
    /// collectives.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for other settings or another list than on the other ranks, for a batch size of 0, for
    /// clusters with a sampler that does not find all edges between their nodes, and in temporal sampling for seeds
    /// without times and for in-degrees. [`LoaderError::Graph`] if servers do not tell the seeds. [`LoaderError::Agree`] if
    /// the ranks cannot agree on the number of steps.
    pub fn new(
        sampler: Arc<DistNeighborSampler>,
        node_type: NodeTypeId,
        seeds: Seeds,
        config: LoaderConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let graph = sampler.node();
        let part = graph.part();
        let temporal = sampler.temporal().is_some();
        let node_meta = &part.meta().node_types[node_type.index()];
        let listed = seeds.are_listed();
        // Before any error of one rank and any request, for which others would wait.
        let settings = config.shared_settings(&sampler, listed).with("node_type", &node_meta.name);
        seeds.describe(settings).agree(world)?;
        config.check(&sampler)?;
        if temporal && !node_meta.has_times && !matches!(seeds, Seeds::Timed(_) | Seeds::OwnedAt(_)) {
            return Err(LoaderError::Config {
                what: format!(
                    "temporal sampling needs a time for each seed, but nodes of type {} have none: pass seeds with \
                     times, or partition the dataset with node times",
                    node_meta.name
                ),
            });
        }
        if let Seeds::Clusters(clusters) = &seeds {
            clusters.check(&sampler, node_meta.book.num_nodes())?;
        }
        let mut clusters = None;
        let ids = match seeds {
            Seeds::Split(split) => {
                let nodes = graph.split_nodes(node_type, split);
                SeedIds::Nodes(nodes.map_err(LoaderError::seeds)?)
            }
            Seeds::Owned => SeedIds::Owned(owned_seeds(graph, node_type)),
            Seeds::OwnedAt(time) => SeedIds::OwnedAt(owned_seeds(graph, node_type), time),
            Seeds::Listed(ids) => SeedIds::Nodes(ids),
            Seeds::Timed(timed) => SeedIds::Timed(timed),
            Seeds::Clusters(mut given) => {
                let nodes = given.nodes.take().map(SeedIds::Nodes);
                let nodes = nodes.unwrap_or(SeedIds::Owned(0..given.num_nodes() as u32));
                clusters = Some(Arc::new(given));
                nodes
            }
        };
        if ids.len() > u32::MAX as usize {
            return Err(LoaderError::Config {
                what: format!("{} seeds exceed the limit of 2^32 - 1: divide them over several loaders", ids.len()),
            });
        }
        let num_planned = clusters.as_ref().map_or(ids.len(), |clusters| clusters.len());
        let mut plan = SeedPlan::new(num_planned, listed, Shuffle::List, &config, graph, world);
        let mut agreed = plan.agree(config.even_batches, world)?;
        if clusters.is_some() {
            agreed.total_seeds = ids.len();
        }
        let seeds = Arc::new(ids);
        let collation = Collation { sampler, wanted: config.wanted, cache: config.cache.clone(), rows: Vec::new() };
        let batches = NodeBatches { collation, node_type, seeds, clusters, draws_by_seed: false };
        Ok(SeedLoader::planned(batches, plan, agreed, &config))
    }

    /// Returns the loader with rows in place of the features of nodes, by node type. The features of types without rows
    /// are not fetched.
    pub fn with_rows(self, rows: Vec<Option<Arc<DistRows>>>) -> Self {
        self.change(|batches| batches.collation.rows = rows)
    }

    /// Returns the loader with random draws that do not depend on the batch, but on the seed of the loader, the epoch, the hop, the
    /// original ids of nodes, and in disjoint sampling on the seed node. In disjoint sampling, the neighborhood of a node then
    /// depends neither on the batches nor on the number of processes. Every rank must call this, or none.
    pub fn with_draws_by_seed(self) -> Self {
        self.change(|batches| batches.draws_by_seed = true)
    }

    /// Returns the node type of the seeds.
    pub fn node_type(&self) -> NodeTypeId {
        self.seeds().node_type
    }
}
