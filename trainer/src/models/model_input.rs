//! What a model reads.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::model_error::ModelError;
use crate::nn::GcnNorm;
use crate::ops::{Activation, Block, DropoutKey, DropoutMask};

/// Whether a pass is for training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No dropout.
    Eval,
    /// Dropout with the masks of this key.
    Train(DropoutKey),
}

impl Mode {
    /// What follows a hidden layer: ReLU, and dropout in training. `layer` counts from 1; each has masks of its own.
    pub fn relu_and_dropout(self, probability: f64, layer: u64) -> Activation {
        let (key, probability) = match self {
            Self::Train(key) => (key, probability),
            Self::Eval => (DropoutKey::new(0, 0, 0), 0.0),
        };
        Activation::Relu(DropoutMask::new(probability, key.for_layer(layer)))
    }
}

/// One batch as tensors. Cloning is cheap.
///
/// Invariants: there is at least one block, the first reads as many nodes as there are features, and each reads what the
/// one before it computes.
#[derive(Debug, Clone)]
pub struct ModelInput<B: Backend> {
    pub(super) features: Tensor<B, 2>,
    pub(super) blocks: Vec<Block>,
    pub(super) gcn_norm: Option<GcnNorm>,
}

impl<B: Backend> ModelInput<B> {
    /// A batch of features and of blocks, the first layer's first.
    ///
    /// # Shapes
    /// - `features`: `[blocks[0].num_src, in_channels]`
    ///
    /// # Errors
    /// [`ModelError::LayerCount`] without blocks, [`ModelError::BlocksDoNotChain`] if sizes do not follow on each other.
    pub fn new(features: Tensor<B, 2>, blocks: Vec<Block>) -> Result<Self, ModelError> {
        if blocks.is_empty() {
            return Err(ModelError::LayerCount { blocks: 0, layers: 1 });
        }
        let [mut given, _] = features.dims();
        for (position, block) in blocks.iter().enumerate() {
            if block.num_src() != given {
                return Err(ModelError::BlocksDoNotChain { block: position, num_src: block.num_src(), given });
            }
            given = block.num_dst();
        }
        Ok(Self { features, blocks, gcn_norm: None })
    }

    /// Adds what a GCN needs.
    ///
    /// # Errors
    /// [`ModelError::ForeignNorm`] if it was not computed for this batch.
    pub fn with_gcn_norm(mut self, norm: GcnNorm) -> Result<Self, ModelError> {
        if self.blocks.iter().any(|block| !norm.weights().fits(block.graph())) {
            return Err(ModelError::ForeignNorm);
        }
        self.gcn_norm = Some(norm);
        Ok(self)
    }

    /// The features of all nodes of the batch.
    ///
    /// # Shapes
    /// - output: `[blocks[0].num_src, in_channels]`
    pub fn features(&self) -> Tensor<B, 2> {
        self.features.clone()
    }

    /// What a [`GcnConv`](crate::nn::GcnConv) scales edges by.
    ///
    /// # Errors
    /// [`ModelError::MissingNorm`] if the batch was made without it.
    pub fn gcn_norm(&self) -> Result<&GcnNorm, ModelError> {
        self.gcn_norm.as_ref().ok_or(ModelError::MissingNorm)
    }

    /// Nodes that the model classifies.
    pub fn num_seeds(&self) -> usize {
        self.blocks.last().map_or(0, Block::num_dst)
    }

    /// The blocks, the first layer's first.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Fails unless the batch has these many layers and columns of features.
    ///
    /// # Errors
    /// [`ModelError::LayerCount`] or [`ModelError::FeatureWidth`].
    pub fn check(&self, layers: usize, in_channels: usize) -> Result<(), ModelError> {
        if self.blocks.len() != layers {
            return Err(ModelError::LayerCount { blocks: self.blocks.len(), layers });
        }
        let [_, given] = self.features.dims();
        if given != in_channels {
            return Err(ModelError::FeatureWidth { given, expected: in_channels });
        }
        Ok(())
    }
}
