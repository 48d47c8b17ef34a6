//! Random batches, and a slow and obvious aggregation to compare with.

use std::sync::Arc;

use burn::backend::{Autodiff, NdArray};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};
use edgecut_gnn::nn::{
    AnyConv, AnyTypedConv, ConvInput, ConvKind, EdgeData, HeteroConv, HeteroShape, LayerPass, Mode, SageConv,
    WeightInit,
};
use edgecut_gnn::ops::{Activation, BatchGraph, Block, EdgeWeights, Reduce};

/// A small random generator, so that the data of tests does not depend on a library.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Draws a number in `[-1, 1)`.
    pub(crate) fn float(&mut self) -> f64 {
        (self.next() % 2_000_003) as f64 / 1_000_001.5 - 1.0
    }

    pub(crate) fn floats(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.float()).collect()
    }

    pub(crate) fn matrix<B: Backend>(&mut self, rows: usize, columns: usize) -> Tensor<B, 2> {
        Tensor::from_data(TensorData::new(self.floats(rows * columns), [rows, columns]), &Default::default())
    }
}

/// Returns the model with new leaves of autodiff, for another backward pass.
///
/// In burn 0.21, the backward pass of another test of this process removes steps from a graph that is being built, if its
/// leaves have had a backward pass. Their gradients are then lost without an error.
pub(crate) fn with_new_leaves<B: Backend, M: Module<B>>(model: &M) -> M {
    model.clone().fork(&Default::default())
}

/// Makes a graph with rows of random length. Some rows are empty, and there are parallel edges and self loops.
pub(crate) fn random_graph(draws: &mut Draws, num_rows: usize, num_nodes: usize, max_degree: usize) -> BatchGraph {
    let mut indptr = vec![0u32];
    let mut indices = Vec::new();
    for row in 0..num_rows {
        for _ in 0..draws.below(max_degree + 1) {
            indices.push(if draws.below(8) == 0 { row } else { draws.below(num_nodes) } as u32);
        }
        indptr.push(indices.len() as u32);
    }
    BatchGraph::new(indptr, indices, num_nodes).expect("a valid graph")
}

/// Makes a graph with a few hubs, so that splitting work by rows would be uneven.
pub(crate) fn hub_graph(draws: &mut Draws, num_rows: usize, num_nodes: usize, hub_degree: usize) -> Arc<BatchGraph> {
    let mut indptr = vec![0u32];
    let mut indices = Vec::new();
    for row in 0..num_rows {
        let degree = if row % 500 == 7 { hub_degree } else { row % 5 };
        indices.extend((0..degree).map(|_| draws.below(num_nodes) as u32));
        indptr.push(indices.len() as u32);
    }
    Arc::new(BatchGraph::new(indptr, indices, num_nodes).expect("a graph"))
}

/// Makes the block of the first `num_dst` rows with as few sources as possible.
pub(crate) fn prefix_block(graph: &Arc<BatchGraph>, num_dst: usize) -> Block {
    let edges = graph.indptr()[num_dst] as usize;
    let reached = graph.indices()[..edges].iter().map(|&source| source as usize + 1).max().unwrap_or(0);
    Block::new(Arc::clone(graph), num_dst, reached.max(num_dst)).expect("a prefix")
}

pub(crate) fn random_weights(draws: &mut Draws, graph: &BatchGraph, self_loops: bool) -> Reduce {
    let mut floats = |count: usize| draws.floats(count).into_iter().map(|value| value as f32).collect::<Vec<_>>();
    let edges = floats(graph.num_edges());
    let self_loops = self_loops.then(|| floats(graph.num_rows()));
    Reduce::WeightedSum(Arc::new(EdgeWeights::new(graph, edges, self_loops).expect("weights that fit")))
}

pub(crate) fn all_reduces(draws: &mut Draws, graph: &BatchGraph) -> Vec<Reduce> {
    let plain = random_weights(draws, graph, false);
    let looped = random_weights(draws, graph, true);
    vec![Reduce::Sum, Reduce::Mean, Reduce::Max, plain, looped]
}

