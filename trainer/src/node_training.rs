//! Node classification, data-parallel.

use crate::batch_input::{BatchOptions, tensor_batches};
use crate::data_parallel::{SeedTotals, evaluate_metric, step_gradients};
use crate::gradients::{flatten_parameters, load_parameters};
use crate::metrics::Metric;
use crate::models::{
    GraphSchema, Mode, ModelConfig, ModelKind, NodeModel, NodeModelConfig, RelationalConfig, RelationalOutput,
};
use crate::nn::RelationAggregation;
use crate::ops::{DropoutKey, GnnBackend};
use crate::train_error::TrainError;
use burn::module::AutodiffModule;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistNeighborSampler, NumNeighbors, SamplerConfig, SamplingNode};
use edgecut_graph::{Meta, NodeTypeId, Split};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Mixed into the run's seed for evaluation, so that it draws other neighborhoods than training does.
const EVALUATION_SEED: u64 = 0x6576_616c;

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
    /// Whether a layer's output is added to its input.
    pub residual: bool,
    /// Whether a layer's input is normalised.
    pub layer_norm: bool,
    /// How a node combines what it hears over several edge types.
    pub relation_aggregation: RelationAggregation,
    /// A fan-out per layer and edge type, the hop nearest to the seeds first.
    pub num_neighbors: NumNeighbors,
    /// The fan-outs of validation and test.
    pub eval_num_neighbors: NumNeighbors,
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
    /// What chooses the epoch.
    pub metric: Metric,
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
    /// What chooses the epoch.
    pub metric: Metric,
    /// This metric on the validation nodes, in epochs that validate.
    pub valid_metric: Option<f64>,
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
    /// The epoch with the best metric on the validation nodes, counted from 1; the last one without validation nodes; 0 where
    /// nothing was trained.
    pub best_epoch: u64,
    /// Its validation accuracy.
    pub valid_acc: Option<f64>,
    /// Accuracy on the test nodes with that epoch's model.
    pub test_acc: Option<f64>,
    /// What chose the epoch.
    pub metric: Metric,
    /// This metric on the validation nodes.
    pub valid_metric: Option<f64>,
    /// This metric on the test nodes.
    pub test_metric: Option<f64>,
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
    fn improved(&mut self, model: &NodeModel<B>, config: &ModelConfig) -> std::io::Result<()>;
}

/// The type of the seeds: the only one with training nodes, or else with labels.
///
/// # Errors
/// [`TrainError::Config`] if no node type has labels, or several have.
pub fn seed_type(meta: &Meta) -> Result<NodeTypeId, TrainError> {
    let labelled = meta.node_types.iter().enumerate().filter(|(_, nodes)| nodes.has_labels && nodes.num_classes > 0);
    let labelled: Vec<_> = labelled.map(|(t, nodes)| (NodeTypeId(t as u16), nodes)).collect();
    let trained: Vec<_> = labelled.iter().filter(|(_, nodes)| nodes.split_sizes[0] > 0).collect();
    let what = match (&trained[..], &labelled[..]) {
        ([(only, _)], _) | ([], [(only, _)]) => return Ok(*only),
        (_, []) => "its nodes have no labels to train on".to_owned(),
        (_, several) => {
            let names = several.iter().map(|(_, nodes)| nodes.name.as_str()).collect::<Vec<_>>().join(", ");
            format!("its node types {names} have labels, train node takes graphs where one type has")
        }
    };
    Err(TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) })
}

/// The model that `config` describes for the graph of `node`: a stack of convolutions for a homogeneous graph, unless it has
/// residuals, layer norm or is an R-GCN; else a network over typed edges.
///
/// # Errors
/// [`TrainError::Config`] if the graph lacks features or labels, or settings fit neither it nor each other.
pub fn model_config(node: &SamplingNode, config: &NodeTrainingConfig) -> Result<ModelConfig, TrainError> {
    let meta = node.part().meta();
    let fail = |what: String| TrainError::Config { what: format!("dataset {}: {what}", meta.dataset) };
    let graph = GraphSchema::new(meta).map_err(|e| fail(e.to_string()))?;
    let is_relational = config.residual || config.layer_norm || matches!(config.kind, ModelKind::Rgcn { .. });
    let (layers, hidden) = (config.num_neighbors.num_hops(), config.hidden_channels);
    if graph.is_homogeneous() && graph.node_types[0].feature_dim == 0 {
        return Err(fail("its nodes have no features to train on".into()));
    }
    let node_type = seed_type(meta)?;
    let classes = meta.node_types[node_type.index()].num_classes;
    let model: ModelConfig = if graph.is_homogeneous() && !is_relational {
        NodeModelConfig::new(config.kind, graph.node_types[0].feature_dim, hidden, classes, layers)
            .with_dropout(config.dropout)
            .with_input_dropout(config.input_dropout)
            .with_normalize_features(config.normalize_features)
            .into()
    } else {
        let output = RelationalOutput { node_type, channels: classes };
        RelationalConfig {
            relation_aggregation: config.relation_aggregation,
            residual: config.residual,
            layer_norm: config.layer_norm,
            dropout: config.dropout,
            input_dropout: config.input_dropout,
            normalize_features: config.normalize_features,
            ..RelationalConfig::new(config.kind, graph, output, hidden, layers)
        }
        .into()
    };
    model.validate().map_err(|e| fail(e.to_string()))?;
    match config.metric.problem(classes) {
        Some(what) => Err(fail(what)),
        None => Ok(model),
    }
}

