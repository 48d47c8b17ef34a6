//! Evaluation of node classification.

use super::config::NodeTrainingConfig;
use super::layer_wise_evaluation::LayerWise;
use super::task::{NodeData, split_loader};
use crate::batch_input::{BatchOptions, tensor_batches};
use crate::embeddings::Embeddings;
use crate::fit::{Evaluator, Selection};
use crate::models::{GraphSchema, NodeClassifier};
use crate::objective::Objective;
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::{ScoreState, SeedScores, scores_of_batches};
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::DistNeighborLoader;
use edgecut_dist_sampler::DistRows;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::Split;
use std::sync::Arc;

/// The evaluation of models for nodes on the validation and test nodes.
pub struct NodeEvaluator<B: Backend> {
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    pub(super) objective: Objective,
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
        let options = BatchOptions {
            for_training: false,
            drop_edges: None,
            precision: config.training.device_memory.precision,
            ..options
        };
        Ok(Self {
            schema: Arc::clone(&data.schema),
            options,
            objective: data.objective.clone(),
            valid: split_loader(data, config, Split::Valid, options, world)?,
            test: split_loader(data, config, Split::Test, options, world)?,
            layer_wise: LayerWise::new(data, &config.training)?,
            device: device.clone(),
        })
    }
}

impl<B: GnnBackend> NodeEvaluator<B> {
    /// Returns the scores of rows on a split.
    fn judge(
        &self,
        layer_wise: &LayerWise,
        rows: &DistRows,
        split: Split,
        model: &impl NodeClassifier<B>,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        let batches = layer_wise.batches::<B>(split, rows, world, &self.device)?;
        scores_of_batches(model, batches, Ok, ScoreState::new(split, &self.objective), world)
    }
}

impl<B: GnnBackend, M: NodeClassifier<B>> Evaluator<B, M> for NodeEvaluator<B> {
    type Scores = SeedScores;
    type Result = SeedResult;

    fn selection(&self) -> Selection {
        self.objective.selection()
    }

    fn metric_value(&self, scores: &SeedScores) -> Option<f64> {
        scores.metric
    }

    fn evaluate(
        &self,
        split: Split,
        model: &M,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        if let Some(layer_wise) = &self.layer_wise {
            let rows = layer_wise.logits((model.layered(), embeddings), self.options, world, &self.device)?;
            return self.judge(layer_wise, &rows, split, model, world);
        }
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let batches = tensor_batches(loader, 0, &self.schema, self.options, &self.device);
        let fill = |batch| embeddings.fill(batch, &self.device);
        scores_of_batches(model, batches, fill, ScoreState::new(split, &self.objective), world)
    }

    // Computes the layers once for both splits.
    fn evaluate_trained(
        &self,
        model: &M,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedResult, TrainError> {
        let [valid, test] = match &self.layer_wise {
            Some(layer_wise) => {
                let rows = layer_wise.logits((model.layered(), embeddings), self.options, world, &self.device)?;
                let valid = self.judge(layer_wise, &rows, Split::Valid, model, world)?;
                [valid, self.judge(layer_wise, &rows, Split::Test, model, world)?]
            }
            None => {
                let valid = self.evaluate(Split::Valid, model, embeddings, world)?;
                [valid, self.evaluate(Split::Test, model, embeddings, world)?]
            }
        };
        Ok(Evaluator::<B, M>::result(self, 0, valid, test))
    }

    fn result(&self, best_epoch: u64, valid: SeedScores, test: SeedScores) -> SeedResult {
        SeedResult::new(best_epoch, self.objective.metric, valid, test)
    }
}
