//! Link prediction: a model learns to distinguish edges from negative pairs.
//!
//! - [`LinkTrainingConfig`]: the settings;
//! - [`LinkTask`]: the training task, and [`LinkEvaluator`]: the ranking of held-out edges;
//! - `batch`: a batch of edges as tensors;
//! - `loss`: the losses of links;
//! - `step`: the scores and the loss of a batch;
//! - `node_rows`: the rows of all nodes, for evaluations that compute each node once;
//! - `ranked_negatives`: negatives by the ranks of the last epoch;
//! - `popularity`: the probabilities of in-batch negatives;
//! - `filtered`: the ranking against all nodes;
//! - `given`: the ranking against negatives of the dataset;
//! - `most_negatives`: the check of metrics that are the same for every model;
//! - [`train_link`]: training with the models of this crate.

mod batch;
mod config;
mod evaluator;
mod filtered;
mod given;
mod judged;
mod loss;
mod most_negatives;
mod node_rows;
mod popularity;
mod rank_range;
mod ranked_negatives;
mod scored_edges;
mod scores;
mod step;
mod task;

pub use batch::LinkTensorBatch;
pub(crate) use config::is_pair;
pub use config::{
    LinkEvaluation, LinkMetric, LinkTrainingConfig, RankedEnds, link_model_config, negative_pair_types,
    target_edge_types,
};
pub use evaluator::LinkEvaluator;
pub use loss::{Bce, Bpr, LinkLoss, Margin, SelfAdversarial, Softmax};
pub use rank_range::RankRange;
pub use scores::{LinkResult, LinkScores};
pub use task::LinkTask;

use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::fit::{Evaluator, Fitted, Observer, fit};
use crate::memory::parameter_count::{EmbeddedNodes, check_model_memory};
use crate::models::{LinkModel, LinkModelConfig};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::sync::Arc;
use task::batch_options;

/// A trained model for link prediction.
pub type FittedLinkModel<B> = Fitted<LinkModel<B>, LinkModelConfig, LinkResult>;

/// Trains a model on this rank's share of the training edges, and tests the model of the best validation epoch. Every
/// rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Options that do not match the graph, a failure of the job, or a loss that is not finite.
pub fn train_link<B: AutodiffGnnBackend>(
    graph: &Arc<DistGraph>,
    config: &LinkTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<LinkScores>,
) -> Result<FittedLinkModel<B::InnerBackend>, TrainError> {
    let training = &config.training;
    let model_config = link_model_config(graph.part().meta(), config)?;
    let embedded = EmbeddedNodes { graph, schema: &model_config.encoder.graph, dim: training.hidden_channels };
    check_model_memory::<B>(model_config.num_parameters(), Some(embedded), world)?;
    let mut model: LinkModel<B> = model_config.init(training.fit.seed, device)?;
    model.set_precision(training.step.precision);
    let task = LinkTask::new(graph, config, &model_config, device, world)?;
    fit(task, model, model_config, &training.fit, world, observer)
}

/// Evaluates a trained model and its embeddings on the validation and test edges. Every rank calls this function.
///
/// # Errors
/// A model that does not match the graph or the options, or a failure of the job.
pub fn evaluate_link<'a, B: GnnBackend>(
    graph: &Arc<DistGraph>,
    config: &LinkTrainingConfig,
    model: &LinkModel<B>,
    model_config: &LinkModelConfig,
    saved: impl Into<EmbeddingSource<'a>>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<LinkResult, TrainError> {
    let training = config.training.for_network(&model_config.encoder);
    let meta = graph.part().meta();
    let config = &LinkTrainingConfig { training, ..config.for_evaluation(meta)? };
    let asked = link_model_config(meta, config)?;
    model_config.encoder.graph.check_graph(&asked.encoder.graph)?;
    if model_config.encoder.num_layers != asked.encoder.num_layers {
        let has = model_config.encoder.num_layers;
        let given = asked.encoder.num_layers;
        return Err(TrainError::config(format!(
            "the model has {has} layers, but `num_neighbors` has {given} fan-outs: make them equal"
        )));
    }
    let schema = Arc::new(asked.encoder.graph);
    let mut embeddings =
        Embeddings::new(graph, &schema, model_config.encoder.hidden_channels, config.training.fit.seed)?;
    embeddings.load(saved, world)?;
    let evaluator = LinkEvaluator::new(graph, &schema, batch_options(model_config, false), config, device, world)?;
    world.barrier()?;
    evaluator.evaluate_trained(model, &embeddings, world)
}
