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
//! - `reverse_overlap`: the check of declared reverse types;
//! - `most_negatives`: the check of metrics that are the same for every model;
//! - [`LinkPrediction`]: the task of training a model of this crate.

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
mod reverse_overlap;
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

use crate::error::{ModelError, TrainError};
use crate::fit::FitConfig;
use crate::model_file::{LoadableConfig, ModelSettings, TaskKind};
use crate::models::{LinkModel, LinkModelConfig, NetworkConfig, settings_with_entry};
use crate::seed_task::{SeedTask, Setup};
use burn::tensor::backend::Backend;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::sync::Arc;
use task::batch_options;

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

    fn fit_config(config: &LinkTrainingConfig) -> &FitConfig {
        &config.training.fit
    }

    fn model_config(graph: &Arc<DistGraph>, config: &LinkTrainingConfig) -> Result<LinkModelConfig, TrainError> {
        link_model_config(graph.part().meta(), config)
    }

    fn init<B: AutodiffGnnBackend>(setup: &Setup<'_, Self, B>) -> Result<LinkModel<B>, ModelError> {
        let mut model = setup.model_config.init(setup.config.training.fit.seed, setup.device)?;
        model.set_precision(setup.config.training.step.precision);
        Ok(model)
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
        if model_config.encoder.num_layers != asked.encoder.num_layers {
            let has = model_config.encoder.num_layers;
            let given = asked.encoder.num_layers;
            return Err(TrainError::config(format!(
                "the model has {has} layers, but `num_neighbors` has {given} fan-outs: make them equal"
            )));
        }
        Ok(config)
    }

    fn evaluator<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<LinkEvaluator<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        let schema = Arc::new(link_model_config(data.part().meta(), config)?.encoder.graph);
        LinkEvaluator::new(data, &schema, batch_options(model_config, false), config, device, world)
    }
}

impl ModelSettings for LinkModelConfig {
    fn num_parameters(&self) -> Option<usize> {
        Some(self.num_parameters().unwrap_or(usize::MAX))
    }

    fn task(&self) -> Option<TaskKind> {
        Some(LinkPrediction::KIND)
    }

    fn network(&self) -> Option<&NetworkConfig> {
        Some(&self.encoder)
    }
}

impl LoadableConfig for LinkModelConfig {
    type Model<B: Backend> = LinkModel<B>;

    fn from_json(json: &str) -> serde_json::Result<Self> {
        settings_with_entry(json, "decoder")
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.validate()
    }

    fn init<B: Backend>(&self, device: &B::Device) -> Result<LinkModel<B>, ModelError> {
        self.init(0, device)
    }
}
