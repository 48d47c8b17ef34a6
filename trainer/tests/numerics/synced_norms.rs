//! Batch normalization over the rows of two ranks, compared with one rank that has all rows.
//!
//! The ranks run one after the other, again and again: each adds the numbers that the other one has contributed to the same
//! sum in its last run. A sum is right as soon as those before it are, so the numbers stop changing.

use std::sync::{Arc, Mutex};

use burn::backend::{Autodiff, NdArray};
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::nn::{BatchNorm, RelationAggregation};
use edgecut_gnn::ops::{
    Activation, BatchGraph, BatchNormSync, BatchNormalization, Block, DropoutKey, RowSums, RowSumsError,
    synced_batch_norm,
};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::gradients::{flatten_parameters, num_parameters};
use edgecut_trainer::models::{
    ConvKind, EdgeTypeSchema, GinSettings, GraphSchema, Mode, ModelInput, Network, NetworkConfig, NetworkOutput,
    NodeClassifier, NodeInput, NodeTypeSchema, SageSettings,
};

use crate::support::*;

type Grad = Autodiff<NdArray<f64>>;

const NUM_LAYERS: usize = 3;
const NUM_CLASSES: usize = 3;

/// The numbers that a rank has contributed to each sum of a run.
type Contributions = Vec<Vec<f64>>;

/// The sums of a rank, to which the other one contributes the numbers of its last run.
#[derive(Debug)]
struct WithOther {
    other: Contributions,
    own: Arc<Mutex<Contributions>>,
}

impl RowSums for WithOther {
    fn sum(&self, values: &mut [f64]) -> Result<(), RowSumsError> {
        let mut own = self.own.lock().expect("no panic");
        let other = self.other.get(own.len());
        own.push(values.to_vec());
        if let Some(other) = other {
            if other.len() != values.len() {
                return Err(format!("sum {}: {} and {} numbers", own.len(), values.len(), other.len()).into());
            }
            values.iter_mut().zip(other).for_each(|(value, other)| *value += other);
        }
        Ok(())
    }
}

/// Runs two ranks until the numbers that they exchange do not change.
fn two_ranks<T>(run: impl Fn(usize, &BatchNormSync) -> T) -> [T; 2] {
    let mut contributions = [Contributions::new(), Contributions::new()];
    for _ in 0..40 {
        let outcomes = [0, 1].map(|rank| {
            let own = Arc::new(Mutex::default());
            let other = contributions[1 - rank].clone();
            let sync = BatchNormSync::new(WithOther { other, own: Arc::clone(&own) });
            let outcome = run(rank, &sync);
            let own = std::mem::take(&mut *own.lock().expect("no panic"));
            (outcome, own)
        });
        let [(first, of_first), (second, of_second)] = outcomes;
        assert_eq!(of_first.len(), of_second.len(), "both ranks exchange as many sums");
        let found = [of_first, of_second];
        if found == contributions {
            assert!(!found[0].is_empty(), "nothing was exchanged");
            return [first, second];
        }
        contributions = found;
    }
    panic!("the exchanged numbers still change");
}

/// A graph whose nodes are all in each layer, and whose nodes of the first type are the seeds.
#[derive(Clone)]
struct Batch {
    /// The features of the nodes of each type.
    features: Vec<Vec<Vec<f64>>>,
    /// The sources of the edges into each node, by edge type.
    neighbors: Vec<Vec<Vec<u32>>>,
}

impl Batch {
    fn random(draws: &mut Draws, schema: &GraphSchema, counts: &[usize]) -> Self {
        let mut features = Vec::new();
        for (nodes, &count) in schema.node_types.iter().zip(counts) {
            features.push((0..count).map(|_| draws.floats(nodes.feature_dim)).collect());
        }
        let mut neighbors = Vec::new();
        for edges in &schema.edge_types {
            let sources = counts[edges.src.index()];
            let mut of_type = Vec::new();
            for _ in 0..counts[edges.dst.index()] {
                let degree = if sources == 0 { 0 } else { draws.below(4) };
                of_type.push((0..degree).map(|_| draws.below(sources) as u32).collect());
            }
            neighbors.push(of_type);
        }
        Self { features, neighbors }
    }

    /// Returns both graphs as one, without edges between them.
    fn joined(&self, other: &Self, schema: &GraphSchema) -> Self {
        let mut joined = self.clone();
        for (nodes, others) in joined.features.iter_mut().zip(&other.features) {
            nodes.extend(others.iter().cloned());
        }
        for (edge_type, of_other) in other.neighbors.iter().enumerate() {
            let first = self.features[schema.edge_types[edge_type].src.index()].len() as u32;
            for sources in of_other {
                joined.neighbors[edge_type].push(sources.iter().map(|source| source + first).collect());
            }
        }
        joined
    }