/// Fails if a node type has to have embeddings, which nothing here learns.
fn check_features(model: &ModelConfig, dataset: &str) -> Result<(), TrainError> {
    let ModelConfig::Relational(config) = model else { return Ok(()) };
    let names = config.graph.embedded_types().join(", ");
    if names.is_empty() {
        return Ok(());
    }
    let what = format!(
        "dataset {dataset}: node types without features ({names}) need learnable embeddings, which train node does not \
         have yet: give them features"
    );
    Err(TrainError::Config { what })
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
) -> Result<(NodeModel<B::InnerBackend>, ModelConfig, NodeResult), TrainError>
where
    B: AutodiffBackend + GnnBackend,
    B::InnerBackend: GnnBackend + Backend<Device = B::Device>,
{
    let model_config = model_config(node, config)?;
    let meta = node.part().meta();
    check_features(&model_config, &meta.dataset)?;
    let invalid = |what: String| TrainError::Config { what };
    let mut model: NodeModel<B> = model_config.init(config.seed, device).map_err(|e| invalid(e.to_string()))?;
    let decay = (config.weight_decay > 0.0).then(|| WeightDecayConfig::new(config.weight_decay as f32));
    let mut optimizer = AdamConfig::new().with_epsilon(1e-8).with_weight_decay(decay).init::<B, NodeModel<B>>();
    let data = Data::new(node)?;
    let options = BatchOptions::of_model(&model_config, true);
    let loader = data.split_loader(config, Split::Train, options, world)?;
    if loader.total_seeds() == 0 {
        return Err(invalid(format!("dataset {} has no training nodes", meta.dataset)));
    }
    let evaluation = Evaluation::new(&data, config, &model_config, world)?;
    let mut best: Option<Best> = None;
    for epoch in 0..config.num_epochs {
        let mut clock = EpochClock::start(node);
        let mut totals = SeedTotals::default();
        let mut batches = tensor_batches::<B>(&loader, epoch, &data.schema, options, device);
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
        let mut report = clock.stop(epoch + 1, &totals, config.metric, world)?;
        let start = Instant::now();
        let last = epoch + 1 == config.num_epochs;
        if last || (epoch + 1) % config.eval_every.max(1) == 0 {
            let valid = evaluation.run(Split::Valid, &model.valid(), world, device)?;
            (report.valid_acc, report.valid_metric) = (valid.accuracy, valid.metric);
            if best.as_ref().is_none_or(|best| valid.metric > best.valid.metric || valid.metric.is_none()) {
                observer.improved(&model.valid(), &model_config)?;
                best = Some(Best { epoch: epoch + 1, valid, parameters: flatten_parameters(&model.valid()) });
            }
        }
        report.eval_seconds = start.elapsed().as_secs_f64();
        observer.epoch(&report)?;
    }
    let mut model = model.valid();
    let (mut best_epoch, mut valid) = (0, Judged::default());
    if let Some(best) = best {
        model = load_parameters(model, &best.parameters).map_err(|e| invalid(e.to_string()))?;
        (best_epoch, valid) = (best.epoch, best.valid);
    }
    let test = evaluation.run(Split::Test, &model, world, device)?;
    Ok((model, model_config, NodeResult::new(best_epoch, config.metric, valid, test)))
}

