//! Tests of node classification on a heterogeneous graph on two ranks, which step like one (`gradient_equality.rs`).

use crate::evaluation_steps::Calls;
use crate::scoring::scoring;
use crate::support;

use burn::backend::Autodiff;
use burn_ndarray::NdArray;
use edgecut_dist_sampler::{DistGraphConfig, NumNeighbors, SamplerConfig};
use edgecut_gnn::nn::{Aggregation, Decomposition, RelationAggregation};
use edgecut_gnn::ops::AttentionVersion;
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{Dataset, Features, META_FILE};
use edgecut_partition::Method;
use edgecut_testing::assert_has;
use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, RgcnSettings, SageSettings};
use edgecut_trainer::{
    FitConfig, Fitted, NodePrediction, NodeTrainingConfig, SeedResult, TrainError, TrainedModel, TrainingConfig,
    evaluate_model, train_model,
};
use std::path::Path;
use support::{on_ranks, parts_of, write_parts};

type Cpu = NdArray<f32>;
const NUM_CLASSES: usize = 4;

/// Generates a graph in which v0 has labels. The generator gives v2 no features; without `with_v2` its nodes have
/// embeddings.
fn graph(with_v2: bool) -> Dataset {
    let options = FakeOptions {
        avg_num_nodes: 600,
        avg_degree: 6.0,
        num_channels: 8,
        num_classes: NUM_CLASSES,
        homophily: 0.9,
        ..FakeOptions::default()
    };
    let mut graph = fake_hetero(&options).expect("a fake graph");
    if with_v2 {
        graph.node_types[2].features = Some(Features::F32 { values: vec![1.0; 600 * 2].into(), dim: 2 });
    }
    graph
}

fn config(kind: ConvKind) -> NodeTrainingConfig {
    let sampler = SamplerConfig::new("e0=4,3;6,4".parse::<NumNeighbors>().expect("fan-outs"));
    let training = TrainingConfig {
        hidden_channels: 32,
        dropout: 0.2,
        relation_aggregation: RelationAggregation::Mean,
        eval_num_neighbors: "8,8".parse().expect("fan-outs"),
        batch_size: 64,
        fit: FitConfig { num_epochs: 8, lr: 0.01, seed: 1, ..FitConfig::default() },
        embedding_lr: Some(0.01),
        ..TrainingConfig::new(kind, sampler)
    };
    NodeTrainingConfig { training, scoring: scoring("macro-f1") }
}

/// Trains a model and evaluates it again. Returns both results of every rank.
fn train(dir: &Path, ranks: usize, config: &NodeTrainingConfig) -> Vec<Result<(SeedResult, SeedResult), TrainError>> {
    on_ranks(dir, ranks, &DistGraphConfig::default(), |graph, world| {
        let device = Default::default();
        let mut log = Calls::default();
        let trained = train_model::<NodePrediction, Autodiff<Cpu>>(&graph, config, world, &device, &mut log)?;
        let Fitted { model, settings: model_config, embeddings, result, .. } = trained;
        assert_eq!(log.epochs.len() as u64, config.training.fit.num_epochs);
        let best = log.epochs.iter().filter_map(|report| report.valid_metric).fold(0.0, f64::max);
        assert_eq!(result.valid_metric, Some(best), "the best epoch was taken");
        let tables = embeddings.tables()?;
        world.barrier()?;
        let saved = TrainedModel::new(&model, &model_config, &tables);
        let again = evaluate_model::<NodePrediction, Cpu>(&graph, config, saved, world, &device)?;
        Ok((result, again))
    })
}

#[test]
fn every_kind_learns_classes_that_neighbors_of_other_types_tell() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let [featured, embedded] = ["featured", "embedded"].map(|name| dir.path().join(name));
    write_parts(&graph(true), 2, Method::Random, &featured);
    write_parts(&graph(false), 2, Method::Random, &embedded);
    let version = AttentionVersion::V2;
    let plain = [
        ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }),
        ConvKind::Gat(GatSettings { heads: 4, version, attention_dropout: 0.1, projection_bias: true }),
        ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::Basis { num_bases: 3 } }),
    ];
    let training = TrainingConfig { residual: true, layer_norm: true, ..config(plain[0]).training };
    let mut cases = vec![(NodeTrainingConfig { training, ..config(plain[0]) }, &featured)];
    cases.extend(plain.map(|kind| (config(kind), &featured)));
    cases.extend([plain[0], plain[2]].map(|kind| (config(kind), &embedded)));
    for (config, folder) in cases {
        let results: Vec<_> = train(folder, 2, &config).into_iter().map(|result| result.expect("a run")).collect();
        let (result, again) = &results[0];
        // Chance is 0.25.
        let is_learned = result.test_acc > Some(0.75) && result.test_metric > Some(0.7);
        assert!(is_learned, "{:?}: {result:?}", config.training.kind);
        let expected = SeedResult { best_epoch: 0, ..result.clone() };
        assert_eq!(*again, expected, "the model that came back is the one that was tested");
        assert!(results.iter().all(|result| *result == results[0]), "the same on every rank");
    }
}

#[test]
fn what_cannot_be_trained_is_said() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write_parts(&graph(true), 1, Method::Random, &dir.path().join("with"));
    let sage = config(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }));
    let error = |folder: &str, config: &NodeTrainingConfig| match train(&dir.path().join(folder), 1, config).remove(0) {
        Err(error) => format!("{:#}", anyhow::Error::from(error)),
        Ok(_) => panic!("it trained"),
    };
    assert!(error("with", &config(ConvKind::Gcn(GcnSettings))).contains("a GCN takes homogeneous graphs"));
    // 1,000,003 squared weights do not fit into the memory of any machine.
    let training = TrainingConfig { hidden_channels: 1_000_003, ..sage.training.clone() };
    let message = error("with", &NodeTrainingConfig { training, ..sage.clone() });
    assert!(message.contains("the model has ") && message.contains("lower `hidden_channels`"), "{message}");
    let auc = NodeTrainingConfig { scoring: scoring("roc-auc"), ..sage };
    assert!(error("with", &auc).contains("metric roc-auc needs two classes, or labels, but there are 4 classes"));
}

#[test]
fn more_classes_than_the_labels_of_all_parts_allow_are_an_error_on_every_rank() {
    let dir = parts_of(&graph(true), 2);
    let path = dir.path().join(META_FILE);
    let text = std::fs::read_to_string(&path).expect("a description");
    // The number of nodes would allow 5000 classes, but all parts together have only four different labels. Version 1
    // has no digest that would show the change.
    let line = text.lines().find(|line| line.contains("\"digest\"")).expect("a digest");
    let text = text.replacen(line, "  \"version\": 1,", 1).replacen("  \"version\": 2,\n", "", 1);
    std::fs::write(&path, text.replace("\"num_classes\": 4", "\"num_classes\": 5000")).expect("another description");
    for result in train(dir.path(), 2, &config(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }))) {
        assert_has(result.expect_err("too many classes").to_string(), &["5000 classes", "at most 1080 classes"]);
    }
}
