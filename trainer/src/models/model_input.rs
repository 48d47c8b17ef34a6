//! What a model reads.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::model_error::ModelError;
use crate::nn::GcnNorm;
use crate::ops::{Block, DropoutKey};

/// Whether a pass is for training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No dropout.
    Eval,
    /// Dropout with the masks of this key.
    Train(DropoutKey),
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

    /// Nodes that the model classifies.
    pub fn num_seeds(&self) -> usize {
        self.blocks.last().map_or(0, Block::num_dst)
    }

    /// The blocks, the first layer's first.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Fails unless the batch has these many layers and columns.
    pub(super) fn check(&self, layers: usize, in_channels: usize) -> Result<(), ModelError> {
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
