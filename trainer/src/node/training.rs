//! Data-parallel training and evaluation of node classification.

use super::config::{NodeTrainingConfig, check_fit, check_num_classes, model_config, seed_type};
use super::report::{EpochReport, Observer};
use crate::batch_input::{BatchOptions, cached_tensor_batches, tensor_batches};
use crate::classification_result::{ClassificationResult, Judged};
use crate::data_parallel::{SeedTotals, evaluate_metric, step_with_embeddings};
use crate::embeddings::{EmbeddingShards, EmbeddingSource, Embeddings};
use crate::epoch_clock::EpochClock;
use crate::gradients::{flatten_parameters, load_parameters, num_trained_parameters};
use crate::improved::Improved;
use crate::metrics::Metric;
use crate::models::{GraphSchema, Mode, ModelConfig, NodeModel};
use crate::ops::{DropoutKey, GnnBackend};
use crate::optimizer::adam;
use crate::parameter_count::{EmbeddedNodes, ParameterCount, check_model_memory, num_embedding_values};
use crate::train_error::TrainError;
use burn::module::AutodiffModule;
use burn::optim::Optimizer;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistNeighborLoader, Seeds};
use edgecut_dist_sampler::{DistNeighborSampler, SamplingNode};
use edgecut_graph::{NodeTypeId, Split};
use std::sync::Arc;
use std::time::Instant;

/// The result of training a node classifier.
pub struct TrainedNodeModel<B: Backend> {
    /// The model of the best epoch.
    pub model: NodeModel<B>,
    /// The model's settings.
    pub config: ModelConfig,
    /// The embeddings that the model reads.
    pub embeddings: Embeddings,
    /// The model's validation and test results.
    pub result: ClassificationResult,
}

