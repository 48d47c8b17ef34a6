//! Predictions for nodes as a training task.

use super::config::{NodeTrainingConfig, check_num_classes, objective, seed_type};
use super::evaluator::NodeEvaluator;
use crate::batch_input::{BatchOptions, TensorBatch, tensor_batches_from};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{StepGradients, Task, TrainingEpoch};
use crate::memory::feature_cache::FeatureCache;
use crate::models::{GraphSchema, Mode, NodeClassifier};
use crate::objective::{Objective, count_train_labels};
use crate::seed_task::{task_fields, task_loader};
use crate::step_options::StepOptions;
use crate::training_loader::TrainingLoader;
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistNeighborLoader, Seeds};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::AutodiffGnnBackend;
use edgecut_graph::{NodeTypeId, Split};
use std::sync::Arc;

/// Prediction of the classes, labels or numbers of nodes. [`fit`](crate::fit()) trains any [`NodeClassifier`] on it.
pub struct NodeTask<B: AutodiffBackend> {
    schema: Arc<GraphSchema>,
    loader: TrainingLoader<DistNeighborLoader>,
    cache: Option<FeatureCache<B>>,
    options: BatchOptions,
    embeddings: Embeddings,
    step_options: StepOptions,
    evaluator: NodeEvaluator<B::InnerBackend>,
    device: B::Device,
}

impl<B: AutodiffGnnBackend> NodeTask<B> {
    /// Creates the loaders of all splits, and the embeddings of nodes without features. Every rank must call this.
    ///
    /// `options` describe the batches that the model reads; the task sets `for_training` and `precision`. Embeddings
    /// have `config.training.hidden_channels` values per node.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the graph has no training nodes or settings contradict it; an error from a peer.
    pub fn new(
        graph: &Arc<DistGraph>,
        config: &NodeTrainingConfig,
        options: BatchOptions,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        check_num_classes(graph, world)?;
        let data = NodeData::new(graph, config)?;
        let training = &config.training;
        let options = training.batch_options(options, true);
        let embeddings = Embeddings::new(graph, &data.schema, training.hidden_channels, training.fit.seed)?
            .with_lr(training.embedding_lr());
        let loader = split_loader(&data, config, Split::Train, options, world)?;
        let (loader, cache) =
            TrainingLoader::new::<B>(loader, training, graph.is_even(), options.normalize_features, device)?;
        if loader.whole().total_seeds() == 0 {
            return Err(TrainError::config(format!(
                "dataset {} has no training nodes: add masks to the dataset or `split_pct` to the labels of its tables, or \
                 divide the nodes by partition-graph --split-nodes 0.8,0.1,0.1, and partition again",
                graph.part().meta().dataset
            )));
        }
        let loss = data.objective.loss.clone().for_data(|| {
            let num_classes = graph.part().meta().node_types[data.seed_type.index()].num_classes;
            count_train_labels(graph, num_classes, world, |counts| count_own_labels(&data, counts))
        })?;
        let step_options = StepOptions { loss: Some(loss), ..training.step.clone() };
        Ok(Self {
            loader,
            cache,
            options,
            embeddings,
            step_options,
            evaluator: NodeEvaluator::new(&data, config, options, device, world)?,
            device: device.clone(),
            schema: data.schema,
        })
    }
}

impl<B, M> Task<B, M> for NodeTask<B>
where
    B: AutodiffGnnBackend,
    M: AutodiffModule<B> + NodeClassifier<B>,
    M::InnerModule: NodeClassifier<B::InnerBackend>,
{
    type Batch = TensorBatch<B>;
    type Evaluator = NodeEvaluator<B::InnerBackend>;

    task_fields!();
    task_loader!();

    fn epoch(
        &self,
        epoch: u64,
        first_step: usize,
        _world: &ProcessGroup,
    ) -> Result<TrainingEpoch<TensorBatch<B>>, TrainError> {
        let loader = self.loader.of_epoch(epoch);
        let cache = self.cache.as_ref();
        let batches = tensor_batches_from(loader, (epoch, first_step), &self.schema, self.options, cache, &self.device);
        Ok(TrainingEpoch { num_steps: loader.num_steps(), batches: Box::new(batches) })
    }

    fn step(
        &mut self,
        model: &M,
        batch: TensorBatch<B>,
        mode: Mode,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        self.step_options.step_with_embeddings(model, &mut self.embeddings, batch, mode, &self.device, world)
    }
}

/// The part of this rank, the types of its graph, and the objective.
pub(super) struct NodeData {
    pub(super) graph: Arc<DistGraph>,
    pub(super) schema: Arc<GraphSchema>,
    pub(super) seed_type: NodeTypeId,
    pub(super) objective: Objective,
}

impl NodeData {
    pub(super) fn new(graph: &Arc<DistGraph>, config: &NodeTrainingConfig) -> Result<Self, TrainError> {
        let meta = graph.part().meta();
        let schema = config.training.schema(meta)?;
        let objective = objective(meta, config)?;
        Ok(Self { graph: Arc::clone(graph), schema: Arc::new(schema), seed_type: seed_type(meta)?, objective })
    }
}

/// Counts the labels of the training nodes of this process's part by class.
fn count_own_labels(data: &NodeData, counts: &mut [u64]) {
    let nodes = data.graph.part().nodes(data.seed_type);
    let Some(labels) = &nodes.labels else { return };
    for &row in nodes.splits.get(Split::Train).iter() {
        // A part opens only if the labels of its splits are classes.
        counts[labels[row as usize] as usize] += 1;
    }
}

/// Returns the loader of one split: shuffled for training, in order for evaluation.
pub(super) fn split_loader(
    data: &NodeData,
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
    let sampler = data.schema.sampler(&data.graph, sampler_config)?;
    Ok(DistNeighborLoader::new(sampler, data.seed_type, Seeds::Split(split), loader_config, world)?)
}
