//! The layer of graph isomorphism networks.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::nn::batch_norm::BatchNorm;
use crate::nn::conv::flags::{ConvFlag, FlagKind, ModelName};
use crate::nn::conv::order::Order;
use crate::nn::conv::{Conv, ConvInput, ConvSettings, ConvShape};
use crate::nn::mlp::Mlp;
use crate::nn::mode::Mode;
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{Block, GnnBackend, Precision, Reduce, aggregate};

/// The settings of a graph isomorphism network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GinSettings {
    /// Number of dense layers of each MLP.
    pub mlp_layers: usize,
    /// True if epsilon is learned. Otherwise it is 0.
    pub learn_epsilon: bool,
}

impl ConvSettings for GinSettings {
    const NAME: &'static str = "gin";
    const MODELS: &'static [ModelName] = &[ModelName { name: "gin", help: "Graph isomorphism network", preset: &[] }];
    const FLAGS: &'static [ConvFlag] = &[
        ConvFlag {
            name: "mlp_layers",
            help: "Dense layers in each MLP of gin and gine",
            kind: FlagKind::Count,
            default: Some("2"),
        },
        ConvFlag {
            name: "learn_epsilon",
            help: "Learn the epsilon of gin and gine; without this flag it is 0",
            kind: FlagKind::Switch,
            default: None,
        },
    ];

    fn check(&self, _channels: usize) -> Result<(), String> {
        if self.mlp_layers == 0 { Err("mlp_layers is 0, it must be at least 1".into()) } else { Ok(()) }
    }
}

impl GinSettings {
    pub(super) fn init<B: Backend>(self, shape: ConvShape, init: &mut WeightInit, device: &B::Device) -> GinConv<B> {
        GinConvConfig::new(shape.in_channels, shape.out_channels)
            .with_mlp_layers(self.mlp_layers)
            .with_batch_norm(shape.batch_norm)
            .with_learn_epsilon(self.learn_epsilon)
            .init(init, device)
    }
}

/// The settings of a [`GinConv`] as a layer of its own.
#[derive(Config, Debug)]
pub struct GinConvConfig {
    /// Features of each source.
    pub in_channels: usize,
    /// Features of each destination.
    pub out_channels: usize,
    /// Number of dense layers of the MLP, at least 1.
    #[config(default = 2)]
    pub mlp_layers: usize,
    /// True to apply batch normalisation between the layers of the MLP.
    #[config(default = true)]
    pub batch_norm: bool,
    /// True to learn epsilon. Otherwise it is 0.
    #[config(default = false)]
    pub learn_epsilon: bool,
}

/// A graph isomorphism layer, `out = MLP((1 + epsilon) x + sum of the neighbors)` (Xu, Hu, Leskovec and Jegelka, "How
/// powerful are graph neural networks?", ICLR 2019), as PyG's `GINConv`.
#[derive(Module, Debug)]
pub struct GinConv<B: Backend> {
    /// The MLP that is applied to the sums.
    pub mlp: Mlp<B>,
    /// `[1]`, if epsilon is learned.
    pub epsilon: Option<Param<Tensor<B, 1>>>,
}

impl GinConvConfig {
    /// Makes the layer with weights as PyTorch initialises them, and epsilon 0.
    ///
    /// # Panics
    /// If `mlp_layers` is 0.
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> GinConv<B> {
        let mut channels = vec![self.in_channels];
        channels.resize(self.mlp_layers + 1, self.out_channels);
        let mlp = Mlp::new(&channels, self.batch_norm, init, device);
        GinConv { mlp, epsilon: self.learn_epsilon.then(|| init.zeros([1], device)) }
    }
}

impl<B: GnnBackend> Conv<B> for GinConv<B> {
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
        let ConvInput { x, x_dst, block, pass, activation, .. } = input;
        activation.apply(match x_dst {
            Some(x_dst) => {
                let messages = self.mlp.forward(self.with_neighbors(x, x_dst, block), pass.mode);
                without_lone_destinations(messages, block)
            }
            None => self.forward(x, block, pass.mode),
        })
    }

    fn set_precision(&mut self, precision: Precision) {
        self.mlp.set_precision(precision);
    }

    fn batch_norms(&self) -> &[BatchNorm<B>] {
        &self.mlp.norms
    }

    fn batch_norms_mut(&mut self) -> &mut [BatchNorm<B>] {
        &mut self.mlp.norms
    }
}

impl<B: GnnBackend> GinConv<B> {
    /// Applies the layer in the order that costs less for this block: the first product of the MLP commutes with the
    /// sum.
    ///
    /// # Shapes
    /// - `x`: `[num_src, in_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If `x` has another shape, or if the block has more destinations than sources.
    pub fn forward(&self, x: Tensor<B, 2>, block: &Block, mode: Mode) -> Tensor<B, 2> {
        let [fan_in, fan_out] = self.mlp.layers[0].weight.dims();
        self.forward_in_order(x, block, mode, Order::choose(block, fan_in, fan_out))
    }

    /// Applies the layer in a given order.
    ///
    /// # Shapes
    /// Those of [`GinConv::forward`].
    ///
    /// # Panics
    /// In the cases of [`GinConv::forward`].
    pub fn forward_in_order(&self, x: Tensor<B, 2>, block: &Block, mode: Mode, order: Order) -> Tensor<B, 2> {
        match order {
            Order::AggregateFirst => {
                let x_dst = prefix(x.clone(), block.num_dst());
                self.mlp.forward(self.with_neighbors(x, x_dst, block), mode)
            }
            Order::TransformFirst => {
                let first = &self.mlp.layers[0];
                let x = first.product(x);
                let x_dst = prefix(x.clone(), block.num_dst());
                let sums = self.with_neighbors(x, x_dst, block) + first.bias.val().unsqueeze();
                self.mlp.after_first(sums, mode)
            }
        }
    }

    /// Returns `(1 + epsilon) own + sum of the neighbors`.
    fn with_neighbors(&self, x: Tensor<B, 2>, own: Tensor<B, 2>, block: &Block) -> Tensor<B, 2> {
        self.add_own(aggregate(x, block, &Reduce::Sum), own)
    }

    /// Returns `(1 + epsilon) own + sums`.
    pub(super) fn add_own(&self, sums: Tensor<B, 2>, own: Tensor<B, 2>) -> Tensor<B, 2> {
        match &self.epsilon {
            Some(epsilon) => sums + own * epsilon.val().add_scalar(1.0).unsqueeze(),
            None => sums + own,
        }
    }
}

/// Sets the rows of destinations without edges to 0: the MLP of such a destination is not 0, but it has no message.
pub(super) fn without_lone_destinations<B: Backend>(messages: Tensor<B, 2>, block: &Block) -> Tensor<B, 2> {
    let mut has_edges: Vec<f32> = Vec::with_capacity(block.num_dst());
    for ends in block.indptr().windows(2) {
        has_edges.push(if ends[0] < ends[1] { 1.0 } else { 0.0 });
    }
    let has_edges = TensorData::new(has_edges, [block.num_dst(), 1]);
    let device = messages.device();
    messages * Tensor::from_data(has_edges, &device)
}
