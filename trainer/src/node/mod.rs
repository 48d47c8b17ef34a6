//! Predictions for nodes.

mod config;
mod evaluator;
mod layer_wise_evaluation;
mod task;

pub use config::{NodeTrainingConfig, model_config, seed_type};
pub use evaluator::NodeEvaluator;
pub use task::NodeTask;

use crate::batch_input::BatchOptions;
use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::fit::{Evaluator, Fitted, Observer, fit};
use crate::memory::parameter_count::{EmbeddedNodes, check_model_memory};
use crate::models::{Network, NetworkConfig};
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::SeedScores;
use config::{check_fit, check_num_classes};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::sync::Arc;
use task::NodeData;

/// A trained model for nodes.
pub type FittedNodeModel<B> = Fitted<Network<B>, NetworkConfig, SeedResult>;

/// Trains one of this crate's models on this rank's share of the training nodes, and tests the model of the best
/// validation epoch. Every rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Options that do not match the graph, a failure of the job, or a loss that is not finite.
pub fn train_node<B: AutodiffGnnBackend>(
    graph: &Arc<DistGraph>,
    config: &NodeTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<SeedScores>,
) -> Result<FittedNodeModel<B::InnerBackend>, TrainError> {
    let model_config = model_config(graph, config)?;
    check_num_classes(graph, world)?;
    let data = NodeData::new(graph, config)?;
    let embedded = EmbeddedNodes { graph, schema: &data.schema, dim: model_config.hidden_channels };
    check_model_memory::<B>(model_config.num_parameters(), Some(embedded), world)?;
    let mut model: Network<B> = model_config.init(config.training.fit.seed, device)?;
    model.set_precision(config.training.step.precision);
    let task = NodeTask::new(graph, config, BatchOptions::of_model(&model_config, true), device, world)?;
    fit(task, model, model_config, &config.training.fit, world, observer)
}

/// Evaluates a trained model and its embeddings on the validation and test nodes. Every rank calls this function.
///
/// # Errors
/// A model that does not match the graph or the options, or a failure of the job.
pub fn evaluate_node<'a, B: GnnBackend>(
    graph: &Arc<DistGraph>,
    config: &NodeTrainingConfig,
    model: &Network<B>,
    model_config: &NetworkConfig,
    saved: impl Into<EmbeddingSource<'a>>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<SeedResult, TrainError> {
    check_fit(graph, config, model_config)?;
    check_num_classes(graph, world)?;
    let config =
        NodeTrainingConfig { training: config.training.for_network(model_config), scoring: config.scoring.clone() };
    let data = NodeData::new(graph, &config)?;
    let mut embeddings = Embeddings::new(graph, &data.schema, model_config.hidden_channels, config.training.fit.seed)?;
    embeddings.load(saved, world)?;
    let evaluator = NodeEvaluator::new(&data, &config, BatchOptions::of_model(model_config, false), device, world)?;
    evaluator.evaluate_trained(model, &embeddings, world)
}
