//! Random blocks, and the comparison of two backends.

use edgecut_testing::{Need, skip};
use std::sync::Arc;

use burn::backend::Autodiff;
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::{BatchGraph, Block, GnnBackend, host_values};
use edgecut_gpu::{DeviceChoice, resolve};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_trainer::{Cpu, Cuda, CudaDevice};

pub(crate) type OnCpu = Autodiff<Cpu>;
pub(crate) type OnGpu = Autodiff<Cuda>;

/// Returns the device. Without a device it prints that the test is skipped and returns `None`, or panics if
/// `EDGECUT_REQUIRE` is set.
pub(crate) fn device() -> Option<CudaDevice> {
    match resolve(DeviceChoice::Cuda, 0, 1) {
        Ok(_) => Some(CudaDevice::new(0)),
        Err(why) => {
            skip(Need::Cuda, "a test of the GPU", why);
            None
        }
    }
}

/// Makes a block with these in-degrees and random sources.
pub(crate) fn block(degrees: &[u32], num_src: usize, seed: u64) -> Block {
    let mut indptr = vec![0];
    degrees.iter().for_each(|degree| indptr.push(indptr[indptr.len() - 1] + degree));
    let mut rng = CounterRng::new(combine(1, seed));
    let edges = indptr[degrees.len()] as usize;
    let indices = (0..edges).map(|_| rng.below(num_src as u64) as u32).collect();
    let graph = Arc::new(BatchGraph::new(indptr, indices, num_src).expect("edges of a graph"));
    Block::new(graph, degrees.len(), num_src).expect("a block of it")
}

/// Makes blocks with cases that kernels may get wrong: empty rows, hubs, no edges, no rows and a single row.
pub(crate) fn blocks() -> Vec<(&'static str, Block)> {
    let mut rng = CounterRng::new(9);
    let mut degrees = |rows: usize, most: u64| (0..rows).map(|_| rng.below(most + 1) as u32).collect::<Vec<_>>();
    let mixed = degrees(300, 6);
    let mut hubs = degrees(40, 300);
    hubs[7] = 2000;
    hubs[0] = 257;
    hubs[39] = 256;
    vec![
        ("mixed", block(&mixed, 400, 1)),
        ("hubs", block(&hubs, 90, 2)),
        ("no edges", block(&[0; 5], 7, 3)),
        ("no rows", block(&[], 3, 4)),
        ("one row", block(&[3], 1, 5)),
    ]
}

/// Draws `count` normally distributed values.
pub(crate) fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut rng = CounterRng::new(combine(2, seed));
    (0..count).map(|_| rng.gaussian()).collect()
}

/// Returns the output of an operation and the gradients of its inputs, for a random gradient of the output.
pub(crate) fn run<B: GnnBackend + burn::tensor::backend::AutodiffBackend>(
    device: &B::Device,
    inputs: &[(Vec<f32>, Vec<usize>)],
    operation: impl Fn(Vec<Tensor<B, 2>>) -> Tensor<B, 2>,
) -> Vec<Vec<f32>> {
    let tensor = |(values, shape): &(Vec<f32>, Vec<usize>)| {
        Tensor::<B, 2>::from_data(TensorData::new(values.clone(), shape.clone()), device).require_grad()
    };
    let inputs: Vec<_> = inputs.iter().map(tensor).collect();
    let output = operation(inputs.clone());
    let [rows, columns] = output.dims();
    if rows * columns == 0 {
        // Gradients of empty tensors are burn's own, and are not tested here.
        return vec![values(output)];
    }
    let weights = Tensor::<B, 2>::from_data(TensorData::new(random(rows * columns, 77), [rows, columns]), device);
    let mut results = vec![values(output.clone())];
    let gradients = (output * weights).sum().backward();
    for input in inputs {
        let zeros = || Tensor::zeros(input.dims(), device);
        results.push(values(input.grad(&gradients).unwrap_or_else(zeros)));
    }
    results
}

pub(crate) fn values<B: burn::tensor::backend::Backend>(tensor: Tensor<B, 2>) -> Vec<f32> {
    host_values(tensor)
}

/// Fails unless values agree up to 1e-4 times the greatest absolute value, or times 0.1 if all are smaller than 0.1.
#[track_caller]
pub(crate) fn assert_close(what: &str, found: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}: length of result {position}");
        let scale = expected.iter().fold(0.1f32, |most, value| most.max(value.abs()));
        for (at, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!((a - b).abs() <= 1e-4 * scale, "{what}: value {at} of result {position} is {a}, not {b}");
        }
    }
}
