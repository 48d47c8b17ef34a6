//! Predictions for whole graphs.

mod batch;
mod config;
mod cross_validation;
mod evaluator;
mod split;
mod task;

pub use batch::{GraphBatchOptions, GraphTensorBatch, graph_batches};
pub use config::GraphTrainingConfig;
pub use cross_validation::{CrossValidationResult, FoldScores, Protocol, cross_validate};
pub use evaluator::GraphEvaluator;
pub use split::GraphSplit;
pub use task::GraphTask;

use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{Evaluator, Fitted, Observer, fit};
use crate::memory::parameter_count::check_model_memory;
use crate::models::{Network, NetworkConfig};
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::SeedScores;
use edgecut_cluster::ProcessGroup;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use edgecut_graph::GraphDataset;
use std::sync::Arc;

/// A trained model for whole graphs.
pub type FittedGraphModel<B> = Fitted<Network<B>, NetworkConfig, SeedResult>;

/// Trains a model on this rank's share of the training graphs, and tests the model of the best validation epoch. Every
/// rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Options that do not match the graphs, more ranks than training graphs, a failure of the job, or a loss that is not
/// finite.
pub fn train_graph<B: AutodiffGnnBackend>(
    graphs: &Arc<GraphDataset>,
    split: &GraphSplit,
    config: &GraphTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<SeedScores>,
) -> Result<FittedGraphModel<B::InnerBackend>, TrainError> {
    let model_config = config.model_config(graphs)?;
    task::check_share(graphs, split, world)?;
    check_model_memory::<B>(model_config.num_parameters(), None, world)?;
    let mut model: Network<B> = model_config.init(config.fit.seed, device)?;
    model.set_precision(config.step.precision);
    let task = GraphTask::new(graphs, split, config, device, world)?;
    fit(task, model, model_config, &config.fit, world, observer)
}

/// Evaluates a trained model on the validation and test graphs.
///
/// # Errors
/// A model that does not match the graphs, or a failure of the job.
pub fn evaluate_graph<B: GnnBackend>(
    graphs: &Arc<GraphDataset>,
    split: &GraphSplit,
    config: &GraphTrainingConfig,
    (model, model_config): (&Network<B>, &NetworkConfig),
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<SeedResult, TrainError> {
    let no_edge_features = !model_config.graph.has_edge_features();
    let config = GraphTrainingConfig { conv: model_config.kind, no_edge_features, ..config.clone() };
    let expected = config.model_config(graphs)?;
    if let Some(what) = model_config.graph.difference(&expected.graph).filter(|_| !no_edge_features) {
        return Err(TrainError::Config { what: format!("the model was trained for other graphs: these have {what}") });
    }
    let features = model_config.graph.node_types[0].feature_dim;
    if (features, &model_config.outputs) != (graphs.feature_dim(), &expected.outputs) {
        let what = format!(
            "the model has {features} features and {} outputs, but the graphs of {} have {} and {}",
            model_config.num_outputs(),
            graphs.name(),
            graphs.feature_dim(),
            expected.num_outputs()
        );
        return Err(TrainError::Config { what });
    }
    let evaluator = GraphEvaluator::new(graphs, split, &config, device, world)?;
    evaluator.evaluate_trained(model, &Embeddings::default(), world)
}
