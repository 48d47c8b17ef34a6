//! Node classification, data-parallel.

use crate::batch_input::{BatchOptions, tensor_batches};
use crate::data_parallel::{SeedTotals, evaluate, step_gradients};
use crate::gradients::{flatten_parameters, load_parameters};
use crate::models::{Mode, ModelKind, NodeModel, NodeModelConfig};
use crate::ops::{DropoutKey, GnnBackend};
use crate::train_error::TrainError;
use burn::module::AutodiffModule;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistNeighborSampler, Fanout, SamplerConfig, SamplingNode};
use edgecut_graph::{NodeTypeId, Split};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Mixed into the run's seed for evaluation, so that it draws other neighborhoods than training does.
const EVALUATION_SEED: u64 = 0x6576_616c;
/// The only node type of a homogeneous graph.
const NODES: NodeTypeId = NodeTypeId(0);

/// What is trained, and how.
#[derive(Clone, Debug)]
pub struct NodeTrainingConfig {
    /// The model's kind.
    pub kind: ModelKind,
    /// Width of the hidden layers.
    pub hidden_channels: usize,
    /// Dropout between layers.
    pub dropout: f64,
    /// Dropout on the input features.
    pub input_dropout: f64,
    /// A fan-out per layer, the hop nearest to the seeds first.
    pub num_neighbors: Vec<Fanout>,
    /// The fan-outs of validation and test.
    pub eval_num_neighbors: Vec<Fanout>,
    /// Whether neighbors are drawn with replacement.
    pub replace: bool,
    /// Seeds per batch and rank, at most: a rank's seeds are spread evenly over the steps of an epoch.
    pub batch_size: usize,
    /// Epochs.
    pub num_epochs: u64,
    /// Adam's learning rate.
    pub lr: f64,
    /// L2 penalty on all parameters.
    pub weight_decay: f64,
    /// The seed of everything random.
    pub seed: u64,
    /// Batches that are made ahead of the trainer.
    pub concurrency: usize,
    /// Epochs between validations.
    pub eval_every: u64,
    /// Whether feature rows are divided by their sums.
    pub normalize_features: bool,
}

/// One epoch over all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Mean training loss over all seeds of all ranks.
    pub loss: Option<f64>,
    /// Accuracy on the training seeds while they were trained on.
    pub train_acc: Option<f64>,
    /// Accuracy on the validation nodes, in epochs that validate.
    pub valid_acc: Option<f64>,
    /// Wall-clock seconds of training, validation excluded; the slowest rank's, as the times below.
    pub seconds: f64,
    /// Seconds that the trainer waited for batches.
    pub sample_wait_seconds: f64,
    /// Seconds of forward, backward and optimizer.
    pub compute_seconds: f64,
    /// Seconds of the all-reduce, waiting for slower ranks included.
    pub allreduce_seconds: f64,
    /// Seconds of validation.
    pub eval_seconds: f64,
    /// Node features fetched from other parts, summed over ranks.
    pub remote_nodes: u64,
    /// Bytes received from other parts, summed over ranks.
    pub remote_bytes: u64,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeResult {
    /// The epoch with the best validation accuracy, counted from 1; the last one without validation nodes; 0 where nothing was trained.
    pub best_epoch: u64,
    /// Its validation accuracy.
    pub valid_acc: Option<f64>,
    /// Accuracy on the test nodes with that epoch's model.
    pub test_acc: Option<f64>,
}

/// Watches a run.
pub trait Observer<B: Backend> {
    /// `done` of `total` steps of `epoch` (counted from 1) are done.
    fn step(&mut self, epoch: u64, done: usize, total: usize);
    /// An epoch has ended.
    ///
    /// # Errors
    /// The report cannot be written; the run then ends.
    fn epoch(&mut self, report: &EpochReport) -> std::io::Result<()>;

    /// `model` is the best so far.
    ///
    /// # Errors
    /// The model cannot be saved; the run then ends.
    fn improved(&mut self, model: &NodeModel<B>, config: &NodeModelConfig) -> std::io::Result<()>;
}

/// The model that `config` describes for the graph of `node`.
///
/// # Errors
/// [`TrainError::Config`] if the graph is heterogeneous or lacks features or labels.
pub fn model_config(node: &SamplingNode, config: &NodeTrainingConfig) -> Result<NodeModelConfig, TrainError> {
    let meta = node.part().meta();
    let fail = |what: &str| Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) });
    let ([nodes], [_]) = (&meta.node_types[..], &meta.edge_types[..]) else {
        return fail("train node takes graphs with one node type and one edge type");
    };
    if nodes.feature_dim == 0 {
        return fail("its nodes have no features to train on");
    }
    if !nodes.has_labels || nodes.num_classes == 0 {
        return fail("its nodes have no labels to train on");
    }
    let (layers, dim, classes) = (config.num_neighbors.len(), nodes.feature_dim, nodes.num_classes);
    let model = NodeModelConfig::new(config.kind, dim, config.hidden_channels, classes, layers)
        .with_dropout(config.dropout)
        .with_input_dropout(config.input_dropout)
        .with_normalize_features(config.normalize_features);
    model.validate().map_err(|e| TrainError::Config { what: e.to_string() })?;
    Ok(model)
}