pub(crate) fn ints<B: Backend>(values: Vec<i64>) -> Tensor<B, 1, Int> {
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), &Default::default())
}

/// Returns the source of each edge.
pub(crate) fn sources_of(block: &Block) -> Vec<i64> {
    block.indices().iter().map(|&source| i64::from(source)).collect()
}

/// Makes a block of eight destinations, some without edges, and three nodes of another type as sources.
pub(crate) fn block_between_types() -> Block {
    let indptr = vec![0, 2, 2, 5, 6, 6, 6, 9, 9];
    let graph = BatchGraph::new(indptr, vec![1, 1, 0, 2, 2, 1, 0, 0, 0], 3).expect("a graph");
    Block::new(Arc::new(graph), 8, 3).expect("a block")
}

/// Makes a layer over edge types, and checks that its parameters are counted.
pub(crate) fn typed_layer<B: Backend>(kind: ConvKind, shape: &HeteroShape<'_>) -> AnyTypedConv<B> {
    let layer = kind.init_typed(shape, &mut WeightInit::new(6), &Default::default());
    let count = WeightInit::count(|init| {
        kind.init_typed::<B>(shape, init, &Default::default());
    });
    assert_eq!(count, Some(edgecut_trainer::gradients::num_parameters(&layer)), "{kind:?}");
    layer
}

/// Aggregates by gathering one row per edge and scatter-adding to the destinations, with burn's own operations, which
/// have gradients.
pub(crate) fn gather_scatter<B: Backend>(x: Tensor<B, 2>, block: &Block, reduce: &Reduce) -> Tensor<B, 2> {
    let device = x.device();
    let [_, width] = x.dims();
    let num_dst = block.num_dst();
    let column = |values: Vec<f32>| {
        let count = values.len();
        Tensor::<B, 2>::from_data(TensorData::new(values, [count, 1]), &device)
    };
    let degree = |row: usize| block.indptr()[row + 1] - block.indptr()[row];
    let row_of_edge: Vec<i64> =
        (0..num_dst).flat_map(|row| std::iter::repeat_n(row as i64, degree(row) as usize)).collect();
    let sources = sources_of(block);
    let zeros = Tensor::<B, 2>::zeros([num_dst, width], &device);
    if let Reduce::Max = reduce {
        let row = |row: usize| {
            let range = block.indptr()[row] as usize..block.indptr()[row + 1] as usize;
            if range.is_empty() {
                return Tensor::zeros([1, width], &device);
            }
            x.clone().select(0, ints(sources[range].to_vec())).max_dim(0)
        };
        return if num_dst == 0 { zeros } else { Tensor::cat((0..num_dst).map(row).collect(), 0) };
    }
    let sum = |messages: Tensor<B, 2>| {
        if sources.is_empty() {
            zeros.clone()
        } else {
            zeros.clone().select_assign(0, ints(row_of_edge.clone()), messages, IndexingUpdateOp::Add)
        }
    };
    let gather = || x.clone().select(0, ints(sources.clone()));
    match reduce {
        Reduce::Sum => sum(gather()),
        Reduce::Mean => sum(gather()) / column((0..num_dst).map(|row| degree(row).max(1) as f32).collect()),
        Reduce::WeightedSum(weights) => {
            let of_edges = weights.edges()[..block.num_edges()].to_vec();
            let neighbors = if sources.is_empty() { zeros.clone() } else { sum(gather() * column(of_edges)) };
            match weights.self_loops() {
                Some(loops) => neighbors + x.clone().slice([0..num_dst, 0..width]) * column(loops[..num_dst].to_vec()),
                None => neighbors,
            }
        }
        Reduce::Max => unreachable!("handled above"),
    }
}

/// Returns the input of a convolution in an evaluation, whose output has no activation.
pub(crate) fn eval_input<B: Backend>(
    x: Tensor<B, 2>,
    x_dst: Option<Tensor<B, 2>>,
    block: &Block,
    edges: EdgeData<B>,
) -> ConvInput<'_, B> {
    ConvInput { x, x_dst, block, edges, pass: LayerPass::new(Mode::Eval, 0), activation: Activation::Identity }
}

