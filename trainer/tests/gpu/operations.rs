//! All operations on the GPU compared with the CPU, forward and backward.

use std::sync::Arc;

use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{Int, Tensor, TensorData};
use edgecut_gnn::ops::{
    Activation, Attention, AttentionVersion, BatchNormalization, Block, DropoutKey, DropoutMask, EdgeWeights,
    GnnBackend, Linear, Precision, Reduce, Segments, aggregate, aggregate_with_self, batch_norm, cross_entropy_sum,
    dropout, edge_scores, gat_attention, gatv2_attention, host_values, linear, pool, weigh_sources,
};

use crate::blocks::{OnCpu, OnGpu, assert_close, block, blocks, device, random, run};

/// Runs an operation on both backends and compares the results.
macro_rules! compare {
    ($what:expr, $device:expr, $inputs:expr, $operation:expr) => {{
        let inputs = $inputs;
        let expected = run::<OnCpu>(&Default::default(), &inputs, $operation);
        let found = run::<OnGpu>($device, &inputs, $operation);
        assert_close(&$what, &found, &expected);
    }};
}

fn features(rows: usize, columns: usize, seed: u64) -> (Vec<f32>, Vec<usize>) {
    (random(rows * columns, seed), vec![rows, columns])
}

fn weights(block: &Block, self_loops: bool) -> Reduce {
    let graph = block.graph();
    let own = self_loops.then(|| random(graph.num_rows(), 6));
    Reduce::WeightedSum(Arc::new(EdgeWeights::new(graph, random(graph.num_edges(), 5), own).expect("weights that fit")))
}

fn aggregated<B: GnnBackend>(inputs: Vec<Tensor<B, 2>>, block: &Block, reduce: &Reduce, own: bool) -> Tensor<B, 2> {
    let x = inputs[0].clone();
    if own { aggregate_with_self(x, block, reduce) } else { aggregate(x, block, reduce) }
}

#[test]
fn aggregations_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    for (name, block) in blocks() {
        for width in [1, 3, 4, 100, 258] {
            let with_own = block.num_dst() <= block.num_src();
            let mut reduces = vec![Reduce::Sum, Reduce::Mean, Reduce::Max, weights(&block, false)];
            if with_own {
                reduces.push(weights(&block, true));
            }
            for reduce in &reduces {
                for own in [false, true] {
                    let what = format!("{name}, width {width}, {reduce:?}, own rows {own}");
                    let what = what.chars().take(120).collect::<String>();
                    if !own || with_own {
                        let inputs = [features(block.num_src(), width, 3)];
                        compare!(what, &device, inputs, |x| aggregated(x, &block, reduce, own));
                    }
                }
            }
        }
    }
}

#[test]
fn more_rows_than_cubes_along_an_axis_and_a_hub_of_100_000_edges() {
    let Some(device) = device() else { return };
    let mut degrees = vec![1; 70_000];
    degrees[3] = 0;
    let rows = block(&degrees, 70_000, 8);
    // A cube has 256 rows if a row is a single vector, and 2 rows if a row has 258 columns.
    for width in [1, 258] {
        compare!(format!("rows, width {width}"), &device, [features(70_000, width, 4)], |x| aggregated(
            x,
            &rows,
            &Reduce::Mean,
            false
        ));
    }
    let hub = block(&[100_000, 0, 3], 500, 9);
    for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Max] {
        compare!(format!("hub, {reduce:?}"), &device, [features(500, 12, 5)], |x| aggregated(x, &hub, &reduce, false));
    }
}

