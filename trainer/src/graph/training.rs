//! Data-parallel training and evaluation of graph classification.

use super::batch::{GraphBatchOptions, graph_batches};
use super::config::GraphTrainingConfig;
use super::report::{GraphEpochReport, GraphObserver};
use crate::classification_result::{ClassificationResult, Judged};
use crate::data_parallel::{SeedTotals, run_evaluation, step_gradients};
use crate::embeddings::Embeddings;
use crate::epoch_clock::StepClock;
use crate::gradients::{
    flatten_parameters, flatten_statistics, load_parameters, load_statistics, num_trained_parameters,
};
use crate::improved::Improved;
use crate::metrics::MetricState;
use crate::models::{GraphConvKind, GraphNet, GraphNetConfig, Mode};
use crate::ops::{DropoutKey, GnnBackend};
use crate::optimizer::adam;
use crate::parameter_count::{ParameterCount, check_model_memory};
use crate::train_error::TrainError;
use burn::module::AutodiffModule;
use burn::optim::Optimizer;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::{GraphDataLoader, GraphLoaderConfig, Packing};
use edgecut_graph::GraphDataset;
use std::sync::Arc;
use std::time::Instant;

/// The training, validation and test graphs, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphSplit {
    /// The graphs to train on.
    pub train: Vec<u32>,
    /// The graphs that select the best epoch. If empty, the last epoch is the best.
    pub valid: Vec<u32>,
    /// The graphs that are evaluated once, at the end.
    pub test: Vec<u32>,
}

/// The result of training a graph classifier.
pub struct TrainedGraphModel<B: Backend> {
    /// The model of the best epoch.
    pub model: GraphNet<B>,
    /// The model's settings.
    pub config: GraphNetConfig,
    /// The model's validation and test results.
    pub result: ClassificationResult,
    /// The metric on the validation graphs after each epoch.
    pub history: Vec<Option<f64>>,
}

