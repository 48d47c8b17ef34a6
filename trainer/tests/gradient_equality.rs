//! Tests that two ranks with batch size B and full neighborhoods take the same steps as one rank with the same 2 B
//! seeds.

use crate::support;

use burn::backend::Autodiff;
use burn::optim::Optimizer;
use burn_ndarray::NdArray;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{
    DistGraphConfig, DistNeighborSampler, Fanout, SamplerConfig, Temporal, TemporalStrategy, TimeAttr,
};
use edgecut_gnn::nn::{Aggregation, ConvKind, Decomposition, EdgeWeighting, FlagValues};
use edgecut_gnn::ops::{AttentionVersion, Precision};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{Dataset, EdgeAttributes, Features, Meta, NodeTypeId, PartitionBook, PartitionId, Split};
use edgecut_partition::{Assignment, Method, PartitionOptions};
use edgecut_trainer::models::{
    GatSettings, GcnSettings, GraphSchema, Mode, Network, NetworkConfig, NetworkOutput, RgcnSettings, SageSettings,
};
use edgecut_trainer::{BatchOptions, StepGradients, TensorBatch, adam, step_gradients};
use std::path::Path;
use std::sync::Arc;
use support::{on_ranks, parts_of, write_parts};

type Cpu = Autodiff<NdArray<f32>>;
const NODES: NodeTypeId = NodeTypeId(0);

#[derive(Clone)]
enum Which {
    Listed(Vec<u32>),
    OwnTrainingNodes,
    /// The training nodes in as many equal epochs, each of which starts from the same parameters.
    Epochs(usize),
}

/// A function from a graph's types to the settings of a model.
type Model = dyn Fn(&GraphSchema) -> NetworkConfig + Sync;

/// Returns the settings of a stack of two convolutions.
fn stack(kind: ConvKind) -> impl Fn(&GraphSchema) -> NetworkConfig + Sync {
    move |_| NetworkConfig { normalize_features: true, ..NetworkConfig::stack(kind, 3, 8, 4, 2) }
}

/// Returns the gradients of every step with Adam on every rank.
fn steps(dir: &Path, world_size: usize, batch_size: usize, model: &Model, which: &Which) -> Vec<Vec<StepGradients>> {
    steps_over(&types_of, dir, world_size, batch_size, model, which, Precision::F32)
}

fn types_of(meta: &Meta) -> GraphSchema {
    GraphSchema::new(meta).expect("types")
}

/// Like [`steps`], for models that read values of edges, which the function adds to the types of the graph.
fn steps_over(
    schema: &(dyn Fn(&Meta) -> GraphSchema + Sync),
    dir: &Path,
    world_size: usize,
    batch_size: usize,
    model: &Model,
    which: &Which,
    precision: Precision,
) -> Vec<Vec<StepGradients>> {
    on_ranks(dir, world_size, &DistGraphConfig::default(), |graph, world| {
        let device = Default::default();
        let schema = Arc::new(schema(graph.part().meta()));
        let model_config = model(&schema);
        let options = BatchOptions::of_model(&model_config, true);
        let (seeds, num_epochs) = match which {
            Which::Listed(originals) => {
                let found = graph.handle().block_on(graph.find_originals(NODES, originals));
                (Seeds::Listed(found.expect("seeds exist")), 1)
            }
            Which::OwnTrainingNodes => (Seeds::Split(Split::Train), 1),
            Which::Epochs(num_epochs) => (Seeds::Split(Split::Train), *num_epochs),
        };
        let by_time = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
        let config = SamplerConfig::new(vec![Fanout::All; 2])
            .with_times(Some(by_time).filter(|_| schema.time_dim() > 0))
            .with_edge_attributes(schema.edge_fields());
        let sampler = Arc::new(DistNeighborSampler::new(graph, config).expect("a valid sampler"));
        let config = LoaderConfig { seed: 1, ..LoaderConfig::new(batch_size, options.wanted()) };
        let loader = DistNeighborLoader::new(sampler, NODES, seeds, config, world).expect("a valid loader");
        let mut all = Vec::new();
        for _ in 0..num_epochs {
            let mut model: Network<Cpu> = model_config.init(3, &device).expect("a valid model");
            model.set_precision(precision);
            let mut optimizer = adam::<Cpu, Network<Cpu>>(0.0);
            for batch in loader.epoch(0) {
                let batch =
                    TensorBatch::new(batch.expect("a batch"), &schema, options, &device).expect("a right batch");
                let step = step_gradients(&model, batch, Mode::Eval, world).expect("a step");
                let gradients = step.of_model(&model).expect("the gradients of this model");
                model = optimizer.step(0.01, model, gradients);
                all.push(step);
            }
        }
        all
    })
}