/// Trains a model on this rank's share of the training nodes, and tests the model of the best validation epoch. Every
/// rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Options that do not match the graph, a failure of the job, or a loss that is not finite.
pub fn train_node<B>(
    node: &Arc<SamplingNode>,
    config: &NodeTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<B::InnerBackend>,
) -> Result<TrainedNodeModel<B::InnerBackend>, TrainError>
where
    B: AutodiffBackend + GnnBackend,
    B::InnerBackend: GnnBackend + Backend<Device = B::Device>,
{
    let model_config = model_config(node, config)?;
    check_num_classes(node, world)?;
    let meta = node.part().meta();
    let invalid = |what: String| TrainError::Config { what };
    let data = Data::new(node)?;
    let embedded = match &model_config {
        ModelConfig::Stack(_) => None,
        ModelConfig::Relational(model) => {
            Some(EmbeddedNodes { node, schema: &data.schema, dim: model.hidden_channels })
        }
    };
    check_model_memory::<B>(model_config.num_parameters(), embedded, world)?;
    let mut model: NodeModel<B> =
        model_config.init(config.training.seed, device).map_err(|e| invalid(e.to_string()))?;
    let mut optimizer = adam::<B, NodeModel<B>>(config.training.weight_decay);
    let mut embeddings = embeddings_of(&data, &model_config, config.training.seed)?;
    let embedding_values = match &model_config {
        ModelConfig::Stack(_) => 0,
        ModelConfig::Relational(model) => num_embedding_values(node, &data.schema, model.hidden_channels),
    };
    observer.started(ParameterCount { model: num_trained_parameters(&model) as u64, embeddings: embedding_values });
    let precision = config.training.device_memory.precision;
    let options = BatchOptions { precision, ..BatchOptions::of_model(&model_config, true) };
    let memory = config.training.device_memory;
    // The edges come first: counting the frequencies of nodes below already samples on the device, and the features get
    // the rest of the memory.
    let left = memory.hold_edges::<B>(node, device)?;
    let mut loader = data.split_loader(config, Split::Train, options, world)?;
    let count = |batches| loader.hotness(0, batches);
    let cache = memory.hold_features::<B>(node, count, (left, config.training.normalize_features), device)?;
    if let Some(cache) = &cache {
        loader = loader.with_cache(cache.rows().clone());
    }
    if loader.total_seeds() == 0 {
        return Err(invalid(format!("dataset {} has no training nodes", meta.dataset)));
    }
    let evaluation = Evaluation::new(&data, config, &model_config, world)?;
    let mut best: Option<Best> = None;
    for epoch in 0..config.training.num_epochs {
        let mut clock = EpochClock::start(loader.sampler());
        let mut totals = SeedTotals::default();
        let mut batches = cached_tensor_batches::<B>(&loader, epoch, &data.schema, options, cache.as_ref(), device);
        for step in 0..loader.num_steps() {
            let Some(batch) = clock.steps.waiting(|| batches.next()) else { break };
            // A key per rank and step: ranks need different masks, and a run with the same seed must repeat them.
            let key = DropoutKey::new(config.training.seed, epoch, step as u64).for_rank(world.rank() as u64);
            let embedded = (&mut embeddings, config.training.embedding_lr);
            let gradients = step_with_embeddings(&model, embedded, batch??, Mode::Train(key), device, world)?;
            clock.steps.compute += gradients.compute;
            clock.steps.exchange += gradients.allreduce;
            // The loss is summed over all ranks, so all of them stop at the same step.
            if !gradients.totals.loss.is_finite() {
                return Err(TrainError::NotFinite { epoch, step, loss: gradients.totals.loss });
            }
            totals.add(&gradients.totals);
            let start = Instant::now();
            let gradients = gradients.of_model(&model).map_err(|e| invalid(e.to_string()))?;
            model = optimizer.step(config.training.lr, model, gradients);
            clock.steps.compute += start.elapsed();
            observer.step(epoch + 1, step + 1, loader.num_steps());
        }
        let mut report = EpochReport {
            epoch: epoch + 1,
            loss: totals.mean_loss(),
            train_acc: totals.accuracy(),
            valid_acc: None,
            metric: config.metric,
            valid_metric: None,
            cost: clock.stop(world)?,
        };
        let start = Instant::now();
        let last = epoch + 1 == config.training.num_epochs;
        if last || (epoch + 1) % config.training.eval_every.max(1) == 0 {
            let valid = evaluation.run(Split::Valid, &model.valid(), &embeddings, world, device)?;
            (report.valid_acc, report.valid_metric) = (valid.accuracy, valid.metric);
            // Without validation nodes, the last epoch is the best.
            let better = match valid.metric {
                Some(_) => best.as_ref().is_none_or(|best| valid.metric > best.valid.metric),
                None => last && best.is_none(),
            };
            if better {
                let improved = Improved {
                    epoch: epoch + 1,
                    metric: config.metric.to_string(),
                    valid_metric: valid.metric,
                    model: &model.valid(),
                    config: &model_config,
                    embeddings: &embeddings,
                };
                observer.improved(&improved, world)?;
                let parameters = flatten_parameters(&model.valid());
                // Reuses the memory of the previous best, since embeddings may be large.
                let mut shards = best.take().map(|best| best.shards).unwrap_or_default();
                embeddings.copy_shards(&mut shards);
                best = Some(Best { epoch: epoch + 1, valid, parameters, shards });
            }
        }
        report.cost.eval_seconds = start.elapsed().as_secs_f64();
        observer.epoch(&report)?;
    }
    let mut model = model.valid();
    let mut best_epoch = 0;
    let mut valid = Judged::default();
    if let Some(best) = best {
        model = load_parameters(model, &best.parameters).map_err(|e| invalid(e.to_string()))?;
        best_epoch = best.epoch;
        valid = best.valid;
        // The first barrier ends all reads of the last epoch's rows; the second one ensures that all ranks have
        // restored their rows before any rank reads.
        world.barrier()?;
        embeddings.restore(&best.shards);
        world.barrier()?;
    }
    let test = evaluation.run(Split::Test, &model, &embeddings, world, device)?;
    let result = ClassificationResult::new(best_epoch, config.metric, valid, test);
    Ok(TrainedNodeModel { model, config: model_config, embeddings, result })
}

