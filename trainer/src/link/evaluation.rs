//! Evaluation of link prediction: ranks held-out edges against sampled negatives.

use super::batch::{LinkTensorBatch, NegativeRows};
use super::config::{LinkEvaluation, LinkMetric, LinkTrainingConfig, reverse_edge_types, target_edge_types};
use super::filtered::FilteredRanking;
use super::report::LinkScores;
use super::step::{ScoredEdges, scores};
use crate::batch_input::BatchOptions;
use crate::embeddings::Embeddings;
use crate::metrics::{RankingMetrics, ScoredLabels, realistic_rank};
use crate::models::{GraphSchema, LinkModel, Mode};
use crate::ops::{GnnBackend, consumed};
use crate::train_error::TrainError;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{
    DistLinkNeighborLoader, EdgeSeeds, Exclude, LinkConfig, LoaderConfig, NegativeDistribution, NegativeSampling,
};
use edgecut_dist_sampler::{DistNeighborSampler, SamplingNode};
use edgecut_graph::Split;
use std::sync::Arc;

/// The evaluation of models on the validation and test edges.
pub(super) enum Evaluation {
    /// Ranks each edge against sampled destinations.
    Sampled {
        valid: DistLinkNeighborLoader,
        test: DistLinkNeighborLoader,
        schema: Arc<GraphSchema>,
        options: BatchOptions,
        wants_roc_auc: bool,
    },
    /// Ranks each edge against all nodes of the destination's type.
    Filtered(Box<FilteredRanking>),
}

impl Evaluation {
    /// Creates the loaders of the held-out edges. Every rank must call this.
    pub(super) fn new(
        node: &Arc<SamplingNode>,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let num = match config.evaluation {
            LinkEvaluation::Filtered => {
                return Ok(Self::Filtered(Box::new(FilteredRanking::new(node, schema, options, config, world)?)));
            }
            LinkEvaluation::Sampled(num) => num,
        };
        let sampler = Arc::new(DistNeighborSampler::new(node.clone(), config.training.eval_sampler())?);
        let edge_types = target_edge_types(node.part().meta(), config)?;
        let reverse_types = reverse_edge_types(node.part().meta(), config)?;
        let mut loader = |split: Split| {
            // An edge has two end nodes and `num` negatives as seeds. The batch size is chosen so that a batch has
            // about as many seeds as a training batch with one negative per edge (3 seeds), whatever the negatives of
            // training.
            let seeds = config.training.batch_size.saturating_mul(3);
            let loader_config = LoaderConfig {
                batch_size: (seeds / (2 + num)).max(1),
                ..config.training.eval_loader(options.wanted())
            };
            let negatives = NegativeSampling {
                num,
                distribution: NegativeDistribution::Uniform,
                exclude: Exclude::EdgesAndHeldOut,
                shared: false,
            };
            // Held-out edges are never message-passing edges. In a temporal graph, however, other edges may connect the
            // same two nodes, such as the reverse at the same time. As in training, no message passes over these.
            let exclude_seed_edges = config.training.sampler.temporal.is_some();
            let link = LinkConfig { negatives, exclude_seed_edges, reverse_types: reverse_types.clone() };
            let seeds = EdgeSeeds::Split(split, edge_types.clone());
            DistLinkNeighborLoader::new(sampler.clone(), seeds, loader_config, link, world)
        };
        let valid = loader(Split::Valid)?;
        let test = loader(Split::Test)?;
        let wants_roc_auc = config.metric == LinkMetric::RocAuc;
        Ok(Self::Sampled { valid, test, schema: Arc::clone(schema), options, wants_roc_auc })
    }

    /// Evaluates a model on one split over all ranks. Each edge counts once.
    pub(super) fn run<B: GnnBackend>(
        &self,
        split: Split,
        model: &LinkModel<B>,
        embeddings: &Embeddings,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<LinkScores, TrainError> {
        let (valid, test, schema, options, wants_roc_auc) = match self {
            Self::Filtered(ranking) => return ranking.run(split, model, embeddings, device, world),
            Self::Sampled { valid, test, schema, options, wants_roc_auc } => {
                (valid, test, schema, *options, *wants_roc_auc)
            }
        };
        let loader = if split == Split::Test { test } else { valid };
        let (on, of) = (device.clone(), Arc::clone(schema));
        let batches =
            loader.epoch_map(0, move |batch| LinkTensorBatch::<B>::new(batch, &of, options, false, None, &on));
        let mut ranks = RankingMetrics::default();
        // Each score takes 4 bytes, so scores are kept only if the metric needs them all.
        let mut scored = wants_roc_auc.then(ScoredLabels::default);
        for batch in batches {
            let mut batch = batch??;
            batch.graph = embeddings.fill(batch.graph, device)?;
            if let Some(input) = batch.graph.take_input() {
                judge(model, &input, &batch, &mut ranks, scored.as_mut())?;
            }
            // Meeting at every step bounds the wait for a slow rank to the time of one batch.
            world.barrier()?;
        }
        ranks.all_reduce(world)?;
        let roc_auc = match scored {
            Some(scored) => scored.roc_auc_over_all_ranks(world)?,
            None => None,
        };
        Ok(LinkScores::new(&ranks, roc_auc))
    }
}

/// Scores a batch and adds the rank of each edge among its negatives to `ranks`, and the scores to `scored`.
fn judge<B: GnnBackend>(
    model: &LinkModel<B>,
    input: &crate::models::ModelInput<B>,
    batch: &LinkTensorBatch<B>,
    ranks: &mut RankingMetrics,
    mut scored: Option<&mut ScoredLabels>,
) -> Result<(), TrainError> {
    debug_assert!(matches!(batch.negatives, NegativeRows::OfEach { .. }));
    for ScoredEdges { positive, negatives, .. } in scores(model, input, batch, Mode::Eval, false)?.groups {
        let [edges, num] = negatives.dims();
        let positive: Vec<f32> = positive.into_data().iter::<f32>().collect();
        consumed();
        let negatives: Vec<f32> = if num > 0 { negatives.into_data().iter::<f32>().collect() } else { Vec::new() };
        for edge in 0..edges {
            let others = &negatives[edge * num..(edge + 1) * num];
            ranks.add(realistic_rank(positive[edge], others));
            if let Some(scored) = &mut scored {
                scored.positives.push(positive[edge]);
                scored.negatives.extend_from_slice(others);
            }
        }
    }
    Ok(())
}
