//! Tests that held-out edges and later edges do not help a model.

use super::{Cpu, Log, config, no_layers};
use crate::support::{Numbers, on_ranks, write_parts};
use burn::backend::Autodiff;
use edgecut_dist_sampler::{DistGraphConfig, Temporal, TemporalStrategy, TimeAttr};
use edgecut_gnn::nn::Aggregation;
use edgecut_graph::readers::{DatasetSource, export_npy, load};
use edgecut_graph::{Dataset, EdgeData, EdgeList, Features, NodeData, NodeTypeId, OverlapPolicy};
use edgecut_partition::Method;
use edgecut_trainer::link::{LinkLoss, LinkPrediction, LinkTrainingConfig, Softmax};
use edgecut_trainer::models::{ConvKind, SageSettings};
use edgecut_trainer::{TrainingConfig, train_model};

const SAGE: ConvKind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
/// The mean reciprocal rank of a random model with twenty negatives.
const CHANCE_MRR: f64 = 0.174;

fn nodes(num_nodes: usize, features: Option<Features>) -> NodeData {
    NodeData { name: "node".into(), num_nodes, features, ..NodeData::default() }
}

/// Trains on two ranks and returns the mean reciprocal rank of the test edges.
fn test_mrr(graph: &Dataset, config: &LinkTrainingConfig) -> f64 {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let parts = dir.path().join("2");
    write_parts(graph, 2, Method::Random, &parts);
    let results = on_ranks(&parts, 2, &DistGraphConfig::default(), |graph, world| {
        let mut log = Log::default();
        let trained =
            train_model::<LinkPrediction, Autodiff<Cpu>>(&graph, config, world, &Default::default(), &mut log)
                .expect("a run");
        world.barrier().expect("all ranks are done");
        trained.result
    });
    results[0].test.mrr.expect("test edges")
}

#[test]
fn edges_of_a_random_graph_cannot_be_predicted_unless_they_are_trained_on() {
    let mut numbers = Numbers(11);
    let mut random = |count: usize| -> Vec<u32> { (0..count).map(|_| numbers.below(200) as u32).collect() };
    let (valid_src, valid_dst, test_src, test_dst) = (random(150), random(150), random(150), random(150));
    let src = [random(600), valid_src.clone(), test_src.clone()].concat();
    let dst = [random(600), valid_dst.clone(), test_dst.clone()].concat();
    let mut graph = Dataset::homogeneous("random", nodes(200, None), src.into(), dst.into());
    graph.edge_types[0].held_out.valid = EdgeList::new(valid_src.into(), valid_dst.into());
    graph.edge_types[0].held_out.test = EdgeList::new(test_src.into(), test_dst.into());
    let dir = tempfile::tempdir().expect("a temporary folder");
    export_npy(&graph, dir.path()).expect("an export");
    let read = |overlap| load(&DatasetSource { overlap, ..DatasetSource::of_folder(dir.path()) });
    let error = read(OverlapPolicy::Error).expect_err("overlaps").to_string();
    assert!(error.contains("150 of 150 test edges are training edges"), "{error}");
    let base = config(SAGE, no_layers());
    let mut training =
        TrainingConfig { hidden_channels: 64, batch_size: 128, embedding_lr: Some(0.05), ..base.training.clone() };
    training.fit.num_epochs = 20;
    training.fit.eval_every = 10;
    let loss = LinkLoss::Softmax(Softmax {});
    let config = LinkTrainingConfig { training, num_negatives: 32, shared_negatives: true, loss, ..base };
    let seen = test_mrr(&read(OverlapPolicy::Allow).expect("a graph"), &config);
    let clean = test_mrr(&read(OverlapPolicy::Remove).expect("a graph"), &config);
    assert!(seen > 0.5, "a model that has seen the edges knows them: {seen}");
    assert!(clean < 1.5 * CHANCE_MRR, "a model that has not seen the edges does not: {clean}");
}

const CHANNELS: usize = 16;
const TRAINED: u32 = 150;
const JUDGED: u32 = 1000;

/// Generates groups of three nodes. The third node mentions the other two at one time, and an edge from the first to
/// the second node appears at another time. In the training groups the mentions come first, at time 5, and the edges at
/// time 10. In all other groups the mentions have time 100, and the held-out edges have time `time`.
fn mentions(time: i64) -> Dataset {
    let num_nodes = 3 * (TRAINED + JUDGED);
    let mut numbers = Numbers(5);
    let mut value = || (0..12).map(|_| numbers.below(1000) as f32 / 1000.0).sum::<f32>() - 6.0;
    let values: Vec<f32> = (0..num_nodes as usize * CHANNELS).map(|_| value()).collect();
    let features = Features::F32 { values: values.into(), dim: CHANNELS };
    let groups = |groups: std::ops::Range<u32>, ends: [u32; 2], time: i64| {
        let of = |end: u32| groups.clone().map(|group| 3 * group + end).collect::<Vec<u32>>();
        let times = vec![time; groups.len()];
        EdgeList { times: Some(times.into()), ..EdgeList::new(of(ends[0]).into(), of(ends[1]).into()) }
    };
    let all = TRAINED + JUDGED;
    let middle = TRAINED + JUDGED / 2;
    let joined = |lists: [EdgeList; 4]| {
        let src = lists.iter().flat_map(|list| list.src.to_vec()).collect::<Vec<_>>();
        let dst = lists.iter().flat_map(|list| list.dst.to_vec()).collect::<Vec<_>>();
        let times = lists.iter().filter_map(|list| list.times.as_deref()).collect::<Vec<_>>().concat();
        EdgeList { times: Some(times.into()), ..EdgeList::new(src.into(), dst.into()) }
    };
    let mentioned = joined([
        groups(0..TRAINED, [2, 0], 5),
        groups(0..TRAINED, [2, 1], 5),
        groups(TRAINED..all, [2, 0], 100),
        groups(TRAINED..all, [2, 1], 100),
    ]);
    let typed = |relation: &str, edges: EdgeList| {
        let mut typed = EdgeData::new(NodeTypeId(0), relation, NodeTypeId(0), edges.src, edges.dst);
        typed.attributes.times = edges.times;
        typed
    };
    let mut knows = typed("knows", groups(0..TRAINED, [0, 1], 10));
    knows.held_out.valid = groups(TRAINED..middle, [0, 1], time);
    knows.held_out.test = groups(middle..all, [0, 1], time);
    let node_types = vec![nodes(num_nodes as usize, Some(features))];
    Dataset { name: "mentions".into(), node_types, edge_types: vec![typed("mentions", mentioned), knows] }
}

#[test]
fn what_comes_after_a_held_out_edge_does_not_help_to_predict_it() {
    let temporal = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
    let base = config(SAGE, "mentions=4;knows=0".parse().expect("fan-outs"));
    let sampler = base.training.sampler.clone().with_times(Some(temporal));
    let mut training = TrainingConfig { sampler, batch_size: 32, ..base.training.clone() };
    training.fit.num_epochs = 30;
    training.fit.eval_every = 10;
    let config = LinkTrainingConfig { training, num_negatives: 4, loss: LinkLoss::Softmax(Softmax {}), ..base };
    let after = test_mrr(&mentions(1000), &config);
    let before = test_mrr(&mentions(50), &config);
    assert!(after > 2.0 * CHANCE_MRR, "mentions that came before tell: {after}");
    assert!(before < 1.5 * CHANCE_MRR, "mentions that come later do not: {before}");
}
