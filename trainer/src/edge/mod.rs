//! Predictions for edges: a model learns the classes, labels or numbers of edges.
//!
//! - [`EdgeTrainingConfig`]: the settings;
//! - [`EdgeTask`]: the training task, and [`EdgeEvaluator`]: the evaluation;
//! - `batch`: a batch of edges as tensors;
//! - [`EdgePrediction`]: the task of training a model of this crate;
//! - [`predict_edges`]: the outputs of a trained model;
//! - [`count_repeated_edges`]: validation and test edges that repeat training edges.

mod batch;
mod config;
mod evaluator;
mod explain;
mod predict;
mod repeated;
mod task;

pub use batch::EdgeTensorBatch;
pub use config::{EdgeTrainingConfig, edge_model_config, labeled_edge_type, unknown_reverse_pair};
pub use evaluator::EdgeEvaluator;
pub use explain::explain_edges;
pub use predict::{EdgeOutputs, EdgePredictionConfig, predict_edges};
pub use repeated::count_repeated_edges;
pub use task::EdgeTask;

use crate::error::TrainError;
use crate::model_file::{TaskKind, encoder_settings};
use crate::models::{EdgeModel, EdgeModelConfig};
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::SeedScores;
use crate::seed_task::{SeedTask, Setup, of_training_config};
use config::check_fit;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::sync::Arc;
use task::EdgeData;

/// Prediction of the classes, labels or numbers of edges by an [`EdgeModel`].
#[derive(Debug)]
pub struct EdgePrediction;

impl SeedTask for EdgePrediction {
    const KIND: TaskKind = TaskKind { name: "edge", items: "edges" };

    type Data = Arc<DistGraph>;
    type Config = EdgeTrainingConfig;
    type ModelConfig = EdgeModelConfig;
    type Scores = SeedScores;
    type Outcome = SeedResult;
    type Model<B: AutodiffGnnBackend> = EdgeModel<B>;
    type Training<B: AutodiffGnnBackend> = EdgeTask<B>;
    type Evaluator<B: GnnBackend> = EdgeEvaluator<B>;

    of_training_config!();

    fn model_config(graph: &Arc<DistGraph>, config: &EdgeTrainingConfig) -> Result<EdgeModelConfig, TrainError> {
        edge_model_config(graph.part().meta(), config)
    }

    fn training<B: AutodiffGnnBackend>(setup: Setup<'_, Self, B>) -> Result<EdgeTask<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        EdgeTask::new(data, config, model_config, device, world)
    }

    fn evaluation_config<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<EdgeTrainingConfig, TrainError> {
        let Setup { data, config, model_config, .. } = setup;
        let meta = data.part().meta();
        let edge_type = check_fit(meta, model_config, config.training.sampler.num_neighbors.num_hops())?;
        let asked = labeled_edge_type(meta, config.edge_type.as_deref())?;
        let num_outputs = config::objective(meta, config)?.num_outputs();
        if edge_type != asked || num_outputs != model_config.num_outputs {
            return Err(TrainError::config(format!(
                "the model has {} outputs for edges of type {}, but this data needs {num_outputs} outputs for its labels",
                model_config.num_outputs,
                model_config.edge_type_name()
            )));
        }
        Ok(config.clone())
    }

    fn evaluator<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<EdgeEvaluator<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        EdgeEvaluator::new(&EdgeData::new(data, config, model_config)?, config, device, world)
    }
}

encoder_settings!(EdgeModelConfig, EdgeModel, EdgePrediction::KIND);
