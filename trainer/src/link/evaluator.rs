//! Evaluation of link prediction: ranks held-out edges against sampled negatives.

use super::batch::{LinkTensorBatch, NegativeRows};
use super::config::{LinkEvaluation, LinkMetric, LinkTrainingConfig, reverse_edge_types, target_edge_types};
use super::filtered::FilteredRanking;
use super::scores::{LinkResult, LinkScores};
use super::step::{ScoredEdges, scores};
use crate::batch_input::BatchOptions;
use crate::embeddings::Embeddings;
use crate::fit::Evaluator;
use crate::metrics::{RankingMetrics, ScoreHistogram, ScoredLabels, realistic_rank};
use crate::models::{GraphSchema, LinkModel, Mode, ModelInput};
use crate::ops::{GnnBackend, consumed};
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{
    DistLinkNeighborLoader, EdgeSeeds, Exclude, LinkConfig, LoaderConfig, NegativeDistribution, NegativeSampling,
    SharedNegatives,
};
use edgecut_dist_sampler::{DistGraph, DistNeighborSampler};
use edgecut_graph::Split;
use std::sync::Arc;

/// The evaluation of link prediction models on the validation and test edges.
pub struct LinkEvaluator<B: Backend> {
    ranking: Ranking,
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    metric: LinkMetric,
    device: B::Device,
}

/// The destinations against which edges are ranked.
enum Ranking {
    /// Sampled destinations.
    Sampled { valid: DistLinkNeighborLoader, test: DistLinkNeighborLoader },
    /// All nodes of the destination's type.
    Filtered(Box<FilteredRanking>),
}

impl<B: GnnBackend> LinkEvaluator<B> {
    /// Creates the loaders of the held-out edges. Every rank must call this.
    pub(super) fn new(
        node: &Arc<DistGraph>,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        config: &LinkTrainingConfig,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let ranking = match config.evaluation {
            LinkEvaluation::Filtered if node.is_client() => {
                let what = "servers do not rank all nodes: rank sampled ones (`evaluation=100`)";
                return Err(TrainError::Config { what: what.into() });
            }
            LinkEvaluation::Filtered if !node.is_even() => {
                let what = "all nodes are ranked only if the same number of processes holds each part: start a multiple \
                            of the number of parts, or fewer processes than parts, or rank sampled nodes \
                            (`evaluation=100`)";
                return Err(TrainError::Config { what: what.into() });
            }
            LinkEvaluation::Filtered => {
                Ranking::Filtered(Box::new(FilteredRanking::new(node, schema, options, config, world)?))
            }
            LinkEvaluation::Sampled(num) => sampled_ranking(node, options, config, num, world)?,
        };
        let device = device.clone();
        Ok(Self { ranking, schema: Arc::clone(schema), options, metric: config.metric, device })
    }

    /// Ranks the edges of a loader against sampled destinations.
    fn rank_sampled(
        &self,
        loader: &DistLinkNeighborLoader,
        model: &LinkModel<B>,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<LinkScores, TrainError> {
        let options = self.options;
        let device = self.device.clone();
        let schema = Arc::clone(&self.schema);
        // Each edge has its own negatives.
        let pairs = SharedNegatives::default();
        let batches =
            loader.epoch_map(0, move |batch| LinkTensorBatch::<B>::new(batch, &schema, options, pairs, None, &device));
        // Each score takes 4 bytes, so scores are kept only if the metric needs them all.
        let scored = (self.metric == LinkMetric::RocAuc).then(ScoredLabels::default);
        let mut judged = Judged { scored, ..Judged::default() };
        for batch in batches {
            let mut batch = batch??;
            batch.graph = embeddings.fill(batch.graph, &self.device)?;
            if let Some(input) = batch.graph.take_input() {
                judge(model, &input, &batch, &mut judged)?;
            }
            // Meeting at every step bounds the wait for a slow rank to the time of one batch.
            world.barrier()?;
        }
        let Judged { mut ranks, mut histogram, scored } = judged;
        ranks.all_reduce(world)?;
        histogram.all_reduce(world)?;
        let roc_auc = match scored {
            Some(scored) => scored.roc_auc_over_all_ranks(world)?,
            None => None,
        };
        Ok(LinkScores::new(&ranks, roc_auc, Some(histogram)))
    }
}

impl<B: GnnBackend> Evaluator<B, LinkModel<B>> for LinkEvaluator<B> {
    type Scores = LinkScores;
    type Result = LinkResult;

