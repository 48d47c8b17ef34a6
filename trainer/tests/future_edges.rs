//! Tests that no model reads edges that are later than its seeds.
//!
//! The label of a node is 1 if edges enter it after its time. Every node has the same number of earlier edges, and
//! features are random. A model that reads the future classifies all nodes correctly; a model that does not can only
//! guess.

use crate::support;

use burn::backend::Autodiff;
use burn_ndarray::NdArray;
use edgecut_cluster::with_causes;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{
    DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, SamplerConfig, Temporal, TemporalStrategy, TimeAttr,
};
use edgecut_gnn::nn::{Aggregation, EdgeWeighting, HgtSettings};
use edgecut_gnn::ops::AttentionVersion;
use edgecut_graph::{Dataset, Features, NodeData, NodeTypeId, Split, Splits};
use edgecut_testing::assert_has;
use edgecut_trainer::model_file::NewEmbeddings;
use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, GraphSchema, SageSettings};
use edgecut_trainer::{
    BatchOptions, FitConfig, NodePrediction, NodeTrainingConfig, TrainError, TrainingConfig, tensor_batches,
    train_model,
};
use std::path::Path;
use std::sync::Arc;
use support::{Numbers, on_ranks, parts_of};

type Cpu = NdArray<f32>;

const NODES: u32 = 10_000;
const TRAINED: u32 = 2_000;
const NODE_TIME: i64 = 100;
const EARLIER_EDGES: usize = 3;
const LATER_EDGES: usize = 8;
const SAGE: ConvKind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });

/// The accuracy of guessing on the test nodes, plus or minus 2 %, which is more than three standard deviations.
const GUESS: std::ops::RangeInclusive<f64> = 0.48..=0.52;

struct Edges {
    src: Vec<u32>,
    dst: Vec<u32>,
    times: Vec<i64>,
}

fn dataset() -> Dataset {
    let mut numbers = Numbers(21);
    let labels: Vec<i64> = (0..NODES).map(|_| numbers.below(2) as i64).collect();
    let mut edges = Edges { src: Vec::new(), dst: Vec::new(), times: Vec::new() };
    for (node, &label) in (0..NODES).zip(&labels) {
        let later = if label == 1 { LATER_EDGES } else { 0 };
        for number in 0..EARLIER_EDGES + later {
            let time = if number < EARLIER_EDGES { 10 } else { 1_000 };
            edges.src.push(numbers.below(u64::from(NODES)) as u32);
            edges.dst.push(node);
            edges.times.push(time);
        }
    }
    // One feature is constant, so that a sum over neighbors counts them.
    let value =
        |position: u32| if position.is_multiple_of(4) { 1.0 } else { numbers.below(1_000) as f32 / 500.0 - 1.0 };
    let values: Vec<f32> = (0..NODES * 4).map(value).collect();
    let nodes = NodeData {
        name: "node".into(),
        num_nodes: NODES as usize,
        features: Some(Features::F32 { values: values.into(), dim: 4 }),
        labels: Some(labels.into()),
        num_classes: 2,
        splits: Splits {
            train: (0..TRAINED).collect::<Vec<_>>().into(),
            valid: Vec::new().into(),
            test: (TRAINED..NODES).collect::<Vec<_>>().into(),
        },
        times: Some(vec![NODE_TIME; NODES as usize].into()),
        ..NodeData::default()
    };
    let mut dataset = Dataset::homogeneous("future", nodes, edges.src.into(), edges.dst.into());
    let num_edges = dataset.num_edges();
    dataset.edge_types[0].attributes.times = Some(edges.times.into());
    dataset.edge_types[0].attributes.weights = Some(vec![1.0; num_edges].into());
    dataset
}

fn by_time() -> SamplerConfig {
    let temporal = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
    SamplerConfig::new(vec![Fanout::All; 2]).with_times(Some(temporal))
}

