//! Predictions for nodes.

mod config;
mod evaluator;
mod layer_wise_evaluation;
mod task;

pub use config::{NodeTrainingConfig, model_config, seed_type};
pub use evaluator::NodeEvaluator;
pub use task::NodeTask;

use crate::batch_input::BatchOptions;
use crate::error::TrainError;
use crate::model_file::TaskKind;
use crate::models::{Network, NetworkConfig};
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::SeedScores;
use crate::seed_task::{SeedTask, Setup, of_training_config};
use config::{check_fit, check_num_classes};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::sync::Arc;
use task::NodeData;

/// Prediction of the classes, labels or numbers of nodes by a [`Network`].
#[derive(Debug)]
pub struct NodePrediction;

impl SeedTask for NodePrediction {
    const KIND: TaskKind = TaskKind::NODE;

    type Data = Arc<DistGraph>;
    type Config = NodeTrainingConfig;
    type ModelConfig = NetworkConfig;
    type Scores = SeedScores;
    type Outcome = SeedResult;
    type Model<B: AutodiffGnnBackend> = Network<B>;
    type Training<B: AutodiffGnnBackend> = NodeTask<B>;
    type Evaluator<B: GnnBackend> = NodeEvaluator<B>;

    of_training_config!();

    fn model_config(graph: &Arc<DistGraph>, config: &NodeTrainingConfig) -> Result<NetworkConfig, TrainError> {
        model_config(graph, config)
    }

    fn check_training_data(graph: &Arc<DistGraph>, world: &mut ProcessGroup) -> Result<(), TrainError> {
        check_num_classes(graph, world)
    }

    fn training<B: AutodiffGnnBackend>(setup: Setup<'_, Self, B>) -> Result<NodeTask<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        NodeTask::new(data, config, BatchOptions::of_model(model_config, true), device, world)
    }

    fn evaluation_config<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<NodeTrainingConfig, TrainError> {
        let Setup { data, config, model_config, world, .. } = setup;
        check_fit(data, config, model_config)?;
        check_num_classes(data, world)?;
        let training = config.training.for_network(model_config);
        Ok(NodeTrainingConfig { training, scoring: config.scoring.clone() })
    }

    fn evaluator<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<NodeEvaluator<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        let data = NodeData::new(data, config)?;
        NodeEvaluator::new(&data, config, BatchOptions::of_model(model_config, false), device, world)
    }
}
