//! Evaluation of node classification.

use super::config::NodeTrainingConfig;
use super::layer_wise_evaluation::LayerWise;
use super::task::{NodeData, split_loader};
use crate::batch_input::{BatchOptions, tensor_batches};
use crate::error::TrainError;
use crate::fit::Evaluation;
use crate::models::{GraphSchema, NodeClassifier};
use crate::objective::seed_evaluator::{Scorer, SeedEvaluator};
use crate::objective::seed_scores::{ScoreState, SeedScores, scores_of_batches};
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::DistNeighborLoader;
use edgecut_dist_sampler::DistRows;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::Split;
use std::sync::Arc;

/// The evaluation of models for nodes on the validation and test nodes.
pub type NodeEvaluator<B> = SeedEvaluator<NodeScorer<B>>;

/// The batches of the validation and test data.
pub struct NodeScorer<B: Backend> {
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    valid: DistNeighborLoader,
    test: DistNeighborLoader,
    layer_wise: Option<LayerWise>,
    device: B::Device,
}

impl<B: GnnBackend> NodeEvaluator<B> {
    /// Creates the loaders of the validation and test nodes. Every rank must call this.
    pub(super) fn new(
        data: &NodeData,
        config: &NodeTrainingConfig,
        options: BatchOptions,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let options = config.training.batch_options(options, false);
        let valid = split_loader(data, config, Split::Valid, options, world)?;
        data.objective.check_validation(valid.total_seeds())?;
        let scorer = NodeScorer {
            schema: Arc::clone(&data.schema),
            options,
            valid,
            test: split_loader(data, config, Split::Test, options, world)?,
            layer_wise: LayerWise::new(data, &config.training)?,
            device: device.clone(),
        };
        Ok(Self { objective: data.objective.clone(), scorer })
    }
}

impl<B: GnnBackend, M: NodeClassifier<B>> Scorer<B, M> for NodeScorer<B> {
    fn all_outputs(&self, run: &mut Evaluation<'_, M>) -> Result<Option<DistRows>, TrainError> {
        let Some(layer_wise) = &self.layer_wise else { return Ok(None) };
        layer_wise.logits(run, self.options, &self.device).map(Some)
    }

    fn scores(&self, state: ScoreState<'_>, run: &mut Evaluation<'_, M>) -> Result<SeedScores, TrainError> {
        if let (Some(layer_wise), Some(rows)) = (&self.layer_wise, state.rows) {
            let batches = layer_wise.batches::<B>(state.split, rows, run.world, &self.device)?;
            return scores_of_batches(run, batches, Ok, state);
        }
        let loader = if state.split == Split::Test { &self.test } else { &self.valid };
        let batches = tensor_batches(loader, 0, &self.schema, self.options, &self.device);
        let embeddings = run.embeddings;
        scores_of_batches(run, batches, |batch| embeddings.fill(batch, &self.device), state)
    }
}