#[test]
fn a_nan_is_found_where_the_cpu_finds_it() {
    let Some(device) = device() else { return };
    // Rows that a single thread group reduces, and a hub whose partial results are combined.
    for (name, block) in [("rows", block(&[4, 0, 1, 30], 40, 10)), ("hub", block(&[100_000, 2], 500, 11))] {
        let (mut values, shape) = features(block.num_src(), 13, 7);
        values.iter_mut().skip(5).step_by(97).for_each(|value| *value = f32::NAN);
        let on_cpu = Tensor::<OnCpu, 2>::from_data(TensorData::new(values.clone(), shape.clone()), &Default::default());
        let on_gpu = Tensor::<OnGpu, 2>::from_data(TensorData::new(values, shape), &device);
        let expected = host_values(aggregate(on_cpu, &block, &Reduce::Max));
        let found = host_values(aggregate(on_gpu, &block, &Reduce::Max));
        let bits = |values: Vec<f32>| {
            values
                .into_iter()
                .map(|value| if value.is_nan() { None } else { Some(value.to_bits()) })
                .collect::<Vec<_>>()
        };
        let expected = bits(expected);
        assert!(expected.contains(&None) && expected.iter().any(Option::is_some), "{name}");
        assert_eq!(bits(found), expected, "{name}");
    }
}

#[test]
fn pooling_is_that_of_the_cpu() {
    let Some(device) = device() else { return };
    let segments = Segments::new(vec![0, 2, 2, 700, 701]).expect("segments");
    for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Max] {
        compare!(format!("{reduce:?}"), &device, [features(701, 20, 5)], |x: Vec<_>| pool(
            x[0].clone(),
            &segments,
            &reduce
        ));
    }
}

fn attended<B: AutodiffBackend + GnnBackend>(x: Vec<Tensor<B, 2>>, attention: &Attention) -> Tensor<B, 2> {
    match attention.version() {
        AttentionVersion::V1 => gat_attention(x[0].clone(), x[1].clone(), x[2].clone(), attention),
        AttentionVersion::V2 => {
            let [_, width] = x[2].dims();
            gatv2_attention(x[0].clone(), x[1].clone(), x[2].clone().reshape([width]), attention)
        }
    }
}

#[test]
fn attention_is_that_of_the_cpu() {
    let Some(device) = device() else { return };
    for (name, block) in blocks() {
        for (heads, channels) in [(1, 5), (4, 8), (3, 2)] {
            for version in [AttentionVersion::V1, AttentionVersion::V2] {
                for own in [false, true] {
                    if own && block.num_dst() > block.num_src() {
                        continue;
                    }
                    for dropped in [0.0, 0.4] {
                        let mask = DropoutMask::new(dropped, DropoutKey::new(1, 2, 3));
                        let attention =
                            Attention::new(block.clone(), version, heads).with_self_edges(own).with_dropout(mask);
                        let src = block.num_src();
                        let dst = block.num_dst();
                        let width = heads * channels;
                        let inputs = match version {
                            AttentionVersion::V1 => {
                                [features(src, width, 1), features(src, heads, 2), features(dst, heads, 3)]
                            }
                            AttentionVersion::V2 => {
                                [features(src, width, 1), features(dst, width, 2), features(1, width, 3)]
                            }
                        };
                        let what =
                            format!("{name}, {heads} x {channels}, {version:?}, self edges {own}, dropout {dropped}");
                        compare!(what, &device, inputs, |x| attended(x, &attention));
                    }
                }
            }
        }
    }
}

#[test]
fn products_by_head_equal_the_products_on_the_cpu() {
    let Some(device) = device() else { return };
    for (name, block) in blocks() {
        // The GPU computes them by burn's operations, whose empty tensors are not tested here.
        if block.num_edges() == 0 {
            continue;
        }
        for (heads, channels) in [(1, 5), (4, 8), (3, 2)] {
            let width = heads * channels;
            let of_dst = features(block.num_dst(), width, 1);
            let of_src = features(block.num_src(), width, 2);
            let of_edges = features(block.num_edges(), heads, 3);
            let what = format!("{name}, {heads} x {channels}");
            let ends = [of_dst, of_src.clone()];
            compare!(what, &device, ends, |x| edge_scores(x[0].clone(), x[1].clone(), heads, &block));
            let weighted = [of_edges, of_src];
            compare!(what, &device, weighted, |x| weigh_sources(x[0].clone(), x[1].clone(), &block));
        }
    }
}

