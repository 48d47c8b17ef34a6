//! Tests that models learn the structure of generated graphs on two ranks, which train like one (`like_one_rank.rs`).

use super::{Cpu, Log, config, no_layers};
use crate::support::{on_ranks, write_parts};
use burn::backend::Autodiff;
use edgecut_cluster::with_causes;
use edgecut_dist_loader::NegativeDistribution;
use edgecut_dist_sampler::DistGraphConfig;
use edgecut_gnn::nn::{Aggregation, DecoderKind, Decomposition, DistMult};
use edgecut_graph::readers::{FakeOptions, fake, fake_hetero};
use edgecut_graph::{Dataset, EdgeTypeId, HoldOut, Meta};
use edgecut_partition::Method;
use edgecut_testing::assert_has;
use edgecut_trainer::link::{
    Bce, LinkEvaluation, LinkLoss, LinkMetric, LinkPrediction, LinkResult, LinkTrainingConfig, Softmax,
    target_edge_types,
};
use edgecut_trainer::models::{ConvKind, GcnSettings, RgcnSettings, SageSettings};
use edgecut_trainer::{TrainError, TrainedModel, TrainingConfig, evaluate_model, train_model};
use std::path::Path;

const HOLD_OUT: HoldOut = HoldOut::random(0.1, 0.1, 3);
const SAGE: ConvKind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
/// The mean reciprocal rank of a random model with twenty negatives.
const CHANCE_MRR: f64 = 0.174;

fn options(num_channels: usize) -> FakeOptions {
    FakeOptions {
        avg_num_nodes: 500,
        avg_degree: 12.0,
        num_channels,
        num_classes: 6,
        homophily: 0.95,
        ..FakeOptions::default()
    }
}

fn communities(num_channels: usize) -> Dataset {
    let mut graph = fake(&options(num_channels)).expect("a fake graph");
    graph.hold_out_edges(&graph.edge_type_ids(), &HOLD_OUT).expect("held-out edges");
    graph
}

/// Generates a graph in which `e0`, `e4` and their reverses have held-out edges, and v2 has embeddings.
fn typed_communities() -> Dataset {
    let mut graph = fake_hetero(&FakeOptions { avg_degree: 6.0, ..options(8) }).expect("a fake graph");
    graph.hold_out_edges(&[EdgeTypeId(0), EdgeTypeId(4)], &HOLD_OUT).expect("held-out edges");
    graph.add_reverse_edges();
    graph
}

/// Trains a model and evaluates it again. Returns both results of every rank.
fn train(dir: &Path, ranks: usize, config: &LinkTrainingConfig) -> Vec<Result<(LinkResult, LinkResult), TrainError>> {
    on_ranks(dir, ranks, &DistGraphConfig::default(), |graph, world| {
        let device = Default::default();
        let mut log = Log::default();
        let trained = train_model::<LinkPrediction, Autodiff<Cpu>>(&graph, config, world, &device, &mut log)?;
        log.check(config, &trained.result);
        let tables = trained.embeddings.tables()?;
        world.barrier()?;
        let saved = TrainedModel::new(&trained.model, &trained.settings, &tables);
        let again = evaluate_model::<LinkPrediction, Cpu>(&graph, config, saved, world, &device)?;
        Ok((trained.result, again))
    })
}

/// Returns the result of training on two ranks, which must have the same result.
fn learned(graph: &Dataset, config: &LinkTrainingConfig) -> LinkResult {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let parts = dir.path().join("parts");
    write_parts(graph, 2, Method::Metis { recursive: false }, &parts);
    let results: Vec<_> = train(&parts, 2, config).into_iter().map(|result| result.expect("a run")).collect();
    assert!(results.iter().all(|result| *result == results[0]), "the same on every rank: {results:?}");
    let (result, again) = results.into_iter().next().expect("a rank");
    let expected = LinkResult { best_epoch: 0, ..result.clone() };
    assert_eq!(again, expected, "the model that came back is the one that was tested");
    if config.edge_types.is_empty() {
        let lists =
            graph.edge_types.iter().map(|edges| (edges.held_out.valid.src.len(), edges.held_out.test.src.len()));
        let held_out = lists.fold((0, 0), |sums, list| (sums.0 + list.0 as u64, sums.1 + list.1 as u64));
        assert_eq!((result.valid.edges, result.test.edges), held_out, "each edge counts once");
    }
    result
}