    fn input(&self, schema: &GraphSchema) -> ModelInput<Grad> {
        let device = Default::default();
        let mut nodes = Vec::new();
        for (rows, of_type) in self.features.iter().zip(&schema.node_types) {
            let data = TensorData::new(rows.concat(), [rows.len(), of_type.feature_dim]);
            let features = if rows.is_empty() { None } else { Some(Tensor::<Grad, 2>::from_data(data, &device)) };
            nodes.push(NodeInput { features, within_hop: vec![rows.len(); NUM_LAYERS + 1] });
        }
        let mut blocks = Vec::new();
        for (of_type, edges) in self.neighbors.iter().zip(&schema.edge_types) {
            let mut indptr = vec![0];
            for sources in of_type {
                indptr.push(indptr[indptr.len() - 1] + sources.len() as u32);
            }
            let [src, dst] = [edges.src, edges.dst].map(|node_type| nodes[node_type.index()].within_hop.clone());
            let graph = Arc::new(BatchGraph::new(indptr, of_type.concat(), src[0]).expect("a graph"));
            blocks.push(Block::layers_between(&graph, &dst, &src).expect("blocks"));
        }
        ModelInput::typed(Arc::new(schema.clone()), nodes, blocks).expect("a batch that fits")
    }

    /// Returns the gradient of each output, which depends on the features of the seed only.
    fn output_gradients(&self) -> Vec<f64> {
        let mut all = Vec::new();
        for seed in &self.features[0] {
            all.extend((0..NUM_CLASSES).map(|class| (seed[0] * 7.0 + class as f64).sin()));
        }
        all
    }
}

/// The results of a step on a rank.
struct Outcome {
    outputs: Vec<f64>,
    gradients: Vec<f64>,
    /// All parameters after the step, of which only the running statistics change.
    parameters: Vec<f32>,
}

/// Runs a step without the sum of gradients and without the optimizer.
fn step(config: &NetworkConfig, batch: Option<&Batch>, sync: Option<&BatchNormSync>) -> Outcome {
    let mut model: Network<Grad> = config.init(5, &Default::default()).expect("a valid model");
    model.set_batch_norm_sync(sync);
    let mode = Mode::Train(DropoutKey::new(0, 0, 0));
    let mut outputs = Vec::new();
    let mut gradients = vec![0.0; num_parameters(&model)];
    let mut loss = None;
    match batch {
        Some(batch) => {
            let rows = model.forward(batch.input(&config.graph), mode).expect("a batch that fits");
            outputs = values(rows.clone());
            if !outputs.is_empty() {
                let weights = TensorData::new(batch.output_gradients(), rows.dims());
                loss = Some((rows * Tensor::from_data(weights, &Default::default())).sum());
            }
        }
        None => model.forward_without_rows(mode),
    }
    if let Some(sync) = sync {
        sync.end_forward().expect("sums of as many numbers");
    }
    if let Some(loss) = loss {
        gradients = parameter_gradients(&model, &loss.backward()).values;
    }
    if let Some(sync) = sync {
        sync.end_backward().expect("sums of as many numbers");
    }
    Outcome { outputs, gradients, parameters: flatten_parameters(&model) }
}

/// Compares two ranks with one that has the batches of both.
fn assert_like_one_rank(config: &NetworkConfig, batches: [Option<&Batch>; 2], what: &str) {
    let [first, second] = two_ranks(|rank, sync| step(config, batches[rank], Some(sync)));
    let all = match batches {
        [Some(first), Some(second)] => first.joined(second, &config.graph),
        [one, other] => one.or(other).expect("a rank with a batch").clone(),
    };
    let expected = step(config, Some(&all), None);
    assert_close(&[first.outputs, second.outputs].concat(), &expected.outputs, 1e-8, &format!("{what}: outputs"));
    let gradients: Vec<f64> = first.gradients.iter().zip(&second.gradients).map(|(one, other)| one + other).collect();
    assert_close(&gradients, &expected.gradients, 1e-8, &format!("{what}: gradients"));
    assert_eq!(first.parameters, second.parameters, "{what}: running statistics");
    let [found, expected] =
        [first.parameters, expected.parameters].map(|values| values.into_iter().map(f64::from).collect::<Vec<f64>>());
    assert_close(&found, &expected, 1e-6, &format!("{what}: running statistics"));
}

fn typed_schema() -> GraphSchema {
    let mut edge_types = Vec::new();
    // Type 2 is not a destination.
    for (src, dst) in [(0, 0), (1, 0), (0, 1), (2, 1)] {
        edge_types.push(EdgeTypeSchema::new(NodeTypeId(src), format!("e{src}{dst}"), NodeTypeId(dst)));
    }
    let node_types = [("a", 5), ("b", 3), ("c", 4)].map(|(name, width)| NodeTypeSchema::new(name, width));
    GraphSchema { node_types: node_types.to_vec(), edge_types }
}

