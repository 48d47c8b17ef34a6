//! The decoders of models for edges: outputs of an edge from the rows of its ends and its own features.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::words;
use serde::{Deserialize, Serialize};

use super::dense::Dense;
use super::mode::Mode;
use super::weight_init::WeightInit;
use crate::ops::{Activation, GnnBackend};

/// The number of the dropout mask of a decoder, which no layer of an encoder has.
const DROPOUT: u64 = 1 << 32;

/// The rows that a decoder reads.
#[derive(Clone, Debug)]
pub struct EdgeRows<B: Backend> {
    /// `[edges, channels]`, the rows of the sources.
    pub src: Tensor<B, 2>,
    /// `[edges, channels]`, the rows of the destinations.
    pub dst: Tensor<B, 2>,
    /// `[edges, feature_dim]`, the features of the edges themselves, if the model reads them.
    pub features: Option<Tensor<B, 2>>,
}

/// The columns of a decoder's input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeDecoderShape {
    /// Columns of the rows of both ends.
    pub channels: usize,
    /// Columns of the edges' own features, 0 if the model does not read them.
    pub feature_dim: usize,
    /// Columns of the output.
    pub outputs: usize,
}

/// A decoder of a model for edges.
pub trait EdgeDecoder<B: GnnBackend>: Module<B> {
    /// Computes the outputs of edges. `dropout` is the probability of dropout in training.
    ///
    /// # Shapes
    /// - output: `[edges, outputs]`
    fn decode(&self, rows: EdgeRows<B>, dropout: f64, mode: Mode) -> Tensor<B, 2>;
}

