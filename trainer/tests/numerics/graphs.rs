//! Whole graphs: pooling, batch normalisation, GIN layers and `Network` compared with slower implementations.

use std::sync::Arc;

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::module::{AutodiffModule, Module, ModuleVisitor, Param};
use burn::optim::{GradientsParams, Optimizer};
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use edgecut_dist_loader::GraphBatch;
use edgecut_gnn::nn::{Aggregation, BatchNorm, GinConv, GinConvConfig, GraphNorm, Order, VirtualNode, WeightInit};
use edgecut_gnn::ops::{
    Activation, BatchGraph, BatchNormalization, Block, DropoutKey, DropoutMask, GnnBackend, Segments, batch_norm,
    dropout, pool,
};
use edgecut_graph::{GraphData, GraphDataset};
use edgecut_trainer::gradients::{
    FlatLengthError, flatten_gradients, flatten_parameters, flatten_statistics, load_parameters, load_statistics,
    num_parameters, num_trained_parameters, unflatten_gradients,
};
use edgecut_trainer::graph::{GraphBatchOptions, GraphTensorBatch};
use edgecut_trainer::model_file::{parse_model, save_model};
use edgecut_trainer::models::{
    ConvKind, GcnSettings, GinSettings, GraphClassifier, Mode, ModelError, Network, NetworkConfig, Pooling, Readout,
    SageSettings,
};
use edgecut_trainer::{Cpu, NodePrediction, adam, open_task_model};

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;
type Single = Autodiff<NdArray<f32>>;

const POOLINGS: [Aggregation; 3] = [Aggregation::Sum, Aggregation::Mean, Aggregation::Max];

fn key() -> DropoutKey {
    DropoutKey::new(1, 2, 3)
}

/// Pools by slicing the rows of each segment and reducing them with burn's own operations.
fn slow_pool<B: Backend>(x: Tensor<B, 2>, offsets: &[u32], pooling: Aggregation) -> Tensor<B, 2> {
    let [_, width] = x.dims();
    let segment = |ends: &[u32]| {
        let rows = ends[0] as usize..ends[1] as usize;
        if rows.is_empty() {
            return Tensor::zeros([1, width], &x.device());
        }
        let rows = x.clone().slice([rows, 0..width]);
        match pooling {
            Aggregation::Sum => rows.sum_dim(0),
            Aggregation::Mean => rows.mean_dim(0),
            Aggregation::Max => rows.max_dim(0),
        }
    };
    Tensor::cat(offsets.windows(2).map(segment).collect(), 0)
}

#[test]
fn pooling_equals_each_graph_by_itself() {
    let mut draws = Draws(31);
    let long: Vec<u32> = (0..400).map(|graph| graph * 7 / 2).collect();
    // Empty graphs at both ends and in the middle, graphs of a single node, and a large graph.
    for offsets in [vec![0, 1], vec![0, 0, 3, 4, 4, 4, 900, 901, 901], vec![0, 0], long] {
        let rows = offsets[offsets.len() - 1] as usize;
        for width in [1, 5, 64] {
            for pooling in POOLINGS {
                let x = draws.matrix(rows, width);
                let segments = Segments::new(offsets.clone()).expect("segments");
                assert_same_gradients(
                    &mut draws,
                    [x],
                    |[x]| pool(x, &segments, &pooling.reduce()),
                    |[x]| slow_pool(x, &offsets, pooling),
                    1e-12,
                    &format!("{pooling} of {rows} rows in {}", offsets.len() - 1),
                );
            }
        }
    }
    assert!(
        Segments::new(vec![0, 3, 2]).is_err() && Segments::new(vec![1, 2]).is_err() && Segments::new(vec![]).is_err()
    );
}

fn slow_batch_norm<B: GnnBackend>(
    x: Tensor<B, 2>,
    gamma: Tensor<B, 1>,
    beta: Tensor<B, 1>,
    relu_dropout: Option<f64>,
) -> Tensor<B, 2> {
    let centred = x.clone() - x.mean_dim(0);
    let variance = centred.clone().powi_scalar(2).mean_dim(0);
    let y = centred / (variance + 1e-5).sqrt() * gamma.unsqueeze() + beta.unsqueeze();
    match relu_dropout {
        Some(probability) => dropout(relu(y), probability, key()),
        None => y,
    }
}

