//! Fused attention compared with gathers and softmaxes row by row, and with itself on other numbers of threads.

use std::sync::Arc;

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::tensor::activation::{leaky_relu, softmax};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use edgecut_gnn::ops::{
    Attention, AttentionVersion, BatchGraph, Block, DropoutKey, DropoutMask, GnnBackend, dropout, gat_attention,
    gatv2_attention,
};

type Grad = Autodiff<NdArray<f64>>;

pub(crate) const SLOPE: f64 = 0.25;

pub(crate) fn key() -> DropoutKey {
    DropoutKey::new(4, 5, 6)
}

/// The block and settings of a test case, without its tensors.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) block: Block,
    pub(crate) version: AttentionVersion,
    pub(crate) heads: usize,
    pub(crate) channels: usize,
    pub(crate) self_edges: bool,
    pub(crate) dropout: f64,
}

impl Case {
    fn attention(&self) -> Attention {
        Attention::new(self.block.clone(), self.version, self.heads)
            .with_negative_slope(SLOPE as f32)
            .with_self_edges(self.self_edges)
            .with_dropout(DropoutMask::new(self.dropout, key()))
    }

    fn inputs<B: Backend>(&self, draws: &mut Draws) -> [Tensor<B, 2>; 3] {
        let dst = self.block.num_dst();
        let src = self.block.num_src();
        let width = self.heads * self.channels;
        match self.version {
            AttentionVersion::V1 => [(src, width), (src, self.heads), (dst, self.heads)],
            AttentionVersion::V2 => [(src, width), (dst, width), (1, width)],
        }
        .map(|(rows, columns)| draws.matrix(rows, columns).mul_scalar(2.0))
    }

    fn fused<B: GnnBackend>(&self, [z, second, third]: [Tensor<B, 2>; 3]) -> Tensor<B, 2> {
        match self.version {
            AttentionVersion::V1 => gat_attention(z, second, third, &self.attention()),
            AttentionVersion::V2 => {
                let width = self.heads * self.channels;
                gatv2_attention(z, second, third.reshape([width]), &self.attention())
            }
        }
    }

    pub(crate) fn slow<B: GnnBackend>(&self, [z, second, third]: [Tensor<B, 2>; 3]) -> Tensor<B, 2> {
        let device = z.device();
        let width = self.heads * self.channels;
        let own = usize::from(self.self_edges);
        let entries = self.block.num_edges() + own * self.block.num_dst();
        let mask = dropout(Tensor::<B, 2>::ones([entries.max(1), self.heads], &device), self.dropout, key());
        let row = |row: usize| {
            let range = self.block.indptr()[row] as usize..self.block.indptr()[row + 1] as usize;
            let first = range.start + own * row;
            let mut sources: Vec<i64> = self.block.indices()[range].iter().map(|&source| i64::from(source)).collect();
            sources.extend(std::iter::repeat_n(row as i64, own));
            let count = sources.len();
            if count == 0 {
                return Tensor::zeros([1, width], &device);
            }
            let sources = Tensor::<B, 1, Int>::from_data(TensorData::new(sources, [count]), &device);
            let values = z.clone().select(0, sources.clone()).reshape([count, self.heads, self.channels]);
            let scores = match self.version {
                AttentionVersion::V1 => {
                    let of_row = third.clone().slice([row..row + 1, 0..self.heads]);
                    leaky_relu(second.clone().select(0, sources) + of_row, SLOPE)
                }
                AttentionVersion::V2 => {
                    let of_row = second.clone().slice([row..row + 1, 0..width]);
                    let sums = values.clone() + of_row.reshape([1, self.heads, self.channels]);
                    let vector = third.clone().reshape([1, self.heads, self.channels]);
                    (leaky_relu(sums, SLOPE) * vector).sum_dim(2).reshape([count, self.heads])
                }
            };
            let weights = softmax(scores, 0) * mask.clone().slice([first..first + count, 0..self.heads]);
            (values * weights.reshape([count, self.heads, 1])).sum_dim(0).reshape([1, width])
        };
        Tensor::cat((0..self.block.num_dst()).map(row).collect(), 0)
    }

    fn compare(&self, draws: &mut Draws) {
        let inputs = self.inputs(draws);
        let what = format!("{self:?}");
        assert_same_gradients(draws, inputs, |inputs| self.fused(inputs), |inputs| self.slow(inputs), 1e-11, &what);
    }
}

