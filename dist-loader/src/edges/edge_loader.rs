//! A loader of batches of labeled edges, made ahead of the trainer.

use crate::batch::collate::Collation;
use crate::edges::labeled_edges::LabeledEdges;
use crate::error::LoaderError;
use crate::links::edge_relations::EdgeRelations;
use crate::loader_config::LoaderConfig;
use crate::prefetch::seed_loader::SeedLoader;
use crate::seeds::edge_seeds::{EdgeIndex, EdgeSeeds};
use crate::seeds::seed_plan::{SeedPlan, Shuffle};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistNeighborSampler, EdgeFields};
use edgecut_graph::EdgeTypeId;
use serde::Serialize;
use std::sync::Arc;

/// The configuration of batches of labeled edges, in addition to [`LoaderConfig`].
#[derive(Clone, Debug, Serialize)]
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
pub type DistEdgeNeighborLoader = SeedLoader<LabeledEdges>;

impl DistEdgeNeighborLoader {
    /// Makes a loader for `seeds`, all of which are edges of one type that carry messages. Every rank of `world` must call
    /// this, in the same order as other collectives.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for a batch size of 0, for seeds of other types, held-out edges and listed edges without a
    /// position, for wrong reverse types, for edges without times in temporal
    /// sampling, and for other settings or another list than on the other ranks. [`LoaderError::Graph`] if
    /// servers do not tell the edges. [`LoaderError::Agree`] if the ranks cannot agree on the number of steps.
    pub fn new(
        sampler: Arc<DistNeighborSampler>,
        seeds: EdgeSeeds,
        config: LoaderConfig,
        edges: EdgeConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, LoaderError> {
        let invalid = |what: String| Err(LoaderError::Config { what });
        let listed = seeds.are_listed();
        // Before any error of one rank and any request, for which others would wait.
        seeds.describe(config.shared_settings(&sampler, listed).with_fields(&edges)).agree(world)?;
        config.check(&sampler)?;
        check_seeds(&seeds, edges.edge_type)?;
        let graph = sampler.node();
        let part = graph.part();
        let relations = Arc::new(EdgeRelations::new(part, &edges.reverse_types)?);
        let index = EdgeIndex::new(graph, seeds).map_err(LoaderError::seeds)?;
        index.check_len()?;
        if let (Some(_), Some(why)) = (sampler.temporal(), index.lacks_times(part)) {
            return invalid(why);
        }
        let mut plan = SeedPlan::new(index.len(), listed, Shuffle::Permutation, &config, graph, world);
        let agreed = plan.agree(config.even_batches, world)?;
        let collation = Collation { sampler, wanted: config.wanted, cache: config.cache.clone(), rows: Vec::new() };
        let batches = LabeledEdges {
            collation,
            edge_type: edges.edge_type,
            index: Arc::new(index),
            exclude_seed_edges: edges.exclude_seed_edges,
            relations,
            of_seeds: edges.attributes,
            draws_by_seed: false,
        };
        Ok(SeedLoader::planned(batches, plan, agreed, &config))
    }

    /// Returns the loader with random draws that do not depend on the batch, but on the seed of the loader, the epoch, the hop, the
    /// original ids of nodes, and in disjoint sampling on the edge. In disjoint sampling, the neighborhood of an edge then depends
    /// neither on the batches nor on the number of processes. Every rank must call this, or none.
    pub fn with_draws_by_seed(self) -> Self {
        self.change(|batches| batches.draws_by_seed = true)
    }
}

/// Checks that seeds are edges of a type that carry messages.
fn check_seeds(seeds: &EdgeSeeds, edge_type: EdgeTypeId) -> Result<(), LoaderError> {
    let is_of_type = match seeds {
        EdgeSeeds::Labeled(_, of_seeds) => *of_seeds == edge_type,
        EdgeSeeds::Split(edgecut_graph::Split::Train, of_seeds) => of_seeds[..] == [edge_type],
        EdgeSeeds::Split(..) | EdgeSeeds::Negatives(..) => false,
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