fn normalization(relu_dropout: Option<f64>) -> BatchNormalization {
    let activation = |probability| Activation::Relu(DropoutMask::new(probability, key()));
    BatchNormalization { epsilon: 1e-5, activation: relu_dropout.map_or(Activation::Identity, activation) }
}

fn row(matrix: Tensor<Grad, 2>) -> Tensor<Grad, 1> {
    matrix.squeeze_dim(0)
}

#[test]
fn batch_normalisation_equals_the_steps_one_by_one() {
    let mut draws = Draws(32);
    for (rows, channels) in [(1, 3), (2, 1), (255, 5), (256, 8), (1025, 33)] {
        for relu_dropout in [None, Some(0.0), Some(0.4)] {
            // Values far from zero, for which the one-pass formula of the variance would be wrong.
            let x = draws.matrix::<Grad>(rows, channels) + 100.0;
            let [gamma, beta] = [0, 1].map(|_| draws.matrix(1, channels));
            assert_same_gradients(
                &mut draws,
                [x, gamma, beta],
                |[x, gamma, beta]| batch_norm(x, row(gamma), row(beta), normalization(relu_dropout)).0,
                |[x, gamma, beta]| slow_batch_norm(x, row(gamma), row(beta), relu_dropout),
                1e-8,
                &format!("{rows} x {channels}, {relu_dropout:?}"),
            );
        }
    }
}

/// The numbers of PyG 2.8.1: `GraphNorm(2)` on graphs of two and three nodes, and the gradients of the sum of the output times
/// `grad`.
#[test]
fn graph_normalisation_equals_that_of_pyg() {
    let device = Default::default();
    let segments = Segments::new(vec![0, 2, 5]).expect("segments");
    let mut norm = GraphNorm::<Grad>::with_init(2, &mut WeightInit::new(0), &device);
    norm = load_parameters(norm, &[1.5, -0.5, 0.1, 0.2, 0.75, 1.25]).expect("six parameters");
    let x = [[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0], [2.0, 2.0], [0.25, -0.75]];
    let grad = [[1.0, 2.0], [-1.0, 0.5], [0.5, -2.0], [3.0, 1.0], [-0.5, 1.5]];
    let x = Tensor::<Grad, 2>::from_data(x, &device).require_grad();
    let output = norm.forward(x.clone(), &segments);
    let gradients = (output.clone() * Tensor::from_data(grad, &device)).sum().backward();
    let expected = [
        -0.5708177, 0.6202966, 2.1124531, -0.3686366, -1.4943781, -0.2540862, 2.1499146, 0.2469744, 0.0240772,
        0.9359329,
    ];
    // The parameters are 32-bit floats.
    assert_close(&values(output.inner()), &expected, 1e-6, "output");
    let expected = [
        0.4024981, 0.0527095, -0.1341732, 0.2108448, 1.3350888, 0.1466965, 0.8366541, -0.2602626, -1.352736, 0.0883411,
    ];
    assert_close(&values(x.grad(&gradients).expect("a gradient")), &expected, 1e-6, "gradient of x");
    for (param, expected, name) in [
        (&norm.gamma, [1.8048303053, -5.2306424063], "gamma"),
        (&norm.beta, [3.0, 3.0], "beta"),
        (&norm.alpha, [-3.5116109872, -0.967236881], "alpha"),
    ] {
        let found = values(param.val().grad(&gradients).expect("a gradient"));
        assert_close(&found, &expected, 1e-6, name);
    }
}

/// The start of the nodes of three graphs, the second of which has none.
const OFFSETS: [usize; 4] = [0, 2, 2, 5];

/// Passes rows through virtual nodes graph by graph, with burn's own operations.
fn slow_virtual_nodes(layers: &[VirtualNode<Grad>], mut rows: Tensor<Grad, 2>) -> Tensor<Grad, 2> {
    let mut of_graphs: Vec<Tensor<Grad, 2>> = vec![Tensor::zeros([1, 4], &Default::default()); 3];
    for layer in layers {
        let mut graphs = Vec::new();
        for (row, ends) in of_graphs.iter_mut().zip(OFFSETS.windows(2)) {
            if ends[0] == ends[1] {
                continue;
            }
            let nodes = rows.clone().slice([ends[0]..ends[1], 0..4]);
            let read = row.clone() + nodes.clone().sum_dim(0);
            let [first, second] = [0, 1].map(|at| &layer.mlp.layers[at]);
            let hidden = relu(read.matmul(first.weight.val()) + first.bias.val().unsqueeze());
            *row = hidden.matmul(second.weight.val()) + second.bias.val().unsqueeze();
            graphs.push(nodes + row.clone());
        }
        rows = Tensor::cat(graphs, 0);
    }
    rows
}

