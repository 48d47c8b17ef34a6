//! Predictions for edges: a model learns the classes, labels or numbers of edges.
//!
//! - [`EdgeTrainingConfig`]: the settings;
//! - [`EdgeTask`]: the training task, and [`EdgeEvaluator`]: the evaluation;
//! - `batch`: a batch of edges as tensors;
//! - [`train_edge`]: training with the models of this crate;
//! - [`predict_edges`]: the outputs of a trained model.

mod batch;
mod config;
mod evaluator;
mod explain;
mod predict;
mod task;

pub use batch::EdgeTensorBatch;
pub use config::{EdgeTrainingConfig, edge_model_config, labeled_edge_type};
pub use evaluator::EdgeEvaluator;
pub use explain::explain_edges;
pub use predict::{EdgeOutputs, EdgePredictionConfig, predict_edges};
pub use task::EdgeTask;

use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::fit::{Evaluator, Fitted, Observer, fit};
use crate::memory::parameter_count::{EmbeddedNodes, check_model_memory};
use crate::models::{EdgeModel, EdgeModelConfig};
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::SeedScores;
use config::check_fit;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::sync::Arc;
use task::EdgeData;

/// A trained model for edges.
pub type FittedEdgeModel<B> = Fitted<EdgeModel<B>, EdgeModelConfig, SeedResult>;

/// Trains a model on this rank's share of the training edges, and tests the model of the best validation epoch. Every
/// rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Options that do not match the graph, a failure of the job, or a loss that is not finite.
pub fn train_edge<B: AutodiffGnnBackend>(
    graph: &Arc<DistGraph>,
    config: &EdgeTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<SeedScores>,
) -> Result<FittedEdgeModel<B::InnerBackend>, TrainError> {
    let training = &config.training;
    let model_config = edge_model_config(graph.part().meta(), config)?;
    let embedded = EmbeddedNodes { graph, schema: &model_config.encoder.graph, dim: training.hidden_channels };
    check_model_memory::<B>(model_config.num_parameters(), Some(embedded), world)?;
    let mut model: EdgeModel<B> = model_config.init(training.fit.seed, device)?;
    model.set_precision(training.step.precision);
    let task = EdgeTask::new(graph, config, &model_config, device, world)?;
    fit(task, model, model_config, &training.fit, world, observer)
}

/// Evaluates a trained model and its embeddings on the validation and test edges. Every rank calls this function.
///
/// # Errors
/// A model that does not match the graph or the options, or a failure of the job.
pub fn evaluate_edge<'a, B: GnnBackend>(
    graph: &Arc<DistGraph>,
    config: &EdgeTrainingConfig,
    (model, model_config): (&EdgeModel<B>, &EdgeModelConfig),
    saved: impl Into<EmbeddingSource<'a>>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<SeedResult, TrainError> {
    let meta = graph.part().meta();
    let edge_type = check_fit(meta, model_config, config.training.sampler.num_neighbors.num_hops())?;
    let asked = labeled_edge_type(meta, config.edge_type.as_deref())?;
    let data = EdgeData::new(graph, config, model_config)?;
    let has = (model_config.edge_type_name(), model_config.num_outputs);
    if edge_type != asked || data.objective.num_outputs() != has.1 {
        let what = format!(
            "the model has {} outputs for edges of type {}, but this data needs {} outputs for its labels",
            has.1,
            has.0,
            data.objective.num_outputs()
        );
        return Err(TrainError::Config { what });
    }
    let hidden_channels = model_config.encoder.hidden_channels;
    let schema = Arc::new(model_config.encoder.graph.clone());
    let mut embeddings = Embeddings::new(graph, &schema, hidden_channels, config.training.fit.seed)?;
    embeddings.load(saved, world)?;
    let evaluator = EdgeEvaluator::new(&data, config, device, world)?;
    world.barrier()?;
    evaluator.evaluate_trained(model, &embeddings, world)
}
