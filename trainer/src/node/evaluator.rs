//! Evaluation of node classification.

use super::config::NodeTrainingConfig;
use super::layer_wise_evaluation::LayerWise;
use super::task::{NodeData, split_loader};
use crate::batch_input::{BatchOptions, tensor_batches};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{Evaluator, Selection};
use crate::metrics::Decision;
use crate::models::{GraphSchema, NodeClassifier};
use crate::objective::Objective;
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::{ScoreState, SeedScores, scores_of_batches};
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
        let valid = split_loader(data, config, Split::Valid, options, world)?;
        data.objective.check_validation(valid.total_seeds())?;
        Ok(Self {
            schema: Arc::clone(&data.schema),
            options,
            objective: data.objective.clone(),
            valid,
            test: split_loader(data, config, Split::Test, options, world)?,
            layer_wise: LayerWise::new(data, &config.training)?,
            device: device.clone(),
        })
    }
}

impl<B: GnnBackend> NodeEvaluator<B> {
    /// Adds the outputs for the seeds of the state's split, and returns the scores.
    fn judge(
        &self,
        layer_wise: &LayerWise,
        rows: &DistRows,
        state: ScoreState<'_>,
        model: &impl NodeClassifier<B>,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        let batches = layer_wise.batches::<B>(state.split, rows, world, &self.device)?;
        scores_of_batches(model, batches, Ok, state, world)
    }

    /// Computes the scores on a split, by the decision of the validation data if it is another one.
    fn scores(
        &self,
        split: Split,
        chosen: Option<&Decision>,
        model: &impl NodeClassifier<B>,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        let state = ScoreState::new(split, chosen, &self.objective);
        if let Some(layer_wise) = &self.layer_wise {
            let rows = layer_wise.logits((model.layered(), embeddings), self.options, world, &self.device)?;
            return self.judge(layer_wise, &rows, state, model, world);
        }
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let batches = tensor_batches(loader, 0, &self.schema, self.options, &self.device);
        let fill = |batch| embeddings.fill(batch, &self.device);
        scores_of_batches(model, batches, fill, state, world)
    }
}

impl<B: GnnBackend, M: NodeClassifier<B>> Evaluator<B, M> for NodeEvaluator<B> {
    type Scores = SeedScores;
    type Result = SeedResult;

    fn selection(&self) -> Selection {
        self.objective.selection()
    }

    fn metric_value(&self, scores: &SeedScores) -> Option<f64> {
        scores.metrics.first()
    }

    fn decision(&self, valid: &SeedScores) -> Option<Decision> {
        valid.decision.clone()
    }

    fn decides(&self) -> bool {
        self.objective.rule.decides()
    }

    fn evaluate(
        &self,
        split: Split,
        model: &M,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        self.scores(split, None, model, embeddings, world)
    }

    fn evaluate_test(
        &self,
        valid: &SeedScores,
        model: &M,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        self.scores(Split::Test, valid.decision.as_ref(), model, embeddings, world)
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
                let state = ScoreState::new(Split::Valid, None, &self.objective);
                let valid = self.judge(layer_wise, &rows, state, model, world)?;
                let state = ScoreState::new(Split::Test, valid.decision.as_ref(), &self.objective);
                let test = self.judge(layer_wise, &rows, state, model, world)?;
                [valid, test]
            }
            None => {
                let valid = self.evaluate(Split::Valid, model, embeddings, world)?;
                let test = self.evaluate_test(&valid, model, embeddings, world)?;
                [valid, test]
            }
        };
        Ok(Evaluator::<B, M>::result(self, 0, valid, test))
    }

    fn result(&self, best_epoch: u64, valid: SeedScores, test: SeedScores) -> SeedResult {
        SeedResult::new(best_epoch, self.objective.metrics.first(), valid, test)
    }
}