/// Evaluates a trained model and its embeddings on the validation and test nodes. Every rank calls this function.
///
/// # Errors
/// A model that does not match the graph or the options, or a failure of the job.
pub fn evaluate_node<'a, B: GnnBackend>(
    node: &Arc<SamplingNode>,
    config: &NodeTrainingConfig,
    model: &NodeModel<B>,
    model_config: &ModelConfig,
    saved: impl Into<EmbeddingSource<'a>>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<ClassificationResult, TrainError> {
    check_fit(node, config, model_config)?;
    check_num_classes(node, world)?;
    let data = Data::new(node)?;
    let mut embeddings = embeddings_of(&data, model_config, config.training.seed)?;
    embeddings.load(saved)?;
    let evaluation = Evaluation::new(&data, config, model_config, world)?;
    let valid = evaluation.run(Split::Valid, model, &embeddings, world, device)?;
    let test = evaluation.run(Split::Test, model, &embeddings, world, device)?;
    Ok(ClassificationResult::new(0, config.metric, valid, test))
}

/// Creates the embeddings that a model reads. A collective must follow before any rank reads them.
fn embeddings_of(data: &Data<'_>, model: &ModelConfig, seed: u64) -> Result<Embeddings, TrainError> {
    match model {
        ModelConfig::Stack(_) => Ok(Embeddings::default()),
        ModelConfig::Relational(model) => Embeddings::new(data.node, &data.schema, model.hidden_channels, seed),
    }
}

/// The part of this rank, and the types of its graph.
struct Data<'a> {
    node: &'a Arc<SamplingNode>,
    schema: Arc<GraphSchema>,
    seed_type: NodeTypeId,
}

impl<'a> Data<'a> {
    fn new(node: &'a Arc<SamplingNode>) -> Result<Self, TrainError> {
        let meta = node.part().meta();
        let schema = GraphSchema::new(meta).map_err(|e| TrainError::Config { what: e.to_string() })?;
        Ok(Self { node, schema: Arc::new(schema), seed_type: seed_type(meta)? })
    }

    /// Returns the loader of one split: shuffled for training, in order for evaluation.
    fn split_loader(
        &self,
        config: &NodeTrainingConfig,
        split: Split,
        options: BatchOptions,
        world: &mut ProcessGroup,
    ) -> Result<DistNeighborLoader, TrainError> {
        let training = &config.training;
        let (sampler_config, loader_config) = match split {
            Split::Train => (training.sampler.clone(), training.train_loader(options.wanted())),
            _ => (training.eval_sampler(), training.eval_loader(options.wanted())),
        };
        let sampler = Arc::new(DistNeighborSampler::new(self.node.clone(), sampler_config)?);
        Ok(DistNeighborLoader::new(sampler, self.seed_type, Seeds::Split(split), loader_config, world)?)
    }
}

/// The model of the best epoch so far.
struct Best {
    epoch: u64,
    valid: Judged,
    parameters: Vec<f32>,
    shards: EmbeddingShards,
}

/// The evaluation of models on the validation and test nodes.
struct Evaluation {
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    metric: Metric,
    num_classes: usize,
    valid: DistNeighborLoader,
    test: DistNeighborLoader,
}

impl Evaluation {
    fn new(
        data: &Data<'_>,
        config: &NodeTrainingConfig,
        model_config: &ModelConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let precision = config.training.device_memory.precision;
        let options = BatchOptions { precision, ..BatchOptions::of_model(model_config, false) };
        Ok(Self {
            schema: Arc::clone(&data.schema),
            options,
            metric: config.metric,
            num_classes: data.node.part().meta().node_types[data.seed_type.index()].num_classes,
            valid: data.split_loader(config, Split::Valid, options, world)?,
            test: data.split_loader(config, Split::Test, options, world)?,
        })
    }

    /// Evaluates a model on one split over all ranks. Each node counts once.
    fn run<B: GnnBackend>(
        &self,
        split: Split,
        model: &NodeModel<B>,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> Result<Judged, TrainError> {
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let batches = tensor_batches(loader, 0, &self.schema, self.options, device);
        let (totals, metric) =
            evaluate_metric(model, embeddings, batches, (self.metric, self.num_classes), device, world)?;
        Ok(Judged { accuracy: totals.accuracy(), metric })
    }
}