fn assert_learned(result: &LinkResult, mrr: f64, roc_auc: Option<f64>) {
    assert!(result.test.mrr > Some(mrr), "{result:?}");
    assert!(result.test.roc_auc.is_some() == roc_auc.is_some(), "{result:?}");
    assert!(result.test.roc_auc >= roc_auc, "{result:?}");
}

#[test]
fn sage_and_dot_products_learn_communities() {
    let base = config(SAGE, "8,4".parse().expect("fan-outs"));
    let mut training = TrainingConfig { dropout: 0.1, ..base.training.clone() };
    training.fit.num_epochs = 8;
    // An evaluation takes longer than an epoch.
    training.fit.eval_every = 4;
    let config = LinkTrainingConfig {
        training,
        num_negatives: 2,
        negatives: NegativeDistribution::Degree,
        exclude_positives: true,
        metric: LinkMetric::RocAuc.into(),
        ..base
    };
    // Over seeds, the ROC AUC of such a short training varies by several hundredths around 0.75; chance is 0.5.
    assert_learned(&learned(&communities(16), &config), 1.6 * CHANCE_MRR, Some(0.7));
}

#[test]
fn rgcn_and_distmult_learn_typed_edges() {
    let rgcn = ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::Basis { num_bases: 3 } });
    let base = config(rgcn, "5".parse().expect("fan-outs"));
    let mut training = base.training.clone();
    training.fit.num_epochs = 8;
    training.fit.eval_every = 4;
    let decoder = DecoderKind::DistMult(DistMult {});
    let metric = LinkMetric::RocAuc.into();
    let config = LinkTrainingConfig { training, decoder, loss: LinkLoss::Softmax(Softmax {}), metric, ..base };
    let config = LinkTrainingConfig { num_negatives: 4, n3_weight: 1e-4, ..config };
    assert_learned(&learned(&typed_communities(), &config), 1.6 * CHANCE_MRR, Some(0.75));
}

#[test]
fn embeddings_alone_learn_communities() {
    let base = config(SAGE, no_layers());
    let mut training = TrainingConfig { batch_size: 128, embedding_lr: Some(0.05), ..base.training.clone() };
    training.fit.num_epochs = 16;
    training.fit.eval_every = 4;
    let base = LinkTrainingConfig { training, num_negatives: 64, shared_negatives: true, ..base };
    for (loss, num_negatives, in_batch_negatives) in
        [(LinkLoss::Softmax(Softmax {}), 64, true), (LinkLoss::Bce(Bce {}), 2, false)]
    {
        let metric = LinkMetric::RocAuc.into();
        let config =
            LinkTrainingConfig { loss, num_negatives, in_batch_negatives, metric, n3_weight: 1e-3, ..base.clone() };
        assert_learned(&learned(&communities(0), &config), 1.6 * CHANCE_MRR, Some(0.75));
    }
    // A random ranking of all nodes has an MRR of 0.014. The ROC AUC is computed only if it is the metric.
    let config = LinkTrainingConfig {
        eval_negatives: LinkEvaluation::Filtered,
        metric: LinkMetric::HitsAt(10).into(),
        loss: LinkLoss::Softmax(Softmax {}),
        ..base
    };
    assert_learned(&learned(&communities(0), &config), 0.04, None);
}

#[test]
fn only_the_edge_types_that_are_named_are_judged() {
    let rgcn = ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::None });
    let base = config(rgcn, "3".parse().expect("fan-outs"));
    let mut training = base.training.clone();
    training.fit.num_epochs = 1;
    let edge_types = vec!["e0".to_owned(), "v0__e5__v2".to_owned()];
    let reverse_types = vec![("e0".to_owned(), "e1".to_owned())];
    let config = LinkTrainingConfig { training, edge_types, reverse_types, allows_overlap: true, ..base };
    let graph = typed_communities();
    let result = learned(&graph, &config);
    let held_out = &graph.edge_types[0].held_out;
    assert_eq!(result.valid.edges, held_out.valid.src.len() as u64);
    assert_eq!(result.test.edges, held_out.test.src.len() as u64);
}