/// Trains a model and returns its accuracy on the test nodes.
fn accuracy(dir: &Path, kind: ConvKind, sampler: SamplerConfig) -> Result<f64, TrainError> {
    accuracy_of(dir, TrainingConfig::new(kind, sampler))
}

/// Trains a model that may read values of edges, and returns its accuracy on the test nodes.
fn accuracy_of(dir: &Path, training: TrainingConfig) -> Result<f64, TrainError> {
    let training = TrainingConfig {
        hidden_channels: 16,
        batch_size: 250,
        fit: FitConfig { num_epochs: 8, lr: 0.02, seed: 5, ..FitConfig::default() },
        ..training
    };
    let config = NodeTrainingConfig { training, ..NodeTrainingConfig::default() };
    let found: Vec<Result<f64, TrainError>> = on_ranks(dir, 1, &DistGraphConfig::default(), |graph, world| {
        let trained =
            train_model::<NodePrediction, Autodiff<Cpu>>(&graph, &config, world, &Default::default(), &mut ())?;
        Ok(trained.result.test_acc.expect("test nodes"))
    });
    found.into_iter().next().expect("one rank")
}

#[test]
fn models_guess_labels_that_lie_in_the_future() {
    let dir = parts_of(&dataset(), 1);
    // All convolutions read the same batches: a sum, which counts edges, attention to them, and a layer over edge types.
    let version = AttentionVersion::V2;
    let gat = GatSettings { heads: 2, version, attention_dropout: 0.0, projection_bias: true };
    let kinds = [
        ConvKind::Sage(SageSettings { aggregation: Aggregation::Sum }),
        ConvKind::Gat(gat),
        ConvKind::Hgt(HgtSettings { heads: 2, attention_dropout: 0.0 }),
    ];
    for kind in kinds {
        let accuracy = accuracy(dir.path(), kind, by_time()).expect("a run");
        assert!(GUESS.contains(&accuracy), "{kind:?} reads the future: {accuracy}");
    }
    // Without temporal sampling, the number of neighbors reveals the label.
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Sum });
    let found = accuracy(dir.path(), kind, SamplerConfig::new(vec![Fanout::All; 2])).expect("a run");
    assert!(found > 0.9, "the label is in the graph: {found}");
}

#[test]
fn models_that_would_count_other_edges_than_those_drawn_are_refused() {
    let dir = parts_of(&dataset(), 1);
    let all = SamplerConfig::new(vec![Fanout::All; 2]);
    for (sampler, setting) in [
        (by_time(), "`temporal`"),
        (all.clone().with_weights(true), "`weighted`"),
        (all.clone().with_isolation(true), "`isolated`"),
    ] {
        let error = accuracy(dir.path(), ConvKind::Gcn(GcnSettings), sampler).expect_err("a GCN");
        assert_has(with_causes(&error), &["a GCN", setting]);
    }
    let new_embeddings = Some(NewEmbeddings::Neighbors);
    let error = accuracy_of(dir.path(), TrainingConfig { new_embeddings, ..TrainingConfig::new(SAGE, by_time()) });
    let message = with_causes(&error.expect_err("a start that counts later edges"));
    assert!(message.contains("(`new_embeddings=neighbors`) would count edges of all times"), "{message}");
    // Loaders give no degrees that count later edges.
    let options = BatchOptions { gcn_norm: true, ..BatchOptions::default() };
    let config = LoaderConfig { concurrency: 0, ..LoaderConfig::new(100, options.wanted()) };
    on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        let mut loader = |sampler, config: &LoaderConfig| {
            let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler).expect("a valid sampler"));
            DistNeighborLoader::new(sampler, NodeTypeId(0), Seeds::Split(Split::Train), config.clone(), world)
        };
        let error = loader(by_time(), &config).err().expect("degrees and times").to_string();
        assert!(error.contains("in-degrees") && error.contains("GCN"), "{error}");
        let wanted = NodeFields { degrees: false, ..config.wanted };
        assert!(loader(by_time(), &LoaderConfig { wanted, ..config.clone() }).is_ok());
        // A weighted batch may have degrees, but not the normalization of a GCN.
        let weighted = SamplerConfig::new(vec![Fanout::All; 2]).with_weights(true);
        let loader = loader(weighted, &config).expect("a valid loader");
        let schema = Arc::new(GraphSchema::new(graph.part().meta()).expect("types"));
        let mut batches = tensor_batches::<Cpu>(&loader, 0, &schema, options, &Default::default());
        let batch = batches.next().expect("a batch").expect("a sampled batch");
        assert!(batch.is_err_and(|error| error.to_string().contains("`weighted`")));
    });
}

