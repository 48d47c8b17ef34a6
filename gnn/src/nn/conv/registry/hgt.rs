//! The layer of heterogeneous graph transformers.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, sigmoid};
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use super::gat::{ATTENTION_FLAGS, check_heads};
use crate::nn::conv::edge_attention::{EdgeRows, TypedEdges, attend_to_types};
use crate::nn::conv::flags::{ConvFlag, ModelName};
use crate::nn::conv::hetero::HeteroShape;
use crate::nn::conv::incoming::Incoming;
use crate::nn::conv::relation_weights::block_diagonal;
use crate::nn::conv::{ConvSettings, EdgeFeatureUse, LayerForm, LayerPass, TypedConv, TypedConvInput};
use crate::nn::dense::Dense;
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{Activation, EdgeBlocks, GnnBackend, Linear, Precision, linear, matmul};

/// The settings of a [`HgtConv`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HgtSettings {
    /// Number of attention heads. It must divide the hidden channels.
    pub heads: usize,
    /// Probability of dropout of the attention weights.
    pub attention_dropout: f64,
}

impl ConvSettings for HgtSettings {
    const NAME: &'static str = "hgt";
    const MODELS: &'static [ModelName] = &[ModelName {
        name: "hgt",
        help: "Heterogeneous graph transformer: one attention over all edge types, with edge features in keys and values",
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

    fn refusal(form: LayerForm) -> Option<&'static str> {
        match form {
            LayerForm::Typed => None,
            LayerForm::Direct => Some("an HGT reads rows of one width: use encoders (`encoder_decoder`)"),
        }
    }
}

/// A layer of a heterogeneous graph transformer (Hu, Dong, Wang and Sun, "Heterogeneous graph transformer", WWW 2020), as
/// PyG's `HGTConv`. For an edge of type `r` from node `j` of type `s` to node `i` of type `t`, and for each head:
///
/// - key `k_ij = A_r K_s(x_j) + U_r e_ij`
/// - value `v_ij = M_r V_s(x_j) + W_r e_ij`
/// - score `p_r (Q_t(x_i) · k_ij) / sqrt(channels of a head)`
///
/// The attention is the softmax of the scores over the edges of all types into `i`. The output is
/// `a O_t(gelu(sum of attention times values)) + (1 - a) x_i`, with `a = sigmoid(skip_t)`. `e_ij` are the features of the
/// edge. Without features, `U_r` and `W_r` do not exist.
#[derive(Module, Debug)]
pub struct HgtConv<B: Backend> {
    /// `K` of each node type that is a source.
    pub keys: Vec<Option<Dense<B>>>,
    /// `V` of each node type that is a source.
    pub values: Vec<Option<Dense<B>>>,
    /// `Q` of each node type that is a destination.
    pub queries: Vec<Option<Dense<B>>>,
    /// `O` of each node type that is a destination.
    pub outputs: Vec<Option<Dense<B>>>,
    /// `skip` of each node type that is a destination, `[1]`.
    pub skips: Vec<Option<Param<Tensor<B, 1>>>>,
    /// `A` of each edge type, `[heads, channels, channels]`.
    pub key_relations: Vec<Param<Tensor<B, 3>>>,
    /// `M` of each edge type, `[heads, channels, channels]`.
    pub value_relations: Vec<Param<Tensor<B, 3>>>,
    /// `p` of each edge type, `[heads]`.
    pub priors: Vec<Param<Tensor<B, 1>>>,
    /// `U` of each edge type that has features, `[edge_channels, heads * channels]`.
    pub edge_keys: Vec<Option<Param<Tensor<B, 2>>>>,
    /// `W` of each edge type that has features, `[edge_channels, heads * channels]`.
    pub edge_values: Vec<Option<Param<Tensor<B, 2>>>>,
    settings: Settings,
}

/// The settings of a layer that are not tensors.
#[derive(Debug, Clone)]
struct Settings {
    heads: usize,
    attention_dropout: f64,
    precision: Precision,
    /// The node type of the sources of each edge type.
    sources: Vec<usize>,
}