fn assert_same_steps(found: &[Vec<StepGradients>], expected: &[StepGradients], what: &str) {
    for rank in found {
        assert_eq!(rank.len(), expected.len(), "{what}: steps");
        for (step, (found, expected)) in rank.iter().zip(expected).enumerate() {
            let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
            let size = norm(&mut expected.flat.iter().copied());
            let off = norm(&mut found.flat.iter().zip(&expected.flat).map(|(a, b)| a - b));
            assert!(size > 1e-3, "{what}, step {step}: a gradient to compare");
            // Products of batches of different sizes may be rounded differently, and a unit near zero may then be on
            // the other side of its activation.
            assert!(off <= 1e-3 * size, "{what}, step {step}: off by {:e} of {size}", off / size);
            assert_eq!(found.totals.seeds, expected.totals.seeds);
            assert_eq!(found.totals.correct, expected.totals.correct);
            let losses = [found.totals.loss, expected.totals.loss];
            assert!((losses[0] - losses[1]).abs() <= 1e-5 * losses[1], "{what}, step {step}: {losses:?}");
        }
    }
    for rank in &found[1..] {
        for (mine, first) in rank.iter().zip(&found[0]) {
            assert_eq!(mine.flat, first.flat, "{what}: the same bits on every rank");
        }
    }
}

fn kinds() -> [ConvKind; 5] {
    let sage = |aggregation| ConvKind::Sage(SageSettings { aggregation });
    let gat = ConvKind::Gat(GatSettings {
        heads: 2,
        version: AttentionVersion::V2,
        attention_dropout: 0.0,
        projection_bias: true,
    });
    [sage(Aggregation::Mean), sage(Aggregation::Sum), sage(Aggregation::Max), ConvKind::Gcn(GcnSettings), gat]
}

#[test]
fn ranks_together_step_like_one() {
    let dataset = support::graph(200, 900, 11);
    let dir = tempfile::tempdir().expect("a temporary folder");
    for parts in [1, 2, 3] {
        write_parts(&dataset, parts, Method::Metis { recursive: false }, &dir.path().join(parts.to_string()));
    }
    // With 50 seeds in batches of 8, one rank has 2 seeds in the last step and the others have none.
    let seeds = Which::Listed((0..50).map(|i| (i * 37 + 5) % 200).collect());
    for kind in kinds() {
        for parts in [2, 3] {
            let one = steps(&dir.path().join("1"), 1, 8 * parts, &stack(kind), &seeds).remove(0);
            let many = steps(&dir.path().join(parts.to_string()), parts, 8, &stack(kind), &seeds);
            assert_same_steps(&many, &one, &format!("{kind:?} on {parts} ranks"));
        }
    }
}

#[test]
fn ranks_together_step_like_one_in_bf16() {
    let dataset = support::graph(200, 900, 11);
    let dir = tempfile::tempdir().expect("a temporary folder");
    for parts in [1, 2] {
        write_parts(&dataset, parts, Method::Random, &dir.path().join(parts.to_string()));
    }
    let seeds = Which::Listed((0..50).map(|i| (i * 37 + 5) % 200).collect());
    let [one_part, two_parts] = ["1", "2"].map(|parts| dir.path().join(parts));
    // The products of all layers are rounded by the same operations.
    let [mean, .., gat] = kinds();
    for kind in [mean, gat] {
        let model = stack(kind);
        let one = steps_over(&types_of, &one_part, 1, 16, &model, &seeds, Precision::Bf16).remove(0);
        let two = steps_over(&types_of, &two_parts, 2, 8, &model, &seeds, Precision::Bf16);
        assert_same_steps(&two, &one, &format!("{kind:?} in bf16"));
        let in_f32 = steps(&one_part, 1, 16, &model, &seeds).remove(0);
        assert_ne!(in_f32[0].flat, one[0].flat, "{kind:?} rounds");
        let losses = [&one[0], &in_f32[0]].map(|step| step.totals.loss);
        assert!((losses[0] - losses[1]).abs() <= 0.02 * losses[1], "{kind:?}: {losses:?}");
    }
}

