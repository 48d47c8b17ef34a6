//! The registry of decoders for link prediction, which score node pairs.
// A model has one decoder, so that the size of the largest does not matter.
#![allow(clippy::large_enum_variant)]

mod bilinear;
mod complex;
mod distmult;
mod dot;
mod mlp;
mod rotate;
mod transe;

pub use bilinear::{Bilinear, BilinearDecoder};
pub use complex::{ComplEx, ComplExDecoder};
pub use distmult::{DistMult, DistMultDecoder};
pub use dot::{Dot, DotDecoder};
pub use mlp::{MlpDecoder, MlpLink};
pub use rotate::{RotatE, RotatEDecoder};
pub use transe::{TransE, TransEDecoder};

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::{Named, named};

use super::weight_init::WeightInit;
use crate::ops::{GnnBackend, matmul, select_rows};

/// The maximum number of values that are compared at once by decoders that are not products, 16 MiB in `f32`.
const VALUES_AT_ONCE: usize = 1 << 22;

/// An end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeEnd {
    /// The node at which the edge ends.
    Destination,
    /// The node at which the edge starts.
    Source,
}

/// The number of edge types that a decoder distinguishes, and the number of columns of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkDecoderShape {
    /// Edge types of the graph.
    pub edge_types: usize,
    /// Columns of the rows of both ends.
    pub channels: usize,
}

/// The settings of a decoder.
pub trait DecoderSettings: Named + Copy {
    /// True if the score of a pair depends on the type of the edge, so that a decoder can score the pair of a node with
    /// itself low.
    const IS_RELATIONAL: bool = true;
    /// True if scores are trilinear, so that the N3 penalty applies to the vectors of source, relation and destination.
    const HAS_N3: bool = false;

    /// Checks the number of columns of the rows.
    ///
    /// # Errors
    /// The fault, and a way to correct it.
    fn check_channels(_channels: usize) -> Result<(), String> {
        Ok(())
    }
}

/// A decoder, which scores pairs of rows.
///
/// One end of a pair is given, and makes a query with the relation. The score of a pair compares the query with the row of
/// the other end. A query is computed once and serves many pairs.
pub trait LinkDecoder<B: GnnBackend>: Module<B> {
    /// True if the score is the dot product of query and row, so that many pairs are scored by one matrix product. This is
    /// the default, with which [`compare`](Self::compare) agrees.
    const IS_PRODUCT: bool = true;

    /// Computes the queries of given ends, which are compared with rows of the end `compared`.
    ///
    /// # Shapes
    /// - `given`: `[edges, channels]`
    /// - `edge_types`: `[edges]`
    /// - output: `[edges, width]`, where `width` is `channels` if the decoder is a product
    fn query(&self, given: Tensor<B, 2>, edge_types: &[u16], compared: EdgeEnd) -> Tensor<B, 2>;

    /// Compares queries with rows.
    ///
    /// # Shapes
    /// - `queries`: `[edges, 1, width]`
    /// - `rows`: `[edges, num, channels]`, or `[1, num, channels]` for the same rows for all queries
    /// - output: `[edges, num]`
    fn compare(&self, queries: Tensor<B, 3>, rows: Tensor<B, 3>, _compared: EdgeEnd) -> Tensor<B, 2> {
        product(queries, rows)
    }

    /// Returns the learned values of each edge type, `[edge types, values]`, or `None` without any.
    fn relations(&self) -> Option<Tensor<B, 2>> {
        None
    }

    /// Returns the sum of the third powers of the absolute values of each vector.
    ///
    /// # Shapes
    /// - `vectors`: `[rows, channels]`
    /// - output: `[rows]`
    fn cubes(&self, vectors: Tensor<B, 2>) -> Tensor<B, 1> {
        vectors.abs().powi_scalar(3).sum_dim(1).squeeze_dim(1)
    }
}

