//! Explanations of predictions of nodes.

use super::{ExplainedBatch, ExplanationConfig, ExplanationVisitor, Inputs, Neighborhood, explain_batches};
use crate::batch_input::{BatchOptions, TensorBatch};
use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::gradients::{flatten_parameters, load_parameters};
use crate::inference::predict::{PredictionJob, Trained};
use crate::models::{GraphSchema, Mode, Network, NetworkConfig, NodeClassifier};
use burn::module::Module;
use burn::tensor::Tensor;
use edgecut_dist_loader::{DistNeighborLoader, MiniBatch, Seeds};
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::sync::Arc;

/// Explains the predictions of a node classifier for `nodes`, which are global ids in an order that does not depend on the
/// parts. Every rank must call this with the same arguments, and visits all explanations in the order of the nodes.
///
/// # Errors
/// A model that does not match the graph or the settings, an error of `visit`, or a failure of the job.
pub fn explain_nodes<'s, B: AutodiffGnnBackend>(
    job: PredictionJob<'_, '_, B::InnerBackend>,
    model: (&Network<B::InnerBackend>, &NetworkConfig),
    saved: impl Into<EmbeddingSource<'s>>,
    nodes: Vec<u32>,
    config: &ExplanationConfig,
    visit: &mut ExplanationVisitor<'_>,
) -> Result<(), TrainError> {
    let graph = job.graph;
    let (model, model_config) = model;
    let model = load_parameters(model_config.init::<B>(0, job.device)?, &flatten_parameters(model))?.no_grad();
    let trained = Trained::new(&model, model_config);
    let embeddings = trained.embeddings(graph, saved.into().read_by(&config.sampler)?, job.world)?;
    let node_type = trained.node_type(graph, None)?;
    trained.check_classified(graph, node_type)?;
    model_config.check_hops(config.sampler.num_neighbors.num_hops())?;
    config.check_output(model_config.num_outputs())?;
    let schema = Arc::new(GraphSchema::read_by(&model_config.graph, graph.part().meta())?);
    let sampler = schema.sampler(graph, config.sampler.clone().with_disjoint(true))?;
    let options = options(BatchOptions::of_model(model_config, false));
    let seeds = match config.time {
        None => Seeds::Listed(nodes),
        Some(time) => Seeds::Timed(nodes.into_iter().map(|node| (node, time)).collect()),
    };
    let loader = DistNeighborLoader::new(sampler, node_type, seeds, config.loader(options), job.world)?;
    let loader = loader.with_draws_by_seed();
    let of_device = job.device.clone();
    let batches = loader.epoch_map(0, move |batch: MiniBatch| {
        let num_seeds = batch.num_seeds;
        let neighborhood = Neighborhood::of(&batch, &schema).with_target_nodes(node_type, num_seeds);
        Ok((neighborhood, TensorBatch::<B>::new(batch, &schema, options, &of_device)?))
    });
    explain_batches(batches, &model, &embeddings, config, job.into(), visit)
}

impl<B: GnnBackend, M: NodeClassifier<B>> ExplainedBatch<B, M> for TensorBatch<B> {
    fn filled(self, embeddings: &Embeddings, device: &B::Device) -> Result<Self, TrainError> {
        embeddings.fill(self, device)
    }

    fn take_inputs(&mut self) -> Option<Inputs<B>> {
        Some(Inputs { graph: self.take_input()?, of_targets: None })
    }

    fn outputs(&self, inputs: Inputs<B>, model: &M, mode: Mode) -> Result<Tensor<B, 2>, TrainError> {
        model.forward(inputs.graph, mode).map_err(TrainError::batch)
    }
}

/// Returns the options of batches whose features have gradients.
pub(crate) fn options(of_model: BatchOptions) -> BatchOptions {
    BatchOptions { labels: false, for_training: true, maps_features: true, ..of_model }
}