/// Two virtual nodes one after the other, so that the second one adds the row of the first.
#[test]
fn virtual_nodes_equal_their_formula_forward_and_backward() {
    let segments = Segments::new(OFFSETS.map(|offset| offset as u32).to_vec()).expect("segments");
    let mut init = WeightInit::new(3);
    let layers = [(); 2].map(|()| VirtualNode::<Grad>::with_init(4, &mut init, &Default::default()));
    let x = Draws(12).matrix::<Grad>(5, 4);
    let mut results = Vec::new();
    for is_slow in [false, true] {
        let x = x.clone().detach().require_grad();
        let rows = if is_slow {
            slow_virtual_nodes(&layers, x.clone())
        } else {
            let mut row = None;
            layers.iter().fold(x.clone(), |rows, layer| layer.forward(rows, &mut row, &segments, Mode::Eval))
        };
        let gradients = rows.clone().powi_scalar(2).sum().backward();
        let mut all = [values(rows), values(x.grad(&gradients).expect("x"))].concat();
        for layer in &layers {
            all.extend(values(layer.mlp.layers[0].weight.grad(&gradients).expect("weights")));
            all.extend(values(layer.mlp.layers[1].bias.grad(&gradients).expect("a bias")));
        }
        results.push(all);
    }
    assert_close(&results[0], &results[1], 1e-9, "virtual nodes");
    let alone =
        NetworkConfig { virtual_node: true, ..NetworkConfig::whole_graphs(ConvKind::Gcn(GcnSettings), 3, 8, 3, 1) };
    let error = alone.validate().expect_err("one layer").to_string();
    assert!(error.contains("before all layers but the first, but the model has 1"), "{error}");
    let of_nodes = NetworkConfig { virtual_node: true, ..NetworkConfig::stack(ConvKind::Gcn(GcnSettings), 3, 8, 3, 2) };
    let error = of_nodes.validate().expect_err("a model of nodes").to_string();
    assert!(error.contains("a virtual node is for models of whole graphs"), "{error}");
}

#[test]
fn batch_normalisation_does_not_depend_on_the_number_of_threads() {
    let mut draws = Draws(33);
    let x = draws.matrix::<Single>(5000, 37);
    let ones = Tensor::<Single, 1>::ones([37], &Default::default());
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| {
            let x = x.clone().require_grad();
            let gamma = ones.clone().require_grad();
            let (output, statistics) = batch_norm(x.clone(), gamma.clone(), ones.clone(), normalization(Some(0.3)));
            let gradients = output.clone().powi_scalar(2).sum().backward();
            let bits = |tensor: TensorData| tensor.iter::<f32>().map(f32::to_bits).collect::<Vec<_>>();
            let of_x = x.grad(&gradients).expect("a gradient").into_data();
            let of_gamma = gamma.grad(&gradients).expect("a gradient").into_data();
            [bits(output.into_data()), bits(statistics.into_data()), bits(of_x), bits(of_gamma)]
        })
    };
    assert_eq!(run(1), run(7));
}

#[test]
fn running_statistics_follow_the_batches_and_evaluation_uses_them() {
    let mut draws = Draws(34);
    let norm = BatchNorm::<Grad>::new(3, &Default::default());
    let mut mean = vec![0.0; 3];
    let mut variance = vec![1.0; 3];
    for rows in [50, 1, 9] {
        let x = draws.matrix::<Grad>(rows, 3) * 3.0 + 2.0;
        let of_batch = values(x.clone().inner());
        norm.forward(x, Mode::Train(key()), Activation::Identity);
        for channel in 0..3 {
            let column: Vec<f64> = of_batch.iter().skip(channel).step_by(3).copied().collect();
            let batch_mean = column.iter().sum::<f64>() / rows as f64;
            let squares: f64 = column.iter().map(|value| (value - batch_mean).powi(2)).sum();
            mean[channel] = 0.9 * mean[channel] + 0.1 * batch_mean;
            variance[channel] = 0.9 * variance[channel] + 0.1 * squares / (rows.max(2) - 1) as f64;
        }
    }
    let norm = norm.valid();
    assert_close(&values(norm.running_mean.value()), &mean, 1e-9, "mean");
    assert_close(&values(norm.running_var.value()), &variance, 1e-9, "variance");
    let x = draws.matrix::<Plain>(4, 3);
    let expected: Vec<f64> = values(x.clone())
        .iter()
        .enumerate()
        .map(|(at, value)| (value - mean[at % 3]) / (variance[at % 3] + 1e-5).sqrt())
        .collect();
    assert_close(&values(norm.forward(x, Mode::Eval, Activation::Identity)), &expected, 1e-9, "evaluation");
}

