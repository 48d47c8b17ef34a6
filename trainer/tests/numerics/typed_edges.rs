//! Layers that read all edge types at once, over features and weights of edges, compared with slow computations by burn's
//! own operations.

use std::sync::Arc;

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::module::Param;
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu, sigmoid, softmax};
use edgecut_gnn::nn::{
    AnyTypedConv, ConvKind, Dense, EdgeData, EdgeShape, EdgeWeighting, FlagValues, HeteroShape, HgtConv, Incoming,
    LayerPass, Mode, RelationAggregation, RgcnConv, TypedConv, TypedConvInput,
};
use edgecut_gnn::ops::{Activation, BatchGraph, Block};

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;
type Matrix = Tensor<Grad, 2>;

const CHANNELS: usize = 6;
const EDGE_CHANNELS: usize = 2;
const NUM_DST: usize = 8;
/// The source and destination node type of each edge type, and the number of its features. The tests compute
/// destinations of type 0.
const EDGE_TYPES: [(usize, usize, usize); 3] = [(0, 0, EDGE_CHANNELS), (1, 0, 0), (1, 0, EDGE_CHANNELS)];

/// Makes the edges into destinations of type 0 with weights. Some destinations have no edges.
fn incoming() -> Vec<(Incoming<Grad>, Vec<f32>)> {
    let mut draws = Draws(51);
    let own = prefix_block(&Arc::new(random_graph(&mut draws, 9, 14, 4)), NUM_DST);
    let more = BatchGraph::new(vec![0, 1, 1, 1, 3, 3, 3, 3, 3], vec![1, 2, 0], 3).expect("a graph");
    let more = Block::new(Arc::new(more), NUM_DST, 3).expect("a block");
    let others = draws.matrix(3, CHANNELS);
    let mut all = Vec::new();
    for (relation, block) in [own, block_between_types(), more].into_iter().enumerate() {
        let x = if relation == 0 { draws.matrix(block.num_src(), CHANNELS) } else { others.clone() };
        let channels = EDGE_TYPES[relation].2;
        let features = (channels > 0).then(|| draws.matrix(block.num_edges(), channels));
        let weights = (0..block.graph().num_edges()).map(|_| draws.float() as f32 + 1.5).collect();
        all.push((Incoming { relation, x, block, edges: EdgeData { features, ..EdgeData::default() } }, weights));
    }
    all
}

fn layer(model: &str, flags: &[(&str, u32)]) -> AnyTypedConv<Grad> {
    let flags: FlagValues = flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let kind = ConvKind::from_flags(model, flags).expect("valid flags");
    let edge_types = EDGE_TYPES.map(|(src, dst, edge_channels)| EdgeShape { src, dst, edge_channels });
    let combine = RelationAggregation::Sum;
    let shape = HeteroShape { edge_types: &edge_types, num_node_types: 2, channels: CHANNELS, combine };
    typed_layer(kind, &shape)
}

/// Returns the output, and the gradients of the destinations' rows, of all sources and of all parameters.
fn all_values(
    layer: &AnyTypedConv<Grad>,
    incoming: &[Incoming<Grad>],
    compute: impl Fn(Matrix, &[Incoming<Grad>]) -> Matrix,
) -> (Vec<f64>, usize) {
    let own = incoming[0].x.clone().detach().require_grad();
    let others = incoming[1].x.clone().detach().require_grad();
    let mut incoming = incoming.to_vec();
    for edges in &mut incoming {
        edges.x = if edges.relation == 0 { own.clone() } else { others.clone() };
    }
    let output = compute(own.clone().slice([0..NUM_DST, 0..CHANNELS]), &incoming);
    let gradients = output.clone().powi_scalar(2).sum().backward();
    let mut all = values(output);
    all.extend(values(own.grad(&gradients).expect("rows of destinations")));
    all.extend(values(others.grad(&gradients).expect("rows of sources")));
    let of_parameters = parameter_gradients(layer, &gradients);
    all.extend(of_parameters.values);
    (all, of_parameters.num_missing)
}

fn fast(layer: &AnyTypedConv<Grad>, x: Matrix, incoming: &[Incoming<Grad>]) -> Matrix {
    let pass = LayerPass::new(Mode::Eval, 0);
    let activation = Activation::Identity;
    layer.convolve(TypedConvInput { node_type: 0, x, num_dst: NUM_DST, incoming, pass, activation })
}

