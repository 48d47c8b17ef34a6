//! The learning rate of embeddings follows the schedule of the other parameters.

use crate::support::{on_ranks, write_parts};
use burn::backend::Autodiff;
use burn_ndarray::NdArray;
use edgecut_dist_sampler::{DistGraphConfig, Fanout, SamplerConfig};
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{EdgeTypeId, HoldOut};
use edgecut_partition::Method;
use edgecut_trainer::link::{LinkPrediction, LinkTrainingConfig};
use edgecut_trainer::models::{ConvKind, SageSettings};
use edgecut_trainer::{EmbeddingTable, FitConfig, NodePrediction, NodeTrainingConfig, TrainingConfig, train_model};
use std::path::Path;

type Cpu = NdArray<f32>;

/// The rate of the embeddings of these tests.
const RATE: f64 = 0.01;
/// Steps over which a rate rises, of which an epoch is a small part.
const LONG_WARM_UP: u64 = 1_000_000;

/// Checks the embeddings after an epoch, which `train` returns for a rate and a number of steps over which the rate rises.
pub(crate) fn check_schedule(train: impl Fn(f64, u64) -> Vec<EmbeddingTable>) {
    let start = train(0.0, 0);
    let constant = largest_difference(&start, &train(RATE, 0));
    assert!(constant > RATE as f32 / 2.0, "a constant rate changes values by {constant}");
    let rising = largest_difference(&start, &train(RATE, LONG_WARM_UP));
    assert!(rising > 0.0 && rising < constant / 100.0, "a rising rate changes values by {rising}");
}

fn largest_difference(one: &[EmbeddingTable], other: &[EmbeddingTable]) -> f32 {
    let mut largest = 0.0_f32;
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one.values.len(), other.values.len());
        for (a, b) in one.values.iter().zip(&other.values) {
            largest = largest.max((a - b).abs());
        }
    }
    largest
}

/// Returns the settings of an epoch.
fn training(embedding_lr: f64, warmup_steps: u64) -> TrainingConfig {
    let sampler = SamplerConfig::new(vec![Fanout::Count(4)]);
    TrainingConfig {
        hidden_channels: 8,
        batch_size: 64,
        fit: FitConfig { num_epochs: 1, warmup_steps, ..FitConfig::default() },
        embedding_lr: Some(embedding_lr),
        ..TrainingConfig::new(ConvKind::Sage(SageSettings::default()), sampler)
    }
}

/// Writes a graph whose nodes of type v2 have no features, with labels of v0 and held-out edges.
fn write_graph(dir: &Path) {
    let options = FakeOptions { avg_num_nodes: 200, num_channels: 8, num_classes: 4, ..FakeOptions::default() };
    let mut graph = fake_hetero(&options).expect("a fake graph");
    graph.hold_out_edges(&[EdgeTypeId(0)], &HoldOut::random(0.1, 0.1, 3)).expect("held-out edges");
    write_parts(&graph, 1, Method::Random, dir);
}

#[test]
fn embeddings_of_a_model_for_nodes_follow_the_schedule() {
    let dir = tempfile::tempdir().expect("a folder");
    write_graph(dir.path());
    check_schedule(|rate, warmup_steps| {
        let config = NodeTrainingConfig { training: training(rate, warmup_steps), ..NodeTrainingConfig::default() };
        let mut tables = on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
            let trained =
                train_model::<NodePrediction, Autodiff<Cpu>>(&graph, &config, world, &Default::default(), &mut ());
            trained.expect("a run").embeddings.tables().expect("tables")
        });
        tables.remove(0)
    });
}

#[test]
fn embeddings_of_a_model_for_links_follow_the_schedule() {
    let dir = tempfile::tempdir().expect("a folder");
    write_graph(dir.path());
    check_schedule(|rate, warmup_steps| {
        let config = LinkTrainingConfig { training: training(rate, warmup_steps), ..LinkTrainingConfig::default() };
        let mut tables = on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
            let trained =
                train_model::<LinkPrediction, Autodiff<Cpu>>(&graph, &config, world, &Default::default(), &mut ());
            trained.expect("a run").embeddings.tables().expect("tables")
        });
        tables.remove(0)
    });
}
