//! Predictions of several targets as a training task.

use super::config::{MultiTrainingConfig, check_training_nodes, heads};
use super::evaluator::{GraphTargets, MultiEvaluator, node_types};
use super::head::Head;
use super::outputs_of_type;
use super::target_label::KnownNodes;
use crate::batch_input::{BatchOptions, TensorBatch, tensor_batches_from};
use crate::embeddings::{Embeddings, PulledRows};
use crate::error::TrainError;
use crate::fit::{AutodiffTurn, BatchResult, Forward, StepGradients, Task, TrainingEpoch, backward_and_all_reduce};
use crate::loss::LossSum;
use crate::memory::feature_cache::FeatureCache;
use crate::models::{GraphSchema, Mode, ModelInput, Network};
use crate::objective::count_train_labels;
use crate::seed_task::task_fields;
use crate::step_options::StepOptions;
use crate::training_loader::TrainingLoader;
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::{DistNeighborLoader, EpochSegment, Seeds};
use edgecut_dist_sampler::{DistGraph, DistNeighborSampler};
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use edgecut_graph::{NodeTypeId, Split};
use std::sync::Arc;
use std::time::Instant;

/// Predictions of several targets of nodes by one [`Network`].
///
/// A step has a batch of each node type with targets. The seeds of a type are spread evenly over as many steps as the type
/// with the most batches has, so that an epoch has each seed once. The loss is the sum of the mean losses of the targets over
/// the seeds of all ranks that have them, times their weights.
pub struct MultiTask<B: AutodiffBackend> {
    heads: Arc<[Head]>,
    schema: Arc<GraphSchema>,
    loaders: Vec<(NodeTypeId, TrainingLoader<DistNeighborLoader>)>,
    cache: Option<FeatureCache<B>>,
    options: BatchOptions,
    embeddings: Embeddings,
    step_options: StepOptions,
    evaluator: MultiEvaluator<B::InnerBackend>,
    device: B::Device,
}

impl<B: AutodiffGnnBackend> MultiTask<B> {
    /// Creates the loaders of all splits, and the embeddings of nodes without features. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] if a node type has no training nodes or settings contradict the graph; an error from a peer.
    pub fn new(
        graph: &Arc<DistGraph>,
        config: &MultiTrainingConfig,
        options: BatchOptions,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let meta = graph.part().meta();
        let training = &config.training;
        let schema = Arc::new(training.schema(meta)?);
        let mut heads = heads(meta, config)?;
        check_training_nodes(meta, &heads)?;
        for head in &mut heads {
            let num_classes = head.objective.outputs.width();
            head.objective.loss = head.objective.loss.clone().for_data(|| {
                count_train_labels(graph, num_classes, world, |counts| count_own_labels(graph, head, counts))
            })?;
        }
        let heads: Arc<[Head]> = heads.into();
        let options = training.batch_options(options, true);
        let embeddings = Embeddings::new(graph, &schema, training.hidden_channels, training.fit.seed)?
            .with_lr(training.embedding_lr());
        let sampler = schema.sampler(graph, training.sampler.clone())?;
        let mut loaders = Vec::new();
        let mut num_steps = 0;
        for node_type in node_types(&heads) {
            let loader = training.train_loader(options.wanted());
            let loader =
                DistNeighborLoader::new(sampler.clone(), node_type, Seeds::Split(Split::Train), loader, world)?;
            num_steps = num_steps.max(loader.num_steps());
            loaders.push((node_type, loader));
        }
        let mut cache = None;
        let mut spread = Vec::with_capacity(loaders.len());
        for (node_type, loader) in loaders {
            let loader = loader.with_num_steps(num_steps);
            let normalize = options.normalize_features;
            if spread.is_empty() {
                // The caches serve all node types. They are filled by the batches of the first one.
                let (loader, filled) = TrainingLoader::new::<B>(loader, training, graph.is_even(), normalize, device)?;
                cache = filled;
                spread.push((node_type, loader));
            } else {
                spread.push((node_type, TrainingLoader::with_cache(loader, cache.as_ref())));
            }
        }
        let targets = GraphTargets { graph: Arc::clone(graph), schema: Arc::clone(&schema), heads: Arc::clone(&heads) };
        let evaluator = MultiEvaluator::new(targets, training, options, device, world)?;
        let step_options = StepOptions { loss: None, ..training.step.clone() };
        let device = device.clone();
        Ok(Self { heads, schema, loaders: spread, cache, options, embeddings, step_options, evaluator, device })
    }

    /// Returns the losses of the targets on this rank's seeds, as one loss. Its gradient, summed over all ranks, is the sum
    /// of the gradients of the mean losses times their weights. There is a batch per node type with targets; `None`
    /// without seeds.
    fn loss(
        &self,
        model: &Network<B>,
        batches: Vec<Option<SeedsOfType<B>>>,
        totals: &[f64],
        mode: Mode,
    ) -> Result<Option<LossSum<B>>, TrainError> {
        let mut sum: Option<Tensor<B, 1>> = None;
        let mut num_seeds = 0;
        // The share of this rank in the seeds of the step, which is 1 over all ranks.
        let mut share = 0.0;
        let mut all_weights = 0.0;
        for (head, &total) in self.heads.iter().zip(totals) {
            if total > 0.0 {
                all_weights += head.weight;
            }
        }
        for batch in batches {
            let Some(SeedsOfType { node_type, input, mode, known, num_seeds: of_type }) = batch else {
                model.forward_without_rows(mode);
                continue;
            };
            num_seeds += of_type;
            let outputs = outputs_of_type(model, node_type, input, mode)?;
            for (at, known, own) in known {
                let head = &self.heads[at];
                let of_head = head.outputs(outputs.clone(), known);
                if totals[at] <= 0.0 {
                    continue;
                }
                let of_head = head.objective.loss.sum(of_head.values, &of_head.target).map_err(TrainError::batch)?;
                let weighted = of_head.sum.mul_scalar(head.weight / totals[at]);
                share += head.weight * (own / totals[at]) / all_weights;
                sum = Some(match sum {
                    Some(sum) => sum + weighted,
                    None => weighted,
                });
            }
        }
        Ok(sum.map(|sum| LossSum::new(sum, num_seeds, share)))
    }
}

