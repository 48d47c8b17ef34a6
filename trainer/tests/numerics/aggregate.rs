//! Fused aggregation compared with gather + scatter, with finite differences, and with itself on other numbers of
//! threads.

use std::sync::Arc;

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::{BatchGraph, Block, GnnBackend, Reduce, aggregate, aggregate_with_self};
use proptest::prelude::*;

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;

/// Compares the output and the gradient of the input of both implementations, for a random gradient of the output.
fn compare(draws: &mut Draws, block: &Block, reduce: &Reduce, width: usize, with_self: bool) {
    let what = format!("{reduce:.20?} of {block:?}, width {width}, with_self {with_self}");
    let x = draws.matrix(block.num_src(), width);
    assert_same_gradients(
        draws,
        [x],
        |[x]| if with_self { aggregate_with_self(x, block, reduce) } else { aggregate(x, block, reduce) },
        |[x]| {
            let own = x.clone().slice([0..block.num_dst(), 0..width]);
            let sums = gather_scatter(x, block, reduce);
            if with_self { Tensor::cat(vec![sums, own], 1) } else { sums }
        },
        1e-12,
        &what,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn equals_gather_and_scatter(
        seed in any::<u64>(),
        num_rows in 1usize..30,
        extra_nodes in 0usize..30,
        max_degree in 0usize..12,
        width in prop::sample::select(vec![1usize, 2, 7, 64, 100]),
        prefix in 0.0f64..=1.0,
    ) {
        let mut draws = Draws(seed);
        let graph = Arc::new(random_graph(&mut draws, num_rows, num_rows + extra_nodes, max_degree));
        let block = prefix_block(&graph, (prefix * num_rows as f64) as usize);
        for reduce in all_reduces(&mut draws, &graph) {
            for with_self in [false, true] {
                compare(&mut draws, &block, &reduce, width, with_self);
            }
        }
    }
}

#[test]
fn equals_gather_and_scatter_on_every_width_and_prefix() {
    let mut draws = Draws(11);
    let graph = Arc::new(random_graph(&mut draws, 40, 60, 9));
    for width in [1, 7, 64, 100] {
        for num_dst in [0, 1, 13, 40] {
            let block = prefix_block(&graph, num_dst);
            for reduce in all_reduces(&mut draws, &graph) {
                compare(&mut draws, &block, &reduce, width, false);
                compare(&mut draws, &block, &reduce, width, true);
            }
        }
    }
}

#[test]
fn single_precision_agrees_to_its_rounding() {
    let mut draws = Draws(5);
    let graph = Arc::new(random_graph(&mut draws, 200, 300, 20));
    let block = prefix_block(&graph, 200);
    for reduce in all_reduces(&mut draws, &graph) {
        let x = draws.matrix::<NdArray<f32>>(block.num_src(), 33);
        let fused = values(aggregate(x.clone(), &block, &reduce));
        assert_close(&fused, &values(gather_scatter(x, &block, &reduce)), 1e-5, "f32");
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    let mut draws = Draws(3);
    let graph = Arc::new(random_graph(&mut draws, 6, 9, 4));
    let block = prefix_block(&graph, 5);
    let width = 3;
    let step = 1e-6;
    for reduce in all_reduces(&mut draws, &graph) {
        let base = draws.floats(block.num_src() * width);
        let upstream = draws.matrix::<Plain>(block.num_dst(), 2 * width);
        let shape = [block.num_src(), width];
        let objective = |values: &[f64]| -> f64 {
            let x = Tensor::<Plain, 2>::from_data(TensorData::new(values.to_vec(), shape), &Default::default());
            (aggregate_with_self(x, &block, &reduce) * upstream.clone()).sum().into_scalar()
        };
        let numeric: Vec<f64> = (0..base.len())
            .map(|position| {
                let at = |offset| {
                    let mut moved = base.clone();
                    moved[position] += offset;
                    objective(&moved)
                };
                (at(step) - at(-step)) / (2.0 * step)
            })
            .collect();
        let data = TensorData::new(base, shape);
        let x = Tensor::<Grad, 2>::from_data(data, &Default::default()).require_grad();
        let output = aggregate_with_self(x.clone(), &block, &reduce);
        let gradients = (output * Tensor::from_inner(upstream.clone())).sum().backward();
        let exact = values(x.grad(&gradients).expect("a gradient"));
        assert_close(&exact, &numeric, 1e-7, &format!("{reduce:.20?}"));
    }
}

fn single_block(indptr: Vec<u32>, indices: Vec<u32>, num_nodes: usize) -> Block {
    let num_dst = indptr.len() - 1;
    Block::new(Arc::new(BatchGraph::new(indptr, indices, num_nodes).expect("a graph")), num_dst, num_nodes)
        .expect("a block")
}

#[test]
fn a_tied_maximum_gives_its_gradient_to_the_first_edge() {
    // Node 0 has the neighbors 2, 1 and 2 with equal values. Node 1 has no neighbors, so no node gets its gradient.
    let block = single_block(vec![0, 3, 3], vec![2, 1, 2], 3);
    let x = Tensor::<Grad, 2>::from_data([[-9.0], [-4.0], [-4.0]], &Default::default()).require_grad();
    let output = aggregate(x.clone(), &block, &Reduce::Max);
    assert_eq!(values(output.clone()), [-4.0, 0.0]);
    let gradients = output.sum().backward();
    assert_eq!(values(x.grad(&gradients).expect("a gradient")), [0.0, 0.0, 1.0]);
}

#[test]
fn reads_tensors_that_are_shared_or_lie_transposed() {
    let mut draws = Draws(8);
    let graph = Arc::new(random_graph(&mut draws, 20, 30, 6));
    let block = Block::new(Arc::clone(&graph), 20, 30).expect("a block");
    let straight = draws.matrix::<Plain>(30, 7);
    let columns = straight.clone().transpose().into_data();
    let transposed = Tensor::<Plain, 2>::from_data(columns, &Default::default()).transpose();
    let wide = Tensor::cat(vec![straight.clone(), straight.clone()], 1);
    for reduce in all_reduces(&mut draws, &graph) {
        let expected = values(aggregate(straight.clone(), &block, &reduce));
        assert_eq!(values(aggregate(transposed.clone(), &block, &reduce)), expected);
        assert_eq!(values(aggregate(wide.clone().slice([0..30, 7..14]), &block, &reduce)), expected);
    }
    // The gradient may be stored transposed as well.
    let x = Tensor::<Grad, 2>::from_inner(straight).require_grad();
    let gradients = aggregate(x.clone(), &block, &Reduce::Sum).transpose().powi_scalar(2).sum().backward();
    let naive_gradients = gather_scatter(x.clone(), &block, &Reduce::Sum).powi_scalar(2).sum().backward();
    let [ours, theirs] = [gradients, naive_gradients].map(|gradients| values(x.grad(&gradients).expect("a gradient")));
    assert_close(&ours, &theirs, 1e-12, "transposed gradient");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut draws = Draws(21);
    let graph = hub_graph(&mut draws, 3000, 5000, 4000);
    let data = draws.matrix::<NdArray>(5000, 64).into_data();
    let upstream = draws.matrix::<NdArray>(3000, 128).into_data();
    for reduce in all_reduces(&mut draws, &graph) {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| {
                let block = Block::new(Arc::clone(&graph), 3000, 5000).expect("a block");
                let x = Tensor::<Autodiff<NdArray>, 2>::from_data(data.clone(), &Default::default()).require_grad();
                let output = aggregate_with_self(x.clone(), &block, &reduce);
                let upstream = Tensor::from_data(upstream.clone(), &Default::default());
                let gradients = (output.clone() * upstream).sum().backward();
                (output.into_data(), x.grad(&gradients).expect("a gradient").into_data())
            })
        };
        let one = run(1);
        assert!(one.0.iter::<f32>().any(|value| value != 0.0));
        assert!(one == run(2) && one == run(7), "{reduce:.20?}");
    }
}

#[test]
fn zero_rows_and_zero_columns_pass() {
    fn check<B: GnnBackend>() {
        let empty = single_block(vec![0], vec![], 0);
        let x = Tensor::<B, 2>::zeros([0, 4], &Default::default());
        assert_eq!(aggregate_with_self(x, &empty, &Reduce::Mean).dims(), [0, 8]);
        let block = single_block(vec![0, 1], vec![1], 2);
        let x = Tensor::<B, 2>::zeros([2, 0], &Default::default());
        assert_eq!(aggregate(x, &block, &Reduce::Max).dims(), [1, 0]);
    }
    check::<Plain>();
    check::<Grad>();
}