fn dense(x: Matrix, dense: &Option<Dense<Grad>>) -> Matrix {
    let dense = dense.as_ref().expect("a layer of the node type");
    x.matmul(dense.weight.val()) + dense.bias.val().unsqueeze()
}

/// Multiplies the columns of each head by the matrix of the head.
fn by_head(x: Matrix, relation: &Param<Tensor<Grad, 3>>) -> Matrix {
    let [heads, width, _] = relation.dims();
    let [count, _] = x.dims();
    let mut products = Vec::with_capacity(heads);
    for head in 0..heads {
        let columns = x.clone().slice([0..count, head * width..(head + 1) * width]);
        let matrix = relation.val().slice([head..head + 1, 0..width, 0..width]).reshape([width, width]);
        products.push(columns.matmul(matrix));
    }
    Tensor::cat(products, 1)
}

fn slow_hgt(layer: &HgtConv<Grad>, x: Matrix, incoming: &[Incoming<Grad>], heads: usize) -> Matrix {
    let queries = dense(x.clone(), &layer.queries[0]);
    let of_head = CHANNELS / heads;
    let mut entries: Vec<Vec<Matrix>> = vec![Vec::new(); NUM_DST];
    for edges in incoming {
        let relation = edges.relation;
        let source = EDGE_TYPES[relation].0;
        let mut keys = by_head(dense(edges.x.clone(), &layer.keys[source]), &layer.key_relations[relation]);
        let mut values = by_head(dense(edges.x.clone(), &layer.values[source]), &layer.value_relations[relation]);
        keys = keys.select(0, ints(sources_of(&edges.block)));
        values = values.select(0, ints(sources_of(&edges.block)));
        if let (Some(features), Some(of_keys)) = (&edges.edges.features, &layer.edge_keys[relation]) {
            keys = keys + features.clone().matmul(of_keys.val());
            let of_values = layer.edge_values[relation].as_ref().expect("weights of values");
            values = values + features.clone().matmul(of_values.val());
        }
        for (row, ends) in edges.block.indptr().windows(2).enumerate() {
            for edge in ends[0] as usize..ends[1] as usize {
                let product = queries.clone().narrow(0, row, 1) * keys.clone().narrow(0, edge, 1);
                let score = product.reshape([heads, of_head]).sum_dim(1).reshape([1, heads]);
                let score = score * layer.priors[relation].val().unsqueeze() / (of_head as f64).sqrt();
                entries[row].push(Tensor::cat(vec![score, values.clone().narrow(0, edge, 1)], 1));
            }
        }
    }
    let mut rows = Vec::new();
    for entries in entries {
        let count = entries.len();
        rows.push(if count == 0 {
            Tensor::zeros([1, CHANNELS], &x.device())
        } else {
            let entries = Tensor::cat(entries, 0);
            let weights = softmax(entries.clone().slice([0..count, 0..heads]), 0).reshape([count, heads, 1]);
            let values = entries.slice([0..count, heads..heads + CHANNELS]).reshape([count, heads, of_head]);
            (weights * values).sum_dim(0).reshape([1, CHANNELS])
        });
    }
    let output = dense(gelu(Tensor::cat(rows, 0)), &layer.outputs[0]);
    let share = sigmoid(layer.skips[0].as_ref().expect("a destination").val()).unsqueeze::<2>();
    output * share.clone() + x * (share.neg() + 1.0)
}

#[test]
fn an_hgt_over_edge_features_equals_its_formula_forward_and_backward() {
    let heads = 3;
    let any = layer("hgt", &[("heads", heads)]);
    let AnyTypedConv::Hgt(hgt) = &any else { unreachable!("an HGT was made") };
    let incoming: Vec<Incoming<Grad>> = incoming().into_iter().map(|(edges, _)| edges).collect();
    assert!(
        (0..NUM_DST).any(|row| incoming.iter().all(|edges| edges.block.indptr()[row] == edges.block.indptr()[row + 1]))
    );
    let (found, zero) = all_values(&any, &incoming, |x, incoming| fast(&any, x, incoming));
    let (expected, slow_zero) = all_values(&any, &incoming, |x, incoming| slow_hgt(hgt, x, incoming, heads as usize));
    assert_eq!(zero, slow_zero);
    assert_close(&found, &expected, 1e-9, "an HGT");
    assert!(found.iter().all(|value| value.is_finite()));
}