    fn metric(&self) -> String {
        self.metric.to_string()
    }

    fn metric_value(&self, scores: &LinkScores) -> Option<f64> {
        scores.get(self.metric)
    }

    fn evaluate(
        &self,
        split: Split,
        model: &LinkModel<B>,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<LinkScores, TrainError> {
        match &self.ranking {
            Ranking::Filtered(ranking) => ranking.run(split, model, embeddings, &self.device, world),
            Ranking::Sampled { test, .. } if split == Split::Test => self.rank_sampled(test, model, embeddings, world),
            Ranking::Sampled { valid, .. } => self.rank_sampled(valid, model, embeddings, world),
        }
    }

    fn result(&self, best_epoch: u64, valid: LinkScores, test: LinkScores) -> LinkResult {
        LinkResult { best_epoch, metric: self.metric, valid, test }
    }
}

/// Creates the loaders of held-out edges with `num` sampled destinations each.
fn sampled_ranking(
    node: &Arc<DistGraph>,
    options: BatchOptions,
    config: &LinkTrainingConfig,
    num: usize,
    world: &mut ProcessGroup,
) -> Result<Ranking, TrainError> {
    let sampler = Arc::new(DistNeighborSampler::new(node.clone(), config.training.eval_sampler())?);
    let edge_types = target_edge_types(node.part().meta(), config)?;
    let reverse_types = reverse_edge_types(node.part().meta(), config)?;
    let mut loader = |split: Split| {
        // An edge has two end nodes and `num` negatives as seeds. The batch size is chosen so that a batch has
        // about as many seeds as a training batch with one negative per edge (3 seeds), whatever the negatives of
        // training.
        let seeds = config.training.batch_size.saturating_mul(3);
        let loader_config =
            LoaderConfig { batch_size: (seeds / (2 + num)).max(1), ..config.training.eval_loader(options.wanted()) };
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
    Ok(Ranking::Sampled { valid, test })
}

/// The edges of this rank that were ranked so far.
#[derive(Default)]
struct Judged {
    ranks: RankingMetrics,
    histogram: ScoreHistogram,
    /// All scores, if the metric needs them.
    scored: Option<ScoredLabels>,
}

/// Scores a batch and adds the rank of each edge among its negatives, and the scores, to `judged`.
fn judge<B: GnnBackend>(
    model: &LinkModel<B>,
    input: &ModelInput<B>,
    batch: &LinkTensorBatch<B>,
    judged: &mut Judged,
) -> Result<(), TrainError> {
    debug_assert!(matches!(batch.negatives, NegativeRows::OfEach { .. }));
    for ScoredEdges { positive, negatives, .. } in scores(model, input, batch, Mode::Eval, false)?.groups {
        let [edges, num] = negatives.dims();
        let positive: Vec<f32> = positive.into_data().iter::<f32>().collect();
        consumed();
        let negatives: Vec<f32> = if num > 0 { negatives.into_data().iter::<f32>().collect() } else { Vec::new() };
        for edge in 0..edges {
            let others = &negatives[edge * num..(edge + 1) * num];
            judged.ranks.add(realistic_rank(positive[edge], others));
            judged.histogram.add(positive[edge], true);
            others.iter().for_each(|&score| judged.histogram.add(score, false));
            if let Some(scored) = &mut judged.scored {
                scored.positives.push(positive[edge]);
                scored.negatives.extend_from_slice(others);
            }
        }
    }
    Ok(())
}
