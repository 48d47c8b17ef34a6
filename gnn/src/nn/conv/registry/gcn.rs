//! The graph convolutional layer of Kipf and Welling.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::nn::conv::flags::ModelName;
use crate::nn::conv::gcn_norm::GcnNorm;
use crate::nn::conv::order::Order;
use crate::nn::conv::{Conv, ConvInput, ConvSettings, ConvShape, EdgeWeighting, LayerForm};
use crate::nn::weight_init::WeightInit;
use crate::ops::{Activation, Block, GnnBackend, Linear, Precision, aggregate, linear};

/// The settings of a graph convolutional network, which has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GcnSettings;

impl ConvSettings for GcnSettings {
    const NAME: &'static str = "gcn";
    const MODELS: &'static [ModelName] = &[ModelName {
        name: "gcn",
        help: "Graph convolutional network; homogeneous graphs only, without --time-attr and --weighted",
        preset: &[],
    }];
    const NEEDS_GCN_NORM: bool = true;

    fn edge_weighting(&self) -> EdgeWeighting {
        EdgeWeighting::GcnNorm
    }

    fn refusal(form: LayerForm) -> Option<&'static str> {
        match form {
            LayerForm::Direct => None,
            LayerForm::Typed => Some(
                "a GCN takes homogeneous graphs with features, without `encoder_decoder` and `node_embeddings`, and classifies nodes only: \
                 use sage, gat, gatv2 or rgcn",
            ),
        }
    }
}

impl GcnSettings {
    pub(super) fn init<B: Backend>(self, shape: ConvShape, init: &mut WeightInit, device: &B::Device) -> GcnConv<B> {
        GcnConvConfig::new(shape.in_channels, shape.out_channels).init(init, device)
    }
}

/// The settings of a [`GcnConv`] as a layer of its own.
#[derive(Config, Debug)]
pub struct GcnConvConfig {
    /// Features of each source.
    pub in_channels: usize,
    /// Features of each destination.
    pub out_channels: usize,
    /// True to add a bias to the output.
    #[config(default = true)]
    pub bias: bool,
}

/// A graph convolutional layer, `out = activation(D^-1/2 (A + I) D^-1/2 · x · W + b)` (Kipf and Welling,
/// "Semi-supervised classification with graph convolutional networks", ICLR 2017). The caller computes the
/// normalisation once per batch, see [`GcnNorm`].
#[derive(Module, Debug)]
pub struct GcnConv<B: Backend> {
    /// `[in_channels, out_channels]`; PyG's `lin.weight`, transposed.
    pub weight: Param<Tensor<B, 2>>,
    /// `[out_channels]`; PyG's `bias`.
    pub bias: Option<Param<Tensor<B, 1>>>,
    precision: Precision,
}

impl GcnConvConfig {
    /// Makes the layer with the initial values of PyG: Glorot-uniform weights and a bias of zero.
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> GcnConv<B> {
        let bound = WeightInit::glorot_bound(self.in_channels, self.out_channels);
        GcnConv {
            weight: init.uniform([self.in_channels, self.out_channels], bound, device),
            bias: self.bias.then(|| init.zeros([self.out_channels], device)),
            precision: Precision::default(),
        }
    }
}

impl<B: GnnBackend> Conv<B> for GcnConv<B> {
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
        let norm = input.edges.gcn_norm.expect("the batch of a GCN has its normalisation");
        self.forward(input.x, input.block, &norm, input.activation)
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }
}

impl<B: GnnBackend> GcnConv<B> {
    /// Applies the layer and `activation` in the order that costs less for this block.
    ///
    /// # Shapes
    /// - `x`: `[num_src, in_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If `x` has another shape, or if `norm` was made for a batch of another size.
    pub fn forward(&self, x: Tensor<B, 2>, block: &Block, norm: &GcnNorm, activation: Activation) -> Tensor<B, 2> {
        let [fan_in, fan_out] = self.weight.dims();
        self.forward_in_order(x, block, norm, activation, Order::choose(block, fan_in, fan_out))
    }

    /// Applies the layer in a given order.
    ///
    /// # Shapes
    /// Those of [`GcnConv::forward`].
    ///
    /// # Panics
    /// In the cases of [`GcnConv::forward`].
    pub fn forward_in_order(
        &self,
        x: Tensor<B, 2>,
        block: &Block,
        norm: &GcnNorm,
        activation: Activation,
        order: Order,
    ) -> Tensor<B, 2> {
        let weight = self.weight.val();
        let bias = self.bias.as_ref().map(Param::val);
        match order {
            Order::AggregateFirst => {
                let aggregated = aggregate(x, block, &norm.reduce());
                linear(aggregated, weight, bias, Linear { activation, precision: self.precision })
            }
            Order::TransformFirst => {
                let product = Linear { activation: Activation::Identity, precision: self.precision };
                let output = aggregate(linear(x, weight, None, product), block, &norm.reduce());
                activation.apply(match bias {
                    Some(bias) => output + bias.unsqueeze(),
                    None => output,
                })
            }
        }
    }
}
