//! Times the fused aggregation against gather and scatter, and dropout against burn's:
//! `cargo run --release -p edgecut-trainer --example aggregation_speed`.
#![allow(unreachable_pub)]

#[allow(dead_code)]
#[path = "../tests/numerics/support.rs"]
mod support;

use std::sync::Arc;
use std::time::Instant;

use burn::backend::{Autodiff, NdArray};
use burn::tensor::Tensor;
use edgecut_trainer::ops::{Block, DropoutKey, Reduce, aggregate, dropout};

use support::*;

type Grad = Autodiff<NdArray>;

/// Median milliseconds of seven runs.
fn median(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[3]
}

fn main() {
    speed_of_aggregation();
    speed_of_dropout();
}

fn speed_of_aggregation() {
    let mut draws = Draws(1);
    let (num_dst, num_src, width) = (50_000, 200_000, 100);
    let graph = Arc::new(random_graph(&mut draws, num_dst, num_src, 20));
    let block = Block::new(graph, num_dst, num_src).expect("a block");
    println!("{num_src} sources x {width}, {num_dst} destinations, {} edges", block.num_edges());
    let data = draws.matrix::<NdArray>(num_src, width).into_data();
    let tensor = || Tensor::<Grad, 2>::from_data(data.clone(), &Default::default());
    let transpose =
        median(|| Block::new(Arc::clone(block.graph()), num_dst, num_src).expect("a block").prepare_backward());
    println!("transpose: {transpose:.1} ms");
    block.prepare_backward();
    for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Max, random_weights(&mut draws, block.graph(), true)] {
        let name = match &reduce {
            Reduce::Sum => "sum",
            Reduce::Mean => "mean",
            Reduce::Max => "max",
            Reduce::WeightedSum(_) => "weighted",
        };
        let input = tensor();
        let forward = median(|| drop(aggregate(input.clone(), &block, &reduce)));
        let input = tensor().require_grad();
        let both = median(|| drop(aggregate(input.clone(), &block, &reduce).sum().backward()));
        print!("{name}: fused {forward:.1} ms forward, {both:.1} ms forward + backward");
        if matches!(reduce, Reduce::Max) {
            println!();
            continue;
        }
        let input = tensor();
        let forward = median(|| drop(gather_scatter(input.clone(), &block, &reduce)));
        let input = tensor().require_grad();
        let both = median(|| drop(gather_scatter(input.clone(), &block, &reduce).sum().backward()));
        println!("; gather + scatter {forward:.1} ms, {both:.1} ms");
    }
}

fn speed_of_dropout() {
    let x = Tensor::<NdArray, 2>::ones([50_000, 256], &Default::default());
    let ours = median(|| drop(dropout(x.clone(), 0.5, DropoutKey::new(0, 0, 0))));
    let dropout = burn::nn::DropoutConfig::new(0.5).init();
    let x = Tensor::<Grad, 2>::from_inner(x);
    let burns = median(|| drop(dropout.forward(x.clone())));
    println!("dropout [50000, 256]: {ours:.1} ms, burn's {burns:.1} ms");
}