#[test]
fn running_statistics_have_no_gradients_and_no_optimizer_changes_them() {
    let device = Default::default();
    let norm = BatchNorm::<Single>::new(4, &device);
    let x = Draws(35).matrix::<Single>(10, 4);
    let loss = norm.forward(x, Mode::Train(key()), Activation::Identity).powi_scalar(3).sum();
    let gradients = GradientsParams::from_grads(loss.backward(), &norm);
    assert_eq!((num_parameters(&norm), num_trained_parameters(&norm)), (16, 8));
    let flat = flatten_gradients(&norm, gradients);
    assert_eq!(flat.len(), 8);
    let error = unflatten_gradients(&norm, &flat[1..]).err();
    assert_eq!(error, Some(FlatLengthError { given: 7, expected: 8 }));
    let statistics = flatten_statistics(&norm);
    assert_eq!(statistics.len(), 8);
    let gradients = unflatten_gradients(&norm, &flat).expect("the gradients of this module");
    let mut optimizer = adam(0.5);
    let before = flatten_parameters(&norm.valid());
    let norm = optimizer.step(0.1, norm, gradients);
    assert_ne!(flatten_parameters(&norm.valid())[..8], before[..8]);
    assert_eq!(flatten_statistics(&norm), statistics);
    let doubled: Vec<f32> = statistics.iter().map(|value| 2.0 * value).collect();
    let norm = load_statistics(norm, &doubled).expect("as many statistics");
    assert_eq!(flatten_statistics(&norm), doubled);
    assert_eq!((num_trained_parameters(&norm), flatten_parameters(&norm.valid())[8..].to_vec()), (8, doubled));
}

fn whole(graph: BatchGraph) -> Block {
    let rows = graph.num_rows();
    let nodes = graph.num_nodes();
    Block::new(Arc::new(graph), rows, nodes).expect("a block")
}

#[test]
fn gin_equals_its_formula_in_both_orders() {
    let mut draws = Draws(36);
    let block = whole(random_graph(&mut draws, 40, 40, 4));
    for (mlp_layers, batch_norm, learn_epsilon) in
        [(1, false, false), (2, true, true), (2, false, true), (3, true, false)]
    {
        let config = GinConvConfig::new(6, 8)
            .with_mlp_layers(mlp_layers)
            .with_batch_norm(batch_norm)
            .with_learn_epsilon(learn_epsilon);
        let mut conv: GinConv<Grad> = config.init(&mut WeightInit::new(1), &Default::default());
        if let Some(epsilon) = conv.epsilon {
            conv.epsilon = Some(epsilon.map(|epsilon| (epsilon + 0.3).detach().require_grad()));
        }
        let x = draws.matrix::<Grad>(40, 6);
        let grad = draws.matrix::<Grad>(40, 8);
        let slow = |conv: &GinConv<Grad>, x: Tensor<Grad, 2>| {
            let epsilon = conv.epsilon.as_ref().map_or(Tensor::zeros([1], &x.device()), |epsilon| epsilon.val());
            let sums = gather_scatter(x.clone(), &block, &Aggregation::Sum.reduce());
            let mut x = sums + x * (epsilon + 1.0).unsqueeze();
            for (number, layer) in conv.mlp.layers.iter().enumerate() {
                x = x.matmul(layer.weight.val()) + layer.bias.val().unsqueeze();
                if number + 1 < mlp_layers {
                    if let Some(norm) = conv.mlp.norms.get(number) {
                        x = slow_batch_norm(x, norm.gamma.val(), norm.beta.val(), None);
                    }
                    x = relu(x);
                }
            }
            x
        };
        let run = |order: Option<Order>| {
            let conv = with_new_leaves(&conv);
            let x = x.clone().require_grad();
            let output = match order {
                Some(order) => conv.forward_in_order(x.clone(), &block, Mode::Train(key()), order),
                None => slow(&conv, x.clone()),
            };
            let gradients = (output.clone() * grad.clone()).sum().backward();
            let of_x = values(x.grad(&gradients).expect("a gradient"));
            let flat = flatten_gradients(&conv, GradientsParams::from_grads(gradients, &conv));
            [values(output.inner()), of_x, flat.into_iter().map(f64::from).collect()]
        };
        let expected = run(None);
        for order in [Order::AggregateFirst, Order::TransformFirst] {
            for (found, expected) in run(Some(order)).iter().zip(&expected) {
                assert_close(found, expected, 1e-5, &format!("{mlp_layers} layers, {order:?}"));
            }
        }
    }
}