/// Declares the kinds of decoders, each with its name, its module and its documentation.
macro_rules! edge_decoders {
    ($($(#[$doc:meta])* $kind:ident($module:ident) = $name:literal;)*) => {
        /// The formula of the outputs of an edge.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum EdgeDecoderKind {
            $($(#[$doc])* $kind,)*
        }

        impl EdgeDecoderKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];
        }

        words!(EdgeDecoderKind, "decoder", $($kind = $name),*);

        /// A decoder of any kind.
        #[derive(Module, Debug)]
        pub enum AnyEdgeDecoder<B: Backend> {
            $($(#[$doc])* $kind($module<B>),)*
        }

        impl<B: Backend> AnyEdgeDecoder<B> {
            /// Makes a decoder.
            pub fn new(
                kind: EdgeDecoderKind,
                shape: EdgeDecoderShape,
                init: &mut WeightInit,
                device: &B::Device,
            ) -> Self {
                match kind {
                    $(EdgeDecoderKind::$kind => Self::$kind($module::new(shape, init, device)),)*
                }
            }
        }

        impl<B: GnnBackend> EdgeDecoder<B> for AnyEdgeDecoder<B> {
            fn decode(&self, rows: EdgeRows<B>, dropout: f64, mode: Mode) -> Tensor<B, 2> {
                match self {
                    $(Self::$kind(decoder) => decoder.decode(rows, dropout, mode),)*
                }
            }
        }
    };
}

edge_decoders! {
    /// A network with one hidden layer over the rows of both ends, their product, and the features of the edge.
    Mlp(MlpEdgeDecoder) = "mlp";
    /// A dense layer over the product of the rows of both ends, and the features of the edge. It does not distinguish the
    /// source from the destination.
    Dot(DotEdgeDecoder) = "dot";
    /// `source · W · destination` with a matrix per output, plus a dense layer over the features of the edge.
    Bilinear(BilinearEdgeDecoder) = "bilinear";
}

/// The decoder of [`EdgeDecoderKind::Mlp`].
#[derive(Module, Debug)]
pub struct MlpEdgeDecoder<B: Backend> {
    /// The hidden layer.
    pub hidden: Dense<B>,
    /// The output layer.
    pub output: Dense<B>,
}

impl<B: Backend> MlpEdgeDecoder<B> {
    fn new(shape: EdgeDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        let EdgeDecoderShape { channels, feature_dim, outputs } = shape;
        let inputs = channels.saturating_mul(3).saturating_add(feature_dim);
        Self { hidden: Dense::new(inputs, channels, init, device), output: Dense::new(channels, outputs, init, device) }
    }
}

impl<B: GnnBackend> EdgeDecoder<B> for MlpEdgeDecoder<B> {
    fn decode(&self, rows: EdgeRows<B>, dropout: f64, mode: Mode) -> Tensor<B, 2> {
        let EdgeRows { src, dst, features } = rows;
        let product = src.clone() * dst.clone();
        let inputs: Vec<Tensor<B, 2>> = [src, dst, product].into_iter().chain(features).collect();
        let hidden = self.hidden.forward(Tensor::cat(inputs, 1), mode.relu_and_dropout(dropout, DROPOUT));
        self.output.forward(hidden, Activation::Identity)
    }
}

/// The decoder of [`EdgeDecoderKind::Dot`].
#[derive(Module, Debug)]
pub struct DotEdgeDecoder<B: Backend> {
    /// The weights of the columns of the product, and of the features.
    pub output: Dense<B>,
}

impl<B: Backend> DotEdgeDecoder<B> {
    fn new(shape: EdgeDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        let EdgeDecoderShape { channels, feature_dim, outputs } = shape;
        Self { output: Dense::new(channels.saturating_add(feature_dim), outputs, init, device) }
    }
}

impl<B: GnnBackend> EdgeDecoder<B> for DotEdgeDecoder<B> {
    fn decode(&self, rows: EdgeRows<B>, _: f64, _: Mode) -> Tensor<B, 2> {
        let EdgeRows { src, dst, features } = rows;
        let inputs: Vec<Tensor<B, 2>> = std::iter::once(src * dst).chain(features).collect();
        self.output.forward(Tensor::cat(inputs, 1), Activation::Identity)
    }
}

/// The decoder of [`EdgeDecoderKind::Bilinear`].
#[derive(Module, Debug)]
pub struct BilinearEdgeDecoder<B: Backend> {
    /// `[channels, outputs * channels]`: the matrices of the outputs, side by side.
    pub weight: Param<Tensor<B, 2>>,
    /// `[outputs]`.
    pub bias: Param<Tensor<B, 1>>,
    /// The layer over the features, if the model reads them.
    pub features: Option<Dense<B>>,
}

impl<B: Backend> BilinearEdgeDecoder<B> {
    fn new(shape: EdgeDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
        let EdgeDecoderShape { channels, feature_dim, outputs } = shape;
        let bound = WeightInit::kaiming_bound(channels);
        Self {
            weight: init.uniform([channels, outputs.saturating_mul(channels)], bound, device),
            bias: init.uniform([outputs], bound, device),
            features: (feature_dim > 0).then(|| Dense::new(feature_dim, outputs, init, device)),
        }
    }
}

impl<B: GnnBackend> EdgeDecoder<B> for BilinearEdgeDecoder<B> {
    fn decode(&self, rows: EdgeRows<B>, _: f64, _: Mode) -> Tensor<B, 2> {
        let EdgeRows { src, dst, features } = rows;
        let [edges, channels] = src.dims();
        let [outputs] = self.bias.val().dims();
        let queries = crate::ops::matmul(src, self.weight.val()).reshape([edges, outputs, channels]);
        let products = (queries * dst.reshape([edges, 1, channels])).sum_dim(2).reshape([edges, outputs]);
        let outputs = products + self.bias.val().unsqueeze();
        match (&self.features, features) {
            (Some(layer), Some(features)) => outputs + layer.forward(features, Activation::Identity),
            _ => outputs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend_types::Cpu;
    use crate::ops::DropoutKey;
    use burn::tensor::TensorData;

    const SHAPE: EdgeDecoderShape = EdgeDecoderShape { channels: 3, feature_dim: 2, outputs: 2 };

    fn matrix(rows: usize, columns: usize, shift: f32) -> (Tensor<Cpu, 2>, Vec<Vec<f64>>) {
        let values: Vec<f32> = (0..rows * columns).map(|at| ((at * 7 % 11) as f32 - 5.0) / 4.0 + shift).collect();
        let tensor = Tensor::from_data(TensorData::new(values.clone(), [rows, columns]), &Default::default());
        (tensor, values.chunks(columns).map(|row| row.iter().map(|&value| f64::from(value)).collect()).collect())
    }

    fn values<const D: usize>(tensor: &Tensor<Cpu, D>) -> Vec<f64> {
        tensor.clone().into_data().iter::<f64>().collect()
    }

    /// Returns `x W + b`.
    fn dense(layer: &Dense<Cpu>, x: &[f64]) -> Vec<f64> {
        let weight = values(&layer.weight.val());
        let bias = values(&layer.bias.val());
        let column = |at: usize| (0..x.len()).map(|row| x[row] * weight[row * bias.len() + at]).sum::<f64>();
        (0..bias.len()).map(|at| bias[at] + column(at)).collect()
    }

    /// Computes the outputs of an edge as the documentation of the kinds describes them.
    fn expected(decoder: &AnyEdgeDecoder<Cpu>, src: &[f64], dst: &[f64], features: &[f64]) -> Vec<f64> {
        let product: Vec<f64> = src.iter().zip(dst).map(|(a, b)| a * b).collect();
        match decoder {
            AnyEdgeDecoder::Mlp(mlp) => {
                let hidden = dense(&mlp.hidden, &[src, dst, &product, features].concat());
                dense(&mlp.output, &hidden.iter().map(|value| value.max(0.0)).collect::<Vec<_>>())
            }
            AnyEdgeDecoder::Dot(dot) => dense(&dot.output, &[&product, features].concat()),
            AnyEdgeDecoder::Bilinear(bilinear) => {
                let weight = values(&bilinear.weight.val());
                let bias = values(&bilinear.bias.val());
                let of_features = bilinear.features.as_ref().map(|layer| dense(layer, features));
                let n = src.len();
                let k = bias.len();
                let entry = |row: usize, output: usize, column: usize| weight[row * n * k + output * n + column];
                let output = |at: usize| {
                    let pairs = (0..n * n).map(|pair| (pair / n, pair % n));
                    let sum: f64 = pairs.map(|(row, column)| src[row] * entry(row, at, column) * dst[column]).sum();
                    sum + bias[at] + of_features.as_ref().map_or(0.0, |of_features| of_features[at])
                };
                (0..k).map(output).collect()
            }
        }
    }

    #[test]
    fn decoders_compute_their_formulas() {
        let device = Default::default();
        let (src, src_rows) = matrix(4, 3, 0.0);
        let (dst, dst_rows) = matrix(4, 3, 0.3);
        let (features, feature_rows) = matrix(4, 2, -0.2);
        for &kind in EdgeDecoderKind::ALL {
            for with_features in [true, false] {
                let shape = EdgeDecoderShape { feature_dim: if with_features { 2 } else { 0 }, ..SHAPE };
                let decoder = AnyEdgeDecoder::<Cpu>::new(kind, shape, &mut WeightInit::new(5), &device);
                let own = with_features.then(|| features.clone());
                let rows = EdgeRows { src: src.clone(), dst: dst.clone(), features: own };
                let found = decoder.decode(rows, 0.5, Mode::Eval);
                assert_eq!(found.dims(), [4, 2]);
                let of_edge = |edge: usize| {
                    let features: &[f64] = if with_features { &feature_rows[edge] } else { &[] };
                    expected(&decoder, &src_rows[edge], &dst_rows[edge], features)
                };
                let expected: Vec<f64> = (0..4).flat_map(of_edge).collect();
                for (found, expected) in values(&found).into_iter().zip(expected) {
                    assert!((found - expected).abs() < 1e-5, "{kind}: {found}, expected {expected}");
                }
            }
        }
    }

    #[test]
    fn dropout_applies_to_the_hidden_layer_in_training() {
        let device = Default::default();
        let rows =
            || EdgeRows { src: matrix(4, 3, 0.0).0, dst: matrix(4, 3, 0.3).0, features: Some(matrix(4, 2, 0.1).0) };
        let decoder = AnyEdgeDecoder::<Cpu>::new(EdgeDecoderKind::Mlp, SHAPE, &mut WeightInit::new(5), &device);
        let train = |dropout| values(&decoder.decode(rows(), dropout, Mode::Train(DropoutKey::new(1, 0, 0))));
        assert_eq!(train(0.0), values(&decoder.decode(rows(), 0.9, Mode::Eval)));
        assert_ne!(train(0.9), train(0.0));
    }
}
