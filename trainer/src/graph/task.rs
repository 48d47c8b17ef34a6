//! Predictions for whole graphs as a training task.

use super::batch::{GraphBatchOptions, GraphTensorBatch, graph_batches_from};
use super::config::GraphTrainingConfig;
use super::evaluator::GraphEvaluator;
use super::split::GraphSplit;
use crate::drop_edges::DropEdges;
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{StepGradients, Task, TrainingEpoch};
use crate::models::{GraphClassifier, Mode};
use crate::seed_task::task_fields;
use crate::step_options::StepOptions;
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{EpochSegment, GraphDataLoader, Packing};
use edgecut_gnn::ops::AutodiffGnnBackend;
use edgecut_graph::GraphDataset;
use std::sync::Arc;

/// Prediction of the classes of whole graphs. [`fit`](crate::fit()) trains any [`GraphClassifier`] on it.
pub struct GraphTask<B: AutodiffBackend> {
    loader: GraphDataLoader,
    /// The rest of an epoch that another number of ranks has begun.
    rest: Option<(u64, GraphDataLoader)>,
    options: GraphBatchOptions,
    packing: Packing,
    step_options: StepOptions,
    embeddings: Embeddings,
    evaluator: GraphEvaluator<B::InnerBackend>,
    device: B::Device,
}

impl<B: AutodiffGnnBackend> GraphTask<B> {
    /// Creates the loaders of all splits.
    ///
    /// # Errors
    /// [`TrainError::Config`] if there are fewer training graphs than ranks.
    pub fn new(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &GraphTrainingConfig,
        device: &B::Device,
        world: &ProcessGroup,
    ) -> Result<Self, TrainError> {
        check_share(graphs, split, world)?;
        let loss = config.objective(graphs)?.loss;
        let train = split.train.clone();
        let train_labels = || {
            let mut counts = vec![0; graphs.classes().len()];
            split.train.iter().for_each(|&graph| counts[graphs.labels()[graph as usize] as usize] += 1);
            Ok(counts)
        };
        Ok(Self {
            loader: GraphDataLoader::new(Arc::clone(graphs), train, config.train_loader(), world.rank(), world.size())?,
            rest: None,
            options: GraphBatchOptions {
                drop_edges: config.drop_edge.map(|probability| DropEdges::new(probability, config.fit.seed)),
                ..GraphBatchOptions::of_model(&config.model_config(graphs)?, true)
            },
            packing: config.packing,
            step_options: StepOptions { loss: Some(loss.for_data(train_labels)?), ..config.step.clone() },
            embeddings: Embeddings::default(),
            evaluator: GraphEvaluator::new(graphs, split, config, device, world)?.selecting_epochs(),
            device: device.clone(),
        })
    }

    /// Returns the error for an epoch without a step.
    fn no_step(&self, world: &ProcessGroup) -> TrainError {
        let graphs = self.loader.total_graphs();
        let ranks = world.size();
        let batch = match self.packing {
            Packing::Graphs(size) => format!("{size} graphs"),
            Packing::Nodes(nodes) => format!("{nodes} nodes"),
        };
        let what = format!(
            "{graphs} training graphs do not fill one step of {ranks} processes with {batch} each, and `drop_last` \
             leaves out incomplete steps: disable it, or use smaller batches"
        );
        TrainError::Config { what }
    }
}

impl<B, M> Task<B, M> for GraphTask<B>
where
    B: AutodiffGnnBackend,
    M: AutodiffModule<B> + GraphClassifier<B>,
    M::InnerModule: GraphClassifier<B::InnerBackend>,
{
    type Batch = GraphTensorBatch<B>;
    type Evaluator = GraphEvaluator<B::InnerBackend>;

    task_fields!();

    fn epoch(
        &self,
        epoch: u64,
        first_step: usize,
        world: &ProcessGroup,
    ) -> Result<TrainingEpoch<GraphTensorBatch<B>>, TrainError> {
        let rest = self.rest.as_ref().filter(|(of, _)| *of == epoch).map(|(_, rest)| rest);
        let loader = rest.unwrap_or(&self.loader);
        let num_steps = loader.num_steps(epoch);
        if num_steps == 0 && rest.is_none() {
            return Err(self.no_step(world));
        }
        let batches = graph_batches_from::<B>(loader, (epoch, first_step), self.options, &self.device);
        Ok(TrainingEpoch { num_steps, batches: Box::new(batches) })
    }

    fn continue_epoch(
        &mut self,
        epoch: u64,
        before: &[EpochSegment],
        _world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        self.rest = Some((epoch, self.loader.rest_of_epoch(before)));
        Ok(())
    }

    fn step(
        &mut self,
        model: &M,
        batch: GraphTensorBatch<B>,
        mode: Mode,
        world: &mut ProcessGroup,
    ) -> Result<StepGradients, TrainError> {
        self.step_options.step_gradients(model, batch, mode, world)
    }
}

/// Checks that each rank has a training graph. A rank without one would only wait for the others.
pub(super) fn check_share(graphs: &GraphDataset, split: &GraphSplit, world: &ProcessGroup) -> Result<(), TrainError> {
    let train = split.train.len();
    let ranks = world.size();
    let what = match train {
        0 => format!("dataset {}: there are no training graphs: give them a share of the `split`", graphs.name()),
        _ if train < ranks => format!(
            "dataset {}: {train} training graphs for {ranks} processes: start at most as many processes as there are graphs",
            graphs.name()
        ),
        _ => return Ok(()),
    };
    Err(TrainError::Config { what })
}