/// Returns the layer of a model with SAGE layers.
pub(crate) fn sage<B: Backend>(layer: &AnyConv<B>) -> &SageConv<B> {
    let AnyConv::Sage(layer) = layer else { unreachable!("a SAGE layer was made") };
    layer
}

/// Returns the only convolution of a layer.
pub(crate) fn direct<B: Backend>(layer: &AnyTypedConv<B>) -> &AnyConv<B> {
    let AnyTypedConv::Direct(layer) = layer else { unreachable!("a layer with a convolution was made") };
    layer
}

/// Returns the parts of a layer over edge types.
pub(crate) fn hetero<B: Backend>(layer: &AnyTypedConv<B>) -> &HeteroConv<B> {
    let AnyTypedConv::PerEdgeType(layer) = layer else { unreachable!("a layer per edge type was made") };
    layer
}

/// Returns the weights of a SAGE layer for the node itself.
pub(crate) fn own_weight<B: Backend>(layer: &SageConv<B>) -> &Param<Tensor<B, 2>> {
    layer.weight_self.as_ref().expect("a layer with a root weight")
}

pub(crate) fn values<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

pub(crate) fn assert_close(actual: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}: lengths");
    for (position, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let error = (actual - expected).abs();
        assert!(error <= tolerance * expected.abs().max(1.0), "{what}: {actual} instead of {expected} at {position}");
    }
}

type Matrix = Tensor<Autodiff<NdArray<f64>>, 2>;

/// Compares the outputs of two computations, and the gradients of their inputs, for a drawn gradient of the output. An input that
/// the slow one does not use has zeros as its gradient.
pub(crate) fn assert_same_gradients<const N: usize>(
    draws: &mut Draws,
    inputs: [Matrix; N],
    fused: impl Fn([Matrix; N]) -> Matrix,
    slow: impl Fn([Matrix; N]) -> Matrix,
    tolerance: f64,
    what: &str,
) {
    let [of_fused, of_slow] = [0, 1].map(|_| inputs.clone().map(Tensor::require_grad));
    let fused = fused(of_fused.clone());
    let slow = slow(of_slow.clone());
    assert_eq!(fused.dims(), slow.dims(), "{what}");
    assert_close(&values(fused.clone()), &values(slow.clone()), tolerance, what);
    let [rows, columns] = fused.dims();
    if rows == 0 || inputs[0].dims()[0] == 0 {
        return;
    }
    let upstream: Matrix = draws.matrix(rows, columns);
    let fused = (fused * upstream.clone()).sum().backward();
    let slow = (slow * upstream).sum().backward();
    for (number, (of_fused, of_slow)) in of_fused.iter().zip(&of_slow).enumerate() {
        let found = values(of_fused.grad(&fused).expect("a gradient"));
        let expected = of_slow.grad(&slow).map_or_else(|| vec![0.0; found.len()], values);
        assert_close(&found, &expected, tolerance, &format!("gradient of input {number}, {what}"));
    }
}

/// The gradients of all backends with gradients.
pub(crate) type Gradients = <Autodiff<NdArray<f64>> as AutodiffBackend>::Gradients;

/// The gradients of all parameters, concatenated.
pub(crate) struct ParameterGradients<'a> {
    of: &'a Gradients,
    /// Zeros for parameters that the output does not depend on.
    pub(crate) values: Vec<f64>,
    /// The number of these parameters.
    pub(crate) num_missing: usize,
}

impl<B: AutodiffBackend<Gradients = Gradients>> ModuleVisitor<B> for ParameterGradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let value = param.val();
        match value.grad(self.of) {
            Some(gradient) => self.values.extend(values(gradient)),
            None => {
                self.values.extend(vec![0.0; value.dims().iter().product()]);
                self.num_missing += 1;
            }
        }
    }
}

pub(crate) fn parameter_gradients<'a, B: AutodiffBackend<Gradients = Gradients>>(
    module: &impl Module<B>,
    of: &'a Gradients,
) -> ParameterGradients<'a> {
    let mut found = ParameterGradients { of, values: Vec::new(), num_missing: 0 };
    module.visit(&mut found);
    found
}
