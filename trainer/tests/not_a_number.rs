//! NaN in the input stays visible in the output: in maxima, activations, predictions and the loss.
//!
//! These tests compute in 32 bits, as programs do, in a process of their own. burn's default precision is the one that a
//! process uses first, and `numerics` needs 64 bits.

use std::sync::Arc;

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_cluster::Cluster;
use edgecut_gnn::ops::{
    Activation, BatchGraph, Block, DropoutKey, DropoutMask, GnnBackend, Reduce, Segments, aggregate,
    aggregate_with_self, cross_entropy_sum, linear, pool,
};
use edgecut_trainer::Cpu;
use edgecut_trainer::loss::{OutputKind, Target};
use edgecut_trainer::metrics::{Metric, OutputRows};

const NAN: f32 = f32::NAN;

fn values<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

#[test]
fn a_maximum_over_a_nan_is_nan() {
    maximum_over_a_nan::<Cpu>();
    maximum_over_a_nan::<Autodiff<Cpu>>();
}

fn maximum_over_a_nan<B: GnnBackend>() {
    let device = Default::default();
    // Node 0 reads the nodes 0, 1 and 2, node 1 reads node 0, node 2 reads the nodes 1 and 2, and node 3 reads none.
    let graph = BatchGraph::new(vec![0, 3, 4, 6, 6], vec![0, 1, 2, 0, 1, 2], 4).expect("a graph");
    let block = Block::new(Arc::new(graph), 4, 4).expect("a block");
    // One column for each position of the NaN (first, middle, last), one without NaN, and one with two.
    let rows = [[NAN, 1.0, 1.0, 5.0, NAN], [2.0, NAN, 3.0, -1.0, NAN], [4.0, 2.0, NAN, 0.5, 1.0], [9.0; 5]];
    let expected = [[NAN, NAN, NAN, 5.0, NAN], [NAN, 1.0, 1.0, 5.0, NAN], [4.0, NAN, NAN, 0.5, NAN], [0.0; 5]];
    let check = |found: Vec<f32>| {
        let expected = expected.as_flattened();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{found} instead of {expected}");
        }
    };
    let x = Tensor::<B, 2>::from_data(rows, &device);
    check(values(aggregate(x.clone(), &block, &Reduce::Max)));
    let with_own = aggregate_with_self(x.clone(), &block, &Reduce::Max);
    check(values(with_own.slice([0..4, 0..5])));
    check(values(aggregate(x.clone().require_grad(), &block, &Reduce::Max)));
    let segments = Segments::new(vec![0, 3, 4]).expect("segments");
    let pooled = values(pool(x, &segments, &Reduce::Max));
    assert!(pooled[..3].iter().all(|value| value.is_nan()), "{pooled:?}");
    assert_eq!(pooled[3], 5.0);
    assert_eq!(pooled[5..], [9.0; 5]);
}

#[test]
fn a_nan_stays_one_through_activations() {
    nan_through_activations::<Cpu>();
    nan_through_activations::<Autodiff<Cpu>>();
}

fn nan_through_activations<B: GnnBackend>() {
    let device = Default::default();
    let relu = || Activation::Relu(DropoutMask::new(0.0, DropoutKey::new(1, 2, 3)));
    // The width is odd, so that both the vector code and the scalar remainder of a row are tested.
    let x = Tensor::<B, 2>::full([3, 13], NAN, &device);
    let activated = values(relu().apply(x.clone()));
    assert!(activated.iter().all(|value| value.is_nan()), "{activated:?}");
    let weight = Tensor::<B, 2>::ones([13, 2], &device);
    let multiplied = values(linear(x, weight, None, relu()));
    assert!(multiplied.iter().all(|value| value.is_nan()), "{multiplied:?}");
}

#[test]
fn a_seed_with_a_nan_is_classified_wrongly() {
    let device = Default::default();
    let logits = Tensor::<Cpu, 2>::from_data([[NAN, 0.0], [0.0, NAN], [0.0, 1.0], [1.0, 0.0]], &device);
    let mut ranks = Cluster::join_local(1, |_| {}).expect("a job of one rank");
    let cluster = ranks.remove(0);
    let mut world = cluster.world().expect("the world group");
    let rows: Vec<f32> = logits.to_data().iter::<f32>().collect();
    for (metric, expected) in [("accuracy", 0.5), ("micro-f1", 0.5), ("macro-f1", 2.0 / 3.0)] {
        let mut state = metric.parse::<Metric>().expect("a metric").start(OutputKind::Classes(2));
        state.add(&OutputRows::new(&rows, 2), &Target::Classes(vec![0, 1, 1, 0]));
        let found = state.over_all_ranks(&mut world).expect("a metric").expect("seeds");
        assert!((found - expected).abs() < 1e-14, "{metric}: {found} instead of {expected}");
    }
    drop(world);
    cluster.shutdown().expect("the job ends");
    let labels = Tensor::from_data([0, 1, 1, 0], &device);
    let (_, judged) = cross_entropy_sum(logits, labels);
    let judged = values(judged);
    assert!(judged[0].is_nan() && judged[1] == 2.0, "{judged:?}");
}
