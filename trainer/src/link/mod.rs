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
//! - `list_ranking`: the best destinations of sources, compared with held-out edges, and `list_metric`: their metrics;
//! - `edge_batches`: held-out edges and their negatives in batches;
//! - `given`: the ranking against negatives of the dataset;
//! - `reverse_overlap`: the check of declared reverse types;
//! - `undeclared_reverse`: the note on reverse types that nothing declares;
//! - `most_negatives`: the check of metrics that are the same for every model;
//! - [`LinkPrediction`]: the task of training a model of this crate.

mod batch;
mod config;
mod edge_batches;
mod evaluator;
mod filtered;
mod given;
mod judged;
mod list_metric;
mod list_ranking;
mod loss;
mod most_negatives;
mod node_rows;
mod popularity;
mod rank_range;
mod ranked_negatives;
mod reverse_overlap;
mod scored_edges;
mod scores;
mod step;
mod task;
mod undeclared_reverse;

pub use batch::LinkTensorBatch;
pub(crate) use config::is_pair;
pub use config::{
    LinkEvaluation, LinkMetric, LinkTrainingConfig, RankedEnds, link_model_config, negative_pair_types,
    target_edge_types,
};
pub use evaluator::LinkEvaluator;
pub use list_metric::{ListMetric, ListScores};
pub use loss::{Bce, Bpr, LinkLoss, Margin, SelfAdversarial, Softmax};
pub use rank_range::RankRange;
pub use scores::{LinkResult, LinkScores};
pub use task::LinkTask;
pub use undeclared_reverse::undeclared_reverses;

use crate::batch_input::BatchOptions;
use crate::error::TrainError;
use crate::model_file::{TaskKind, encoder_settings};
use crate::models::{LinkModel, LinkModelConfig};
use crate::seed_task::{SeedTask, Setup, of_training_config};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::sync::Arc;

/// Link prediction by a [`LinkModel`].
#[derive(Debug)]
pub struct LinkPrediction;

impl SeedTask for LinkPrediction {
    const KIND: TaskKind = TaskKind { name: "link", items: "links" };

    type Data = Arc<DistGraph>;
    type Config = LinkTrainingConfig;
    type ModelConfig = LinkModelConfig;
    type Scores = LinkScores;
    type Outcome = LinkResult;
    type Model<B: AutodiffGnnBackend> = LinkModel<B>;
    type Training<B: AutodiffGnnBackend> = LinkTask<B>;
    type Evaluator<B: GnnBackend> = LinkEvaluator<B>;

    of_training_config!();

    fn model_config(graph: &Arc<DistGraph>, config: &LinkTrainingConfig) -> Result<LinkModelConfig, TrainError> {
        link_model_config(graph.part().meta(), config)
    }

    fn training<B: AutodiffGnnBackend>(setup: Setup<'_, Self, B>) -> Result<LinkTask<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        LinkTask::new(data, config, model_config, device, world)
    }

    fn evaluation_config<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<LinkTrainingConfig, TrainError> {
        let Setup { data, config, model_config, .. } = setup;
        let meta = data.part().meta();
        let training = config.training.for_network(&model_config.encoder);
        let config = LinkTrainingConfig { training, ..config.for_evaluation(meta)? };
        let asked = link_model_config(meta, &config)?;
        model_config.encoder.graph.check_graph(&asked.encoder.graph)?;
        model_config.encoder.check_hops(asked.encoder.num_layers)?;
        Ok(config)
    }

    fn evaluator<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<LinkEvaluator<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        let schema = Arc::new(link_model_config(data.part().meta(), config)?.encoder.graph);
        let options = BatchOptions::of_encoder(&model_config.encoder, false);
        LinkEvaluator::new(data, &schema, options, config, device, world)
    }
}

encoder_settings!(LinkModelConfig, LinkModel, LinkPrediction::KIND);