#[test]
fn models_that_read_times_and_weights_of_edges_guess_labels_that_lie_in_the_future() {
    let dir = parts_of(&dataset(), 1);
    let sum = ConvKind::Sage(SageSettings { aggregation: Aggregation::Sum });
    let hgt = ConvKind::Hgt(HgtSettings { heads: 2, attention_dropout: 0.0 });
    for kind in [sum, hgt] {
        let edge_weights = kind.edge_weighting() != EdgeWeighting::None;
        let training = TrainingConfig { time_encoding: Some(8), edge_weights, ..TrainingConfig::new(kind, by_time()) };
        let accuracy = accuracy_of(dir.path(), training).expect("a run");
        assert!(GUESS.contains(&accuracy), "{kind:?} reads the future: {accuracy}");
    }
    // Edges are known to be earlier only if they are drawn by their times.
    let by_nodes = Temporal { attr: TimeAttr::NodeTime, strategy: TemporalStrategy::Uniform };
    for temporal in [None, Some(by_nodes)] {
        let sampler = SamplerConfig::new(vec![Fanout::All; 2]).with_times(temporal);
        let training = TrainingConfig { time_encoding: Some(8), ..TrainingConfig::new(SAGE, sampler) };
        let error = accuracy_of(dir.path(), training).expect_err("times of edges");
        assert_has(format!("{:#}", anyhow::Error::from(error)), &["`time_encoding`", "`temporal` edge_time"]);
    }
}

/// The label of a node is 1 if its edges are recent at its own time. Nodes have different times, so that the times of edges
/// alone do not tell labels.
#[test]
fn the_time_from_edges_to_seeds_is_learned() {
    let mut dataset = dataset();
    let mut numbers = Numbers(77);
    let times: Vec<i64> = (0..NODES).map(|_| 1_000_000 + numbers.below(1_000_000) as i64).collect();
    let labels: Vec<i64> = dataset.node_types[0].labels.as_deref().expect("labels").to_vec();
    let edges = &mut dataset.edge_types[0];
    let mut of_edges = Vec::with_capacity(edges.dst.len());
    for &node in edges.dst.iter() {
        let age = if labels[node as usize] == 1 { numbers.below(100) } else { 5_000 + numbers.below(5_000) };
        of_edges.push(times[node as usize] - age as i64);
    }
    edges.attributes.times = Some(of_edges.into());
    dataset.node_types[0].times = Some(times.into());
    let dir = parts_of(&dataset, 1);
    let temporal = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
    // The number of drawn edges is the same for both labels.
    let sampler = SamplerConfig::new(vec![Fanout::Count(EARLIER_EDGES as u32)]).with_times(Some(temporal));
    for kind in [SAGE, ConvKind::Hgt(HgtSettings { heads: 2, attention_dropout: 0.0 })] {
        let training = TrainingConfig { time_encoding: Some(24), ..TrainingConfig::new(kind, sampler.clone()) };
        let accuracy = accuracy_of(dir.path(), training).expect("a run");
        assert!(accuracy > 0.95, "{kind:?} with times: {accuracy}");
    }
    // Nothing else tells the label.
    let accuracy = accuracy_of(dir.path(), TrainingConfig::new(SAGE, sampler)).expect("a run");
    assert!(GUESS.contains(&accuracy), "without times: {accuracy}");
}