/// Trains a model on this rank's share of the training graphs, and tests the model of the best validation epoch. Every
/// rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Options that do not match the graphs, more ranks than training graphs, a failure of the job, or a loss that is not
/// finite.
pub fn train_graph<B>(
    graphs: &Arc<GraphDataset>,
    split: &GraphSplit,
    config: &GraphTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn GraphObserver<B::InnerBackend>,
) -> Result<TrainedGraphModel<B::InnerBackend>, TrainError>
where
    B: AutodiffBackend + GnnBackend,
    B::InnerBackend: GnnBackend + Backend<Device = B::Device>,
{
    let model_config = config.model_config(graphs)?;
    let invalid = |what: String| TrainError::Config { what };
    check_share(graphs, split, world)?;
    check_model_memory::<B>(model_config.num_parameters(), None, world)?;
    let mut model: GraphNet<B> = model_config.init(config.seed, device).map_err(|e| invalid(e.to_string()))?;
    let mut optimizer = adam::<B, GraphNet<B>>(config.weight_decay);
    observer.started(ParameterCount { model: num_trained_parameters(&model) as u64, embeddings: 0 });
    let gcn_norm = config.conv == GraphConvKind::Gcn;
    let options = GraphBatchOptions { gcn_norm, for_training: true, ..GraphBatchOptions::default() };
    let loader = loader(graphs, &split.train, config.train_loader(), world)?;
    let evaluation = Evaluation::new(graphs, split, config, world)?;
    let mut best: Option<Best> = None;
    let mut history = Vec::new();
    for epoch in 0..config.num_epochs {
        let mut clock = StepClock::start();
        let mut totals = SeedTotals::default();
        let num_steps = loader.num_steps(epoch);
        if num_steps == 0 {
            return Err(invalid(no_step(split, config, world)));
        }
        let mut own_batches = 0;
        let mut batches = graph_batches::<B>(&loader, epoch, options, device);
        for step in 0..num_steps {
            let Some(batch) = clock.waiting(|| batches.next()) else { break };
            let key = DropoutKey::new(config.seed, epoch, step as u64).for_rank(world.rank() as u64);
            let batch = batch??;
            // A rank may have no graphs in a step. Only batches with graphs update the running statistics.
            own_batches += u64::from(batch.input().is_some());
            let gradients = step_gradients(&model, batch, Mode::Train(key), world)?;
            clock.compute += gradients.compute;
            clock.exchange += gradients.allreduce;
            // The loss is summed over all ranks, so all of them stop at the same step.
            if !gradients.totals.loss.is_finite() {
                return Err(TrainError::NotFinite { epoch, step, loss: gradients.totals.loss });
            }
            totals.add(&gradients.totals);
            let start = Instant::now();
            let gradients = gradients.of_model(&model).map_err(|e| invalid(e.to_string()))?;
            model = optimizer.step(config.lr_of(epoch), model, gradients);
            clock.compute += start.elapsed();
            observer.step(epoch + 1, step + 1, num_steps);
        }
        model = average_statistics(model, own_batches, world)?;
        let [seconds, wait_seconds, compute_seconds, allreduce_seconds] = clock.stop(world)?;
        let start = Instant::now();
        let last = epoch + 1 == config.num_epochs;
        let valid = evaluation.run(&evaluation.valid, &model.valid(), world, device)?;
        if valid.metric.is_none() && !split.valid.is_empty() {
            let metric = config.metric;
            return Err(invalid(format!(
                "metric {metric} is not defined on the validation graphs: use --metric accuracy"
            )));
        }
        // Without validation graphs, the last epoch is the best.
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
                embeddings: &Embeddings::default(),
            };
            observer.improved(&improved, world)?;
            best = Some(Best { epoch: epoch + 1, valid, parameters: flatten_parameters(&model.valid()) });
        }
        history.push(valid.metric);
        observer.epoch(&GraphEpochReport {
            fold: None,
            epoch: epoch + 1,
            loss: totals.mean_loss(),
            train_acc: totals.accuracy(),
            valid_acc: valid.accuracy,
            metric: config.metric,
            valid_metric: valid.metric,
            graphs: totals.seeds as u64,
            seconds,
            wait_seconds,
            compute_seconds,
            allreduce_seconds,
            eval_seconds: start.elapsed().as_secs_f64(),
        })?;
    }
    let mut model = model.valid();
    let mut best_epoch = 0;
    let mut valid = Judged::default();
    if let Some(best) = best {
        model = load_parameters(model, &best.parameters).map_err(|e| invalid(e.to_string()))?;
        best_epoch = best.epoch;
        valid = best.valid;
    }
    let test = evaluation.run(&evaluation.test, &model, world, device)?;
    let result = ClassificationResult::new(best_epoch, config.metric, valid, test);
    Ok(TrainedGraphModel { model, config: model_config, result, history })
}