/// Makes four graphs: a triangle, a graph without nodes, a single node, and a path with a self loop.
fn graphs() -> GraphDataset {
    let data = GraphData {
        node_offsets: vec![0, 3, 3, 4, 7],
        src: vec![0, 1, 1, 2, 2, 0, 4, 5, 5, 6, 6],
        dst: vec![1, 0, 2, 1, 0, 2, 5, 4, 6, 5, 6],
        labels: vec![0, 1, 0, 1],
        ..GraphData::default()
    };
    GraphDataset::new("small", data).expect("good graphs").with_degrees_as_labels()
}

fn batch<B: GnnBackend>(graphs: Vec<u32>, for_training: bool) -> GraphTensorBatch<B> {
    let options = GraphBatchOptions { gcn_norm: true, for_training, ..Default::default() };
    GraphTensorBatch::new(GraphBatch::new(&self::graphs(), graphs), options, &Default::default()).expect("a batch")
}

fn convolutions() -> [ConvKind; 4] {
    let gin = |mlp_layers, learn_epsilon| ConvKind::Gin(GinSettings { mlp_layers, learn_epsilon });
    [
        gin(2, true),
        gin(1, false),
        ConvKind::Gcn(GcnSettings),
        ConvKind::Sage(SageSettings { aggregation: Aggregation::Max }),
    ]
}

#[test]
fn graphs_side_by_side_are_as_each_alone() {
    for conv in convolutions() {
        let readouts = [Readout::Last, Readout::JumpingKnowledge, Readout::JumpingKnowledgeMax];
        let blocks = [(false, false), (true, false), (false, true)];
        for (readout, (graph_norm, virtual_node)) in readouts.map(|readout| blocks.map(|of| (readout, of))).concat() {
            for pooling in POOLINGS {
                let config = NetworkConfig {
                    readout,
                    graph_norm,
                    virtual_node,
                    batch_norm: !graph_norm,
                    pooling: Some(Pooling { aggregation: pooling, dropout: 0.0 }),
                    ..NetworkConfig::whole_graphs(conv, 3, 8, 3, 2)
                };
                let model: Network<Plain> = config.init(5, &Default::default()).expect("a model");
                let logits = |graphs: Vec<u32>| {
                    let batch = batch::<Plain>(graphs, false);
                    values(model.forward(batch.input().expect("graphs"), Mode::Eval).expect("logits"))
                };
                let together = logits(vec![0, 1, 2, 3]);
                let alone: Vec<f64> = (0..4).flat_map(|graph| logits(vec![graph])).collect();
                assert_close(&together, &alone, 1e-9, &format!("{conv:?}, {readout:?}, {pooling}"));
                assert_ne!(together[..3], together[9..], "different graphs have different logits");
            }
        }
    }
}

/// The numbers of parameters with a non-zero gradient (`moving`), of parameters without one (`still`), and of running
/// statistics.
struct WithGradients<'a> {
    gradients: &'a GradientsParams,
    moving: usize,
    still: usize,
    statistics: usize,
}

impl ModuleVisitor<Single> for WithGradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Single, D>>) {
        let gradient = self.gradients.get::<NdArray<f32>, D>(param.id);
        if !param.is_require_grad() {
            assert!(gradient.is_none(), "a statistic with a gradient");
            self.statistics += 1;
        } else if gradient.is_some_and(|gradient| gradient.into_data().iter::<f32>().any(|value| value != 0.0)) {
            self.moving += 1;
        } else {
            self.still += 1;
        }
    }
}