#[test]
fn unequal_parts_do_not_skew_the_mean() {
    let dataset = support::graph(120, 500, 12);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let one = dir.path().join("1");
    let two = dir.path().join("2");
    write_parts(&dataset, 1, Method::Random, &one);
    // Part 0 has a tenth of the nodes and of the seeds.
    let assignment = Assignment { parts: vec![(0..120).map(|n| u32::from(n % 10 != 0)).collect()] };
    edgecut_partition::write_parts(&dataset, &assignment, &PartitionOptions::new(2), &two).expect("write the parts");
    let book: PartitionBook = edgecut_graph::Meta::read(&two).expect("read META.json").node_types[0].book.clone();
    assert_eq!(book.range(PartitionId(0)).len(), 12);
    let [model, ..] = kinds().map(stack);
    let expected = steps(&one, 1, 1000, &model, &Which::OwnTrainingNodes).remove(0);
    let found = steps(&two, 2, 1000, &model, &Which::OwnTrainingNodes);
    assert_same_steps(&found, &expected, "unequal parts");
}

/// The ranks of this test are threads of one process, which burn's autodiff does not support without turns. Without
/// them, about one in a hundred epochs lost gradients.
#[test]
fn ranks_that_are_threads_lose_no_gradient() {
    const ROUNDS: usize = 150;
    let dataset = support::graph(120, 500, 13);
    let dir = parts_of(&dataset, 3);
    let model = stack(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }));
    let steps = steps(dir.path(), 3, 8, &model, &Which::Epochs(ROUNDS)).remove(0);
    let of_epoch = steps.len() / ROUNDS;
    assert!(of_epoch > 1 && steps.len() == ROUNDS * of_epoch, "{} steps", steps.len());
    for (at, step) in steps.iter().enumerate() {
        assert!(step.flat == steps[at % of_epoch].flat, "round {} has other gradients", at / of_epoch);
    }
}

#[test]
fn ranks_together_step_like_one_on_several_types() {
    let options =
        FakeOptions { avg_num_nodes: 150, avg_degree: 5.0, num_channels: 6, num_classes: 4, ..FakeOptions::default() };
    let mut dataset = fake_hetero(&options).expect("a fake graph");
    let values: Vec<f32> = (0..150 * 2).map(|i| (i as f32 * 0.37).sin()).collect();
    dataset.node_types[2].features = Some(Features::F32 { values: values.into(), dim: 2 });
    let dir = tempfile::tempdir().expect("a temporary folder");
    for parts in [1, 3] {
        write_parts(&dataset, parts, Method::Random, &dir.path().join(parts.to_string()));
    }
    let seeds = Which::Listed((0..50).map(|i| (i * 37 + 5) % 150).collect());
    let gat = ConvKind::Gat(GatSettings {
        heads: 2,
        version: AttentionVersion::V1,
        attention_dropout: 0.0,
        projection_bias: true,
    });
    let rgcn = ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::Basis { num_bases: 2 } });
    for kind in [ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), gat, rgcn] {
        let model = move |schema: &GraphSchema| {
            let output = NetworkOutput { node_type: NODES, channels: 4 };
            let config = NetworkConfig::typed(kind, schema.clone(), output, 8, 2);
            NetworkConfig { residual: true, layer_norm: true, ..config }
        };
        let one = steps(&dir.path().join("1"), 1, 24, &model, &seeds).remove(0);
        let many = steps(&dir.path().join("3"), 3, 8, &model, &seeds);
        assert_same_steps(&many, &one, &format!("{kind:?} on 3 ranks"));
    }
}

/// Gives all edges features, weights and times, and all nodes times between the times of the edges.
fn add_values(dataset: &mut Dataset) {
    let mut numbers = support::Numbers(31);
    for edges in &mut dataset.edge_types {
        let num_edges = edges.dst.len();
        let features: Vec<f32> = (0..num_edges * 2).map(|_| numbers.below(1000) as f32 / 500.0 - 1.0).collect();
        edges.attributes = EdgeAttributes {
            features: Some(Features::F32 { values: features.into(), dim: 2 }),
            weights: Some((0..num_edges).map(|_| numbers.below(40) as f32 / 10.0).collect::<Vec<_>>().into()),
            times: Some((0..num_edges).map(|_| numbers.below(100) as i64).collect::<Vec<_>>().into()),
            ..EdgeAttributes::default()
        };
    }
    for nodes in &mut dataset.node_types {
        let times: Vec<i64> = (0..nodes.num_nodes).map(|_| 40 + numbers.below(100) as i64).collect();
        nodes.times = Some(times.into());
    }
}

