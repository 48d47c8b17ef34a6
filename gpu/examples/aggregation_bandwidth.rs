//! The bandwidth of neighbor aggregation compared with the device's memory bandwidth: the bytes per second of a mean
//! over random neighbors, against those of a plain copy of the same matrix in the same run.
//!
//! ```console
//! $ cargo run --release -p edgecut-gpu --features cuda --example aggregation_bandwidth
//! ```

use cubecl::future::block_on;
use cubecl::prelude::*;
use edgecut_gpu::kernels::{Aggregation, Appended, DeviceEdges, Factor, Mask, Matrix, Own, masked};
use edgecut_graph::rng::CounterRng;
use std::time::Instant;

/// The number of neighbors of each row.
const FAN_OUT: usize = 10;
const REPETITIONS: usize = 7;

fn measure<R: Runtime>(name: &str, device: &R::Device, rows: usize) {
    let client = R::client(device);
    let mut rng = CounterRng::new(1);
    let indptr: Vec<u32> = (0..=rows as u32).map(|row| row * FAN_OUT as u32).collect();
    let indices: Vec<u32> = (0..rows * FAN_OUT).map(|_| rng.below(rows as u64) as u32).collect();
    let edges = DeviceEdges::new::<R>(device, &indptr, &indices, None);
    println!("{name}: {rows} rows, {FAN_OUT} neighbors each; medians of {REPETITIONS}");
    println!("{:>6} {:>12} {:>18} {:>7}", "width", "copy GB/s", "aggregation GB/s", "ratio");
    for width in [64, 128, 256] {
        let x = Matrix::from_slice(&client, &vec![1.0; rows * width], [rows, width]);
        let mean = Aggregation {
            edges: &edges,
            num_rows: rows,
            width,
            factor: Factor::One,
            mean: true,
            own: Own::Nothing,
            num_own: 0,
            appended: Appended::No,
        };
        let time = |work: &dyn Fn()| {
            let run = || {
                let start = Instant::now();
                work();
                block_on(client.sync()).expect("the device works");
                start.elapsed().as_secs_f64()
            };
            // The first run compiles the kernel.
            run();
            let mut seconds: Vec<f64> = (0..REPETITIONS).map(|_| run()).collect();
            seconds.sort_by(f64::total_cmp);
            seconds[REPETITIONS / 2]
        };
        let row_bytes = (rows * width * size_of::<f32>()) as f64;
        // The copy: a mask that keeps everything reads and writes each value once.
        let copy = 2.0 * row_bytes / time(&|| drop(masked(&client, &x, Mask::KEEP)));
        let moved = (FAN_OUT + 1) as f64 * row_bytes + (indices.len() * size_of::<u32>()) as f64;
        let aggregation = moved / time(&|| drop(mean.run(&client, &x)));
        println!("{width:>6} {:>12.1} {:>18.1} {:>7.2}", copy / 1e9, aggregation / 1e9, aggregation / copy);
    }
}

fn main() {
    // A matrix much larger than a GPU's caches.
    match edgecut_gpu::resolve(edgecut_gpu::DeviceChoice::Cuda, 0, 1) {
        Ok(gpu) => measure::<cubecl::cuda::CudaRuntime>(&gpu.to_string(), &cubecl::cuda::CudaDevice::new(0), 1 << 20),
        Err(error) => eprintln!("CUDA is not measured: {error}"),
    }
}