#[test]
fn relation_matrices_of_an_hgt_start_with_the_variance_of_glorot() {
    const WIDTH: usize = 16;
    let kind =
        ConvKind::from_flags("hgt", FlagValues::from_iter([("heads".to_owned(), 4.into())])).expect("valid flags");
    let edge_types = [EdgeShape { src: 0, dst: 0, edge_channels: 0 }];
    let combine = RelationAggregation::Sum;
    let shape = HeteroShape { edge_types: &edge_types, num_node_types: 1, channels: 4 * WIDTH, combine };
    let any: AnyTypedConv<Plain> = typed_layer(kind, &shape);
    let AnyTypedConv::Hgt(hgt) = any else { unreachable!("an HGT was made") };
    let bound = (6.0 / (2 * WIDTH) as f64).sqrt();
    for relation in [&hgt.key_relations[0], &hgt.value_relations[0]] {
        let values = values(relation.val());
        assert!(values.iter().all(|value| value.abs() <= bound + 1e-6));
        let variance = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        // A sum of `WIDTH` products has the variance of one factor.
        let scale = variance * WIDTH as f64;
        assert!((0.9..1.1).contains(&scale), "{scale}");
    }
}

/// Computes an R-GCN with the means of the rows of neighbors and edges, weighted if `weights` are given.
fn slow_rgcn(layer: &RgcnConv<Grad>, x: Matrix, incoming: &[Incoming<Grad>], weights: Option<&[Vec<f32>]>) -> Matrix {
    let mut output = x.matmul(layer.weight_self.val()) + layer.bias.as_ref().expect("a bias").val().unsqueeze();
    for edges in incoming {
        let mut rows = edges.x.clone().select(0, ints(sources_of(&edges.block)));
        let mut weight = layer.weights.matrices[edges.relation].val();
        if let (Some(features), Some(of_edges)) = (&edges.edges.features, &layer.edge_weights[edges.relation]) {
            rows = Tensor::cat(vec![rows, features.clone()], 1);
            weight = Tensor::cat(vec![weight, of_edges.val()], 0);
        }
        let [_, width] = rows.dims();
        let mut means = Vec::new();
        for ends in edges.block.indptr().windows(2) {
            let mut mean = Tensor::zeros([1, width], &rows.device());
            let range = ends[0] as usize..ends[1] as usize;
            let mut factors = vec![1.0; range.len()];
            if let Some(weights) = weights {
                factors = weights[edges.relation][range.clone()].iter().map(|&weight| f64::from(weight)).collect();
            }
            let total: f64 = factors.iter().sum();
            for (edge, factor) in range.zip(factors) {
                mean = mean + rows.clone().narrow(0, edge, 1) * (factor / total);
            }
            means.push(mean);
        }
        output = output + Tensor::cat(means, 0).matmul(weight);
    }
    output
}

#[test]
fn an_rgcn_over_features_and_weights_of_edges_equals_its_formula_forward_and_backward() {
    let any = layer("rgcn", &[]);
    let AnyTypedConv::Rgcn(rgcn) = &any else { unreachable!("an R-GCN was made") };
    let (mut incoming, weights): (Vec<_>, Vec<_>) = incoming().into_iter().unzip();
    for weights in [None, Some(&weights[..])] {
        if let Some(weights) = weights {
            for edges in &mut incoming {
                let of_type = weights[edges.relation].clone();
                let factors = EdgeWeighting::WeightedMean.factors(edges.block.graph(), of_type);
                edges.edges.factors = Some(Arc::new(factors.expect("a weight per edge")));
            }
        }
        let (found, zero) = all_values(&any, &incoming, |x, incoming| fast(&any, x, incoming));
        let (expected, slow_zero) = all_values(&any, &incoming, |x, incoming| slow_rgcn(rgcn, x, incoming, weights));
        assert_eq!(zero, slow_zero);
        assert_close(&found, &expected, 1e-6, "an R-GCN");
    }
}
