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
use crate::error::TrainError;
use crate::model_file::TaskKind;
use crate::models::{Mode, ModelInput, Network};
use crate::seed_task::{SeedTask, Setup, of_training_config};
use burn::tensor::Tensor;
use config::{check_fit, heads};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use edgecut_graph::NodeTypeId;
use evaluator::GraphTargets;
use std::sync::Arc;

/// Predictions of several targets of nodes by one [`Network`].
#[derive(Debug)]
pub struct MultiPrediction;

impl SeedTask for MultiPrediction {
    const KIND: TaskKind = TaskKind { name: "multi", items: "several targets" };

    type Data = Arc<DistGraph>;
    type Config = MultiTrainingConfig;
    type ModelConfig = MultiModelConfig;
    type Scores = MultiScores;
    type Outcome = MultiResult;
    type Model<B: AutodiffGnnBackend> = Network<B>;
    type Training<B: AutodiffGnnBackend> = MultiTask<B>;
    type Evaluator<B: GnnBackend> = MultiEvaluator<B>;

    of_training_config!(network);

    fn model_config(graph: &Arc<DistGraph>, config: &MultiTrainingConfig) -> Result<MultiModelConfig, TrainError> {
        multi_model_config(graph, config)
    }

    fn training<B: AutodiffGnnBackend>(setup: Setup<'_, Self, B>) -> Result<MultiTask<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        MultiTask::new(data, config, BatchOptions::of_model(&model_config.network, true), device, world)
    }

    fn evaluation_config<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<MultiTrainingConfig, TrainError> {
        let Setup { data, config, model_config, .. } = setup;
        check_fit(data, config, model_config)?;
        let training = config.training.for_network(&model_config.network);
        Ok(MultiTrainingConfig { training, targets: config.targets.clone() })
    }

    fn evaluator<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<MultiEvaluator<B>, TrainError> {
        let Setup { data, config, model_config, device, world } = setup;
        let meta = data.part().meta();
        let targets = GraphTargets {
            graph: Arc::clone(data),
            schema: Arc::new(config.training.schema(meta)?),
            heads: heads(meta, config)?.into(),
        };
        let options = BatchOptions::of_model(&model_config.network, false);
        MultiEvaluator::new(targets, &config.training, options, device, world)
    }
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
