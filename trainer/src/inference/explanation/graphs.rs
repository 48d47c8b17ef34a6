//! Explanations of predictions of whole graphs.

use super::{
    ExplainedBatch, ExplanationConfig, ExplanationRun, ExplanationVisitor, Inputs, Neighborhood, explain_batches,
};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::gradients::{flatten_parameters, load_parameters};
use crate::graph::{GraphBatchOptions, GraphTensorBatch};
use crate::inference::graphs::check_node_features;
use crate::models::{GraphClassifier, Mode, Network, NetworkConfig};
use burn::module::Module;
use burn::tensor::Tensor;
use edgecut_dist_loader::{GraphBatch, GraphDataLoader, GraphLoaderConfig};
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use edgecut_graph::GraphDataset;
use std::sync::Arc;

/// Explains the predictions of a model for some graphs of a set. Every rank must call this with the same arguments, and
/// visits all explanations in the order of the graphs. The graphs of a batch depend on the number of ranks, and with them the
/// last bits. Nodes have their number in their graph as id. Fan-outs, times and the
/// seed of `config` have no meaning.
///
/// # Errors
/// A model that does not match the graphs or the settings, a graph that does not exist, an error of `visit`, or a failure of
/// the job.
pub fn explain_graphs<B: AutodiffGnnBackend>(
    dataset: &Arc<GraphDataset>,
    graphs: Vec<u32>,
    model: (&Network<B::InnerBackend>, &NetworkConfig),
    config: &ExplanationConfig,
    run: ExplanationRun<'_, '_, B::InnerBackend>,
    visit: &mut ExplanationVisitor<'_>,
) -> Result<(), TrainError> {
    let (model, model_config) = model;
    check_node_features(dataset, model_config)?;
    config.check_output(model_config.num_outputs())?;
    let model = load_parameters(model_config.init::<B>(0, run.device)?, &flatten_parameters(model))?.no_grad();
    let loader_config = GraphLoaderConfig {
        shuffle: false,
        prefetch_bytes: config.prefetch_bytes,
        ..GraphLoaderConfig::new(config.batch_size)
    };
    let rank = run.world.rank();
    let loader = GraphDataLoader::new(dataset.clone(), graphs, loader_config, rank, run.world.size())?;
    let options = GraphBatchOptions::of_model(model_config, true);
    let device = run.device.clone();
    let batches = loader.epoch_map(0, move |batch: GraphBatch| {
        let neighborhood = Neighborhood::of_graphs(&batch);
        Ok((neighborhood, GraphTensorBatch::<B>::new(batch, options, &device)?))
    });
    explain_batches(batches, &model, &Embeddings::default(), config, run, visit)
}

impl<B: GnnBackend, M: GraphClassifier<B>> ExplainedBatch<B, M> for GraphTensorBatch<B> {
    fn filled(self, _embeddings: &Embeddings, _device: &B::Device) -> Result<Self, TrainError> {
        Ok(self)
    }

    fn take_inputs(&mut self) -> Option<Inputs<B>> {
        Some(Inputs { graph: self.input()?.nodes().clone(), of_targets: None })
    }

    fn outputs(&self, inputs: Inputs<B>, model: &M, mode: Mode) -> Result<Tensor<B, 2>, TrainError> {
        let Some(input) = self.input() else { return Err(TrainError::batch("a batch without graphs")) };
        model.forward(&input.with_nodes(inputs.graph), mode).map_err(TrainError::batch)
    }
}