/// Returns test cases of all versions of attention over a block.
fn cases(block: &Block) -> Vec<Case> {
    let mut cases = Vec::new();
    for version in [AttentionVersion::V1, AttentionVersion::V2] {
        for (heads, channels) in [(1, 1), (1, 13), (3, 4), (2, 17)] {
            for self_edges in [false, true] {
                for dropout in [0.0, 0.4] {
                    if !self_edges || block.num_dst() <= block.num_src() {
                        cases.push(Case { block: block.clone(), version, heads, channels, self_edges, dropout });
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn equals_softmaxes_row_by_row() {
    let mut draws = Draws(31);
    // The graph has rows without edges, parallel edges and self loops.
    let graph = Arc::new(random_graph(&mut draws, 14, 20, 6));
    for num_dst in [1, 9, 14] {
        cases(&prefix_block(&graph, num_dst)).iter().for_each(|case| case.compare(&mut draws));
    }
}

#[test]
fn equals_softmaxes_row_by_row_between_two_node_types() {
    let mut draws = Draws(32);
    // More destinations than sources.
    let indptr = vec![0, 3, 3, 4, 8, 8, 9];
    let graph = Arc::new(BatchGraph::new(indptr, vec![1, 1, 0, 2, 2, 1, 0, 0, 1], 3).expect("a graph"));
    let block = Block::new(graph, 6, 3).expect("a block");
    cases(&block).iter().for_each(|case| case.compare(&mut draws));
}

#[test]
fn no_edges_at_all_give_zeros_and_zero_gradients() {
    let graph = Arc::new(BatchGraph::new(vec![0; 4], vec![], 5).expect("a graph"));
    let block = Block::new(graph, 3, 5).expect("a block");
    for case in cases(&block) {
        let inputs = case.inputs::<Grad>(&mut Draws(1)).map(Tensor::require_grad);
        let output = case.fused(inputs.clone());
        let gradients = output.clone().sum().backward();
        if !case.self_edges {
            assert!(values(output).iter().all(|&value| value == 0.0));
            let all = inputs.iter().flat_map(|input| values(input.grad(&gradients).expect("a gradient")));
            assert!(all.into_iter().all(|gradient| gradient == 0.0));
        } else if case.dropout == 0.0 {
            // The only entry of a row has weight 1.
            let own = inputs[0].clone().slice([0..3, 0..case.heads * case.channels]);
            assert_close(&values(output), &values(own), 1e-15, "own rows");
        }
    }
}

#[test]
fn huge_scores_do_not_overflow() {
    let graph = Arc::new(BatchGraph::new(vec![0, 2], vec![0, 1], 2).expect("a graph"));
    let attention = Attention::new(Block::new(graph, 1, 2).expect("a block"), AttentionVersion::V1, 1);
    let device = Default::default();
    let z = Tensor::<NdArray, 2>::from_data([[1.0], [2.0]], &device);
    for (scores, expected) in [([[1e30], [-1e30]], 1.0), ([[-3e38], [-3e38]], 1.5), ([[1e30], [1e30]], 1.5)] {
        let scores = Tensor::from_data(scores, &device);
        let output = gat_attention(z.clone(), scores, Tensor::zeros([1, 1], &device), &attention);
        assert_eq!(values(output), [expected]);
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let graph = hub_graph(&mut Draws(21), 2000, 3000, 3000);
    for version in [AttentionVersion::V1, AttentionVersion::V2] {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| {
                let block = Block::new(Arc::clone(&graph), 2000, 3000).expect("a block");
                let case = Case { block, version, heads: 4, channels: 8, self_edges: true, dropout: 0.3 };
                let inputs = case.inputs::<Autodiff<NdArray>>(&mut Draws(2)).map(Tensor::require_grad);
                let output = case.fused(inputs.clone());
                let gradients = output.clone().powi_scalar(2).sum().backward();
                let gradients = inputs.map(|input| input.grad(&gradients).expect("a gradient").into_data());
                (output.into_data(), gradients)
            })
        };
        let one = run(1);
        assert!(one.1.iter().all(|gradient| gradient.iter::<f32>().any(|value| value != 0.0)));
        assert!(one == run(4), "{version:?}");
    }
}
