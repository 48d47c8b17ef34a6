//! Graph attention layers.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::leaky_relu;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::nn::conv::edge_attention::{EdgeRows, OwnEdges, ScoredEdges};
use crate::nn::conv::flags::{ConvFlag, FlagKind, FlagValues, ModelName, settings_of};
use crate::nn::conv::{Conv, ConvInput, ConvRole, ConvSettings, ConvShape, EdgeFeatureUse, HiddenActivation};
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{
    Activation, Attention, AttentionVersion, Block, DropoutMask, GnnBackend, Linear, Precision, Reduce, dot_heads,
    gat_attention, gather_destinations, gather_sources, gatv2_attention, linear, scatter_edges,
};

/// The settings of a graph attention network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatSettings {
    /// Number of attention heads of hidden layers. It must divide the hidden channels.
    pub heads: usize,
    /// Formula of the edges' scores.
    pub version: AttentionVersion,
    /// Probability of dropout of the attention weights.
    pub attention_dropout: f64,
    /// True if the two projections of [`AttentionVersion::V2`] have biases, as in PyG. Older model files lack this
    /// entry; their projections have no biases.
    #[serde(default)]
    pub projection_bias: bool,
}

impl ConvSettings for GatSettings {
    const NAME: &'static str = "gat";
    const MODELS: &'static [ModelName] = &[
        ModelName { name: "gat", help: "Graph attention network", preset: &[("version", "v1")] },
        ModelName {
            name: "gatv2",
            help: "Graph attention network v2: the attention ranking of neighbors depends on the destination node",
            preset: &[("version", "v2")],
        },
    ];
    const FLAGS: &'static [ConvFlag] = ATTENTION_FLAGS;
    const EDGE_FEATURES: EdgeFeatureUse = EdgeFeatureUse::Read;
    const HIDDEN_ACTIVATION: HiddenActivation = HiddenActivation::Elu;

    fn check(&self, channels: usize) -> Result<(), String> {
        check_heads(self.heads, self.attention_dropout, channels)
    }

    fn from_flags(mut values: FlagValues) -> Result<Self, String> {
        values.insert("projection_bias".into(), true.into());
        settings_of(values)
    }
}

/// The flags of layers with attention heads.
pub(super) const ATTENTION_FLAGS: &[ConvFlag] = &[
    ConvFlag {
        name: "heads",
        help: "Attention heads of gat, gatv2, hgt and transformer; must divide --hidden-channels",
        kind: FlagKind::Count,
        default: Some("4"),
    },
    ConvFlag {
        name: "attention_dropout",
        help: "Dropout probability of the attention weights of gat, gatv2, hgt and transformer",
        kind: FlagKind::Probability,
        default: Some("0"),
    },
];

/// Checks the heads and the dropout of an attention layer.
pub(super) fn check_heads(heads: usize, attention_dropout: f64, channels: usize) -> Result<(), String> {
    if heads == 0 {
        return Err("heads is 0, it must be at least 1".into());
    }
    if !channels.is_multiple_of(heads) {
        return Err(format!("{heads} heads do not divide {channels} hidden channels"));
    }
    if !(0.0..1.0).contains(&attention_dropout) {
        return Err(format!("attention_dropout is {attention_dropout}, it must be at least 0 and below 1"));
    }
    Ok(())
}

impl GatSettings {
    pub(super) fn init<B: Backend>(self, shape: ConvShape, init: &mut WeightInit, device: &B::Device) -> GatConv<B> {
        let ConvShape { in_channels, out_channels, edge_channels, role, .. } = shape;
        let heads = if role == ConvRole::Output { 1 } else { self.heads };
        let config = GatConvConfig::new(in_channels, out_channels / heads, heads)
            .with_version(self.version)
            .with_edge_channels(edge_channels)
            .with_attention_dropout(self.attention_dropout);
        match role {
            ConvRole::Hidden | ConvRole::Output => config.with_projection_bias(self.projection_bias),
            ConvRole::EdgeType { between_types } => config
                .with_dst_channels(if between_types { Some(in_channels) } else { None })
                .with_self_edges(false)
                .with_bias(false),
        }
        .init(init, device)
    }
}

