//! Evaluation of models for edges.

use super::batch::EdgeBatchMaker;
use super::config::EdgeTrainingConfig;
use super::task::{EdgeData, split_loader};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{Evaluator, Selection};
use crate::metrics::Decision;
use crate::models::EdgeModel;
use crate::objective::Objective;
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::{ScoreState, SeedScores, scores_of_batches};
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::DistEdgeNeighborLoader;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::Split;

/// The evaluation of models for edges on the validation and test edges.
pub struct EdgeEvaluator<B: Backend> {
    pub(super) objective: Objective,
    valid: DistEdgeNeighborLoader,
    test: DistEdgeNeighborLoader,
    maker: EdgeBatchMaker<B>,
    device: B::Device,
}

impl<B: GnnBackend> EdgeEvaluator<B> {
    /// Creates the loaders of the validation and test edges. Every rank must call this.
    pub(super) fn new(
        data: &EdgeData,
        config: &EdgeTrainingConfig,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let options = data.options(&config.training, false);
        let valid = split_loader(data, config, Split::Valid, options, world)?;
        data.objective.check_validation(valid.total_seeds())?;
        Ok(Self {
            objective: data.objective.clone(),
            valid,
            test: split_loader(data, config, Split::Test, options, world)?,
            maker: EdgeBatchMaker::new(&data.model, options, device),
            device: device.clone(),
        })
    }

    /// Computes the scores on a split, by the decision of the validation data if it is another one.
    fn scores(
        &self,
        split: Split,
        chosen: Option<&Decision>,
        model: &EdgeModel<B>,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        let loader = if split == Split::Test { &self.test } else { &self.valid };
        let maker = self.maker.clone();
        let batches = loader.epoch_map_from(0, 0, move |batch| maker.make(batch));
        let fill = |batch: super::EdgeTensorBatch<B>| batch.filled(embeddings, &self.device);
        scores_of_batches(model, batches, fill, ScoreState::new(split, chosen, &self.objective), world)
    }
}

impl<B: GnnBackend> Evaluator<B, EdgeModel<B>> for EdgeEvaluator<B> {
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
        model: &EdgeModel<B>,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        self.scores(split, None, model, embeddings, world)
    }

    fn evaluate_test(
        &self,
        valid: &SeedScores,
        model: &EdgeModel<B>,
        embeddings: &Embeddings,
        world: &mut ProcessGroup,
    ) -> Result<SeedScores, TrainError> {
        self.scores(Split::Test, valid.decision.as_ref(), model, embeddings, world)
    }

    fn result(&self, best_epoch: u64, valid: SeedScores, test: SeedScores) -> SeedResult {
        SeedResult::new(best_epoch, self.objective.metrics.first(), valid, test)
    }
}
