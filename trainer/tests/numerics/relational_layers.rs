//! Layers over typed edges compared with gather + scatter and separate products, forward and backward.

use std::sync::Arc;

use crate::attention::{Case, SLOPE, key};
use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use edgecut_gnn::nn::{
    Aggregation, AnyConv, AnyTypedConv, ConvKind, Decomposition, EdgeData, EdgeShape, GatConv, GatConvConfig,
    GatSettings, HeteroShape, Incoming, LayerPass, Mode, RelationAggregation, RgcnConv, RgcnConvConfig, SageSettings,
    TypedConv, TypedConvInput, WeightInit,
};
use edgecut_gnn::ops::{Activation, AttentionVersion, BatchGraph, Block, DropoutMask, Reduce};

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;
type BackendGradients = <Grad as burn::tensor::backend::AutodiffBackend>::Gradients;

const CHANNELS: usize = 6;
/// The source and destination node type of each edge type. The tests compute destinations of type 0.
const EDGE_TYPES: [(usize, usize); 4] = [(0, 0), (1, 0), (1, 0), (2, 1)];

/// Makes the inputs of destinations of type 0: edges from their own type (with parallel edges and self loops), edges
/// from a type with fewer nodes than there are destinations, and an edge type without edges.
fn incoming(draws: &mut Draws) -> Vec<Incoming<Grad>> {
    let own = prefix_block(&Arc::new(random_graph(draws, 9, 14, 4)), 8);
    let none = Block::new(Arc::new(BatchGraph::new(vec![0; 9], vec![], 5).expect("a graph")), 8, 5).expect("a block");
    let x = |draws: &mut Draws, block: &Block| draws.matrix(block.num_src(), CHANNELS).require_grad();
    [own, block_between_types(), none]
        .into_iter()
        .enumerate()
        .map(|(relation, block)| Incoming { relation, x: x(draws, &block), block, edges: EdgeData::default() })
        .collect()
}

/// Returns the rows of the destinations: the first rows of the sources of their own type.
fn own_rows(incoming: &[Incoming<Grad>]) -> Tensor<Grad, 2> {
    incoming[0].x.clone().slice([0..8, 0..CHANNELS])
}

fn gradient<const D: usize>(tensor: &Tensor<Grad, D>, gradients: &BackendGradients) -> Vec<f64> {
    let count = tensor.dims().iter().product();
    tensor.grad(gradients).map_or_else(|| vec![0.0; count], values)
}

/// Compares outputs, and the gradients of all sources and parameters. `run` makes a layer and computes the fused or the slow
/// output. Each has its own layer and sources, because a backward pass consumes its graph.
fn compare<M: Module<Grad>>(what: &str, seed: u64, run: impl Fn(bool, &[Incoming<Grad>]) -> (Tensor<Grad, 2>, M)) {
    let [fused, slow] = [true, false].map(|fused| {
        let incoming = incoming(&mut Draws(seed));
        let (output, layer) = run(fused, &incoming);
        let [rows, columns] = output.dims();
        let upstream = Draws(77).matrix::<Grad>(rows, columns);
        let found = values(output.clone());
        let gradients = (output * upstream).sum().backward();
        let mut all: Vec<f64> = incoming.iter().flat_map(|edges| gradient(&edges.x, &gradients)).collect();
        all.extend(parameter_gradients(&layer, &gradients).values);
        (found, all)
    });
    assert_close(&fused.0, &slow.0, 1e-10, what);
    assert_close(&fused.1, &slow.1, 1e-10, &format!("gradients of {what}"));
    assert!(fused.1.iter().any(|value| *value != 0.0));
}

#[test]
fn rgcn_equals_products_one_by_one() {
    let device = Default::default();
    for decomposition in [
        Decomposition::None,
        Decomposition::Basis { num_bases: 2 },
        Decomposition::BlockDiagonal { num_blocks: 3 },
        Decomposition::BlockDiagonal { num_blocks: 1 },
    ] {
        compare(&format!("{decomposition:?}"), 3, |fused, incoming| {
            let out = 9;
            let config = RgcnConvConfig::new(3, CHANNELS, out).with_decomposition(decomposition);
            let layer: RgcnConv<Grad> = config.init(&mut WeightInit::new(4), &device);
            let output = if fused {
                layer.forward(own_rows(incoming), incoming)
            } else {
                slow_rgcn(&layer, incoming, decomposition, out)
            };
            (output, layer)
        });
    }
}

