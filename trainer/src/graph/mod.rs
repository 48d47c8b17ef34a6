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
pub use split::{GraphSplit, SplitGraphs};
pub use task::GraphTask;

use crate::error::{ModelError, TrainError};
use crate::fit::FitConfig;
use crate::model_file::TaskKind;
use crate::models::{Network, NetworkConfig};
use crate::objective::seed_result::SeedResult;
use crate::objective::seed_scores::SeedScores;
use crate::seed_task::{SeedTask, Setup};
use edgecut_cluster::ProcessGroup;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};

/// Prediction of the classes, labels or numbers of whole graphs by a [`Network`].
#[derive(Debug)]
pub struct GraphPrediction;

impl SeedTask for GraphPrediction {
    const KIND: TaskKind = TaskKind::GRAPH;

    type Data = SplitGraphs;
    type Config = GraphTrainingConfig;
    type ModelConfig = NetworkConfig;
    type Scores = SeedScores;
    type Outcome = SeedResult;
    type Model<B: AutodiffGnnBackend> = Network<B>;
    type Training<B: AutodiffGnnBackend> = GraphTask<B>;
    type Evaluator<B: GnnBackend> = GraphEvaluator<B>;

    fn fit_config(config: &GraphTrainingConfig) -> &FitConfig {
        &config.fit
    }

    fn model_config(data: &SplitGraphs, config: &GraphTrainingConfig) -> Result<NetworkConfig, TrainError> {
        config.model_config(&data.graphs)
    }

    fn check_training_data(data: &SplitGraphs, world: &mut ProcessGroup) -> Result<(), TrainError> {
        task::check_share(&data.graphs, &data.split, world)
    }

    fn init<B: AutodiffGnnBackend>(setup: &Setup<'_, Self, B>) -> Result<Network<B>, ModelError> {
        let mut model = setup.model_config.init(setup.config.fit.seed, setup.device)?;
        model.set_precision(setup.config.step.precision);
        let GraphTrainingConfig { step, sync_batch_norm, .. } = setup.config;
        model.set_batch_norm_sync(step.batch_norm_sync(*sync_batch_norm, setup.world)?);
        Ok(model)
    }

    fn training<B: AutodiffGnnBackend>(setup: Setup<'_, Self, B>) -> Result<GraphTask<B>, TrainError> {
        let Setup { data: SplitGraphs { graphs, split }, config, device, world, .. } = setup;
        GraphTask::new(graphs, split, config, device, world)
    }

    fn evaluation_config<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<GraphTrainingConfig, TrainError> {
        let Setup { data: SplitGraphs { graphs, .. }, config, model_config, .. } = setup;
        let no_edge_features = !model_config.graph.has_edge_features();
        let config = GraphTrainingConfig { conv: model_config.kind, no_edge_features, ..config.clone() };
        let expected = config.model_config(graphs)?;
        if let Some(what) = model_config.graph.difference(&expected.graph).filter(|_| !no_edge_features) {
            return Err(TrainError::config(format!("the model was trained for other graphs: these have {what}")));
        }
        let features = model_config.graph.node_types[0].feature_dim;
        if (features, &model_config.outputs) != (graphs.feature_dim(), &expected.outputs) {
            return Err(TrainError::config(format!(
                "the model has {features} features and {} outputs, but the graphs of {} have {} and {}",
                model_config.num_outputs(),
                graphs.name(),
                graphs.feature_dim(),
                expected.num_outputs()
            )));
        }
        Ok(config)
    }

    fn evaluator<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<GraphEvaluator<B>, TrainError> {
        let Setup { data: SplitGraphs { graphs, split }, config, device, world, .. } = setup;
        GraphEvaluator::new(graphs, split, config, device, world)
    }
}
