//! A batch of edges with labels as tensors.

use crate::batch_input::{BatchOptions, TensorBatch, seed_starts};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::fit::{Outputs, SeedBatch};
use crate::inference::explanation::{ExplainedBatch, Inputs};
use crate::memory::feature_cache::FeatureCache;
use crate::models::{EdgeModel, EdgeModelConfig, GraphSchema, Mode};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use edgecut_dist_loader::LabeledEdgeBatch;
use edgecut_gnn::nn::EdgeRows;
use edgecut_gnn::ops::{GnnBackend, select_rows};
use std::sync::Arc;

/// The input of a training step: edges, the neighborhoods of their ends, and their labels. Nodes are identified by their row
/// in the encoder's output, which holds the seeds of all node types, one type after the other.
pub struct EdgeTensorBatch<B: Backend> {
    pub(super) graph: TensorBatch<B>,
    /// The row of each edge's source.
    src: Vec<u32>,
    /// The row of each edge's destination.
    dst: Vec<u32>,
    /// `[edges, feature_dim]`, if the model reads the features of edges.
    features: Option<Tensor<B, 2>>,
}

/// The settings that all batches of a model have in common.
#[derive(Clone)]
pub(super) struct EdgeBatchMaker<B: Backend> {
    pub(super) schema: Arc<GraphSchema>,
    pub(super) options: BatchOptions,
    /// The source type and the destination type of the edges.
    ends: (usize, usize),
    feature_dim: usize,
    pub(super) cache: Option<FeatureCache<B>>,
    device: B::Device,
}

impl<B: GnnBackend> EdgeBatchMaker<B> {
    pub(super) fn new(model: &EdgeModelConfig, options: BatchOptions, device: &B::Device) -> Self {
        let schema = Arc::new(model.encoder.graph.clone());
        let ends = schema.edge_ends()[model.edge_type.index()];
        Self { schema, options, ends, feature_dim: model.edge_feature_dim, cache: None, device: device.clone() }
    }

    /// Moves a batch to the device.
    pub(super) fn make(&self, batch: LabeledEdgeBatch) -> Result<EdgeTensorBatch<B>, TrainError> {
        let LabeledEdgeBatch { graph, mut src, mut dst, attributes, .. } = batch;
        let starts = seed_starts(&graph);
        src.iter_mut().for_each(|row| *row += starts[self.ends.0]);
        dst.iter_mut().for_each(|row| *row += starts[self.ends.1]);
        let num_edges = src.len();
        let features = (self.feature_dim > 0 && num_edges > 0).then(|| {
            if attributes.features.len() != num_edges * self.feature_dim {
                let found = attributes.features.len();
                let expected = self.feature_dim;
                return Err(TrainError::batch(format!("{found} features of {num_edges} edges with {expected} each")));
            }
            let data = TensorData::new(attributes.features, [num_edges, self.feature_dim]);
            Ok(Tensor::from_data(data, &self.device))
        });
        let features = features.transpose()?;
        let graph = TensorBatch::with_cache(graph, &self.schema, self.options, self.cache.as_ref(), &self.device)?;
        Ok(EdgeTensorBatch { graph, src, dst, features })
    }
}

impl<B: GnnBackend> ExplainedBatch<B, EdgeModel<B>> for EdgeTensorBatch<B> {
    fn filled(self, embeddings: &Embeddings, device: &B::Device) -> Result<Self, TrainError> {
        Ok(Self { graph: embeddings.fill(self.graph, device)?, ..self })
    }

    fn take_inputs(&mut self) -> Option<Inputs<B>> {
        let graph = self.graph.take_input()?;
        Some(Inputs { graph, of_targets: self.features.take() })
    }

    fn outputs(&self, inputs: Inputs<B>, model: &EdgeModel<B>, mode: Mode) -> Result<Tensor<B, 2>, TrainError> {
        let rows = model.encode(&inputs.graph, mode).map_err(TrainError::batch)?;
        let src = select_rows(&rows, &self.src);
        let dst = select_rows(&rows, &self.dst);
        Ok(model.decode(EdgeRows { src, dst, features: inputs.of_targets }, mode))
    }
}

impl<B: GnnBackend> SeedBatch<B, EdgeModel<B>> for EdgeTensorBatch<B> {
    fn compute(mut self, model: &EdgeModel<B>, mode: Mode) -> Result<Option<Outputs<B>>, TrainError> {
        let Some(inputs) = self.take_inputs() else {
            model.encoder.forward_without_rows(mode);
            return Ok(None);
        };
        let values = self.outputs(inputs, model, mode)?;
        Ok(Some(Outputs { values, target: self.graph.target }))
    }
}