/// The settings of a [`GatConv`] as a layer of its own.
#[derive(Config, Debug)]
pub struct GatConvConfig {
    /// Features of each source.
    pub in_channels: usize,
    /// Features of each destination if destinations have another node type than sources. Destinations then have their
    /// own weights.
    pub dst_channels: Option<usize>,
    /// Output features of each head.
    pub out_channels: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Formula of the edges' scores.
    #[config(default = "AttentionVersion::V2")]
    pub version: AttentionVersion,
    /// Features of each edge, on which scores depend. 0 for edges without features.
    #[config(default = 0)]
    pub edge_channels: usize,
    /// Probability of dropout of the attention weights, which [`Conv::convolve`] applies.
    #[config(default = 0.0)]
    pub attention_dropout: f64,
    /// True to concatenate the outputs of the heads, false to average them.
    #[config(default = true)]
    pub concat: bool,
    /// Factor of negative arguments of the LeakyReLU.
    #[config(default = 0.2)]
    pub negative_slope: f64,
    /// True to add an edge from each node to itself. Not possible between two node types.
    #[config(default = true)]
    pub self_edges: bool,
    /// True to add a bias to the output.
    #[config(default = true)]
    pub bias: bool,
    /// True to add biases to both projections of [`AttentionVersion::V2`] as well, if `bias` is true.
    #[config(default = true)]
    pub projection_bias: bool,
}

/// A multi-head graph attention layer (Veličković et al., "Graph attention networks", ICLR 2018; Brody, Alon and Yahav,
/// "How attentive are graph attention networks?", ICLR 2022), as PyG's `GATConv` and `GATv2Conv`.
#[derive(Module, Debug)]
pub struct GatConv<B: Backend> {
    /// `[in_channels, heads * out_channels]`; PyG's `lin_src.weight` or `lin_l.weight`, transposed.
    pub weight_src: Param<Tensor<B, 2>>,
    /// `[dst_channels, heads * out_channels]`; PyG's `lin_dst.weight` or `lin_r.weight`, transposed. In version 1 it
    /// exists only between two node types.
    pub weight_dst: Option<Param<Tensor<B, 2>>>,
    /// `[heads * out_channels]`; PyG's `lin_l.bias`, in version 2 only.
    pub bias_src: Option<Param<Tensor<B, 1>>>,
    /// `[heads * out_channels]`; PyG's `lin_r.bias`, in version 2 only.
    pub bias_dst: Option<Param<Tensor<B, 1>>>,
    /// `[1, heads, out_channels]`; PyG's `att_src` or `att`.
    pub attention_src: Param<Tensor<B, 3>>,
    /// `[1, heads, out_channels]`; PyG's `att_dst`, in version 1 only.
    pub attention_dst: Option<Param<Tensor<B, 3>>>,
    /// `[edge_channels, heads * out_channels]`; PyG's `lin_edge.weight`, transposed. `None` without edge features.
    pub weight_edge: Option<Param<Tensor<B, 2>>>,
    /// `[1, heads, out_channels]`; PyG's `att_edge`, in version 1 and with edge features only.
    pub attention_edge: Option<Param<Tensor<B, 3>>>,
    /// `[heads * out_channels]`, or `[out_channels]` if heads are averaged.
    pub bias: Option<Param<Tensor<B, 1>>>,
    settings: Settings,
}

/// The settings of a layer that are not tensors.
#[derive(Debug, Clone, Copy)]
struct Settings {
    version: AttentionVersion,
    concat: bool,
    negative_slope: f64,
    self_edges: bool,
    attention_dropout: f64,
    precision: Precision,
}

impl GatConvConfig {
    /// Makes the layer with the initial values of PyG: Glorot-uniform weights, biases of the projections uniform in
    /// `±1 / sqrt(in_channels)`, and an output bias of zero.
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> GatConv<B> {
        let heads = self.heads;
        let channels = self.out_channels;
        let width = heads * channels;
        let additive = self.version == AttentionVersion::V1;
        let mut weight = |fan_in: usize| init.uniform([fan_in, width], WeightInit::glorot_bound(fan_in, width), device);
        let weight_src = weight(self.in_channels);
        let dst_channels = self.dst_channels.or((!additive).then_some(self.in_channels));
        let weight_dst = dst_channels.map(weight);
        let has_projection_bias = !additive && self.bias && self.projection_bias;
        let mut projection_bias = |fan_in: usize| {
            has_projection_bias.then(|| init.uniform([width], WeightInit::kaiming_bound(fan_in), device))
        };
        let bias_src = projection_bias(self.in_channels);
        let bias_dst = projection_bias(dst_channels.unwrap_or(self.in_channels));
        let mut vector = || init.uniform([1, heads, channels], WeightInit::glorot_bound(heads, channels), device);
        let attention_src = vector();
        let attention_dst = additive.then(vector);
        let bias = self.bias.then(|| init.zeros([if self.concat { width } else { channels }], device));
        let &Self { version, concat, negative_slope, self_edges, attention_dropout, .. } = self;
        let precision = Precision::default();
        let settings = Settings { version, concat, negative_slope, self_edges, attention_dropout, precision };
        let (mut weight_edge, mut attention_edge) = (None, None);
        if self.edge_channels > 0 {
            let bound = WeightInit::glorot_bound(self.edge_channels, width);
            weight_edge = Some(init.uniform([self.edge_channels, width], bound, device));
            if additive {
                let bound = WeightInit::glorot_bound(heads, channels);
                attention_edge = Some(init.uniform([1, heads, channels], bound, device));
            }
        }
        GatConv {
            weight_src,
            weight_dst,
            bias_src,
            bias_dst,
            attention_src,
            attention_dst,
            weight_edge,
            attention_edge,
            bias,
            settings,
        }
    }
}

