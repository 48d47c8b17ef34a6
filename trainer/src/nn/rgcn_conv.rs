//! The relational graph convolutional layer.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::incoming::Incoming;
use super::relation_weights::{Decomposition, RelationWeights};
use super::weight_init::WeightInit;
use crate::ops::{Activation, GnnBackend, Reduce, linear};

/// The settings of an [`RgcnConv`].
#[derive(Config, Debug)]
pub struct RgcnConvConfig {
    /// Number of edge types.
    pub num_relations: usize,
    /// Features of each node, the same for all node types.
    pub in_channels: usize,
    /// Output features of each destination.
    pub out_channels: usize,
    /// Decomposition of the weights of edge types.
    #[config(default = "Decomposition::None")]
    pub decomposition: Decomposition,
    /// True to add a bias to the output.
    #[config(default = true)]
    pub bias: bool,
}

/// A relational graph convolutional layer, `out_i = sum_r mean_{j in N_r(i)} x_j W_r + x_i W_0 + b` (Schlichtkrull et
/// al., "Modeling relational data with graph convolutional networks", ESWC 2018), as PyG's `RGCNConv`.
#[derive(Module, Debug)]
pub struct RgcnConv<B: Backend> {
    /// The weights `W_r` of the edge types.
    pub weights: RelationWeights<B>,
    /// `W_0`, `[in_channels, out_channels]`; PyG's `root`.
    pub weight_self: Param<Tensor<B, 2>>,
    /// `b`, `[out_channels]`.
    pub bias: Option<Param<Tensor<B, 1>>>,
}

impl RgcnConvConfig {
    /// Makes the layer with the initial values of PyG: Glorot-uniform weights and a bias of zero.
    ///
    /// # Panics
    /// If the decomposition is not possible for these channels, see [`Decomposition::problem`].
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> RgcnConv<B> {
        let shape = [self.in_channels, self.out_channels];
        let problem = self.decomposition.problem(self.in_channels, self.out_channels);
        assert!(problem.is_none(), "RgcnConv: {}", problem.unwrap_or_default());
        RgcnConv {
            weights: RelationWeights::new(self.num_relations, shape, self.decomposition, init, device),
            weight_self: init.uniform(shape, WeightInit::glorot_bound(self.in_channels, self.out_channels), device),
            bias: self.bias.then(|| init.zeros([self.out_channels], device)),
        }
    }
}

impl<B: GnnBackend> RgcnConv<B> {
    /// Applies the layer to the destinations of one node type. Edge types without edges are skipped.
    ///
    /// # Shapes
    /// - `x_dst`: `[num_dst, in_channels]`
    /// - `x` of each edge type: `[num_src, in_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If a tensor has another shape, or if an edge type does not exist.
    pub fn forward(&self, x_dst: Tensor<B, 2>, incoming: &[Incoming<B>]) -> Tensor<B, 2> {
        let bias = self.bias.as_ref().map(Param::val);
        let own = linear(x_dst, self.weight_self.val(), bias, Activation::Identity);
        incoming
            .iter()
            .filter(|edges| edges.has_edges())
            .fold(own, |sum, edges| sum + edges.message(self.weights.of_relation(edges.relation), &Reduce::Mean))
    }
}
