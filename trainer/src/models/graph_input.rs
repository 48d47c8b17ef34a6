//! What a model of whole graphs reads.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::model_error::ModelError;
use super::model_input::Mode;
use crate::nn::GcnNorm;
use crate::ops::{Block, GnnBackend, Segments};
use burn::module::Module;

/// Several graphs side by side, as tensors. Cloning is cheap.
///
/// Invariants: the block's destinations and sources are all nodes, of which features and segments have as many.
#[derive(Debug, Clone)]
pub struct GraphInput<B: Backend> {
    features: Tensor<B, 2>,
    block: Block,
    segments: Segments,
    gcn_norm: Option<GcnNorm>,
}

impl<B: Backend> GraphInput<B> {
    /// Graphs with these features, edges, and nodes of each.
    ///
    /// # Shapes
    /// - `features`: `[num_nodes, in_channels]`
    ///
    /// # Errors
    /// [`ModelError::Graphs`] if these disagree on the number of nodes.
    pub fn new(features: Tensor<B, 2>, block: Block, segments: Segments) -> Result<Self, ModelError> {
        let [rows, _] = features.dims();
        let given = [rows, block.num_dst(), block.num_src(), segments.num_rows()];
        if given.iter().any(|&nodes| nodes != rows) {
            return Err(ModelError::Graphs { given });
        }
        Ok(Self { features, block, segments, gcn_norm: None })
    }

    /// Adds what a GCN needs.
    ///
    /// # Errors
    /// [`ModelError::ForeignNorm`] if it was not computed for these graphs.
    pub fn with_gcn_norm(mut self, norm: GcnNorm) -> Result<Self, ModelError> {
        if !norm.weights().fits(self.block.graph()) {
            return Err(ModelError::ForeignNorm);
        }
        self.gcn_norm = Some(norm);
        Ok(self)
    }

    /// The features of all nodes.
    ///
    /// # Shapes
    /// - output: `[num_nodes, in_channels]`
    pub fn features(&self) -> Tensor<B, 2> {
        self.features.clone()
    }

    /// The edges of all graphs, which every layer works on.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Which nodes are of which graph.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The number of graphs.
    pub fn num_graphs(&self) -> usize {
        self.segments.num_segments()
    }

    /// What a [`GcnConv`](crate::nn::GcnConv) scales edges by.
    ///
    /// # Errors
    /// [`ModelError::MissingNorm`] if the batch was made without it.
    pub fn gcn_norm(&self) -> Result<&GcnNorm, ModelError> {
        self.gcn_norm.as_ref().ok_or(ModelError::MissingNorm)
    }

    /// Fails unless features have these columns.
    ///
    /// # Errors
    /// [`ModelError::FeatureWidth`].
    pub fn check(&self, in_channels: usize) -> Result<(), ModelError> {
        match self.features.dims() {
            [_, given] if given != in_channels => Err(ModelError::FeatureWidth { given, expected: in_channels }),
            _ => Ok(()),
        }
    }
}

/// A network that classifies graphs: what training and evaluation take, those of this crate and your own.
pub trait GraphClassifier<B: GnnBackend>: Module<B> {
    /// Logits of the graphs.
    ///
    /// # Shapes
    /// - output: `[num_graphs, num_classes]`
    ///
    /// # Errors
    /// [`ModelError`] if the batch does not fit the model.
    fn forward(&self, input: &GraphInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError>;
}