impl<B: GnnBackend> Conv<B> for GatConv<B> {
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
        let ConvInput { x, x_dst, block, edges, pass, activation } = input;
        let dropout = pass.mask(self.settings.attention_dropout);
        activation.apply(match (&self.weight_edge, x_dst) {
            (Some(weight), x_dst) => {
                let features = edges.features.expect("GatConv: the layer reads edge features");
                let x_dst = x_dst.unwrap_or_else(|| prefix(x.clone(), block.num_dst()));
                // In version 1 only the scores depend on the features.
                let of_edges = match &self.attention_edge {
                    Some(vector) => linear(features, score_weight(weight, vector), None, Activation::Identity),
                    None => linear(features, weight.val(), None, self.product()),
                };
                let scored = self.score_edges(x, x_dst, of_edges, block);
                self.finish(scored.attend(block, dropout))
            }
            (None, Some(x_dst)) => self.forward_between(x, x_dst, block, dropout),
            (None, None) => self.forward(x, block, dropout),
        })
    }

    fn set_precision(&mut self, precision: Precision) {
        self.settings.precision = precision;
    }
}

impl<B: GnnBackend> GatConv<B> {
    /// Applies the layer to edges within one node type, with `dropout` of the attention weights.
    ///
    /// # Shapes
    /// - `x`: `[num_src, in_channels]`
    /// - output: `[num_dst, heads * out_channels]`, or `[num_dst, out_channels]` if heads are averaged
    ///
    /// # Panics
    /// If `x` has another shape, or if there are more destinations than sources.
    pub fn forward(&self, x: Tensor<B, 2>, block: &Block, dropout: DropoutMask) -> Tensor<B, 2> {
        let num_dst = block.num_dst();
        let [_, fan_in] = x.dims();
        assert!(num_dst <= block.num_src(), "GatConv::forward: {num_dst} destinations, {} sources", block.num_src());
        if self.settings.version == AttentionVersion::V2 || self.weight_dst.is_some() {
            let x_dst = x.clone().slice([0..num_dst, 0..fan_in]);
            return self.forward_between(x, x_dst, block, dropout);
        }
        // One product computes both scores of all nodes, which avoids copying the destinations' rows. Scores are not
        // rounded, since the softmax is steep.
        let [_, heads, _] = self.attention_src.dims();
        let of_scores = Tensor::cat(vec![self.score_weight(true), self.score_weight(false)], 1);
        let scores = linear(x.clone(), of_scores, None, Activation::Identity);
        let score_src = scores.clone().slice([0..block.num_src(), 0..heads]);
        let score_dst = scores.slice([0..num_dst, heads..2 * heads]);
        let z = linear(x, self.weight_src.val(), None, self.product());
        self.finish(gat_attention(z, score_src, score_dst, &self.attention(block, dropout)))
    }

    /// Applies the layer to edges from one node type to another.
    ///
    /// # Shapes
    /// - `x_src`: `[num_src, in_channels]`
    /// - `x_dst`: `[num_dst, dst_channels]`
    /// - output: that of [`GatConv::forward`]
    ///
    /// # Panics
    /// If a tensor has another shape, or if the layer has self edges and there are more destinations than sources.
    pub fn forward_between(
        &self,
        x_src: Tensor<B, 2>,
        x_dst: Tensor<B, 2>,
        block: &Block,
        dropout: DropoutMask,
    ) -> Tensor<B, 2> {
        let attention = self.attention(block, dropout);
        let bias_src = self.bias_src.as_ref().map(Param::val);
        let z = linear(x_src.clone(), self.weight_src.val(), bias_src, self.product());
        self.finish(match self.settings.version {
            AttentionVersion::V1 => {
                // Scores are not rounded, since the softmax is steep.
                let score_src = linear(x_src, self.score_weight(true), None, Activation::Identity);
                let score_dst = linear(x_dst, self.score_weight(false), None, Activation::Identity);
                gat_attention(z, score_src, score_dst, &attention)
            }
            AttentionVersion::V2 => {
                let weight_dst = self.weight_dst.as_ref().unwrap_or(&self.weight_src).val();
                let [_, width] = weight_dst.dims();
                let bias_dst = self.bias_dst.as_ref().map(Param::val);
                let of_dst = linear(x_dst, weight_dst, bias_dst, self.product());
                gatv2_attention(z, of_dst, self.attention_src.val().reshape([width]), &attention)
            }
        })
    }

