//! Predictions for edges as a training task.

use super::batch::{EdgeBatchMaker, EdgeTensorBatch};
use super::config::{EdgeTrainingConfig, objective};
use super::evaluator::EdgeEvaluator;
use crate::batch_input::BatchOptions;
use crate::edge_type_name::reverse_edge_types;
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{StepGradients, Task, TrainingEpoch, backward_and_all_reduce, forward_seeds};
use crate::models::{EdgeModel, EdgeModelConfig, Mode, TargetEdges};
use crate::objective::{Objective, count_train_labels};
use crate::seed_task::{task_fields, task_loader};
use crate::step_options::StepOptions;
use crate::training_config::TrainingConfig;
use crate::training_loader::TrainingLoader;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistEdgeNeighborLoader, EdgeConfig, EdgeSeeds, LoaderConfig};
use edgecut_dist_sampler::{DistGraph, EdgeFields, SamplerConfig};
use edgecut_gnn::ops::AutodiffGnnBackend;
use edgecut_graph::{Meta, Split};
use std::sync::Arc;

/// Prediction of the classes, labels or numbers of edges.
pub struct EdgeTask<B: AutodiffBackend> {
    loader: TrainingLoader<DistEdgeNeighborLoader>,
    maker: EdgeBatchMaker<B>,
    embeddings: Embeddings,
    step_options: StepOptions,
    evaluator: EdgeEvaluator<B::InnerBackend>,
    device: B::Device,
}

impl<B: AutodiffGnnBackend> EdgeTask<B> {
    /// Creates the loaders of all splits, and the embeddings of nodes without features. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the graph has no training edges or settings contradict it; an error from a peer.
    pub fn new(
        graph: &Arc<DistGraph>,
        config: &EdgeTrainingConfig,
        model: &EdgeModelConfig,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let data = EdgeData::new(graph, config, model)?;
        let training = &config.training;
        let options = data.options(training, true);
        let mut maker = EdgeBatchMaker::new(model, options, device);
        let embeddings = Embeddings::new(graph, &maker.schema, model.encoder.hidden_channels, training.fit.seed)?
            .with_lr(training.embedding_lr());
        let loader = split_loader(&data, config, Split::Train, options, world)?;
        let (loader, cache) = TrainingLoader::new::<B>(loader, training, false, options.normalize_features, device)?;
        maker.cache = cache;
        if loader.whole().total_seeds() == 0 {
            return Err(TrainError::config(format!(
                "dataset {} has no training edges of type {}: list them in edge_train_idx.npy, or give `split_pct` \
                 to the labels of its table, and partition again",
                graph.part().meta().dataset,
                model.edge_type_name()
            )));
        }
        let loss = data.objective.loss.clone().for_data(|| {
            let num_classes = data.objective.outputs.width();
            count_train_labels(graph, num_classes, world, |counts| count_own_labels(&data, counts))
        })?;
        let step_options = StepOptions { loss: Some(loss), ..training.step.clone() };
        Ok(Self {
            loader,
            maker,
            embeddings,
            step_options,
            evaluator: EdgeEvaluator::new(&data, config, device, world)?,
            device: device.clone(),
        })
    }
}

impl<B: AutodiffGnnBackend> Task<B, EdgeModel<B>> for EdgeTask<B> {
    type Batch = EdgeTensorBatch<B>;
    type Evaluator = EdgeEvaluator<B::InnerBackend>;

    task_fields!();
    task_loader!();

    fn epoch(
        &self,
        epoch: u64,
        first_step: usize,
        _world: &ProcessGroup,
    ) -> Result<TrainingEpoch<EdgeTensorBatch<B>>, TrainError> {
        let loader = self.loader.of_epoch(epoch);
        let maker = self.maker.clone();
        let batches = loader.epoch_map_from(epoch, first_step, move |batch| maker.make(batch));
        Ok(TrainingEpoch { num_steps: loader.num_steps(), batches: Box::new(batches) })
    }