/// Trains a model on this rank's share of the training nodes, and tests the one of the best validation epoch. Every
/// rank calls it and gets the same model and the same result.
///
/// # Errors
/// Options that do not fit the graph, a failure of the job, or a loss that is not finite.
pub fn train_node<B>(
    node: &Arc<SamplingNode>,
    config: &NodeTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<B::InnerBackend>,
) -> Result<(NodeModel<B::InnerBackend>, NodeModelConfig, NodeResult), TrainError>
where
    B: AutodiffBackend + GnnBackend,
    B::InnerBackend: GnnBackend + Backend<Device = B::Device>,
{
    let model_config = model_config(node, config)?;
    let invalid = |what: String| TrainError::Config { what };
    let mut model: NodeModel<B> = model_config.init(config.seed, device).map_err(|e| invalid(e.to_string()))?;
    let decay = (config.weight_decay > 0.0).then(|| WeightDecayConfig::new(config.weight_decay as f32));
    let mut optimizer = AdamConfig::new().with_epsilon(1e-8).with_weight_decay(decay).init::<B, NodeModel<B>>();
    let options = BatchOptions::of_model(&model_config, true);
    let loader = split_loader(node, config, Split::Train, options, world)?;
    if loader.total_seeds() == 0 {
        return Err(invalid(format!("dataset {} has no training nodes", node.part().meta().dataset)));
    }
    let evaluation = Evaluation::new(node, config, &model_config, world)?;
    let mut best: Option<(u64, Option<f64>, Vec<f32>)> = None;
    for epoch in 0..config.num_epochs {
        let mut clock = EpochClock::start(node);
        let mut totals = SeedTotals::default();
        let mut batches = tensor_batches::<B>(&loader, epoch, options, device);
        for step in 0..loader.num_steps() {
            let Some(batch) = clock.waiting(|| batches.next()) else { break };
            let key = DropoutKey::new(config.seed, epoch, step as u64).for_rank(world.rank() as u64);
            let gradients = step_gradients(&model, batch??, Mode::Train(key), world)?;
            clock.compute += gradients.compute;
            clock.allreduce += gradients.allreduce;
            if !gradients.totals.loss.is_finite() {
                return Err(TrainError::NotFinite { epoch, step, loss: gradients.totals.loss });
            }
            totals.add(&gradients.totals);
            let start = Instant::now();
            let gradients = gradients.of_model(&model).map_err(|e| invalid(e.to_string()))?;
            model = optimizer.step(config.lr, model, gradients);
            clock.compute += start.elapsed();
            observer.step(epoch + 1, step + 1, loader.num_steps());
        }
        let mut report = clock.stop(epoch + 1, &totals, world)?;
        let start = Instant::now();
        let last = epoch + 1 == config.num_epochs;
        if last || (epoch + 1) % config.eval_every.max(1) == 0 {
            let valid = evaluation.run(Split::Valid, &model.valid(), world, device)?.accuracy();
            report.valid_acc = valid;
            if best.as_ref().is_none_or(|(_, best, _)| valid > *best || valid.is_none()) {
                observer.improved(&model.valid(), &model_config)?;
                best = Some((epoch + 1, valid, flatten_parameters(&model.valid())));
            }
        }
        report.eval_seconds = start.elapsed().as_secs_f64();
        observer.epoch(&report)?;
    }
    let mut model = model.valid();
    let (mut best_epoch, mut valid_acc) = (0, None);
    if let Some((epoch, valid, parameters)) = best {
        model = load_parameters(model, &parameters).map_err(|e| invalid(e.to_string()))?;
        (best_epoch, valid_acc) = (epoch, valid);
    }
    let test_acc = evaluation.run(Split::Test, &model, world, device)?.accuracy();
    Ok((model, model_config, NodeResult { best_epoch, valid_acc, test_acc }))
}