    /// Computes the scores and messages of edges with features. A self edge has the mean features of the destination's
    /// edges, as in PyG.
    ///
    /// # Shapes
    /// - `x_src`, `x_dst`: those of [`GatConv::forward_between`]
    /// - `of_edges`: the features times their weights, `[num_edges, heads * out_channels]`, or in version 1 their part of
    ///   the scores, `[num_edges, heads]`
    fn score_edges(
        &self,
        x_src: Tensor<B, 2>,
        x_dst: Tensor<B, 2>,
        of_edges: Tensor<B, 2>,
        block: &Block,
    ) -> ScoredEdges<B> {
        let [num_dst, _] = x_dst.dims();
        let slope = self.settings.negative_slope;
        let z = linear(x_src.clone(), self.weight_src.val(), self.bias_src.as_ref().map(Param::val), self.product());
        let (of_src, of_dst) = match self.settings.version {
            AttentionVersion::V1 => {
                let of_src = linear(x_src, self.score_weight(true), None, Activation::Identity);
                (of_src, linear(x_dst, self.score_weight(false), None, Activation::Identity))
            }
            AttentionVersion::V2 => {
                let weight = self.weight_dst.as_ref().unwrap_or(&self.weight_src).val();
                let of_dst = linear(x_dst, weight, self.bias_dst.as_ref().map(Param::val), self.product());
                (z.clone(), of_dst)
            }
        };
        let own = self.settings.self_edges.then(|| {
            let of_edges = scatter_edges(of_edges.clone(), block, &Reduce::Mean);
            let argument = prefix(of_src.clone(), num_dst) + of_dst.clone() + of_edges;
            OwnEdges { scores: self.scores(leaky_relu(argument, slope)), messages: prefix(z.clone(), num_dst) }
        });
        let argument = gather_sources(of_src, block) + gather_destinations(of_dst, block) + of_edges;
        let messages = EdgeRows { of_sources: z, of_edges: None };
        ScoredEdges { scores: self.scores(leaky_relu(argument, slope)), messages, own }
    }

    /// Returns the scores, `[edges, heads]`, from the outputs of the LeakyReLU.
    fn scores(&self, activated: Tensor<B, 2>) -> Tensor<B, 2> {
        let [_, heads, channels] = self.attention_src.dims();
        match self.settings.version {
            AttentionVersion::V1 => activated,
            AttentionVersion::V2 => {
                dot_heads(activated, self.attention_src.val().reshape([1, heads * channels]), heads)
            }
        }
    }

    /// Returns the settings of the products.
    fn product(&self) -> Linear {
        Linear { activation: Activation::Identity, precision: self.settings.precision }
    }

    fn attention(&self, block: &Block, dropout: DropoutMask) -> Attention {
        let [_, heads, _] = self.attention_src.dims();
        let settings = self.settings;
        Attention::new(block.clone(), settings.version, heads)
            .with_negative_slope(settings.negative_slope as f32)
            .with_self_edges(settings.self_edges)
            .with_dropout(dropout)
    }

    /// Returns the matrix that maps the features of sources or destinations to scores.
    fn score_weight(&self, of_sources: bool) -> Tensor<B, 2> {
        if of_sources {
            return score_weight(&self.weight_src, &self.attention_src);
        }
        let weight = self.weight_dst.as_ref().unwrap_or(&self.weight_src);
        score_weight(weight, self.attention_dst.as_ref().unwrap_or(&self.attention_src))
    }

    /// Averages the heads unless they are concatenated, and adds the bias.
    fn finish(&self, output: Tensor<B, 2>) -> Tensor<B, 2> {
        let [rows, _] = output.dims();
        let [_, heads, channels] = self.attention_src.dims();
        let output = if self.settings.concat || heads == 1 {
            output
        } else {
            output.reshape([rows, heads, channels]).mean_dim(1).reshape([rows, channels])
        };
        match &self.bias {
            Some(bias) => output + bias.val().unsqueeze(),
            None => output,
        }
    }
}

/// Returns the matrix that maps features to scores, `[in, heads]`. It uses `a · (x W) = x (W a)`: the product with `W a`
/// has only `heads` columns.
fn score_weight<B: Backend>(weight: &Param<Tensor<B, 2>>, vector: &Param<Tensor<B, 3>>) -> Tensor<B, 2> {
    let [fan_in, _] = weight.dims();
    let [_, heads, channels] = vector.dims();
    (weight.val().reshape([fan_in, heads, channels]) * vector.val()).sum_dim(2).reshape([fan_in, heads])
}