#[test]
fn every_parameter_gets_a_gradient_and_no_statistic_does() {
    for conv in convolutions() {
        for batch_norm in [false, true] {
            let pooling = Some(Pooling { aggregation: Aggregation::Sum, dropout: 0.2 });
            let config = NetworkConfig { pooling, batch_norm, ..NetworkConfig::whole_graphs(conv, 3, 8, 3, 2) };
            let model: Network<Single> = config.init(5, &Default::default()).expect("a model");
            let batch = batch::<Single>(vec![0, 1, 2, 3], true);
            let logits = model.forward(batch.input().expect("graphs"), Mode::Train(key())).expect("logits");
            let gradients = GradientsParams::from_grads(logits.powi_scalar(2).sum().backward(), &model);
            let mut seen = WithGradients { gradients: &gradients, moving: 0, still: 0, statistics: 0 };
            model.visit(&mut seen);
            let within = usize::from(matches!(conv, ConvKind::Gin(GinSettings { mlp_layers: 2, .. }))) * 2;
            let norms = if batch_norm { 2 + within } else { 0 };
            assert_eq!(seen.statistics, 2 * norms, "{conv:?}");
            // A bias before a normalisation has no effect, so its gradient is zero up to rounding.
            assert!(seen.still <= norms && seen.moving > 4, "{conv:?}: {} of {}", seen.still, seen.moving);
            assert_eq!(flatten_gradients(&model, gradients).len(), num_trained_parameters(&model));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let config = NetworkConfig::whole_graphs(ConvKind::Gcn(GcnSettings), 5, 8, 3, 2);
    let model: Network<Plain> = config.init(5, &Default::default()).expect("a model");
    let batch = batch::<Plain>(vec![0], false);
    let error = model.forward(batch.input().expect("graphs"), Mode::Eval).err();
    let what = "the batch is of another graph than the model: nodes with 3 features instead of nodes with 5 features";
    assert_eq!(error, Some(ModelError::Batch { what: what.into() }));
    let none = GraphTensorBatch::<Plain>::new(
        GraphBatch::new(&graphs(), vec![]),
        GraphBatchOptions::default(),
        &Default::default(),
    );
    assert!(none.expect("an empty batch").input().is_none());
    let without_norm = GraphTensorBatch::<Plain>::new(
        GraphBatch::new(&graphs(), vec![0]),
        GraphBatchOptions::default(),
        &Default::default(),
    );
    let model: Network<Plain> = NetworkConfig::whole_graphs(ConvKind::Gcn(GcnSettings), 3, 8, 3, 2)
        .init(5, &Default::default())
        .expect("a model");
    let error = model.forward(without_norm.expect("a batch").input().expect("a graph"), Mode::Eval).err();
    let what = "a GCN needs the normalisation of the batch, but this batch was made without it";
    assert_eq!(error, Some(ModelError::Batch { what: what.into() }));
}

#[test]
fn saved_models_come_back_with_their_running_statistics() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("model.safetensors");
    let device = Default::default();
    for conv in convolutions() {
        let config = NetworkConfig::whole_graphs(conv, 3, 8, 3, 2);
        let model: Network<Single> = config.init(5, &device).expect("a model");
        model.forward(batch(vec![0, 3], true).input().expect("graphs"), Mode::Train(key())).expect("logits");
        let model = model.valid();
        save_model(&path, &model, &config, &[]).expect("a file");
        let bytes = std::fs::read(&path).expect("the file");
        let (loaded, settings, _) =
            parse_model::<NdArray<f32>, NetworkConfig>(&bytes, &path, &device).expect("the model");
        assert_eq!((flatten_parameters(&loaded), settings), (flatten_parameters(&model), config));
        let Err(error) = open_task_model::<NodePrediction, Cpu>(&bytes, &path, &device) else {
            panic!("no model for nodes")
        };
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(source.contains("use it with `train graph`"), "{error}: {source}");
    }
    let bytes = std::fs::read(&path).expect("the file");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    for name in ["layers.0.weight_self", "norms.1.running_var", "output.weight"] {
        assert!(tensors.tensor(name).is_ok(), "{name} is not among {:?}", tensors.names());
    }
}
