//! Data-parallel training and evaluation of link prediction.

use super::batch::LinkTensorBatch;
use super::config::{LinkTrainingConfig, link_model_config, reverse_edge_types, target_edge_types};
use super::evaluation::Evaluation;
use super::report::{LinkEpochReport, LinkObserver, LinkResult, LinkScores};
use super::step::step;
use crate::batch_input::BatchOptions;
use crate::data_parallel::SeedTotals;
use crate::embeddings::{EmbeddingShards, EmbeddingSource, Embeddings};
use crate::epoch_clock::EpochClock;
use crate::gradients::{flatten_parameters, load_parameters, num_trained_parameters};
use crate::improved::Improved;
use crate::models::{LinkModel, LinkModelConfig, Mode};
use crate::ops::{DropoutKey, GnnBackend};
use crate::optimizer::adam;
use crate::parameter_count::{EmbeddedNodes, ParameterCount, check_model_memory, num_embedding_values};
use crate::train_error::TrainError;
use burn::module::AutodiffModule;
use burn::optim::Optimizer;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistLinkNeighborLoader, EdgeSeeds, LinkConfig};
use edgecut_dist_sampler::{DistNeighborSampler, SamplingNode};
use edgecut_graph::Split;
use std::sync::Arc;
use std::time::Instant;

/// The result of training a link prediction model.
pub struct TrainedLinkModel<B: Backend> {
    /// The model of the best epoch.
    pub model: LinkModel<B>,
    /// The model's settings.
    pub config: LinkModelConfig,
    /// The embeddings that the model reads.
    pub embeddings: Embeddings,
    /// The model's validation and test results.
    pub result: LinkResult,
}

/// The model of the best epoch so far.
struct Best {
    epoch: u64,
    scores: LinkScores,
    parameters: Vec<f32>,
    shards: EmbeddingShards,
}

/// Trains a model to distinguish edges from negative pairs on this rank's share of the training edges, and tests the
/// model of the best validation epoch. Every rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Options that do not match the graph, a failure of the job, or a loss that is not finite.
pub fn train_link<B>(
    node: &Arc<SamplingNode>,
    config: &LinkTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn LinkObserver<B::InnerBackend>,
) -> Result<TrainedLinkModel<B::InnerBackend>, TrainError>
where
    B: AutodiffBackend + GnnBackend,
    B::InnerBackend: GnnBackend + Backend<Device = B::Device>,
{
    let invalid = |what: String| TrainError::Config { what };
    let training = &config.training;
    if config.in_batch_negatives && (training.sampler.disjoint || training.sampler.temporal.is_some()) {
        let what = "in-batch negatives cannot be combined with disjoint or temporal sampling, where each edge has its \
             own neighborhood: leave out --in-batch-negatives, or --disjoint and --time-attr";
        return Err(invalid(what.into()));
    }
    let model_config = link_model_config(node.part().meta(), config)?;
    let schema = Arc::new(model_config.encoder.graph.clone());
    let embedded = EmbeddedNodes { node, schema: &schema, dim: training.hidden_channels };
    check_model_memory::<B>(model_config.num_parameters(), Some(embedded), world)?;
    let mut model: LinkModel<B> = model_config.init(training.seed, device).map_err(|e| invalid(e.to_string()))?;
    let mut optimizer = adam::<B, LinkModel<B>>(training.weight_decay);
    let mut embeddings = Embeddings::new(node, &schema, training.hidden_channels, training.seed)?;
    observer.started(ParameterCount {
        model: num_trained_parameters(&model) as u64,
        embeddings: num_embedding_values(node, &schema, training.hidden_channels),
    });
    let options = BatchOptions { precision: training.device_memory.precision, ..options(&model_config, true) };
    let memory = training.device_memory;
    // The edges come first: counting the frequencies of nodes below already samples on the device, and the features get
    // the rest of the memory.
    let left = memory.hold_edges::<B>(node, device)?;
    let mut loader = training_loader(node, config, options, world)?;
    let count = |batches| loader.hotness(0, batches);
    let cache = memory.hold_features::<B>(node, count, (left, training.normalize_features), device)?;
    if let Some(cache) = &cache {
        loader = loader.with_cache(cache.rows().clone());
    }
    if loader.total_seeds() == 0 {
        return Err(invalid(format!("dataset {} has no edges to train on", node.part().meta().dataset)));
    }
    let evaluation = Evaluation::new(node, &schema, self::options(&model_config, false), config, world)?;
    let mut best: Option<Best> = None;
    for epoch in 0..training.num_epochs {
        let mut clock = EpochClock::start(loader.sampler());
        let mut totals = SeedTotals::default();
        let on = device.clone();
        let of = Arc::clone(&schema);
        let in_batch = config.in_batch_negatives;
        let kept = cache.clone();
        let mut batches = loader.epoch_map(epoch, move |batch| {
            LinkTensorBatch::<B>::new(batch, &of, options, in_batch, kept.as_ref(), &on)
        });
        for number in 0..loader.num_steps() {
            let Some(batch) = clock.steps.waiting(|| batches.next()) else { break };
            let key = DropoutKey::new(training.seed, epoch, number as u64).for_rank(world.rank() as u64);
            let gradients = step(&model, &mut embeddings, batch??, config, Mode::Train(key), device, world)?;
            clock.steps.compute += gradients.compute;
            clock.steps.exchange += gradients.allreduce;
            // The loss is summed over all ranks, so all of them stop at the same step.
            if !gradients.totals.loss.is_finite() {
                return Err(TrainError::NotFinite { epoch, step: number, loss: gradients.totals.loss });
            }
            totals.add(&gradients.totals);
            let start = Instant::now();
            let gradients = gradients.of_model(&model).map_err(|e| invalid(e.to_string()))?;
            model = optimizer.step(training.lr, model, gradients);
            clock.steps.compute += start.elapsed();
            observer.step(epoch + 1, number + 1, loader.num_steps());
        }
        let loss = totals.mean_loss();
        let train_acc = totals.accuracy();
        let mut report = LinkEpochReport { epoch: epoch + 1, loss, train_acc, valid: None, cost: clock.stop(world)? };
        let start = Instant::now();
        if epoch + 1 == training.num_epochs || (epoch + 1) % training.eval_every.max(1) == 0 {
            let scores = evaluation.run(Split::Valid, &model.valid(), &embeddings, device, world)?;
            report.valid = Some(scores);
            let better = |best: &Best| scores.get(config.metric) > best.scores.get(config.metric);
            let last = epoch + 1 == training.num_epochs;
            // If the metric is never defined, the last epoch is the best.
            if (last || scores.get(config.metric).is_some()) && best.as_ref().is_none_or(better) {
                let improved = Improved {
                    epoch: epoch + 1,
                    metric: config.metric.to_string(),
                    valid_metric: scores.get(config.metric),
                    model: &model.valid(),
                    config: &model_config,
                    embeddings: &embeddings,
                };
                observer.improved(&improved, world)?;
                let parameters = flatten_parameters(&model.valid());
                let mut shards = best.take().map(|best| best.shards).unwrap_or_default();
                embeddings.copy_shards(&mut shards);
                best = Some(Best { epoch: epoch + 1, scores, parameters, shards });
            }
        }
        report.cost.eval_seconds = start.elapsed().as_secs_f64();
        observer.epoch(&report)?;
    }
    let mut model = model.valid();
    let mut best_epoch = 0;
    let mut valid = LinkScores::default();
    if let Some(best) = best {
        model = load_parameters(model, &best.parameters).map_err(|e| invalid(e.to_string()))?;
        best_epoch = best.epoch;
        valid = best.scores;
        // The first barrier ends all reads of the last epoch's rows; the second one ensures that all ranks have
        // restored their rows before any rank reads.
        world.barrier()?;
        embeddings.restore(&best.shards);
        world.barrier()?;
    }
    let test = evaluation.run(Split::Test, &model, &embeddings, device, world)?;
    let result = LinkResult { best_epoch, metric: config.metric, valid, test };
    Ok(TrainedLinkModel { model, config: model_config, embeddings, result })
}

