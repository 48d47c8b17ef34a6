//! Evaluation of models for edges.

use super::batch::{EdgeBatchMaker, EdgeTensorBatch};
use super::config::EdgeTrainingConfig;
use super::task::{EdgeData, split_loader};
use crate::error::TrainError;
use crate::fit::Evaluation;
use crate::inference::explanation::ExplainedBatch;
use crate::models::EdgeModel;
use crate::objective::seed_evaluator::{Scorer, SeedEvaluator};
use crate::objective::seed_scores::{ScoreState, SeedScores, scores_of_batches};
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::DistEdgeNeighborLoader;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::Split;

/// The evaluation of models for edges on the validation and test edges.
pub type EdgeEvaluator<B> = SeedEvaluator<EdgeScorer<B>>;

/// The batches of the validation and test data.
pub struct EdgeScorer<B: Backend> {
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
        let scorer = EdgeScorer {
            valid,
            test: split_loader(data, config, Split::Test, options, world)?,
            maker: EdgeBatchMaker::new(&data.model, options, device),
            device: device.clone(),
        };
        Ok(Self { objective: data.objective.clone(), scorer })
    }
}

impl<B: GnnBackend> Scorer<B, EdgeModel<B>> for EdgeScorer<B> {
    fn scores(&self, state: ScoreState<'_>, run: &mut Evaluation<'_, EdgeModel<B>>) -> Result<SeedScores, TrainError> {
        let loader = if state.split == Split::Test { &self.test } else { &self.valid };
        let maker = self.maker.clone();
        let batches = loader.epoch_map_from(0, 0, move |batch| maker.make(batch));
        let embeddings = run.embeddings;
        scores_of_batches(run, batches, |batch: EdgeTensorBatch<B>| batch.filled(embeddings, &self.device), state)
    }
}
