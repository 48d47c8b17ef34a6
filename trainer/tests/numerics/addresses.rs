//! Results on the CPU follow the formulas, wherever arrays lie in memory. Libraries may compute the aligned part of
//! an array by other instructions than its ends.

use std::process::Command;

use crate::convolutions::{all_kinds, graph_of, networks};
use crate::float_type::SINGLE_PRECISION;
use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::tensor::{DType, Tensor, TensorData};
use edgecut_gnn::ops::{DropoutKey, Segments};
use edgecut_trainer::models::{GraphClassifier, GraphInput, Mode, ModelInput, NetworkConfig, NodeClassifier};

type Single = Autodiff<NdArray<f32>>;

const NUM_NODES: usize = 60;

/// burn has one type of floats for a device of a process, and the other tests of this program compute in `f64`.
#[test]
fn single_precision_has_a_process_of_its_own() {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--ignored", "addresses::"])
        .env(SINGLE_PRECISION, "1")
        .output()
        .expect("start the tests");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("2 passed"), "{text}");
}

fn row(values: &[f64]) -> Tensor<Single, 2> {
    Tensor::from_data(TensorData::new(values.to_vec(), [1, values.len()]), &Default::default())
}

/// A number and the two derivatives of a function.
type Derivatives = [f64; 3];

/// Compares functions of two numbers, and their gradients, with their formulas.
#[test]
#[ignore = "a process of its own runs it"]
fn quotients_and_logarithms_are_as_exact_as_their_numbers() {
    type Function = (fn(Tensor<Single, 2>, Tensor<Single, 2>) -> Tensor<Single, 2>, fn(f64, f64) -> Derivatives);
    let functions: [Function; 3] = [
        (|x, y| x / y, |x, y| [x / y, 1.0 / y, -x / (y * y)]),
        (|x, y| x * y.recip(), |x, y| [x / y, 1.0 / y, -x / (y * y)]),
        (|x, y| x * y.log(), |x, y| [x * y.ln(), y.ln(), x / y]),
    ];
    for count in [3, 130, 1000, 4099] {
        let mut draws = Draws(count as u64);
        let x: Vec<f64> = (0..count).map(|_| f64::from(draws.float() as f32)).collect();
        let y: Vec<f64> = (0..count).map(|_| f64::from(draws.float().abs() as f32 + 0.5)).collect();
        for (at, (function, formula)) in functions.iter().enumerate() {
            let [of_x, of_y] = [&x, &y].map(|values| row(values).require_grad());
            let output = function(of_x.clone(), of_y.clone());
            assert_eq!(output.dtype(), DType::F32);
            let gradients = output.clone().sum().backward();
            let mut found = values(output);
            found.extend(values(of_x.grad(&gradients).expect("x")));
            found.extend(values(of_y.grad(&gradients).expect("y")));
            let exact: Vec<Derivatives> = x.iter().zip(&y).map(|(&x, &y)| formula(x, y)).collect();
            let mut expected = Vec::new();
            for place in 0..3 {
                expected.extend(exact.iter().map(|numbers| numbers[place]));
            }
            assert_close(&found, &expected, 2e-6, &format!("function {at} of {count} numbers"));
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
    assert_eq!(output.dtype(), DType::F32);
    let gradients = output.clone().powi_scalar(2).sum().backward();
    let mut all = values(output);
    all.extend(parameter_gradients(&model, &gradients).values);
    all.into_iter().map(f64::to_bits).collect()
}

#[test]
#[ignore = "a process of its own runs it"]
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