/// Computes the formula without making the matrix of an edge type.
fn slow_rgcn(
    layer: &RgcnConv<Grad>,
    incoming: &[Incoming<Grad>],
    decomposition: Decomposition,
    out: usize,
) -> Tensor<Grad, 2> {
    let weights = &layer.weights;
    let times_weights = |x: Tensor<Grad, 2>, relation: usize| match decomposition {
        Decomposition::None => x.matmul(weights.matrices[relation].val()),
        Decomposition::Basis { num_bases } => {
            let bases = weights.bases.as_ref().expect("bases").val();
            let coefficients = weights.coefficients.as_ref().expect("coefficients").val();
            let product = |base: usize| {
                let coefficient = coefficients.clone().slice([relation..relation + 1, base..base + 1]);
                let base = bases.clone().slice([base..base + 1, 0..CHANNELS, 0..out]).reshape([CHANNELS, out]);
                x.clone().matmul(base) * coefficient
            };
            (0..num_bases).map(product).reduce(|sum, product| sum + product).expect("a base")
        }
        Decomposition::BlockDiagonal { num_blocks } => {
            let rows = CHANNELS / num_blocks;
            let columns = out / num_blocks;
            let product = |block: usize| {
                let weight = weights.blocks[relation].val().slice([block..block + 1, 0..rows, 0..columns]);
                let x = x.clone().slice([0..8, block * rows..(block + 1) * rows]);
                x.matmul(weight.reshape([rows, columns]))
            };
            Tensor::cat((0..num_blocks).map(product).collect(), 1)
        }
    };
    let own = own_rows(incoming).matmul(layer.weight_self.val());
    let own = own + layer.bias.as_ref().expect("a bias").val().unsqueeze();
    incoming.iter().fold(own, |sum, edges| {
        sum + times_weights(gather_scatter(edges.x.clone(), &edges.block, &Reduce::Mean), edges.relation)
    })
}

/// The number of the layer in its network.
const LAYER: u64 = 3;

fn typed(kind: ConvKind, combine: RelationAggregation) -> AnyTypedConv<Grad> {
    let edge_types = EDGE_TYPES.map(|(src, dst)| EdgeShape { src, dst, edge_channels: 0 });
    let shape = HeteroShape { edge_types: &edge_types, num_node_types: 3, channels: CHANNELS, combine };
    typed_layer(kind, &shape)
}

/// Computes the destinations of type 0.
fn forward(layer: &AnyTypedConv<Grad>, incoming: &[Incoming<Grad>]) -> Tensor<Grad, 2> {
    let pass = LayerPass::new(Mode::Train(key()), LAYER);
    let activation = Activation::Identity;
    layer.convolve(TypedConvInput { node_type: 0, x: own_rows(incoming), num_dst: 8, incoming, pass, activation })
}