/// The values of edges that a model reads.
#[derive(Clone, Copy, Debug)]
struct Reads {
    weights: bool,
    features: bool,
    time_dim: usize,
}

impl Reads {
    fn schema(self, kind: ConvKind, meta: &Meta) -> GraphSchema {
        let mut schema = GraphSchema::new(meta).expect("types");
        if self.time_dim > 0 {
            schema = schema.with_edge_times(kind, self.time_dim, meta).expect("times");
        }
        if self.weights {
            schema = schema.with_edge_weights(kind, meta).expect("weights");
        }
        if self.features { schema.with_edge_features(kind, meta).expect("features") } else { schema }
    }
}

fn kind_named(model: &str) -> ConvKind {
    let mut flags = FlagValues::new();
    if ConvKind::flags_of(model).iter().any(|flag| flag.name == "heads") {
        flags.insert("heads".into(), 2.into());
    }
    ConvKind::from_flags(model, flags).expect("valid flags")
}

/// Steps of models that read values of edges equal the steps of one rank and one part. Each case fails if the values that a
/// neighbor's owner sends belong to other edges or nodes.
#[test]
fn ranks_together_step_like_one_over_values_of_edges() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut plain = support::graph(200, 900, 11);
    add_values(&mut plain);
    let options =
        FakeOptions { avg_num_nodes: 150, avg_degree: 5.0, num_channels: 6, num_classes: 4, ..FakeOptions::default() };
    let mut typed = fake_hetero(&options).expect("a fake graph");
    add_values(&mut typed);
    let values: Vec<f32> = (0..150 * 2).map(|i| (i as f32 * 0.37).sin()).collect();
    typed.node_types[2].features = Some(Features::F32 { values: values.into(), dim: 2 });
    for parts in [1, 3] {
        write_parts(&plain, parts, Method::Metis { recursive: false }, &dir.path().join(format!("plain{parts}")));
        write_parts(&typed, parts, Method::Random, &dir.path().join(format!("typed{parts}")));
    }
    // One step: sums over hubs are large, and Adam turns the rounding of gradients near zero into whole steps.
    let seeds = Which::Listed((0..24).map(|i| (i * 37 + 5) % 150).collect());
    let mut compared = 0;
    for model in ["sage", "graphconv", "gcn", "gat", "gatv2", "transformer", "gine", "pna", "rgcn", "hgt"] {
        let kind = kind_named(model);
        let reads_weights = kind.edge_weighting() != EdgeWeighting::None;
        let cases = match model {
            "gcn" => vec![Reads { weights: true, features: false, time_dim: 0 }],
            _ if reads_weights => vec![
                Reads { weights: true, features: false, time_dim: 0 },
                Reads { weights: true, features: true, time_dim: 3 },
            ],
            _ => vec![
                Reads { weights: false, features: true, time_dim: 3 },
                Reads { weights: false, features: false, time_dim: 3 },
            ],
        };
        for reads in cases {
            for name in ["plain", "typed"] {
                if name == "typed" && model == "gcn" {
                    continue;
                }
                let has_encoders = name == "typed" || kind.is_typed();
                let network = move |schema: &GraphSchema| {
                    let output = NetworkOutput { node_type: NODES, channels: 4 };
                    let config = NetworkConfig::typed(kind, schema.clone(), output, 8, 2);
                    NetworkConfig { encoders: has_encoders, layer_norm: true, ..config }
                };
                let schema = move |meta: &Meta| reads.schema(kind, meta);
                let whole = dir.path().join(format!("{name}1"));
                let one = steps_over(&schema, &whole, 1, 24, &network, &seeds, Precision::F32).remove(0);
                // Ranks that share a part, and ranks with parts of their own.
                for (parts, ranks) in [(1, 2), (3, 3)] {
                    let folder = dir.path().join(format!("{name}{parts}"));
                    let many = steps_over(&schema, &folder, ranks, 24 / ranks, &network, &seeds, Precision::F32);
                    assert_same_steps(&many, &one, &format!("{model} {reads:?} on {name}{parts}, {ranks} ranks"));
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, (9 * 2 * 2 + 1) * 2);
}