/// Evaluates a trained model and its embeddings on the validation and test edges. Every rank calls this function.
///
/// # Errors
/// A model that does not match the graph or the options, or a failure of the job.
pub fn evaluate_link<'a, B: GnnBackend>(
    node: &Arc<SamplingNode>,
    config: &LinkTrainingConfig,
    model: &LinkModel<B>,
    model_config: &LinkModelConfig,
    saved: impl Into<EmbeddingSource<'a>>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<LinkResult, TrainError> {
    let fail = |what: String| Err(TrainError::Config { what });
    let asked = link_model_config(node.part().meta(), config)?;
    if let Some(what) = model_config.encoder.graph.difference(&asked.encoder.graph) {
        return fail(format!("the model was trained for another graph: this graph has {what}"));
    }
    if model_config.encoder.num_layers != asked.encoder.num_layers {
        let has = model_config.encoder.num_layers;
        let given = asked.encoder.num_layers;
        return fail(format!("the model has {has} layers, but --num-neighbors has {given} fan-outs: make them equal"));
    }
    let schema = Arc::new(asked.encoder.graph);
    let mut embeddings = Embeddings::new(node, &schema, model_config.encoder.hidden_channels, config.training.seed)?;
    embeddings.load(saved)?;
    let evaluation = Evaluation::new(node, &schema, options(model_config, false), config, world)?;
    world.barrier()?;
    let valid = evaluation.run(Split::Valid, model, &embeddings, device, world)?;
    let test = evaluation.run(Split::Test, model, &embeddings, device, world)?;
    Ok(LinkResult { best_epoch: 0, metric: config.metric, valid, test })
}

fn options(model: &LinkModelConfig, for_training: bool) -> BatchOptions {
    let encoder = crate::models::ModelConfig::Relational(model.encoder.clone());
    BatchOptions { labels: false, ..BatchOptions::of_model(&encoder, for_training) }
}

fn training_loader(
    node: &Arc<SamplingNode>,
    config: &LinkTrainingConfig,
    options: BatchOptions,
    world: &mut ProcessGroup,
) -> Result<DistLinkNeighborLoader, TrainError> {
    let training = &config.training;
    let meta = node.part().meta();
    let sampler = Arc::new(DistNeighborSampler::new(node.clone(), training.sampler.clone())?);
    let loader_config = training.train_loader(options.wanted());
    let reverse_types = reverse_edge_types(meta, config)?;
    let link = LinkConfig { negatives: config.negatives, exclude_seed_edges: true, reverse_types };
    let seeds = EdgeSeeds::Split(Split::Train, target_edge_types(meta, config)?);
    Ok(DistLinkNeighborLoader::new(sampler, seeds, loader_config, link, world)?)
}