#[test]
fn dense_layers_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let relu = |dropped| Activation::Relu(DropoutMask::new(dropped, DropoutKey::new(4, 5, 6)));
    for (rows, fan_in, fan_out) in [(300, 20, 12), (7, 3, 5), (1, 100, 47), (0, 4, 4)] {
        for activation in [Activation::Identity, relu(0.0), relu(0.5)] {
            let inputs = [features(rows, fan_in, 1), features(fan_in, fan_out, 2), features(1, fan_out, 3)];
            let what = format!("{rows} x {fan_in} x {fan_out}, {activation:?}");
            compare!(what, &device, inputs, |x: Vec<_>| {
                let bias = x[2].clone().reshape([fan_out]);
                linear(x[0].clone(), x[1].clone(), Some(bias), activation)
            });
        }
    }
}

#[test]
fn each_product_has_its_own_precision_forwards_and_backwards() {
    let Some(device) = device() else { return };
    let inputs = [features(300, 20, 1), features(20, 12, 2)];
    let results = |precision: Precision| {
        let settings = Linear { activation: Activation::Identity, precision };
        run::<OnGpu>(&device, &inputs, |x| linear(x[0].clone(), x[1].clone(), None, settings))
    };
    let expected = results(Precision::F32);
    // The fraction of a rounded number ends with this many zeros.
    for (precision, zeros) in [(Precision::F16, 13), (Precision::Bf16, 16)] {
        let rounded = results(precision).concat();
        assert!(rounded.iter().all(|value| value.to_bits().trailing_zeros() >= zeros), "{precision}");
        // A gradient is a sum of 300 products, whose factors bf16 rounds by up to 1/256.
        let far = rounded.iter().zip(expected.concat()).find(|(a, b)| (*a - b).abs() > 0.1 * b.abs().max(1.0));
        assert_eq!(far, None, "{precision}");
    }
    assert!(expected.iter().flatten().any(|value| value.to_bits().trailing_zeros() < 13));
    assert_eq!(results(Precision::F32), expected, "the other precisions have no effect on this one");
}

#[test]
fn dropout_has_the_masks_of_the_cpu() {
    let Some(device) = device() else { return };
    for (rows, columns) in [(100, 64), (33, 7), (1, 1), (65_537, 1)] {
        for dropped in [0.1, 0.5, 1.0] {
            let what = format!("{rows} x {columns}, {dropped}");
            let key = DropoutKey::new(7, 8, 9);
            compare!(what, &device, [features(rows, columns, 1)], |x: Vec<_>| dropout(x[0].clone(), dropped, key));
        }
    }
}

#[test]
fn batch_norm_is_that_of_the_cpu() {
    let Some(device) = device() else { return };
    let relu = Activation::Relu(DropoutMask::new(0.3, DropoutKey::new(4, 5, 6)));
    for (rows, channels) in [(1000, 12), (65, 7), (1, 4), (5000, 1)] {
        for activation in [Activation::Identity, relu] {
            let normalization = BatchNormalization { epsilon: 1e-5, activation };
            let inputs = [features(rows, channels, 1), features(1, channels, 2), features(1, channels, 3)];
            let what = format!("{rows} x {channels}, {activation:?}");
            compare!(what, &device, inputs, |x: Vec<_>| {
                let parameter = |x: &Tensor<_, 2>| x.clone().reshape([channels]);
                batch_norm(x[0].clone(), parameter(&x[1]), parameter(&x[2]), normalization).0
            });
        }
    }
}

#[test]
fn cross_entropy_is_that_of_the_cpu() {
    let Some(device) = device() else { return };
    for (rows, num_classes) in [(300, 7), (1, 1), (5, 200), (70_000, 2)] {
        let labels: Vec<i32> = (0..rows as i32).map(|row| row * 7 % num_classes).collect();
        fn loss<B: GnnBackend>(x: Vec<Tensor<B, 2>>, labels: &[i32]) -> Tensor<B, 2> {
            let classes = TensorData::new(labels.to_vec(), [labels.len()]);
            let classes = Tensor::<B, 1, Int>::from_data(classes, &x[0].device());
            let (sum, judged) = cross_entropy_sum(x[0].clone(), classes);
            Tensor::cat(vec![sum, judged], 0).reshape([1, 3])
        }
        let what = format!("{rows} x {num_classes}");
        compare!(what, &device, [features(rows, num_classes as usize, 1)], |x| loss(x, &labels));
    }
}