/// Evaluates a trained model on the validation and test graphs.
///
/// # Errors
/// A model that does not match the graphs, or a failure of the job.
pub fn evaluate_graph<B: GnnBackend>(
    graphs: &Arc<GraphDataset>,
    split: &GraphSplit,
    config: &GraphTrainingConfig,
    (model, model_config): (&GraphNet<B>, &GraphNetConfig),
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<ClassificationResult, TrainError> {
    let given = model_config;
    let expected = config.model_config(graphs)?;
    if (given.in_channels, given.num_classes) != (expected.in_channels, expected.num_classes) {
        let what = format!(
            "the model has {} features and {} classes, but the graphs of {} have {} and {}",
            given.in_channels,
            given.num_classes,
            graphs.name(),
            expected.in_channels,
            expected.num_classes
        );
        return Err(TrainError::Config { what });
    }
    let config = GraphTrainingConfig { conv: model_config.conv, ..config.clone() };
    let evaluation = Evaluation::new(graphs, split, &config, world)?;
    let valid = evaluation.run(&evaluation.valid, model, world, device)?;
    let test = evaluation.run(&evaluation.test, model, world, device)?;
    Ok(ClassificationResult::new(0, config.metric, valid, test))
}

/// Returns the model with the weighted mean of the running statistics of all ranks, so that all ranks have the same
/// again. The weight of a rank is `batches`, the number of batches that have updated its statistics since the last
/// call: the outdated statistics of a rank without batches do not count. Frozen parameters must be equal on all ranks.
///
/// # Errors
/// A failure of the job.
pub fn average_statistics<B: AutodiffBackend, M: AutodiffModule<B>>(
    model: M,
    batches: u64,
    world: &mut ProcessGroup,
) -> Result<M, TrainError> {
    let mut sums = flatten_statistics(&model);
    if world.size() == 1 || sums.is_empty() {
        return Ok(model);
    }
    let weight = batches as f32;
    sums.iter_mut().for_each(|value| *value *= weight);
    sums.push(weight);
    world.all_reduce(&mut sums, ReduceOp::Sum)?;
    match sums.pop() {
        Some(total) if total > 0.0 => {
            sums.iter_mut().for_each(|sum| *sum /= total);
            load_statistics(model, &sums).map_err(|e| TrainError::Config { what: e.to_string() })
        }
        _ => Ok(model),
    }
}

/// Returns the error message for an epoch without a step.
fn no_step(split: &GraphSplit, config: &GraphTrainingConfig, world: &ProcessGroup) -> String {
    let (graphs, packing, ranks) = (split.train.len(), config.packing, world.size());
    let batch = match packing {
        Packing::Graphs(size) => format!("{size} graphs"),
        Packing::Nodes(nodes) => format!("{nodes} nodes"),
    };
    format!(
        "{graphs} training graphs do not fill one step of {ranks} processes with {batch} each, and drop_last leaves \
         out incomplete steps: disable it, or use smaller batches"
    )
}

/// Checks that each rank has a training graph. A rank without one would only wait for the others.
fn check_share(graphs: &GraphDataset, split: &GraphSplit, world: &ProcessGroup) -> Result<(), TrainError> {
    let train = split.train.len();
    let ranks = world.size();
    let what = match train {
        0 => format!("dataset {}: there are no training graphs", graphs.name()),
        _ if train < ranks => format!(
            "dataset {}: {train} training graphs for {ranks} processes: start at most as many processes as there are graphs",
            graphs.name()
        ),
        _ => return Ok(()),
    };
    Err(TrainError::Config { what })
}

fn loader(
    graphs: &Arc<GraphDataset>,
    which: &[u32],
    config: GraphLoaderConfig,
    world: &ProcessGroup,
) -> Result<GraphDataLoader, TrainError> {
    Ok(GraphDataLoader::new(Arc::clone(graphs), which.to_vec(), config, world.rank(), world.size())?)
}

/// The model of the best epoch so far.
struct Best {
    epoch: u64,
    valid: Judged,
    parameters: Vec<f32>,
}

/// The evaluation of models on the validation and test graphs.
struct Evaluation<'a> {
    config: &'a GraphTrainingConfig,
    num_classes: usize,
    valid: GraphDataLoader,
    test: GraphDataLoader,
}

impl<'a> Evaluation<'a> {
    fn new(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &'a GraphTrainingConfig,
        world: &ProcessGroup,
    ) -> Result<Self, TrainError> {
        Ok(Self {
            config,
            num_classes: graphs.classes().len(),
            valid: loader(graphs, &split.valid, config.eval_loader(), world)?,
            test: loader(graphs, &split.test, config.eval_loader(), world)?,
        })
    }

    /// Evaluates a model on the graphs of one loader over all ranks. Each graph counts once.
    fn run<B: GnnBackend>(
        &self,
        loader: &GraphDataLoader,
        model: &GraphNet<B>,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> Result<Judged, TrainError> {
        let gcn_norm = self.config.conv == GraphConvKind::Gcn;
        let options = GraphBatchOptions { gcn_norm, ..GraphBatchOptions::default() };
        let batches = graph_batches::<B>(loader, 0, options, device);
        let mut state = MetricState::new(self.config.metric, self.num_classes);
        let totals = run_evaluation(model, batches, Ok, Some(&mut state), world)?;
        Ok(Judged { accuracy: totals.accuracy(), metric: state.over_all_ranks(world)? })
    }
}
