//! The layer of principal neighbourhood aggregation.

use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::gin::without_lone_destinations;
use crate::nn::conv::flags::{ConvFlag, FlagKind, ModelName};
use crate::nn::conv::{Conv, ConvInput, ConvRole, ConvSettings, ConvShape, EdgeFeatureUse};
use crate::nn::dense::Dense;
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{
    Activation, Block, GnnBackend, Linear, Precision, Reduce, aggregate, gather_sources, linear, scatter_edges,
};

/// The number of aggregations: mean, minimum, maximum and standard deviation.
const NUM_AGGREGATIONS: usize = 4;
/// The number of factors of each aggregation: 1, and two that depend on the degree.
const NUM_SCALES: usize = 3;
/// The least variance that has a standard deviation above 0, as in PyG.
const LEAST_VARIANCE: f64 = 1e-5;

/// The settings of a [`PnaConv`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PnaSettings {
    /// Typical number of edges of a destination, at least 1.
    pub mean_degree: usize,
}

impl ConvSettings for PnaSettings {
    const NAME: &'static str = "pna";
    const MODELS: &'static [ModelName] = &[ModelName {
        name: "pna",
        help: "Principal neighbourhood aggregation: mean, minimum, maximum and standard deviation, scaled by degrees",
        preset: &[],
    }];
    const FLAGS: &'static [ConvFlag] = &[ConvFlag {
        name: "mean_degree",
        help: "Typical number of sampled neighbors of a node for pna, whose scale by degrees is 1 there",
        kind: FlagKind::Count,
        default: Some("4"),
    }];
    const EDGE_FEATURES: EdgeFeatureUse = EdgeFeatureUse::Read;

    fn check(&self, _channels: usize) -> Result<(), String> {
        if self.mean_degree == 0 { Err("mean_degree is 0, it must be at least 1".into()) } else { Ok(()) }
    }
}

impl PnaSettings {
    pub(super) fn init<B: Backend>(self, shape: ConvShape, init: &mut WeightInit, device: &B::Device) -> PnaConv<B> {
        let ConvShape { in_channels, out_channels, edge_channels, role, .. } = shape;
        let is_layer = !matches!(role, ConvRole::EdgeType { .. });
        let has_features = edge_channels > 0;
        let of_message = in_channels.saturating_mul(2 + usize::from(has_features));
        let aggregated = in_channels.saturating_mul(NUM_AGGREGATIONS * NUM_SCALES + usize::from(is_layer));
        let bound = WeightInit::kaiming_bound(aggregated);
        PnaConv {
            pre: Dense::new(of_message, in_channels, init, device),
            edge: has_features.then(|| Dense::new(edge_channels, in_channels, init, device)),
            post: init.uniform([aggregated, out_channels], bound, device),
            post_bias: is_layer.then(|| init.uniform([out_channels], bound, device)),
            lin: is_layer.then(|| Dense::new(out_channels, out_channels, init, device)),
            log_degree: (self.mean_degree as f64 + 1.0).ln(),
            precision: Precision::default(),
        }
    }
}

/// A layer of principal neighbourhood aggregation (Corso et al., "Principal neighbourhood aggregation for graph nets",
/// NeurIPS 2020), as PyG's `PNAConv` with one tower.
///
/// `out_i = W_lin (W_post [x_i, s_1 a_i, s_2 a_i, s_3 a_i])`, where `a_i` are the mean, the minimum, the maximum and the
/// standard deviation of the messages `W_pre [x_i, x_j, W_edge e_ij]` over the edges of `i`, all with biases. For `d`
/// edges and a typical number `t`, the scales are `1`, `ln(d + 1) / ln(t + 1)` and `ln(t + 1) / ln(d + 1)`. Messages of
/// an edge type have neither `x_i` beside `a_i` nor `W_lin` nor biases after the aggregation.
#[derive(Module, Debug)]
pub struct PnaConv<B: Backend> {
    /// PyG's `pre_nns.0.0`, `[2 or 3 times in_channels, in_channels]`.
    pub pre: Dense<B>,
    /// PyG's `edge_encoder`, `[edge_channels, in_channels]`. `None` without edge features.
    pub edge: Option<Dense<B>>,
    /// PyG's `post_nns.0.0.weight`, transposed, `[13 or 12 times in_channels, out_channels]`.
    pub post: Param<Tensor<B, 2>>,
    /// PyG's `post_nns.0.0.bias`, `[out_channels]`. `None` for the messages of an edge type.
    pub post_bias: Option<Param<Tensor<B, 1>>>,
    /// PyG's `lin`, `[out_channels, out_channels]`. `None` for the messages of an edge type.
    pub lin: Option<Dense<B>>,
    log_degree: f64,
    precision: Precision,
}