/// Evaluates a trained model on the validation and test nodes.
///
/// # Errors
/// A model that does not fit the graph or the options, or a failure of the job.
pub fn evaluate_node<B: GnnBackend>(
    node: &Arc<SamplingNode>,
    config: &NodeTrainingConfig,
    model: &NodeModel<B>,
    model_config: &ModelConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<NodeResult, TrainError> {
    check_fit(node, config, model_config)?;
    check_features(model_config, &node.part().meta().dataset)?;
    let evaluation = Evaluation::new(&Data::new(node)?, config, model_config, world)?;
    let valid = evaluation.run(Split::Valid, model, world, device)?;
    let test = evaluation.run(Split::Test, model, world, device)?;
    Ok(NodeResult::new(0, config.metric, valid, test))
}

/// Fails unless a saved model is one for this graph and these fan-outs.
fn check_fit(node: &SamplingNode, config: &NodeTrainingConfig, model: &ModelConfig) -> Result<(), TrainError> {
    let fail = |what: String| Err(TrainError::Config { what });
    // What the model was made with counts, not what is asked for now.
    let (kind, hidden_channels, residual) = match model {
        ModelConfig::Stack(model) => (model.kind, model.hidden_channels, false),
        ModelConfig::Relational(model) => (model.kind, model.hidden_channels, true),
    };
    let asked = NodeTrainingConfig { kind, hidden_channels, residual, layer_norm: false, ..config.clone() };
    match (self::model_config(node, &asked)?, model) {
        (ModelConfig::Stack(expected), ModelConfig::Stack(model)) => {
            let fit = |c: &NodeModelConfig| (c.in_channels, c.num_classes, c.num_layers);
            if fit(&expected) == fit(model) {
                return Ok(());
            }
            fail(format!(
                "the model takes {} features to {} classes in {} layers, but the graph and the fan-outs have {}, {} and {}",
                model.in_channels,
                model.num_classes,
                model.num_layers,
                expected.in_channels,
                expected.num_classes,
                expected.num_layers
            ))
        }
        (ModelConfig::Relational(expected), ModelConfig::Relational(model)) => {
            if let Some(what) = model.graph.difference(&expected.graph) {
                return fail(format!("the model is for another graph: this one has {what}"));
            }
            if (&model.outputs[..], model.num_layers) == (&expected.outputs[..], expected.num_layers) {
                return Ok(());
            }
            fail(format!(
                "the model computes {:?} in {} layers, but the graph and the fan-outs have {:?} and {}",
                model.outputs, model.num_layers, expected.outputs, expected.num_layers
            ))
        }
        _ => fail("the model takes graphs of one node type and one edge type, and this graph has more".into()),
    }
}

/// A part, and the types of its graph.
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

    /// The loader of one split: shuffled for training, in order for evaluation.
    fn split_loader(
        &self,
        config: &NodeTrainingConfig,
        split: Split,
        options: BatchOptions,
        world: &mut ProcessGroup,
    ) -> Result<DistNeighborLoader, TrainError> {
        let training = split == Split::Train;
        let num_neighbors = if training { &config.num_neighbors } else { &config.eval_num_neighbors };
        let sampler_config = SamplerConfig::new(num_neighbors.clone()).with_replacement(config.replace);
        let sampler = Arc::new(DistNeighborSampler::new(self.node.clone(), sampler_config)?);
        let loader_config = LoaderConfig {
            batch_size: config.batch_size,
            even_batches: training,
            shuffle: training,
            seed: if training { config.seed } else { config.seed ^ EVALUATION_SEED },
            concurrency: config.concurrency,
            wanted: options.wanted(),
        };
        Ok(DistNeighborLoader::new(sampler, self.seed_type, Seeds::Split(split), loader_config, world)?)
    }
}

/// How good a model is on a split.
#[derive(Clone, Copy, Default)]
struct Judged {
    accuracy: Option<f64>,
    metric: Option<f64>,
}

/// The model of the best epoch so far.
struct Best {
    epoch: u64,
    valid: Judged,
    parameters: Vec<f32>,
}

impl NodeResult {
    fn new(best_epoch: u64, metric: Metric, valid: Judged, test: Judged) -> Self {
        let (valid_acc, valid_metric) = (valid.accuracy, valid.metric);
        Self { best_epoch, valid_acc, test_acc: test.accuracy, metric, valid_metric, test_metric: test.metric }
    }
}

/// Evaluates models on validation and test nodes.
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
        let options = BatchOptions::of_model(model_config, false);
        Ok(Self {
            schema: Arc::clone(&data.schema),
            options,
            metric: config.metric,
            num_classes: data.node.part().meta().node_types[data.seed_type.index()].num_classes,
            valid: data.split_loader(config, Split::Valid, options, world)?,
            test: data.split_loader(config, Split::Test, options, world)?,
        })
    }

    /// Over all ranks, each node counted once.
    fn run<B: GnnBackend>(
        &self,
        split: Split,
        model: &NodeModel<B>,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> Result<Judged, TrainError> {
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let batches = tensor_batches(loader, 0, &self.schema, self.options, device);
        let (totals, metric) = evaluate_metric(model, batches, self.metric, self.num_classes, world)?;
        Ok(Judged { accuracy: totals.accuracy(), metric })
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
    fn stop(
        self,
        epoch: u64,
        totals: &SeedTotals,
        metric: Metric,
        world: &mut ProcessGroup,
    ) -> Result<EpochReport, TrainError> {
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
            metric,
            valid_metric: None,
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
