//! Results on the CPU are those of the formulas, wherever arrays lie in memory. Libraries may compute the aligned part of
//! an array by other instructions than its ends.

use crate::convolutions::{all_kinds, graph_of, networks};
use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::tensor::activation::{log_softmax, sigmoid, softmax};
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::{DropoutKey, Segments};
use edgecut_trainer::models::{GraphClassifier, GraphInput, Mode, ModelInput, NetworkConfig, NodeClassifier};

type Single = Autodiff<NdArray<f32>>;
type Double = Autodiff<NdArray<f64>>;

/// A function of two rows.
type Function<B> = fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>;

const NUM_NODES: usize = 60;

fn row<B: AutodiffBackend>(values: &[f32]) -> Tensor<B, 2> {
    Tensor::from_data(TensorData::new(values.to_vec(), [1, values.len()]), &Default::default())
}

/// Returns functions of two rows, `[1, n]`, and the gradients of each function.
fn functions<B: AutodiffBackend>(x: &[f32], y: &[f32]) -> Vec<Vec<f64>> {
    let functions: [Function<B>; 8] = [
        |x, y| x / y,
        |x, y| x * y.recip(),
        |x, y| x * y.log(),
        |x, y| x * y.sqrt(),
        |x, y| x * y.powi_scalar(2),
        |x, y| softmax(x, 1) * y,
        |x, y| log_softmax(x, 1) * y,
        |x, y| sigmoid(x).log() * y,
    ];
    let mut results = Vec::new();
    for function in functions {
        let [x, y] = [x, y].map(|values| row::<B>(values).require_grad());
        let output = function(x.clone(), y.clone());
        let gradients = (output.clone() * row::<B>(&vec![0.5; output.dims()[1]])).sum().backward();
        let mut all = values(output);
        all.extend(values(x.grad(&gradients).expect("x")));
        all.extend(values(y.grad(&gradients).expect("y")));
        results.push(all);
    }
    results
}

#[test]
fn quotients_and_logarithms_are_as_exact_as_their_numbers() {
    for count in [3, 130, 1000, 4099] {
        let mut draws = Draws(count as u64);
        let x: Vec<f32> = draws.floats(count).into_iter().map(|value| value as f32).collect();
        let y: Vec<f32> = draws.floats(count).into_iter().map(|value| value.abs() as f32 + 0.5).collect();
        let exact = functions::<Double>(&x, &y);
        for (at, found) in functions::<Single>(&x, &y).iter().enumerate() {
            assert_close(found, &exact[at], 2e-6, &format!("function {at} of {count} numbers"));
        }
    }
}

/// Returns the bits of a network's output and of the gradients of its parameters.
fn bits(config: &NetworkConfig) -> Vec<u64> {
    let (block, norm) = graph_of(NUM_NODES);
    let mut draws = Draws(4);
    let model = config.init::<Single>(0, &Default::default()).expect("a valid model");
    let x = draws.matrix(NUM_NODES, 5);
    let edge_dim = config.graph.edge_types[0].edge_dim;
    let edges = if edge_dim > 0 { Some(draws.matrix(block.num_edges(), edge_dim)) } else { None };
    let mode = Mode::Train(DropoutKey::new(3, 0, 0));
    let output = if config.pooling.is_some() {
        let segments = Segments::new(vec![0, 25, NUM_NODES as u32]).expect("segments");
        let mut input = GraphInput::new(x, block, segments).expect("a batch");
        if let Some(rows) = edges {
            input = input.with_edge_features(rows).expect("a row per edge");
        }
        GraphClassifier::forward(&model, &input.with_gcn_norm(norm).expect("a batch"), mode)
    } else {
        let input = ModelInput::new(x, vec![block; 3]).expect("a batch").with_gcn_norm(norm).expect("a batch");
        NodeClassifier::forward(&model, input.with_edge_features(vec![edges]).expect("a row per edge"), mode)
    };
    let output = output.expect("a batch that fits");
    let gradients = output.clone().powi_scalar(2).sum().backward();
    let mut all = values(output);
    all.extend(parameter_gradients(&model, &gradients).values);
    all.into_iter().map(f64::to_bits).collect()
}

#[test]
fn gradients_of_every_network_have_the_same_bits_at_every_address() {
    for (name, kind) in all_kinds() {
        for config in networks(kind) {
            let expected = bits(&config);
            for shift in 1..4 {
                // Memory that stays in use moves the arrays that follow.
                let _held: Vec<Vec<u8>> = (0..40).map(|at| Vec::with_capacity(256 * at + 16 * shift)).collect();
                assert!(bits(&config) == expected, "{name} {config:?}");
            }
        }
    }
}