impl<B: GnnBackend> Conv<B> for PnaConv<B> {
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2> {
        let ConvInput { x, x_dst, block, edges, activation, .. } = input;
        let product = Linear { activation: Activation::Identity, precision: self.precision };
        let own = x_dst.unwrap_or_else(|| prefix(x.clone(), block.num_dst()));
        // The share of a destination in its messages is the same for all edges, so that it is added to their aggregation.
        let of_own = linear(own.clone(), self.weight_of(0), Some(self.pre.bias.val()), product);
        let of_own = without_lone_destinations(of_own, block);
        let of_sources = linear(x, self.weight_of(1), None, product);
        let [mean, least, greatest, deviation] = match &self.edge {
            None => statistics(of_sources, |rows, reduce| aggregate(rows, block, reduce)),
            Some(edge) => {
                let features = edges.features.expect("PnaConv: the layer reads edge features");
                let of_edges = linear(edge.forward(features, Activation::Identity), self.weight_of(2), None, product);
                let messages = gather_sources(of_sources, block) + of_edges;
                statistics(messages, |rows, reduce| scatter_edges(rows, block, reduce))
            }
        };
        let all = Tensor::cat(vec![mean + of_own.clone(), least + of_own.clone(), greatest + of_own, deviation], 1);
        let [amplification, attenuation] = self.scales(block, &all.device());
        let scaled = vec![all.clone(), all.clone() * amplification, all * attenuation];
        let bias = self.post_bias.as_ref().map(Param::val);
        match &self.lin {
            Some(lin) => {
                let rows = Tensor::cat([vec![own], scaled].concat(), 1);
                lin.forward(linear(rows, self.post.val(), bias, product), activation)
            }
            None => activation.apply(linear(Tensor::cat(scaled, 1), self.post.val(), bias, product)),
        }
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
        self.pre.set_precision(precision);
        for dense in [&mut self.edge, &mut self.lin].into_iter().flatten() {
            dense.set_precision(precision);
        }
    }
}

impl<B: Backend> PnaConv<B> {
    /// Returns the weights of messages for the rows of destinations (0), of sources (1), or of edges (2).
    fn weight_of(&self, share: usize) -> Tensor<B, 2> {
        let weight = self.pre.weight.val();
        let [_, width] = weight.dims();
        weight.slice([share * width..(share + 1) * width, 0..width])
    }

    /// Returns the factors that grow and that shrink with the degrees of destinations, `[num_dst, 1]`.
    fn scales(&self, block: &Block, device: &B::Device) -> [Tensor<B, 2>; 2] {
        let num_dst = block.num_dst();
        let mut amplification = Vec::with_capacity(num_dst);
        let mut attenuation = Vec::with_capacity(num_dst);
        for ends in block.indptr().windows(2) {
            let degree = f64::from(ends[1] - ends[0]);
            amplification.push((degree + 1.0).ln() / self.log_degree);
            attenuation.push(self.log_degree / (degree.max(1.0) + 1.0).ln());
        }
        [amplification, attenuation].map(|factors| Tensor::from_data(TensorData::new(factors, [num_dst, 1]), device))
    }
}

/// Returns the mean, the minimum, the maximum and the standard deviation of rows. Variances up to [`LEAST_VARIANCE`] have
/// the deviation 0: the root has no derivative at 0.
fn statistics<B: GnnBackend>(
    rows: Tensor<B, 2>,
    reduce: impl Fn(Tensor<B, 2>, &Reduce) -> Tensor<B, 2>,
) -> [Tensor<B, 2>; NUM_AGGREGATIONS] {
    let mean = reduce(rows.clone(), &Reduce::Mean);
    let least = reduce(rows.clone().neg(), &Reduce::Max).neg();
    let greatest = reduce(rows.clone(), &Reduce::Max);
    let variance = reduce(rows.clone() * rows, &Reduce::Mean) - mean.clone() * mean.clone();
    let is_small = variance.clone().lower_equal_elem(LEAST_VARIANCE);
    let deviation = variance.clamp_min(LEAST_VARIANCE).sqrt().mask_fill(is_small, 0.0);
    [mean, least, greatest, deviation]
}
