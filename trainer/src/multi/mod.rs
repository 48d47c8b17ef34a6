//! Predictions of several targets of nodes by one network: labels of one node type or of several ones.

mod config;
mod evaluator;
mod head;
mod model_config;
mod target_label;
mod task;

pub use config::{MultiTrainingConfig, TargetConfig, multi_model_config};
pub use evaluator::{MultiEvaluator, MultiResult, MultiScores, TargetResult};
pub use model_config::{MultiModelConfig, SavedTarget};
pub use target_label::{KnownNodes, TargetLabel};
pub use task::MultiTask;

use crate::batch_input::BatchOptions;
use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::fit::{Evaluator, Fitted, Observer, fit};
use crate::memory::parameter_count::{EmbeddedNodes, check_model_memory};
use crate::models::{Mode, ModelInput, Network};
use burn::tensor::Tensor;
use config::{check_fit, heads};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use edgecut_graph::NodeTypeId;
use evaluator::GraphTargets;
use std::sync::Arc;

/// A trained model for several targets.
pub type FittedMultiModel<B> = Fitted<Network<B>, MultiModelConfig, MultiResult>;

/// Trains a model for several targets on this rank's share of their training nodes, and tests the model of the best validation
/// epoch. Every rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Options that do not match the graph, a failure of the job, or a loss that is not finite.
pub fn train_multi<B: AutodiffGnnBackend>(
    graph: &Arc<DistGraph>,
    config: &MultiTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<MultiScores>,
) -> Result<FittedMultiModel<B::InnerBackend>, TrainError> {
    let settings = multi_model_config(graph, config)?;
    let network = &settings.network;
    let embedded = EmbeddedNodes { graph, schema: &network.graph, dim: network.hidden_channels };
    check_model_memory::<B>(network.num_parameters(), Some(embedded), world)?;
    let mut model: Network<B> = network.init(config.training.fit.seed, device)?;
    model.set_precision(config.training.step.precision);
    let task = MultiTask::new(graph, config, BatchOptions::of_model(network, true), device, world)?;
    fit(task, model, settings, &config.training.fit, world, observer)
}

/// Evaluates a trained model and its embeddings on the validation and test nodes of all targets. Every rank calls this
/// function.
///
/// # Errors
/// A model that does not match the graph or the options, or a failure of the job.
pub fn evaluate_multi<'a, B: GnnBackend>(
    graph: &Arc<DistGraph>,
    config: &MultiTrainingConfig,
    model: (&Network<B>, &MultiModelConfig),
    saved: impl Into<EmbeddingSource<'a>>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<MultiResult, TrainError> {
    let (model, settings) = model;
    let network = &settings.network;
    check_fit(graph, config, settings)?;
    let training = config.training.for_network(network);
    let config = MultiTrainingConfig { training, targets: config.targets.clone() };
    let training = &config.training;
    let meta = graph.part().meta();
    let schema = Arc::new(training.schema(meta)?);
    let mut embeddings = Embeddings::new(graph, &schema, network.hidden_channels, training.fit.seed)?;
    embeddings.load(saved, world)?;
    let targets = GraphTargets { graph: Arc::clone(graph), schema, heads: heads(meta, &config)?.into() };
    let evaluator = MultiEvaluator::new(targets, training, BatchOptions::of_model(network, false), device, world)?;
    evaluator.evaluate_trained(model, &embeddings, world)
}

/// Computes the outputs for the seeds of a batch, which are of one node type.
fn outputs_of_type<B: GnnBackend>(
    model: &Network<B>,
    node_type: NodeTypeId,
    input: ModelInput<B>,
    mode: Mode,
) -> Result<Tensor<B, 2>, TrainError> {
    let mut rows = model.forward_by_type(&input, mode).map_err(TrainError::batch)?;
    let channels = model.config().outputs.iter().find(|output| output.node_type == node_type);
    let channels = channels.map_or(0, |output| output.channels);
    let rows = rows.swap_remove(node_type.index());
    Ok(rows.unwrap_or_else(|| Tensor::zeros([0, channels], &input.device())))
}