#[test]
fn stacks_learn_as_on_one_rank() {
    let gin = ConvKind::Gin(GinSettings { mlp_layers: 3, learn_epsilon: true });
    for kind in [ConvKind::Sage(SageSettings::default()), gin] {
        for residual in [false, true] {
            let config = NetworkConfig::stack(kind, 5, 8, NUM_CLASSES, NUM_LAYERS);
            let config = NetworkConfig { batch_norm: true, residual, ..config };
            let mut draws = Draws(3);
            let [large, small] = [17, 2].map(|count| Batch::random(&mut draws, &config.graph, &[count]));
            let what = format!("{} {residual}", kind.model_name());
            assert_like_one_rank(&config, [Some(&large), Some(&small)], &what);
            assert_like_one_rank(&config, [None, Some(&large)], &format!("{what}, one without seeds"));
        }
    }
}

#[test]
fn typed_networks_learn_as_on_one_rank() {
    let schema = typed_schema();
    let output = NetworkOutput { node_type: NodeTypeId(0), channels: NUM_CLASSES };
    for kind in ["sage", "rgcn", "hgt"] {
        let kind = ConvKind::from_flags(kind, Default::default()).expect("a convolution");
        let config = NetworkConfig::typed(kind, schema.clone(), output, 8, NUM_LAYERS);
        let config = NetworkConfig {
            batch_norm: true,
            residual: true,
            relation_aggregation: RelationAggregation::Mean,
            ..config
        };
        let mut draws = Draws(4);
        let first = Batch::random(&mut draws, &schema, &[9, 7, 5]);
        // The second rank lacks node types, and so some of the normalizations. Batches of rows have seeds.
        for counts in [[6, 4, 3], [6, 0, 3], [5, 0, 0]] {
            let second = Batch::random(&mut draws, &schema, &counts);
            assert_like_one_rank(&config, [Some(&first), Some(&second)], &format!("{kind:?} {counts:?}"));
            assert_like_one_rank(&config, [Some(&second), Some(&first)], &format!("{kind:?} {counts:?}, exchanged"));
        }
        assert_like_one_rank(&config, [Some(&first), None], &format!("{kind:?}, one without seeds"));
    }
}

/// PyTorch's formulas, with `invstd = sqrt(3 / 8)`: the outputs are `(x - 3) * invstd`, the gradient of `x` is
/// `invstd * (dy - mean(dy) - xhat * mean(dy * xhat))`.
#[test]
fn the_backward_pass_contains_the_loss_of_other_ranks() {
    let device = Default::default();
    let rows = [vec![1.0, 3.0], vec![5.0]];
    let output_gradients = [vec![1.0, 0.0], vec![2.0]];
    let normalization = BatchNormalization { epsilon: 0.0, activation: Activation::Identity };
    let invstd = 0.375_f64.sqrt();
    let found = two_ranks(|rank, sync| {
        let count = rows[rank].len();
        let x = Tensor::<Grad, 2>::from_data(TensorData::new(rows[rank].clone(), [count, 1]), &device).require_grad();
        let gamma = Tensor::<Grad, 1>::from_data([1.0], &device).require_grad();
        let beta = Tensor::<Grad, 1>::from_data([0.0], &device).require_grad();
        let (output, _) = synced_batch_norm(x.clone(), gamma.clone(), beta.clone(), normalization, sync);
        let dy = Tensor::from_data(TensorData::new(output_gradients[rank].clone(), [count, 1]), &device);
        sync.end_forward().expect("as many numbers");
        let gradients = (output.clone() * dy).sum().backward();
        sync.end_backward().expect("as many numbers");
        let of_x = values(x.grad(&gradients).expect("x"));
        let of_gamma = values(gamma.grad(&gradients).expect("gamma"));
        let of_beta = values(beta.grad(&gradients).expect("beta"));
        [values(output), of_x, of_gamma, of_beta].concat()
    });
    let expected = [
        vec![-2.0 * invstd, 0.0, 0.5 * invstd, -invstd, -2.0 * invstd, 1.0],
        vec![2.0 * invstd, 0.5 * invstd, 4.0 * invstd, 2.0],
    ];
    for (found, expected) in found.iter().zip(&expected) {
        assert_close(found, expected, 1e-12, "normalization of three rows");
    }
}

#[test]
fn running_statistics_follow_the_rows_of_all_ranks() {
    let device = Default::default();
    let mode = Mode::Train(DropoutKey::new(0, 0, 0));
    let found = two_ranks(|rank, sync| {
        let mut norm = BatchNorm::<Grad>::new(1, &device);
        norm.set_sync(Some(sync.clone()));
        if rank == 0 {
            norm.forward(Tensor::from_data([[1.0], [3.0], [5.0]], &device), mode, Activation::Identity);
        } else {
            norm.forward_without_rows(mode);
        }
        // Evaluation exchanges nothing.
        norm.forward(Tensor::from_data([[1.0]], &device), Mode::Eval, Activation::Identity);
        norm.forward_without_rows(Mode::Eval);
        sync.end_forward().expect("as many numbers");
        sync.end_backward().expect("as many numbers");
        flatten_parameters(&norm)
    });
    for parameters in found {
        // The unbiased variance is 4.
        let found: Vec<f64> = parameters.into_iter().map(f64::from).collect();
        assert_close(&found, &[1.0, 0.0, 0.3, 0.9 + 0.4], 1e-6, "scale, shift, mean and variance");
    }
}