#[test]
fn typed_sage_equals_products_one_by_one() {
    for aggregation in [Aggregation::Mean, Aggregation::Sum, Aggregation::Max] {
        for (combine, scale) in [(RelationAggregation::Sum, 1.0), (RelationAggregation::Mean, 1.0 / 3.0)] {
            compare(&format!("{aggregation} {combine}"), 4, |fused, incoming| {
                let any = typed(ConvKind::Sage(SageSettings { aggregation }), combine);
                let layer = hetero(&any).clone();
                let weight = |relation: usize| sage(&layer.relations[relation]).weight_neighbors.val();
                assert_eq!(layer.own.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
                let own = layer.own[0].clone().expect("a type that edges enter");
                let output = if fused {
                    forward(&any, incoming)
                } else {
                    let slow = own_rows(incoming).matmul(own.weight.val()) + own.bias.val().unsqueeze();
                    incoming.iter().fold(slow, |sum, edges| {
                        let aggregated = gather_scatter(edges.x.clone(), &edges.block, &aggregation.reduce());
                        sum + aggregated.matmul(weight(edges.relation)).mul_scalar(scale)
                    })
                };
                (output, any)
            });
        }
    }
}

fn gat(layer: &AnyConv<Grad>) -> &GatConv<Grad> {
    let AnyConv::Gat(layer) = layer else { unreachable!("an attention layer was made") };
    layer
}

/// Computes attention row by row over the projections of a layer.
fn slow_gat(layer: &GatConv<Grad>, [x_src, x_dst]: [Tensor<Grad, 2>; 2], case: &Case, concat: bool) -> Tensor<Grad, 2> {
    let heads = case.heads;
    let channels = case.channels;
    let biased = |z: Tensor<Grad, 2>, bias: &Option<Param<Tensor<Grad, 1>>>| match bias {
        Some(bias) => z + bias.val().unsqueeze(),
        None => z,
    };
    let z_src = biased(x_src.matmul(layer.weight_src.val()), &layer.bias_src);
    let z_dst = biased(x_dst.matmul(layer.weight_dst.as_ref().unwrap_or(&layer.weight_src).val()), &layer.bias_dst);
    assert_eq!(layer.bias_src.is_some(), case.version == AttentionVersion::V2, "PyG's GATConv projects without biases");
    let score = |z: Tensor<Grad, 2>, vector: &Param<Tensor<Grad, 3>>| {
        let [rows, _] = z.dims();
        (z.reshape([rows, heads, channels]) * vector.val()).sum_dim(2).reshape([rows, heads])
    };
    let inputs = match case.version {
        AttentionVersion::V1 => {
            let of_dst = layer.attention_dst.as_ref().expect("the first version has it");
            [z_src.clone(), score(z_src, &layer.attention_src), score(z_dst, of_dst)]
        }
        AttentionVersion::V2 => [z_src, z_dst, layer.attention_src.val().reshape([1, heads * channels])],
    };
    let output = case.slow(inputs);
    let [rows, _] = output.dims();
    let output =
        if concat { output } else { output.reshape([rows, heads, channels]).mean_dim(1).reshape([rows, channels]) };
    output + layer.bias.as_ref().expect("a bias").val().unsqueeze()
}

#[test]
fn attention_layers_equal_softmaxes_of_what_they_project() {
    let device = Default::default();
    for version in [AttentionVersion::V1, AttentionVersion::V2] {
        for (heads, channels, concat) in [(1, 4, true), (3, 2, true), (3, 2, false)] {
            for dropout in [0.0, 0.5] {
                for (self_edges, between, relation) in [(true, false, 0), (false, false, 0), (false, true, 1)] {
                    let config = GatConvConfig::new(CHANNELS, channels, heads)
                        .with_dst_channels(between.then_some(CHANNELS))
                        .with_version(version)
                        .with_concat(concat)
                        .with_negative_slope(SLOPE)
                        .with_self_edges(self_edges);
                    compare(&format!("{config}"), 5, |fused, incoming| {
                        let layer: GatConv<Grad> = config.init(&mut WeightInit::new(2), &device);
                        let Incoming { x, block, .. } = incoming[relation].clone();
                        let mask = DropoutMask::new(dropout, key());
                        let x_dst = own_rows(incoming);
                        let output = match (fused, between) {
                            (true, true) => layer.forward_between(x, x_dst, &block, mask),
                            (true, false) => layer.forward(x, &block, mask),
                            (false, _) => {
                                let case = Case { block, version, heads, channels, self_edges, dropout };
                                slow_gat(&layer, [x, x_dst], &case, concat)
                            }
                        };
                        (output, layer)
                    });
                }
            }
        }
    }
}

#[test]
fn typed_attention_adds_up_its_edge_types() {
    for version in [AttentionVersion::V1, AttentionVersion::V2] {
        for (combine, scale) in [(RelationAggregation::Sum, 1.0), (RelationAggregation::Mean, 1.0 / 3.0)] {
            compare(&format!("{version:?} {combine}"), 6, |fused, incoming| {
                let attention_dropout = 0.4;
                let kind = GatSettings { version, heads: 2, attention_dropout, projection_bias: true };
                let any = typed(ConvKind::Gat(kind), combine);
                let layer = hetero(&any).clone();
                let mask = LayerPass::new(Mode::Train(key()), LAYER).mask(attention_dropout);
                let output = if fused {
                    forward(&any, incoming)
                } else {
                    let own = layer.own[0].as_ref().expect("a type that edges enter");
                    let own = own_rows(incoming).matmul(own.weight.val()) + own.bias.val().unsqueeze();
                    incoming.iter().fold(own, |sum, edges| {
                        let mask = mask.for_type(edges.relation as u64);
                        let block = &edges.block;
                        let attention = gat(&layer.relations[edges.relation]);
                        let message = attention.forward_between(edges.x.clone(), own_rows(incoming), block, mask);
                        sum + message.mul_scalar(scale)
                    })
                };
                (output, any)
            });
        }
    }
}
