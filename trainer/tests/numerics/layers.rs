//! Layers compared with dense formulas and naive loops.

use std::sync::Arc;

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::module::AutodiffModule;
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::nn::{Aggregation, GcnConv, GcnConvConfig, GcnNorm, Order, SageConv, SageConvConfig, WeightInit};
use edgecut_gnn::ops::{Activation, BatchGraph, Block};
use edgecut_trainer::gradients::flatten_parameters;
use edgecut_trainer::models::{ConvKind, GcnSettings, NetworkConfig, SageSettings};

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;

fn whole(graph: BatchGraph) -> Block {
    let rows = graph.num_rows();
    let nodes = graph.num_nodes();
    Block::new(Arc::new(graph), rows, nodes).expect("a block")
}

fn degrees(graph: &BatchGraph) -> Vec<u32> {
    graph.indptr().windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn gcn_equals_the_dense_formula() {
    let mut draws = Draws(2);
    let n = 12;
    let block = whole(random_graph(&mut draws, n, n, 5));
    let degrees = degrees(block.graph());
    let mut dense = vec![0.0f64; n * n];
    for row in 0..n {
        dense[row * n + row] += 1.0;
        for &source in &block.indices()[block.indptr()[row] as usize..block.indptr()[row + 1] as usize] {
            dense[row * n + source as usize] += 1.0;
        }
    }
    for row in 0..n {
        for column in 0..n {
            let scale = (f64::from(degrees[row]) + 1.0) * (f64::from(degrees[column]) + 1.0);
            dense[row * n + column] /= scale.sqrt();
        }
    }
    let device = Default::default();
    let dense = Tensor::<Plain, 2>::from_data(TensorData::new(dense, [n, n]), &device);
    let x = draws.matrix::<Plain>(n, 5);
    let norm = GcnNorm::new(block.graph(), &degrees).expect("degrees that fit");
    let layer: GcnConv<Plain> = GcnConvConfig::new(5, 3).init(&mut WeightInit::new(1), &device);
    let expected = values(dense.matmul(x.clone()).matmul(layer.weight.val()));
    for order in [Order::AggregateFirst, Order::TransformFirst] {
        let output = layer.forward_in_order(x.clone(), &block, &norm, Activation::Identity, order);
        assert_close(&values(output), &expected, 1e-6, "GCN");
    }
    assert_close(&values(layer.forward(x, &block, &norm, Activation::Identity)), &expected, 1e-6, "GCN");
}

#[test]
fn sampled_gcn_is_right_on_average() {
    // Node 0 has the neighbors 1, 2 and 3. The mean over the three possible samples of two neighbors is the full sum.
    let degrees = [3, 2, 0, 5];
    let device = Default::default();
    let x = Draws(4).matrix::<Plain>(4, 2);
    let layer: GcnConv<Plain> = GcnConvConfig::new(2, 2).init(&mut WeightInit::new(1), &device);
    let run = |sample: Vec<u32>| {
        let block = whole(BatchGraph::new(vec![0, sample.len() as u32], sample, 4).expect("a graph"));
        let norm = GcnNorm::new(block.graph(), &degrees).expect("degrees that fit");
        layer.forward(x.clone(), &block, &norm, Activation::Identity)
    };
    let mean = (run(vec![1, 2]) + run(vec![1, 3]) + run(vec![2, 3])) / 3.0;
    assert_close(&values(mean), &values(run(vec![1, 2, 3])), 1e-6, "mean of samples");
}

#[test]
fn sage_equals_a_naive_loop() {
    let mut draws = Draws(6);
    let graph = Arc::new(random_graph(&mut draws, 15, 25, 6));
    let block = prefix_block(&graph, 11);
    let (fan_in, fan_out) = (4, 3);
    let x = draws.floats(block.num_src() * fan_in);
    let device = Default::default();
    for aggregation in [Aggregation::Mean, Aggregation::Sum, Aggregation::Max] {
        for has_bias in [true, false] {
            let config = SageConvConfig::new(fan_in, fan_out).with_aggregation(aggregation).with_bias(has_bias);
            let layer: SageConv<Plain> = config.init(&mut WeightInit::new(9), &device);
            let [neighbors, own] = [&layer.weight_neighbors, own_weight(&layer)].map(|weight| values(weight.val()));
            let bias = layer.bias.as_ref().map_or_else(|| vec![0.0; fan_out], |bias| values(bias.val()));
            let mut expected = Vec::new();
            for row in 0..block.num_dst() {
                let sources = &block.indices()[block.indptr()[row] as usize..block.indptr()[row + 1] as usize];
                for column in 0..fan_out {
                    let mut sum = bias[column];
                    for feature in 0..fan_in {
                        let of = |node: usize| x[node * fan_in + feature];
                        let all = sources.iter().map(|&source| of(source as usize));
                        let aggregated = match aggregation {
                            Aggregation::Sum => all.sum(),
                            Aggregation::Mean => all.sum::<f64>() / sources.len().max(1) as f64,
                            Aggregation::Max => all.reduce(f64::max).unwrap_or(0.0),
                        };
                        sum += aggregated * neighbors[feature * fan_out + column]
                            + of(row) * own[feature * fan_out + column];
                    }
                    expected.push(sum);
                }
            }
            let x = Tensor::from_data(TensorData::new(x.clone(), [block.num_src(), fan_in]), &device);
            let what = format!("SAGE {aggregation}, bias {has_bias}");
            for order in [Order::AggregateFirst, Order::TransformFirst] {
                assert_close(
                    &values(layer.forward_in_order(x.clone(), &block, Activation::Identity, order)),
                    &expected,
                    1e-9,
                    &what,
                );
            }
            assert_close(&values(layer.forward(x, &block, Activation::Identity)), &expected, 1e-9, &what);
        }
    }
}

#[test]
fn both_orders_have_the_same_gradients() {
    let mut draws = Draws(13);
    let graph = Arc::new(random_graph(&mut draws, 15, 25, 6));
    let block = prefix_block(&graph, 11);
    let device = Default::default();
    let data = draws.matrix::<Grad>(block.num_src(), 6).into_data();
    let sage: SageConv<Grad> = SageConvConfig::new(6, 4).init(&mut WeightInit::new(9), &device);
    let gcn: GcnConv<Grad> = GcnConvConfig::new(6, 4).init(&mut WeightInit::new(9), &device);
    let norm = GcnNorm::new(&graph, &vec![7; graph.num_nodes()]).expect("degrees that fit");
    let run = |order| {
        let x = Tensor::<Grad, 2>::from_data(data.clone(), &device).require_grad();
        let loss = sage.forward_in_order(x.clone(), &block, Activation::Identity, order).powi_scalar(2).sum()
            + gcn.forward_in_order(x.clone(), &block, &norm, Activation::Identity, order).powi_scalar(3).sum();
        let gradients = loss.backward();
        let mut all = values(x.grad(&gradients).expect("x"));
        all.extend(values(sage.weight_neighbors.grad(&gradients).expect("weight_neighbors")));
        all.extend(values(own_weight(&sage).grad(&gradients).expect("weight_self")));
        all.extend(values(gcn.weight.grad(&gradients).expect("weight")));
        all
    };
    assert_close(&run(Order::AggregateFirst), &run(Order::TransformFirst), 1e-9, "gradients");
}

#[test]
fn initial_weights_depend_on_the_seed_alone() {
    use burn::tensor::backend::Backend;
    let device = Default::default();
    for kind in [ConvKind::Gcn(GcnSettings), ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean })] {
        let config = NetworkConfig::stack(kind, 20, 16, 5, 3);
        let bits = |seed| {
            let model = config.init::<Autodiff<NdArray>>(seed, &device).expect("a valid model");
            flatten_parameters(&model.valid()).into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        NdArray::<f32>::seed(&device, 1);
        let first = bits(42);
        NdArray::<f32>::seed(&device, 2);
        assert_eq!(first, bits(42));
        assert_ne!(first, bits(43));
    }
    // Pins the bits, so that a release does not change the weights of a seed by accident.
    let layer: GcnConv<NdArray> = GcnConvConfig::new(2, 1).init(&mut WeightInit::new(0), &device);
    let bits: Vec<u32> = layer.weight.val().into_data().iter::<f32>().map(f32::to_bits).collect();
    assert_eq!(bits, PINNED_BITS);
}

const PINNED_BITS: [u32; 2] = [3_213_639_914, 3_188_118_529];

#[test]
fn initial_weights_fill_their_bounds_evenly() {
    let device = Default::default();
    let sage: SageConv<NdArray> = SageConvConfig::new(100, 200).init(&mut WeightInit::new(3), &device);
    let gcn: GcnConv<NdArray> = GcnConvConfig::new(100, 200).init(&mut WeightInit::new(3), &device);
    assert!(values(gcn.bias.as_ref().expect("a bias").val()).iter().all(|&value| value == 0.0));
    let cases = [
        (sage.weight_neighbors.val(), 0.1),
        (own_weight(&sage).val(), 0.1),
        (gcn.weight.val(), (6.0f64 / 300.0).sqrt()),
    ];
    for (weight, bound) in cases {
        let values = values(weight);
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| value * value).sum::<f64>() / count;
        assert!(values.iter().all(|value| value.abs() <= bound * 1.000_001));
        assert!(mean.abs() < 0.02 * bound, "mean {mean}");
        assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.05, "variance {variance}");
    }
    assert_ne!(values(sage.weight_neighbors.val()), values(own_weight(&sage).val()));
}