#[test]
fn a_type_is_left_to_predict_without_held_out_edges() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut graph = fake_hetero(&options(4)).expect("a fake graph");
    graph.add_reverse_edges();
    write_parts(&graph, 1, Method::Random, dir.path());
    let mut meta = Meta::read(dir.path()).expect("META.json");
    meta.edge_types.retain(|edges| ["e0", "rev_e0"].contains(&edges.relation.as_str()));
    let base = LinkTrainingConfig { without_validation: true, ..config(SAGE, no_layers()) };
    let x = EdgeTypeId(meta.edge_types.iter().position(|edges| edges.relation == "e0").expect("the type") as u16);
    for pairs in [&[][..], &[("e0", "rev_e0")], &[("rev_e0", "e0")], &[("e0", "rev_e0"), ("rev_e0", "e0")]] {
        let named: Vec<(String, String)> = pairs.iter().map(|pair| (pair.0.to_owned(), pair.1.to_owned())).collect();
        let given = LinkTrainingConfig { reverse_types: named.clone(), ..base.clone() };
        assert_eq!(target_edge_types(&meta, &given).expect("one type"), [x], "{pairs:?}");
        let mut declaring = meta.clone();
        declaring.provenance.reverse_types = named;
        assert_eq!(target_edge_types(&declaring, &base).expect("one type"), [x], "{pairs:?}");
    }
    // Without names that tell the direction, the first pair does.
    for edges in &mut meta.edge_types {
        edges.relation = edges.relation.replace("rev_e0", "back");
    }
    let back = EdgeTypeId(1 - x.0);
    for (pairs, predicted) in [([("e0", "back"), ("back", "e0")], x), ([("back", "e0"), ("e0", "back")], back)] {
        let reverse_types = pairs.map(|pair| (pair.0.to_owned(), pair.1.to_owned())).to_vec();
        let given = LinkTrainingConfig { reverse_types, ..base.clone() };
        assert_eq!(target_edge_types(&meta, &given).expect("one type"), [predicted]);
    }
}

#[test]
fn what_cannot_be_trained_is_said() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write_parts(&typed_communities(), 1, Method::Random, &dir.path().join("typed"));
    write_parts(&fake(&options(4)).expect("a fake graph"), 1, Method::Random, &dir.path().join("whole"));
    write_parts(&communities(0), 1, Method::Random, &dir.path().join("embedded"));
    let base = config(SAGE, "3".parse().expect("fan-outs"));
    // These models exceed the memory of any machine.
    let vast = |config: LinkTrainingConfig, hidden_channels| {
        let training = TrainingConfig { hidden_channels, ..config.training.clone() };
        LinkTrainingConfig { training, ..config }
    };
    let error = |folder: &str, config: LinkTrainingConfig| match train(&dir.path().join(folder), 1, &config).remove(0) {
        Err(error) => with_causes(&error),
        Ok(_) => panic!("it trained"),
    };
    let named = |name: &str| LinkTrainingConfig { edge_types: vec![name.into()], ..base.clone() };
    let reversed = LinkTrainingConfig { reverse_types: vec![("e0".into(), "e9".into())], ..base.clone() };
    let auc = LinkTrainingConfig {
        eval_negatives: LinkEvaluation::Filtered,
        metric: LinkMetric::RocAuc.into(),
        ..base.clone()
    };
    let shared = LinkTrainingConfig { shared_negatives: true, exclude_positives: true, ..base.clone() };
    let gcn = config(ConvKind::Gcn(GcnSettings), "3".parse().expect("fan-outs"));
    for (folder, config, why) in [
        ("whole", base.clone(), "no edges are held out for validation: partition it with `hold_out_edges`"),
        ("typed", named("e9"), "there is no edge type e9: the graph has v0__e0__v1, "),
        ("typed", named("e2"), "no edges are held out for validation"),
        ("typed", reversed, "there is no edge type e9"),
        ("typed", auc, "roc-auc needs sampled or given negatives"),
        ("typed", shared, "draw them per edge"),
        ("typed", gcn, "a GCN takes homogeneous graphs"),
        ("typed", vast(base.clone(), 1_000_003), "parameters, which take "),
        ("embedded", vast(config(SAGE, no_layers()), 1_000_000_000), "the embeddings of nodes have "),
    ] {
        assert_has(error(folder, config), &[why]);
    }
}
