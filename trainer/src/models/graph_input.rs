//! The input of a model for whole graphs.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::model_input::ModelInput;
use crate::error::ModelError;
use burn::module::Module;
use edgecut_gnn::nn::{GcnNorm, Mode};
use edgecut_gnn::ops::{Block, GnnBackend, Segments};

/// A batch of whole graphs as tensors: one graph of several components. Cloning is cheap.
///
/// Invariants: the destinations and the sources of the block are all nodes, and the features and the segments have as
/// many rows.
#[derive(Debug, Clone)]
pub struct GraphInput<B: Backend> {
    nodes: ModelInput<B>,
    segments: Segments,
}

impl<B: Backend> GraphInput<B> {
    /// Makes a batch from the features of all nodes, the edges of all graphs and the segment of nodes of each graph.
    ///
    /// # Shapes
    /// - `features`: `[num_nodes, in_channels]`
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the arguments have different numbers of nodes.
    pub fn new(features: Tensor<B, 2>, block: Block, segments: Segments) -> Result<Self, ModelError> {
        let [rows, _] = features.dims();
        let [destinations, sources, pooled] = [block.num_dst(), block.num_src(), segments.num_rows()];
        if [destinations, sources, pooled] != [rows; 3] {
            return Err(ModelError::batch(format!(
                "batch of graphs: {rows} rows of features, {destinations} destinations, {sources} sources and {pooled} \
                 pooled rows, but all four numbers must be equal"
            )));
        }
        Ok(Self { nodes: ModelInput::new(features, vec![block])?, segments })
    }

    /// Adds the normalisation that a GCN needs.
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the normalisation was made for a batch of another size.
    pub fn with_gcn_norm(self, norm: GcnNorm) -> Result<Self, ModelError> {
        Ok(Self { nodes: self.nodes.with_gcn_norm(norm)?, ..self })
    }

    /// Adds features of the edges, in the order of the block's edges.
    ///
    /// # Shapes
    /// - `rows`: `[num_edges, edge_dim]`
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the number of rows is not the number of edges.
    pub fn with_edge_features(self, rows: Tensor<B, 2>) -> Result<Self, ModelError> {
        Ok(Self { nodes: self.nodes.with_edge_features(vec![Some(rows)])?, ..self })
    }

    /// Returns the features of all nodes.
    ///
    /// # Shapes
    /// - output: `[num_nodes, in_channels]`
    pub fn features(&self) -> Tensor<B, 2> {
        self.nodes.features()
    }

    /// Returns the edges of all graphs. Every layer works on the same block.
    pub fn block(&self) -> &Block {
        &self.nodes.blocks()[0]
    }

    /// Returns the nodes and edges of all graphs as one graph, with the block of every layer.
    pub fn nodes(&self) -> &ModelInput<B> {
        &self.nodes
    }

    /// Returns the batch with other values of its nodes and edges.
    pub(crate) fn with_nodes(&self, nodes: ModelInput<B>) -> Self {
        Self { nodes, segments: self.segments.clone() }
    }

    /// Returns the segments: the range of nodes of each graph.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Returns the number of graphs.
    pub fn num_graphs(&self) -> usize {
        self.segments.num_segments()
    }

    /// Returns the normalisation that a [`GcnConv`](edgecut_gnn::nn::GcnConv) needs.
    ///
    /// # Errors
    /// [`ModelError::Batch`] if the batch was made without normalisation.
    pub fn gcn_norm(&self) -> Result<&GcnNorm, ModelError> {
        self.nodes.gcn_norm()
    }

    /// Checks that the features have `in_channels` columns.
    ///
    /// # Errors
    /// [`ModelError::Batch`] if not.
    pub fn check(&self, in_channels: usize) -> Result<(), ModelError> {
        self.nodes.check(1, in_channels)
    }
}

/// A model that classifies whole graphs. Training and evaluation take any implementation.
pub trait GraphClassifier<B: GnnBackend>: Module<B> {
    /// Computes the logits of the graphs.
    ///
    /// # Shapes
    /// - output: `[num_graphs, num_classes]`
    ///
    /// # Errors
    /// [`ModelError`] if the batch does not match the model.
    fn forward(&self, input: &GraphInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError>;

    /// Takes part in the exchanges of a forward pass for which this rank has no graphs, as
    /// [`Network::forward_without_rows`](super::Network::forward_without_rows) does. The default does nothing.
    fn forward_without_seeds(&self, _mode: Mode) {}
}