/// The seeds of a node type in a step.
struct SeedsOfType<B: AutodiffBackend> {
    node_type: NodeTypeId,
    input: ModelInput<B>,
    mode: Mode,
    /// For each target that seeds have: its number, the seeds, and the sum of their weights in its loss.
    known: Vec<(usize, KnownNodes, f64)>,
    num_seeds: usize,
}

impl<B: AutodiffGnnBackend> Task<B, Network<B>> for MultiTask<B> {
    type Batch = Vec<TensorBatch<B>>;
    type Evaluator = MultiEvaluator<B::InnerBackend>;

    task_fields!();

    fn epoch(
        &self,
        epoch: u64,
        first_step: usize,
        _world: &ProcessGroup,
    ) -> Result<TrainingEpoch<Vec<TensorBatch<B>>>, TrainError> {
        let mut of_types = Vec::with_capacity(self.loaders.len());
        let mut num_steps = 0;
        for (_, loader) in &self.loaders {
            let loader = loader.of_epoch(epoch);
            num_steps = loader.num_steps();
            let at = (epoch, first_step);
            of_types.push(tensor_batches_from(
                loader,
                at,
                &self.schema,
                self.options,
                self.cache.as_ref(),
                &self.device,
            ));
        }
        let batches = std::iter::from_fn(move || {
            let mut step = Vec::with_capacity(of_types.len());
            for batches in &mut of_types {
                step.push(batches.next()?);
            }
            Some(joined(step))
        });
        Ok(TrainingEpoch { num_steps, batches: Box::new(batches) })
    }

    fn continue_epoch(
        &mut self,
        epoch: u64,
        before: &[EpochSegment],
        world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        let mut num_steps = 0;
        for (_, loader) in &mut self.loaders {
            loader.continue_epoch(epoch, before, world)?;
            num_steps = num_steps.max(loader.of_epoch(epoch).num_steps());
        }
        for (_, loader) in &mut self.loaders {
            loader.spread_rest(num_steps);
        }
        Ok(())
    }

    fn step(
        &mut self,
        model: &Network<B>,
        batches: Vec<TensorBatch<B>>,
        mode: Mode,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        let mut pulled = PulledRows::default();
        let mut of_types = Vec::with_capacity(batches.len());
        let mut own = vec![0.0; self.heads.len()];
        for (number, (&(node_type, _), batch)) in (0..).zip(self.loaders.iter().zip(batches)) {
            let (batch, rows) = self.embeddings.pull_tracked(batch, &self.device)?;
            pulled.append(rows);
            let TensorBatch { input: Some(input), target, .. } = batch else {
                of_types.push(None);
                continue;
            };
            let mut known = Vec::new();
            for (at, head) in self.heads.iter().enumerate().filter(|(_, head)| head.node_type() == node_type) {
                if let Some(seeds) = head.label.known(&target, Split::Train) {
                    own[at] = weight_of::<B::InnerBackend>(head, &seeds, &self.device)?;
                    known.push((at, seeds, own[at]));
                }
            }
            // The batches of a step have different masks.
            let mode = match mode {
                Mode::Train(key) if number > 0 => Mode::Train(key.for_type(number)),
                mode => mode,
            };
            of_types.push(Some(SeedsOfType { node_type, input, mode, known, num_seeds: target.num_seeds() }));
        }
        // Known before the passes, because each target has a mean over all ranks. No collective of ranks that are threads may run within a turn.
        world.all_reduce(&mut own, ReduceOp::Sum)?;
        let turn = AutodiffTurn::take();
        let start = Instant::now();
        let loss = self.loss(model, of_types, &own, mode)?;
        let forward = Forward { loss, start, turn };
        backward_and_all_reduce(model, forward, Some((&mut self.embeddings, pulled)), &self.step_options, world)
    }

    fn sampler(&self) -> Option<&Arc<DistNeighborSampler>> {
        self.loaders.first().map(|(_, loader)| loader.whole().sampler())
    }
}

/// Returns the sum of the weights of seeds in the loss of a target, which does not depend on the outputs.
fn weight_of<B: GnnBackend>(head: &Head, seeds: &KnownNodes, device: &B::Device) -> Result<f64, TrainError> {
    let outputs = Tensor::<B, 2>::zeros([seeds.target.num_seeds(), head.outputs.len()], device);
    let sum = head.objective.loss.sum(outputs, &seeds.target).map_err(TrainError::batch)?;
    Ok(sum.weight)
}

/// Joins the batches of a step, or returns the first error.
fn joined<T>(batches: Vec<BatchResult<T>>) -> BatchResult<Vec<T>> {
    let mut joined = Vec::with_capacity(batches.len());
    for batch in batches {
        match batch? {
            Ok(batch) => joined.push(batch),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(joined))
}

/// Counts the labels of a target's training nodes in this process's part by class.
fn count_own_labels(graph: &DistGraph, head: &Head, counts: &mut [u64]) {
    let node_type = head.node_type();
    let dim = graph.part().meta().node_types[node_type.index()].targets.map_or(0, |targets| targets.dim);
    if let Some(values) = graph.part().nodes(node_type).targets.as_deref() {
        head.label.count_classes(values, dim, counts);
    }
}