/// Evaluates a trained model on the validation and test nodes.
///
/// # Errors
/// A model that does not fit the graph or the options, or a failure of the job.
pub fn evaluate_node<B: GnnBackend>(
    node: &Arc<SamplingNode>,
    config: &NodeTrainingConfig,
    model: &NodeModel<B>,
    model_config: &NodeModelConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<NodeResult, TrainError> {
    let expected = self::model_config(node, &NodeTrainingConfig { kind: model_config.kind, ..config.clone() })?;
    let fit = |c: &NodeModelConfig| (c.in_channels, c.num_classes, c.num_layers);
    if fit(&expected) != fit(model_config) {
        let what = format!(
            "the model takes {} features to {} classes in {} layers, but the graph and the fan-outs have {}, {} and {}",
            model_config.in_channels,
            model_config.num_classes,
            model_config.num_layers,
            expected.in_channels,
            expected.num_classes,
            expected.num_layers
        );
        return Err(TrainError::Config { what });
    }
    let config = NodeTrainingConfig { kind: model_config.kind, ..config.clone() };
    let evaluation = Evaluation::new(node, &config, model_config, world)?;
    let valid_acc = evaluation.run(Split::Valid, model, world, device)?.accuracy();
    let test_acc = evaluation.run(Split::Test, model, world, device)?.accuracy();
    Ok(NodeResult { best_epoch: 0, valid_acc, test_acc })
}

/// The loader of one split: shuffled for training, in order for evaluation.
fn split_loader(
    node: &Arc<SamplingNode>,
    config: &NodeTrainingConfig,
    split: Split,
    options: BatchOptions,
    world: &mut ProcessGroup,
) -> Result<DistNeighborLoader, TrainError> {
    let training = split == Split::Train;
    let num_neighbors = if training { &config.num_neighbors } else { &config.eval_num_neighbors };
    let sampler_config = SamplerConfig::new(num_neighbors.clone()).with_replacement(config.replace);
    let sampler = Arc::new(DistNeighborSampler::new(node.clone(), sampler_config)?);
    let loader_config = LoaderConfig {
        batch_size: config.batch_size,
        even_batches: training,
        shuffle: training,
        seed: if training { config.seed } else { config.seed ^ EVALUATION_SEED },
        concurrency: config.concurrency,
        wanted: options.wanted(),
    };
    Ok(DistNeighborLoader::new(sampler, NODES, Seeds::Split(split), loader_config, world)?)
}

/// Loss and accuracy on validation and test nodes.
struct Evaluation {
    options: BatchOptions,
    valid: DistNeighborLoader,
    test: DistNeighborLoader,
}

impl Evaluation {
    fn new(
        node: &Arc<SamplingNode>,
        config: &NodeTrainingConfig,
        model_config: &NodeModelConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let options = BatchOptions::of_model(model_config, false);
        Ok(Self {
            options,
            valid: split_loader(node, config, Split::Valid, options, world)?,
            test: split_loader(node, config, Split::Test, options, world)?,
        })
    }

    /// Totals over all ranks, each node counted once.
    fn run<B: GnnBackend>(
        &self,
        split: Split,
        model: &NodeModel<B>,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> Result<SeedTotals, TrainError> {
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        evaluate(model, tensor_batches(loader, 0, self.options, device), world)
    }
}

/// Where an epoch's time and bytes go.
struct EpochClock<'a> {
    node: &'a SamplingNode,
    start: Instant,
    traffic: edgecut_dist_sampler::TrafficCount,
    wait: Duration,
    compute: Duration,
    allreduce: Duration,
}

impl<'a> EpochClock<'a> {
    fn start(node: &'a SamplingNode) -> Self {
        let (wait, compute, allreduce) = Default::default();
        Self { node, start: Instant::now(), traffic: node.traffic().count(), wait, compute, allreduce }
    }

    fn waiting<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = wait();
        self.wait += start.elapsed();
        value
    }

    /// The report over all ranks: the slowest rank's times, everyone's traffic.
    fn stop(self, epoch: u64, totals: &SeedTotals, world: &mut ProcessGroup) -> Result<EpochReport, TrainError> {
        let mut times = [self.start.elapsed(), self.wait, self.compute, self.allreduce].map(|t| t.as_secs_f64());
        world.all_reduce(&mut times, ReduceOp::Max)?;
        let traffic = self.node.traffic().count() - self.traffic;
        let mut counts = [traffic.remote_nodes, traffic.remote_bytes];
        world.all_reduce(&mut counts, ReduceOp::Sum)?;
        let [seconds, sample_wait_seconds, compute_seconds, allreduce_seconds] = times;
        let [remote_nodes, remote_bytes] = counts;
        Ok(EpochReport {
            epoch,
            loss: totals.mean_loss(),
            train_acc: totals.accuracy(),
            valid_acc: None,
            seconds,
            sample_wait_seconds,
            compute_seconds,
            allreduce_seconds,
            eval_seconds: 0.0,
            remote_nodes,
            remote_bytes,
        })
    }
}
