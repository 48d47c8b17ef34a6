//! The layer of graph transformers.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use super::gat::{ATTENTION_FLAGS, check_heads};
use crate::nn::conv::edge_attention::{EdgeRows, ScoredEdges};
use crate::nn::conv::flags::{ConvFlag, FlagValues, ModelName};
use crate::nn::conv::{Conv, ConvInput, ConvRole, ConvSettings, ConvShape, EdgeFeatureUse, PygLayer};
use crate::nn::dense::Dense;
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{Activation, EdgeBlocks, GnnBackend, Linear, Precision, linear};

/// The settings of a [`TransformerConv`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerSettings {
    /// Number of attention heads of hidden layers. It must divide the hidden channels.
    pub heads: usize,
    /// Probability of dropout of the attention weights.
    pub attention_dropout: f64,
}

impl ConvSettings for TransformerSettings {
    const NAME: &'static str = "transformer";
    const MODELS: &'static [ModelName] = &[ModelName {
        name: "transformer",
        help: "Graph transformer: dot-product attention, with edge features in keys and values",
        preset: &[],
    }];
    const FLAGS: &'static [ConvFlag] = ATTENTION_FLAGS;
    const EDGE_FEATURES: EdgeFeatureUse = EdgeFeatureUse::Read;

    fn edge_blocks(_reads_features: bool) -> EdgeBlocks {
        EdgeBlocks::Attention
    }

    fn check(&self, channels: usize) -> Result<(), String> {
        check_heads(self.heads, self.attention_dropout, channels)
    }

    fn pyg(&self, shape: ConvShape) -> Option<PygLayer> {
        let ConvShape { in_channels, out_channels, edge_channels, role, .. } = shape;
        let heads = self.heads_of(role);
        let mut arguments = FlagValues::new();
        arguments.insert("in_channels".into(), in_channels.into());
        arguments.insert("out_channels".into(), (out_channels / heads).into());
        arguments.insert("heads".into(), heads.into());
        let mut tensors = vec![
            ("key.weight", "lin_key.weight"),
            ("key.bias", "lin_key.bias"),
            ("query.weight", "lin_query.weight"),
            ("query.bias", "lin_query.bias"),
            ("value.weight", "lin_value.weight"),
            ("value.bias", "lin_value.bias"),
        ];
        if edge_channels > 0 {
            arguments.insert("edge_dim".into(), edge_channels.into());
            tensors.push(("weight_edge", "lin_edge.weight"));
        }
        if matches!(role, ConvRole::EdgeType { .. }) {
            arguments.insert("root_weight".into(), false.into());
        } else {
            tensors.extend([("own.weight", "lin_skip.weight"), ("own.bias", "lin_skip.bias")]);
        }
        Some(PygLayer { class: "TransformerConv", arguments, tensors })
    }
}

/// A layer of a graph transformer (Shi et al., "Masked label prediction: unified message passing model for
/// semi-supervised classification", IJCAI 2021), as PyG's `TransformerConv`.
///
/// `out_i = W_own x_i + sum_j a_ij (W_value x_j + W_edge e_ij)`, where `a_ij` is the softmax over the edges of `i` of
/// `(W_query x_i) · (W_key x_j + W_edge e_ij) / sqrt(channels)` for each head.
#[derive(Module, Debug)]
pub struct TransformerConv<B: Backend> {
    /// PyG's `lin_query`, `[in_channels, out_channels]`.
    pub query: Dense<B>,
    /// PyG's `lin_key`, `[in_channels, out_channels]`.
    pub key: Dense<B>,
    /// PyG's `lin_value`, `[in_channels, out_channels]`.
    pub value: Dense<B>,
    /// PyG's `lin_edge.weight`, transposed, `[edge_channels, out_channels]`. `None` without edge features.
    pub weight_edge: Option<Param<Tensor<B, 2>>>,
    /// PyG's `lin_skip`, `[in_channels, out_channels]`. `None` for the messages of an edge type.
    pub own: Option<Dense<B>>,
    settings: Settings,
}

/// The settings of a layer that are not tensors.
#[derive(Debug, Clone, Copy)]
struct Settings {
    heads: usize,
    attention_dropout: f64,
    precision: Precision,
}

impl TransformerSettings {
    fn heads_of(self, role: ConvRole) -> usize {
        if role == ConvRole::Output { 1 } else { self.heads }
    }

    pub(super) fn init<B: Backend>(
        self,
        shape: ConvShape,
        init: &mut WeightInit,
        device: &B::Device,
    ) -> TransformerConv<B> {
        let ConvShape { in_channels, out_channels, edge_channels, role, .. } = shape;
        let is_layer = !matches!(role, ConvRole::EdgeType { .. });
        let edge_bound = WeightInit::kaiming_bound(edge_channels.max(1));
        TransformerConv {
            query: Dense::new(in_channels, out_channels, init, device),
            key: Dense::new(in_channels, out_channels, init, device),
            value: Dense::new(in_channels, out_channels, init, device),
            weight_edge: (edge_channels > 0).then(|| init.uniform([edge_channels, out_channels], edge_bound, device)),
            own: is_layer.then(|| Dense::new(in_channels, out_channels, init, device)),
            settings: Settings {
                heads: self.heads_of(role),
                attention_dropout: self.attention_dropout,
                precision: Precision::default(),
            },
        }
    }
}

impl<B: GnnBackend> Conv<B> for TransformerConv<B> {
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
        let ConvInput { x, x_dst, block, edges, pass, activation } = input;
        let Settings { heads, attention_dropout, precision } = self.settings;
        let x_dst = x_dst.unwrap_or_else(|| prefix(x.clone(), block.num_dst()));
        let query = self.query.forward(x_dst.clone(), Activation::Identity);
        let of_edges = self.weight_edge.as_ref().map(|weight| {
            let features = edges.features.expect("TransformerConv: the layer reads edge features");
            linear(features, weight.val(), None, Linear { activation: Activation::Identity, precision })
        });
        let keys = self.key.forward(x.clone(), Activation::Identity);
        let keys = EdgeRows { of_sources: keys, of_edges: of_edges.clone() };
        let messages = EdgeRows { of_sources: self.value.forward(x, Activation::Identity), of_edges };
        let [_, width] = query.dims();
        let scale = ((width / heads) as f64).sqrt().recip();
        let scores = keys.scores(query, heads, block) * scale;
        let attended = ScoredEdges { scores, messages, own: None }.attend(block, pass.mask(attention_dropout));
        activation.apply(match &self.own {
            Some(own) => attended + own.forward(x_dst, Activation::Identity),
            None => attended,
        })
    }

    fn set_precision(&mut self, precision: Precision) {
        self.settings.precision = precision;
        for dense in [&mut self.query, &mut self.key, &mut self.value].into_iter().chain(&mut self.own) {
            dense.set_precision(precision);
        }
    }
}