    fn step(
        &mut self,
        model: &EdgeModel<B>,
        mut batch: EdgeTensorBatch<B>,
        mode: Mode,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        let (graph, pulled) = self.embeddings.pull_tracked(batch.graph, &self.device)?;
        batch.graph = graph;
        let forward = forward_seeds(model, batch, mode, self.step_options.loss.as_ref())?;
        let embedded = Some((&mut self.embeddings, pulled));
        backward_and_all_reduce(model, forward, embedded, &self.step_options, world)
    }
}

/// The part of this rank, the model, and the objective.
pub(super) struct EdgeData {
    pub(super) graph: Arc<DistGraph>,
    pub(super) model: EdgeModelConfig,
    pub(super) objective: Objective,
}

impl EdgeData {
    pub(super) fn new(
        graph: &Arc<DistGraph>,
        config: &EdgeTrainingConfig,
        model: &EdgeModelConfig,
    ) -> Result<Self, TrainError> {
        let objective = objective(graph.part().meta(), config)?;
        Ok(Self { graph: Arc::clone(graph), model: model.clone(), objective })
    }

    /// Returns the options of the batches that the model reads.
    pub(super) fn options(&self, training: &TrainingConfig, for_training: bool) -> BatchOptions {
        training.batch_options(BatchOptions::of_encoder(&self.model.encoder, for_training), for_training)
    }
}

/// Returns the configuration of a loader of edges for a model.
pub(super) fn edge_config(meta: &Meta, model: &EdgeModelConfig, labels: bool) -> Result<EdgeConfig, TrainError> {
    Ok(EdgeConfig {
        edge_type: model.edge_type,
        exclude_seed_edges: model.target_edges == TargetEdges::Exclude,
        reverse_types: reverse_edge_types(meta, &model.reverse_types)?,
        attributes: EdgeFields { features: model.edge_feature_dim > 0, labels, ..EdgeFields::default() },
    })
}

/// Counts the labels of the training edges of this process's part by class.
fn count_own_labels(data: &EdgeData, counts: &mut [u64]) {
    let Some(labels) = &data.graph.part().edges(data.model.edge_type).attributes.labels else { return };
    let Some(classes) = labels.values.classes() else { return };
    for (&class, &code) in classes.iter().zip(labels.splits.iter()) {
        if code == Split::Train.code() {
            // A part opens only if the labels of its splits are classes.
            counts[class as usize] += 1;
        }
    }
}

/// Returns the sampler of the evaluation. If it takes all neighbors, each edge has a neighborhood of its own, which
/// lacks this edge only, so that the outputs do not depend on the other edges of a batch.
fn exact(mut sampler: SamplerConfig) -> SamplerConfig {
    sampler.disjoint |= sampler.num_neighbors.are_all();
    sampler
}

/// Returns the loader of one split. Evaluation is shuffled too: the edges of a batch carry no messages, and they are stored
/// by destination, so a batch in that order would hide most in-edges of its destinations.
pub(super) fn split_loader(
    data: &EdgeData,
    config: &EdgeTrainingConfig,
    split: Split,
    options: BatchOptions,
    world: &mut ProcessGroup,
) -> Result<DistEdgeNeighborLoader, TrainError> {
    let training = &config.training;
    let wanted = options.wanted();
    let (sampler_config, loader_config): (_, LoaderConfig) = match split {
        Split::Train => (training.sampler.clone(), training.train_loader(wanted)),
        _ => (exact(training.eval_sampler()), LoaderConfig { shuffle: true, ..training.eval_loader(wanted) }),
    };
    let sampler = data.model.encoder.graph.sampler(&data.graph, sampler_config)?;
    let edges = edge_config(data.graph.part().meta(), &data.model, true)?;
    let seeds = EdgeSeeds::Labeled(split, data.model.edge_type);
    Ok(DistEdgeNeighborLoader::new(sampler, seeds, loader_config, edges, world)?)
}
