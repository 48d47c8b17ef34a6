//! Held-out edges and their negatives in batches.

use super::config::{LinkTrainingConfig, target_edge_types};
use super::given::{are_shared, given_edge_types};
use crate::edge_type_name::reverse_edge_types;
use crate::error::TrainError;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{
    DistLinkNeighborLoader, EdgeSeeds, Exclude, LinkConfig, LoaderConfig, NegativeDistribution, NegativeSampling,
    NegativeSources,
};
use edgecut_dist_sampler::{DistNeighborSampler, NodeFields};
use edgecut_graph::{EdgeTypeId, NegativesMeta, Split};
use std::sync::Arc;

/// The batches of the held-out edges of both splits.
pub(super) struct EdgeBatches {
    valid: Vec<EdgeGroup>,
    test: Vec<EdgeGroup>,
}

/// Edges that are ranked together.
pub(super) struct EdgeGroup {
    /// True if all edges share their negatives.
    pub(super) is_shared: bool,
    pub(super) loaders: Vec<(Pairs, DistLinkNeighborLoader)>,
}

/// The meaning of the seeds of a loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairs {
    /// Held-out edges, each with negatives of its own.
    EdgesWithNegatives,
    /// Held-out edges that share their negatives.
    Edges,
    /// Negatives that all edges share.
    SharedNegatives,
}

/// The choice of negatives of held-out edges.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// This number of sampled destinations of each edge.
    Sampled(usize),
    /// As many as the dataset gives to each edge.
    Given(usize),
    /// None: the edges share their negatives, or are negatives.
    Nothing,
}

/// The loaders of held-out edges, with neighborhoods of a sampler.
pub(super) struct EdgeLoaders<'a> {
    pub(super) sampler: Arc<DistNeighborSampler>,
    pub(super) wanted: NodeFields,
    pub(super) config: &'a LinkTrainingConfig,
}

impl EdgeBatches {
    pub(super) fn of(&self, split: Split) -> &[EdgeGroup] {
        if split == Split::Test { &self.test } else { &self.valid }
    }
}

impl EdgeLoaders<'_> {
    /// Makes the batches of held-out edges with `num` sampled destinations each. Every rank must call this.
    pub(super) fn sampled(&self, num: usize, world: &mut ProcessGroup) -> Result<EdgeBatches, TrainError> {
        let edge_types = target_edge_types(self.sampler.node().part().meta(), self.config)?;
        let mut of_splits = [Split::Valid, Split::Test].map(|split| (split, Vec::new()));
        for (split, groups) in &mut of_splits {
            let loader = self.loader(EdgeSeeds::Split(*split, edge_types.clone()), Choice::Sampled(num), world)?;
            groups.push(EdgeGroup { is_shared: false, loaders: vec![(Pairs::EdgesWithNegatives, loader)] });
        }
        let [(_, valid), (_, test)] = of_splits;
        Ok(EdgeBatches { valid, test })
    }

    /// Makes the batches of held-out edges with the negatives that the dataset gives. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] for shared negatives in temporal sampling.
    pub(super) fn given(&self, world: &mut ProcessGroup) -> Result<EdgeBatches, TrainError> {
        let meta = self.sampler.node().part().meta();
        let edge_types = given_edge_types(meta, self.config)?;
        if !are_shared(meta, &edge_types)? {
            let valid = vec![self.with_negatives(Split::Valid, &edge_types, world)?];
            let test = vec![self.with_negatives(Split::Test, &edge_types, world)?];
            return Ok(EdgeBatches { valid, test });
        }
        if self.config.training.sampler.temporal.is_some() {
            let what = format!(
                "dataset {}: it gives negatives that all held-out edges share, which have no time at which their neighbors \
                 could be drawn (`time_attr`): rank sampled destinations (`eval_negatives=100`), or give each edge negatives of \
                 its own (val_neg.npy, test_neg.npy)",
                meta.dataset
            );
            return Err(TrainError::Config { what });
        }
        // The edges of a type share the negatives of their own type only.
        let mut batches = EdgeBatches { valid: Vec::new(), test: Vec::new() };
        for edge_type in edge_types {
            batches.valid.push(self.sharing(Split::Valid, edge_type, world)?);
            batches.test.push(self.sharing(Split::Test, edge_type, world)?);
        }
        Ok(batches)
    }

    /// Makes the batches of edges of some types with the negatives of each edge.
    fn with_negatives(
        &self,
        split: Split,
        edge_types: &[EdgeTypeId],
        world: &mut ProcessGroup,
    ) -> Result<EdgeGroup, TrainError> {
        let meta = self.sampler.node().part().meta();
        let mut loaders = Vec::new();
        for &edge_type in edge_types {
            // The types may have different numbers of negatives. A split without edges may have none.
            let negatives = meta.edge_types[edge_type.index()].negatives[usize::from(split == Split::Test)];
            if let Some(NegativesMeta::OfEach(num)) = negatives {
                let seeds = EdgeSeeds::Split(split, vec![edge_type]);
                loaders.push((Pairs::EdgesWithNegatives, self.loader(seeds, Choice::Given(num as usize), world)?));
            }
        }
        Ok(EdgeGroup { is_shared: false, loaders })
    }

    /// Makes the batches of the edges of a type and of the negatives that they share.
    fn sharing(&self, split: Split, edge_type: EdgeTypeId, world: &mut ProcessGroup) -> Result<EdgeGroup, TrainError> {
        let mut loaders = Vec::new();
        for (pairs, seeds) in [
            (Pairs::Edges, EdgeSeeds::Split(split, vec![edge_type])),
            (Pairs::SharedNegatives, EdgeSeeds::Negatives(split, vec![edge_type])),
        ] {
            loaders.push((pairs, self.loader(seeds, Choice::Nothing, world)?));
        }
        Ok(EdgeGroup { is_shared: true, loaders })
    }

    fn loader(
        &self,
        seeds: EdgeSeeds,
        choice: Choice,
        world: &mut ProcessGroup,
    ) -> Result<DistLinkNeighborLoader, TrainError> {
        let training = &self.config.training;
        let num = match choice {
            Choice::Sampled(num) | Choice::Given(num) => num,
            Choice::Nothing => 0,
        };
        // An edge has two end nodes and `num` negatives as seeds. The batch size is chosen so that a batch has
        // about as many seeds as a training batch with one negative per edge (3 seeds), whatever the negatives of
        // training.
        let num_seeds = training.batch_size.saturating_mul(3);
        let loader_config =
            LoaderConfig { batch_size: (num_seeds / (2 + num)).max(1), ..training.eval_loader(self.wanted) };
        let is_sampled = matches!(choice, Choice::Sampled(_));
        let negatives = NegativeSampling {
            num,
            distribution: NegativeDistribution::Uniform,
            exclude: if is_sampled { Exclude::EdgesAndHeldOut } else { Exclude::Nothing },
            shared: false,
        };
        let link = LinkConfig {
            negatives,
            // Held-out edges are never message-passing edges. In a temporal graph, however, other edges may connect the
            // same two nodes, such as the reverse at the same time. As in training, no message passes over these.
            exclude_seed_edges: training.sampler.temporal.is_some(),
            reverse_types: reverse_edge_types(self.sampler.node().part().meta(), &self.config.reverse_types)?,
            weights: false,
            given_negatives: NegativeSources {
                of_held_out: matches!(choice, Choice::Given(_)),
                ..NegativeSources::default()
            },
        };
        Ok(DistLinkNeighborLoader::new(self.sampler.clone(), seeds, loader_config, link, world)?)
    }
}