impl HgtSettings {
    pub(super) fn init_typed<B: Backend>(
        self,
        shape: &HeteroShape<'_>,
        init: &mut WeightInit,
        device: &B::Device,
    ) -> HgtConv<B> {
        let &HeteroShape { edge_types, num_node_types, channels, .. } = shape;
        let heads = self.heads;
        let of_head = channels / heads;
        let mut keys = Vec::with_capacity(num_node_types);
        let mut values = Vec::with_capacity(num_node_types);
        let mut queries = Vec::with_capacity(num_node_types);
        let mut outputs = Vec::with_capacity(num_node_types);
        let mut skips = Vec::with_capacity(num_node_types);
        for node_type in 0..num_node_types {
            let is_source = edge_types.iter().any(|edges| edges.src == node_type);
            let is_destination = edge_types.iter().any(|edges| edges.dst == node_type);
            keys.push(is_source.then(|| Dense::new(channels, channels, init, device)));
            values.push(is_source.then(|| Dense::new(channels, channels, init, device)));
            queries.push(is_destination.then(|| Dense::new(channels, channels, init, device)));
            outputs.push(is_destination.then(|| Dense::new(channels, channels, init, device)));
            skips.push(is_destination.then(|| init.uniform_around([1], 1.0, 0.0, device)));
        }
        // As in the code of the paper. These matrices then keep the variance of keys and values.
        let bound = WeightInit::glorot_bound(of_head, of_head);
        let mut key_relations = Vec::with_capacity(edge_types.len());
        let mut value_relations = Vec::with_capacity(edge_types.len());
        let mut priors = Vec::with_capacity(edge_types.len());
        let mut edge_keys = Vec::with_capacity(edge_types.len());
        let mut edge_values = Vec::with_capacity(edge_types.len());
        for edges in edge_types {
            key_relations.push(init.uniform([heads, of_head, of_head], bound, device));
            value_relations.push(init.uniform([heads, of_head, of_head], bound, device));
            priors.push(init.uniform_around([heads], 1.0, 0.0, device));
            let has_features = edges.edge_channels > 0;
            let shape = [edges.edge_channels, channels];
            let bound = WeightInit::glorot_bound(edges.edge_channels, channels);
            edge_keys.push(has_features.then(|| init.uniform(shape, bound, device)));
            edge_values.push(has_features.then(|| init.uniform(shape, bound, device)));
        }
        let settings = Settings {
            heads,
            attention_dropout: self.attention_dropout,
            precision: Precision::default(),
            sources: edge_types.iter().map(|edges| edges.src).collect(),
        };
        HgtConv {
            keys,
            values,
            queries,
            outputs,
            skips,
            key_relations,
            value_relations,
            priors,
            edge_keys,
            edge_values,
            settings,
        }
    }
}

impl<B: GnnBackend> HgtConv<B> {
    fn product(&self) -> Linear {
        Linear { activation: Activation::Identity, precision: self.settings.precision }
    }

    /// Returns the rows of each edge's source: `relation · dense(x)`, with `features · weight` of the edge.
    fn of_edges(
        &self,
        edges: &Incoming<B>,
        dense: &Option<Dense<B>>,
        relation: &Param<Tensor<B, 3>>,
        of_features: Option<&Param<Tensor<B, 2>>>,
    ) -> EdgeRows<B> {
        let dense = dense.as_ref().expect("HgtConv: the node type of the sources is a source");
        let [heads, of_head, _] = relation.dims();
        let width = heads * of_head;
        // One product of the rows instead of two: both matrices are small.
        let relation = block_diagonal(relation.val());
        let weight = matmul(dense.weight.val(), relation.clone());
        let bias = matmul(dense.bias.val().reshape([1, width]), relation).reshape([width]);
        let of_sources = linear(edges.x.clone(), weight, Some(bias), self.product());
        let of_edges = of_features.map(|weight| {
            let features = edges.edges.features.clone().expect("HgtConv: the layer reads edge features");
            linear(features, weight.val(), None, self.product())
        });
        EdgeRows { of_sources, of_edges }
    }

    /// Computes the scores and the values of the edges of one type.
    fn typed_edges<'a>(&self, edges: &'a Incoming<B>, queries: &Tensor<B, 2>, pass: LayerPass) -> TypedEdges<'a, B> {
        let heads = self.settings.heads;
        let relation = edges.relation;
        let source = self.settings.sources[relation];
        let of_keys = self.edge_keys[relation].as_ref();
        let of_values = self.edge_values[relation].as_ref();
        let keys = self.of_edges(edges, &self.keys[source], &self.key_relations[relation], of_keys);
        let messages = self.of_edges(edges, &self.values[source], &self.value_relations[relation], of_values);
        let [_, width] = queries.dims();
        let scale = ((width / heads) as f64).sqrt().recip();
        let scores = keys.scores(queries.clone(), heads, &edges.block);
        let scores = scores * self.priors[relation].val().mul_scalar(scale).unsqueeze();
        let pass = LayerPass { edge_type: Some(relation as u64), ..pass };
        TypedEdges { block: &edges.block, scores, messages, dropout: pass.mask(self.settings.attention_dropout) }
    }
}

impl<B: GnnBackend> TypedConv<B> for HgtConv<B> {
    fn convolve(&self, input: TypedConvInput<'_, B>) -> Tensor<B, 2> {
        let TypedConvInput { node_type, x, num_dst, incoming, pass, activation } = input;
        let x_dst = prefix(x, num_dst);
        let of_type = (&self.queries[node_type], &self.outputs[node_type], &self.skips[node_type]);
        let (Some(queries), Some(output), Some(skip)) = of_type else {
            panic!("HgtConv: no edge type enters node type {node_type}");
        };
        let queries = queries.forward(x_dst.clone(), Activation::Identity);
        let mut edges = Vec::with_capacity(incoming.len());
        for of_type in incoming.iter().filter(|edges| edges.has_edges()) {
            edges.push(self.typed_edges(of_type, &queries, pass));
        }
        let attended = attend_to_types(edges).unwrap_or_else(|| queries.zeros_like());
        let share = sigmoid(skip.val()).unsqueeze::<2>();
        let rows = output.forward(gelu(attended), Activation::Identity);
        activation.apply((rows - x_dst.clone()) * share + x_dst)
    }

    fn set_precision(&mut self, precision: Precision) {
        self.settings.precision = precision;
        let of_sources = self.keys.iter_mut().chain(&mut self.values);
        for dense in of_sources.chain(&mut self.queries).chain(&mut self.outputs).flatten() {
            dense.set_precision(precision);
        }
    }
}
