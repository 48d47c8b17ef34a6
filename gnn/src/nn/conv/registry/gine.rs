//! The layer of graph isomorphism networks over edge features.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use super::gin::{GinConv, GinSettings, without_lone_destinations};
use crate::nn::batch_norm::BatchNorm;
use crate::nn::conv::flags::{ConvFlag, ModelName};
use crate::nn::conv::{Conv, ConvInput, ConvSettings, ConvShape, EdgeFeatureUse};
use crate::nn::dense::Dense;
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{Activation, GnnBackend, Precision, Reduce, gather_sources, scatter_edges};

/// The settings of a [`GineConv`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GineSettings(pub GinSettings);

impl ConvSettings for GineSettings {
    const NAME: &'static str = "gine";
    const MODELS: &'static [ModelName] = &[ModelName {
        name: "gine",
        help: "Graph isomorphism network whose messages depend on edge features",
        preset: &[],
    }];
    const FLAGS: &'static [ConvFlag] = GinSettings::FLAGS;
    const EDGE_FEATURES: EdgeFeatureUse = EdgeFeatureUse::Required;

    fn check(&self, channels: usize) -> Result<(), String> {
        self.0.check(channels)
    }
}

impl GineSettings {
    pub(super) fn init<B: Backend>(self, shape: ConvShape, init: &mut WeightInit, device: &B::Device) -> GineConv<B> {
        let ConvShape { in_channels, edge_channels, .. } = shape;
        GineConv { gin: self.0.init(shape, init, device), edge: Dense::new(edge_channels, in_channels, init, device) }
    }
}

/// A graph isomorphism layer over edge features, `out_i = MLP((1 + epsilon) x_i + sum_j ReLU(x_j + W e_ij + b))` (Hu et
/// al., "Strategies for pre-training graph neural networks", ICLR 2020), as PyG's `GINEConv` with `edge_dim`.
#[derive(Module, Debug)]
pub struct GineConv<B: Backend> {
    /// The MLP and epsilon.
    pub gin: GinConv<B>,
    /// PyG's `lin`, `[edge_channels, in_channels]`.
    pub edge: Dense<B>,
}

impl<B: GnnBackend> Conv<B> for GineConv<B> {
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
        let ConvInput { x, x_dst, block, edges, pass, activation } = input;
        let features = edges.features.expect("GineConv: the layer reads edge features");
        let is_message = x_dst.is_some();
        let own = x_dst.unwrap_or_else(|| prefix(x.clone(), block.num_dst()));
        let of_edges = self.edge.forward(features, Activation::Identity);
        let messages = pass.mode.relu_and_dropout(0.0, 0).apply(gather_sources(x, block) + of_edges);
        let sums = self.gin.add_own(scatter_edges(messages, block, &Reduce::Sum), own);
        let output = self.gin.mlp.forward(sums, pass.mode);
        activation.apply(if is_message { without_lone_destinations(output, block) } else { output })
    }

    fn set_precision(&mut self, precision: Precision) {
        self.gin.set_precision(precision);
        self.edge.set_precision(precision);
    }

    fn batch_norms(&self) -> &[BatchNorm<B>] {
        &self.gin.mlp.norms
    }

    fn batch_norms_mut(&mut self) -> &mut [BatchNorm<B>] {
        &mut self.gin.mlp.norms
    }
}