/// Declares [`DecoderKind`] and [`AnyLinkDecoder`] over all decoders.
macro_rules! decoders {
    ($($(#[$doc:meta])* $variant:ident($settings:ident, $decoder:ident)),* $(,)?) => {
        named! {
            /// The formula of the score of a node pair, with its settings.
            pub enum DecoderKind("decoder") { $($(#[$doc])* $variant($settings)),* }
        }

        impl DecoderKind {
            /// See [`DecoderSettings::IS_RELATIONAL`].
            pub fn is_relational(&self) -> bool {
                match self {
                    $(Self::$variant(_) => $settings::IS_RELATIONAL,)*
                }
            }

            /// See [`DecoderSettings::HAS_N3`].
            pub fn has_n3(&self) -> bool {
                match self {
                    $(Self::$variant(_) => $settings::HAS_N3,)*
                }
            }

            /// See [`DecoderSettings::check_channels`].
            ///
            /// # Errors
            /// The fault, and a way to correct it.
            pub fn check_channels(&self, channels: usize) -> Result<(), String> {
                match self {
                    $(Self::$variant(_) => $settings::check_channels(channels),)*
                }
            }
        }

        /// A decoder of the registry.
        #[derive(Module, Debug)]
        pub enum AnyLinkDecoder<B: Backend> {
            $($(#[$doc])* $variant($decoder<B>),)*
        }

        impl<B: Backend> AnyLinkDecoder<B> {
            /// Makes a decoder.
            pub fn new(kind: DecoderKind, shape: LinkDecoderShape, init: &mut WeightInit, device: &B::Device) -> Self {
                match kind {
                    $(DecoderKind::$variant(settings) => {
                        Self::$variant($decoder::new(settings, shape, init, device))
                    })*
                }
            }
        }

        impl<B: GnnBackend> AnyLinkDecoder<B> {
            fn is_product(&self) -> bool {
                match self {
                    $(Self::$variant(_) => <$decoder<B> as LinkDecoder<B>>::IS_PRODUCT,)*
                }
            }

            fn compare(&self, queries: Tensor<B, 3>, rows: Tensor<B, 3>, compared: EdgeEnd) -> Tensor<B, 2> {
                match self {
                    $(Self::$variant(decoder) => decoder.compare(queries, rows, compared),)*
                }
            }

            /// Computes the queries of given ends, which are compared with rows of the end `compared`.
            ///
            /// # Shapes
            /// - `given`: `[edges, channels]`
            /// - `edge_types`: `[edges]`
            pub fn query(&self, given: Tensor<B, 2>, edge_types: &[u16], compared: EdgeEnd) -> LinkQueries<B> {
                let values = match self {
                    $(Self::$variant(decoder) => decoder.query(given, edge_types, compared),)*
                };
                LinkQueries { values, compared }
            }

            /// Returns the learned values of each edge type, `[edge types, values]`, or `None` without any.
            pub fn relations(&self) -> Option<Tensor<B, 2>> {
                match self {
                    $(Self::$variant(decoder) => decoder.relations(),)*
                }
            }

            /// See [`LinkDecoder::cubes`].
            pub fn cubes(&self, vectors: Tensor<B, 2>) -> Tensor<B, 1> {
                match self {
                    $(Self::$variant(decoder) => decoder.cubes(vectors),)*
                }
            }
        }
    };
}

decoders! {
    /// The dot product of both rows.
    Dot(Dot, DotDecoder),
    /// The product of source, relation and destination.
    DistMult(DistMult, DistMultDecoder),
    /// The product of complex numbers.
    ComplEx(ComplEx, ComplExDecoder),
    /// A matrix per edge type between both rows.
    Bilinear(Bilinear, BilinearDecoder),
    /// A translation per edge type.
    TransE(TransE, TransEDecoder),
    /// A rotation per edge type.
    RotatE(RotatE, RotatEDecoder),
    /// A network over both rows.
    Mlp(MlpLink, MlpDecoder),
}

/// The queries of the given ends of edges.
#[derive(Clone, Debug)]
pub struct LinkQueries<B: Backend> {
    /// `[edges, width]`
    values: Tensor<B, 2>,
    compared: EdgeEnd,
}

impl<B: Backend> LinkQueries<B> {
    /// Returns the queries of some of the edges.
    pub fn select(&self, edges: &[u32]) -> Self {
        Self { values: select_rows(&self.values, edges), compared: self.compared }
    }
}

impl<B: GnnBackend> AnyLinkDecoder<B> {
    /// Scores each query with rows of its own.
    ///
    /// # Shapes
    /// - `rows`: `[edges * num, channels]`, the rows of the first edge first
    /// - output: `[edges, num]`
    pub fn score_own(&self, queries: &LinkQueries<B>, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        let LinkQueries { values, compared } = queries;
        let [edges, width] = values.dims();
        let [all, channels] = rows.dims();
        let num = all / edges.max(1);
        let queries = values.clone().reshape([edges, 1, width]);
        let rows = rows.reshape([edges, num, channels]);
        if self.is_product() {
            return product(queries, rows);
        }
        self.compare(queries, rows, *compared)
    }

    /// Scores each query with all rows.
    ///
    /// # Shapes
    /// - `rows`: `[num, channels]`
    /// - output: `[edges, num]`
    pub fn score_all(&self, queries: &LinkQueries<B>, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        if self.is_product() {
            return matmul(queries.values.clone(), rows.transpose());
        }
        self.score_in_blocks(queries, rows, VALUES_AT_ONCE)
    }

    /// Compares each query with all rows, at most about `values_at_once` values at once.
    fn score_in_blocks(&self, queries: &LinkQueries<B>, rows: Tensor<B, 2>, values_at_once: usize) -> Tensor<B, 2> {
        let LinkQueries { values, compared } = queries;
        let [edges, width] = values.dims();
        let [num, channels] = rows.dims();
        if edges == 0 || num == 0 {
            return Tensor::zeros([edges, num], &rows.device());
        }
        let of_pair = width.max(channels).max(1);
        let rows_at_once = (values_at_once / of_pair).clamp(1, num);
        let edges_at_once = (values_at_once / of_pair / rows_at_once).clamp(1, edges);
        let mut blocks = Vec::new();
        for first in (0..edges).step_by(edges_at_once) {
            let count = edges_at_once.min(edges - first);
            let queries = values.clone().narrow(0, first, count).reshape([count, 1, width]);
            let mut of_edges = Vec::new();
            for first in (0..num).step_by(rows_at_once) {
                let count = rows_at_once.min(num - first);
                let rows = rows.clone().narrow(0, first, count).reshape([1, count, channels]);
                of_edges.push(self.compare(queries.clone(), rows, *compared));
            }
            blocks.push(joined(of_edges, 1));
        }
        joined(blocks, 0)
    }

    /// Returns the learned values of each edge's type, or `None` without any.
    ///
    /// # Shapes
    /// - output: `[edges, values]`
    pub fn relation_rows(&self, edge_types: &[u16]) -> Option<Tensor<B, 2>> {
        Some(select_rows(&self.relations()?, edge_types))
    }
}

/// Returns the dot products of queries and rows, shaped as in [`LinkDecoder::compare`].
fn product<B: Backend>(queries: Tensor<B, 3>, rows: Tensor<B, 3>) -> Tensor<B, 2> {
    (rows * queries).sum_dim(2).squeeze_dim(2)
}

/// Joins blocks, of which there is at least one.
fn joined<B: Backend>(mut blocks: Vec<Tensor<B, 2>>, dim: usize) -> Tensor<B, 2> {
    if blocks.len() == 1 { blocks.remove(0) } else { Tensor::cat(blocks, dim) }
}

/// Returns the error of rows that do not consist of complex numbers, if there is one.
fn check_even(decoder: &str, channels: usize) -> Result<(), String> {
    if channels.is_multiple_of(2) {
        return Ok(());
    }
    Err(format!(
        "the decoder {decoder} reads the {channels} hidden channels as real and imaginary parts: use an even number of \
         them (`hidden_channels`)"
    ))
}

/// Returns the product of rows of complex numbers, whose first half are the real parts. `conjugate` takes the complex
/// conjugates of `other`.
fn complex_product<B: Backend>(one: Tensor<B, 2>, other: Tensor<B, 2>, conjugate: bool) -> Tensor<B, 2> {
    let [real, imaginary] = halves(one);
    let [other_real, other_imaginary] = halves(other);
    let other_imaginary = if conjugate { other_imaginary.neg() } else { other_imaginary };
    let product_real = real.clone() * other_real.clone() - imaginary.clone() * other_imaginary.clone();
    let product_imaginary = real * other_imaginary + imaginary * other_real;
    Tensor::cat(vec![product_real, product_imaginary], 1)
}

/// Returns the real and the imaginary parts of complex numbers in the last dimension.
fn halves<B: Backend, const D: usize>(values: Tensor<B, D>) -> [Tensor<B, D>; 2] {
    let half = values.dims()[D - 1] / 2;
    [values.clone().narrow(D - 1, 0, half), values.narrow(D - 1, half, half)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend_types::Cpu;
    use burn::tensor::TensorData;

    const EDGES: usize = 5;
    const ROWS: usize = 7;

    fn matrix(rows: usize, columns: usize) -> Tensor<Cpu, 2> {
        let values: Vec<f32> = (0..rows * columns).map(|at| (at * 7 % 11) as f32 / 4.0 - 1.25).collect();
        Tensor::from_data(TensorData::new(values, [rows, columns]), &Default::default())
    }

    #[test]
    fn scores_do_not_depend_on_the_size_of_blocks() {
        let shape = LinkDecoderShape { edge_types: 2, channels: 6 };
        for kind in DecoderKind::all() {
            let decoder = AnyLinkDecoder::<Cpu>::new(kind, shape, &mut WeightInit::new(1), &Default::default());
            let queries = decoder.query(matrix(EDGES, 6), &[0, 1, 1, 0, 1], EdgeEnd::Destination);
            let own = Tensor::cat(vec![matrix(ROWS, 6); EDGES], 0);
            let expected: Vec<f32> = decoder.score_own(&queries, own).into_data().iter::<f32>().collect();
            for values_at_once in [1, 13, 40, 90, 1000] {
                let scores = decoder.score_in_blocks(&queries, matrix(ROWS, 6), values_at_once);
                assert_eq!(scores.dims(), [EDGES, ROWS]);
                for (found, expected) in scores.into_data().iter::<f32>().zip(&expected) {
                    assert!((found - expected).abs() < 1e-4, "{kind}, {values_at_once}: {found} for {expected}");
                }
            }
        }
    }

    /// Returns a decoder as JSON, from which it can be read again.
    fn json(kind: &str) -> String {
        let kind: DecoderKind = kind.parse().expect("a decoder");
        let json = serde_json::to_string(&kind).expect("JSON");
        assert_eq!(serde_json::from_str::<DecoderKind>(&json).expect("the same decoder"), kind);
        json
    }

    #[test]
    fn settings_are_part_of_the_json_of_a_decoder() {
        // Files of earlier versions have the names alone.
        assert_eq!(json("distmult"), r#""distmult""#);
        assert_eq!(json("rotate:margin=6"), r#"{"rotate":{"margin":6.0}}"#);
        for (text, why) in [
            ("cosine", "unknown decoder \"cosine\": expected dot, distmult, complex, bilinear, transe, rotate or mlp"),
            ("transe:norm=3", "transe: norm 3 is neither 1 nor 2"),
            ("dot:margin=1", "dot has no setting \"margin\": leave it out"),
            ("rotate:gamma=1", "rotate has no setting \"gamma\": use margin"),
        ] {
            assert_eq!(text.parse::<DecoderKind>(), Err(why.to_owned()));
        }
    }
}
