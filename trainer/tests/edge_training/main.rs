//! Tests of models for edges over real sockets: what they learn, what their neighborhoods must not tell them, and the equality
//! of several ranks with one.

use crate::embedding_rates::check_schedule;
use crate::evaluation_steps::Calls;
use crate::scoring::scoring;
use crate::support::{Numbers, on_ranks, parts_of, write_parts};
use burn::backend::Autodiff;
use burn_ndarray::NdArray;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, Fanout, SamplerConfig, Temporal, TemporalStrategy, TimeAttr};
use edgecut_gnn::nn::{Aggregation, EdgeDecoderKind, GinSettings, GineSettings};
use edgecut_graph::{
    Dataset, EdgeData, EdgeLabelValues, EdgeLabels, Features, NO_SPLIT, NodeData, NodeTypeId, Split, TargetKind,
    Targets,
};
use edgecut_partition::Method;
use edgecut_testing::assert_has;
use edgecut_trainer::edge::{
    EdgeOutputs, EdgePrediction, EdgePredictionConfig, EdgeTrainingConfig, edge_model_config, predict_edges,
    unknown_reverse_pair,
};
use edgecut_trainer::gradients::flatten_parameters;
use edgecut_trainer::models::{ConvKind, EdgeModel, EdgeModelConfig, SageSettings, TargetEdges};
use edgecut_trainer::{
    EmbeddingTable, FitConfig, FittedOf, SeedResult, TrainError, TrainedModel, TrainingConfig, evaluate_model,
    train_model,
};
use std::path::Path;
use std::sync::Arc;

type Cpu = NdArray<f32>;

const CHANNELS: usize = 8;
const NUM_USERS: usize = 500;
const NUM_SHOPS: usize = 400;
const NUM_EDGES: usize = 3000;

/// Generates payments of users at shops between random ends. Nodes have random features, and payments have a random number
/// as their feature. `label` makes the labels from these numbers. The payments have the weights that `weight` makes.
fn payments(label: impl Fn(&[f32]) -> EdgeLabelValues, weight: impl Fn(&EdgeLabelValues, usize) -> f32) -> Dataset {
    let mut numbers = Numbers(3);
    let mut below = |bound: usize| numbers.below(bound as u64) as usize;
    let mut nodes = |name: &str, num_nodes: usize| {
        let mut value = || (0..6).map(|_| below(1000) as f32 / 500.0 - 1.0).sum::<f32>();
        let values: Vec<f32> = (0..num_nodes * CHANNELS).map(|_| value()).collect();
        let features = Some(Features::F32 { values: values.into(), dim: CHANNELS });
        NodeData { name: name.into(), num_nodes, features, ..NodeData::default() }
    };
    let node_types = vec![nodes("user", NUM_USERS), nodes("shop", NUM_SHOPS)];
    let src: Vec<u32> = (0..NUM_EDGES).map(|_| below(NUM_USERS) as u32).collect();
    let dst: Vec<u32> = (0..NUM_EDGES).map(|_| below(NUM_SHOPS) as u32).collect();
    let amounts: Vec<f32> = (0..NUM_EDGES).map(|_| below(2000) as f32 / 1000.0 - 1.0).collect();
    let mut pays = EdgeData::new(NodeTypeId(0), "pays", NodeTypeId(1), src.into(), dst.into());
    let values = label(&amounts);
    pays.attributes.weights = Some((0..NUM_EDGES).map(|edge| weight(&values, edge)).collect::<Vec<_>>().into());
    pays.attributes.features = Some(Features::F32 { values: amounts.into(), dim: 1 });
    let split = |edge: usize| [Split::Train, Split::Train, Split::Train, Split::Valid, Split::Test][edge % 5].code();
    pays.attributes.labels = Some(EdgeLabels { values, splits: (0..NUM_EDGES).map(split).collect::<Vec<_>>().into() });
    let mut dataset = Dataset { name: "payments".into(), node_types, edge_types: vec![pays] };
    dataset.validate().expect("a valid graph");
    dataset.add_reverse_edges();
    dataset
}

/// Returns random classes that do not depend on the amounts.
fn random_classes(amounts: &[f32]) -> EdgeLabelValues {
    let mut numbers = Numbers(77);
    let of_edges: Vec<i64> = amounts.iter().map(|_| numbers.below(2) as i64).collect();
    EdgeLabelValues::Classes { of_edges: of_edges.into(), num_classes: 2 }
}

/// Returns whether amounts are positive.
fn signs_of_amounts(amounts: &[f32]) -> EdgeLabelValues {
    let of_edges: Vec<i64> = amounts.iter().map(|&amount| i64::from(amount > 0.0)).collect();
    EdgeLabelValues::Classes { of_edges: of_edges.into(), num_classes: 2 }
}

/// Returns three classes of amounts.
fn classes_of_amounts(amounts: &[f32]) -> EdgeLabelValues {
    let class = |&amount: &f32| i64::from(amount > -0.3) + i64::from(amount > 0.4);
    EdgeLabelValues::Classes { of_edges: amounts.iter().map(class).collect::<Vec<_>>().into(), num_classes: 3 }
}

/// Returns two numbers that follow from the amounts.
fn numbers_of_amounts(amounts: &[f32]) -> EdgeLabelValues {
    let values: Vec<f32> = amounts.iter().flat_map(|&amount| [2.0 * amount - 1.0, amount.abs()]).collect();
    EdgeLabelValues::Targets(Targets { values: values.into(), dim: 2, kind: TargetKind::Regression })
}

fn config(num_epochs: u64) -> EdgeTrainingConfig {
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    let training = TrainingConfig {
        hidden_channels: 32,
        batch_size: 128,
        fit: FitConfig { num_epochs, lr: 0.01, seed: 1, eval_every: (num_epochs / 4).max(1), ..FitConfig::default() },
        concurrency: 2,
        ..TrainingConfig::new(kind, SamplerConfig::new(vec![Fanout::All]))
    };
    EdgeTrainingConfig { training, ..EdgeTrainingConfig::default() }
}

/// Makes the settings of a model that does not read the features of edges.
fn blind(num_epochs: u64) -> EdgeTrainingConfig {
    let config = config(num_epochs);
    EdgeTrainingConfig { training: TrainingConfig { no_edge_features: true, ..config.training.clone() }, ..config }
}

/// Trains on as many ranks as there are parts, and returns what each of them has.
fn train(dir: &Path, num_ranks: usize, config: &EdgeTrainingConfig) -> Vec<(FittedOf<EdgePrediction, Cpu>, Vec<f64>)> {
    on_ranks(dir, num_ranks, &DistGraphConfig::default(), |graph, world| {
        let mut calls = Calls::default();
        let trained =
            train_model::<EdgePrediction, Autodiff<Cpu>>(&graph, config, world, &Default::default(), &mut calls);
        let trained = trained.expect("a run");
        world.barrier().expect("all ranks are done");
        (trained, calls.epochs.iter().filter_map(|epoch| epoch.loss).collect())
    })
}

type Fitted = FittedOf<EdgePrediction, Cpu>;

/// Trains the model of a rank.
fn trained(graph: &Arc<DistGraph>, config: &EdgeTrainingConfig, world: &mut ProcessGroup) -> Fitted {
    let fitted = train_model::<EdgePrediction, Autodiff<Cpu>>(graph, config, world, &Default::default(), &mut ());
    fitted.expect("a run")
}

/// The ends of edges and their outputs.
type Rows = Vec<(u32, u32, Vec<f32>)>;

/// Returns the outputs of the edges that a rank predicts.
fn outputs(
    graph: &Arc<DistGraph>,
    world: &mut ProcessGroup,
    model: (&EdgeModel<Cpu>, &EdgeModelConfig),
    request: &EdgePredictionConfig,
) -> Rows {
    let mut rows = Rows::new();
    let mut visit = |EdgeOutputs { src, dst, outputs, .. }: EdgeOutputs| -> Result<(), TrainError> {
        let width = (outputs.len() / src.len().max(1)).max(1);
        let ends = src.into_iter().zip(dst).zip(outputs.chunks(width));
        rows.extend(ends.map(|((src, dst), row)| (src, dst, row.to_vec())));
        Ok(())
    };
    let tables: &[EmbeddingTable] = &[];
    let job = (graph, &mut *world);
    predict_edges(job, model, tables, request, &Default::default(), &mut visit).expect("predictions");
    world.barrier().expect("all ranks are done");
    rows
}

/// Returns the ids of nodes in the dataset.
fn ids(graph: &Arc<DistGraph>, node_type: u16, nodes: impl Iterator<Item = u32>) -> Vec<u32> {
    let wanted = edgecut_dist_sampler::NodeFields { original_ids: true, ..Default::default() };
    let fetched = graph.fetch(NodeTypeId(node_type), nodes.collect(), wanted);
    graph.handle().block_on(fetched).expect("the ids").original_ids
}

/// Partitions a graph and trains on two ranks.
fn result(dataset: &Dataset, config: &EdgeTrainingConfig) -> SeedResult {
    let dir = tempfile::tempdir().expect("a folder");
    let parts = dir.path().join("2");
    write_parts(dataset, 2, Method::Random, &parts);
    let mut trained = train(&parts, 2, config);
    assert_eq!(trained[0].0.result, trained[1].0.result);
    trained.remove(0).0.result
}

/// The other decoders are compared with their formulas (`gnn/src/nn/edge_decoder.rs`).
#[test]
fn the_features_of_an_edge_tell_its_class() {
    let dataset = payments(classes_of_amounts, |_, _| 1.0);
    let accuracy = result(&dataset, &config(12)).test_acc.expect("test edges");
    assert!(accuracy > 0.8, "three classes: {accuracy}");
    let accuracy = result(&dataset, &blind(12)).test_acc.expect("test edges");
    assert!(accuracy < 0.5, "without the features of edges: {accuracy}");
}

/// Parts may declare reverses by a relation that several types have. A model names each type.
#[test]
fn models_name_the_reverse_types_that_parts_declare() {
    let dir = parts_of(&payments(signs_of_amounts, |_, _| 1.0), 1);
    let mut meta = edgecut_graph::Meta::read(dir.path()).expect("META.json");
    meta.edge_types[1].relation = "pays".into();
    meta.provenance.reverse_types = vec![("pays".into(), "pays".into())];
    let full = ("user__pays__shop".to_owned(), "shop__pays__user".to_owned());
    let model = edge_model_config(&meta, &config(1)).expect("a model");
    assert_eq!(model.reverse_types, std::slice::from_ref(&full));
    let given = (full.1, full.0);
    let config = EdgeTrainingConfig { reverse_types: vec![given.clone()], ..config(1) };
    assert_eq!(edge_model_config(&meta, &config).expect("a model").reverse_types, [given]);
}

/// Parts may declare pairs that a user does not give again, and a user may write a pair in either order.
#[test]
fn a_pair_that_a_model_or_the_parts_know_is_no_difference() {
    let dir = parts_of(&payments(signs_of_amounts, |_, _| 1.0), 1);
    let mut meta = edgecut_graph::Meta::read(dir.path()).expect("META.json");
    let model = edge_model_config(&meta, &config(1)).expect("a model");
    let named = [("pays".to_owned(), "rev_pays".to_owned())];
    assert_eq!(unknown_reverse_pair(&meta, &model, &named).expect("known types"), None);
    meta.edge_types[1].relation = "paid_by".into();
    let pair = ("shop__paid_by__user".to_owned(), "pays".to_owned());
    let given = std::slice::from_ref(&pair);
    assert_eq!(unknown_reverse_pair(&meta, &model, given).expect("known types"), Some(&pair));
    let knowing = EdgeModelConfig { reverse_types: vec![("pays".into(), "paid_by".into())], ..model.clone() };
    assert_eq!(unknown_reverse_pair(&meta, &knowing, given).expect("known types"), None);
    meta.provenance.reverse_types = knowing.reverse_types;
    assert_eq!(unknown_reverse_pair(&meta, &model, given).expect("known types"), None);
    let wrong = [("pays".to_owned(), "sells".to_owned())];
    let error = unknown_reverse_pair(&meta, &model, &wrong).expect_err("no such type").to_string();
    assert!(error.contains("there is no edge type sells"), "{error}");
}

#[test]
fn embeddings_of_a_model_for_edges_follow_the_schedule() {
    let dir = parts_of(&payments(signs_of_amounts, |_, _| 1.0), 1);
    check_schedule(|rate, warmup_steps| {
        let mut config = config(1);
        config.training.fit.warmup_steps = warmup_steps;
        config.training.embedding_lr = Some(rate);
        config.training.node_embeddings = vec!["user=4".parse().expect("an embedding")];
        let mut tables = on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
            trained(&graph, &config, world).embeddings.tables().expect("tables")
        });
        tables.remove(0)
    });
}

#[test]
fn numbers_of_edges_are_predicted() {
    let dataset = payments(numbers_of_amounts, |_, _| 1.0);
    let found = result(&dataset, &EdgeTrainingConfig { scoring: scoring("r2"), ..config(30) });
    let fit = found.test_metric.expect("test edges");
    assert!(fit > 0.85, "{fit}");
    assert_eq!(found.test_acc, None);
}

/// A payment with class 0 has the weight 0, so that weighted sampling never draws it: a message over the payment or its
/// reverse tells that the class is 1.
#[test]
fn neither_an_edge_nor_its_reverse_tells_its_class() {
    let weight = |values: &EdgeLabelValues, edge: usize| {
        let classes = values.classes().expect("classes");
        classes[edge] as f32
    };
    let dataset = payments(random_classes, weight);
    let base = EdgeTrainingConfig { decoder: EdgeDecoderKind::Dot, scoring: scoring("roc-auc"), ..blind(40) };
    let auc = |config: &EdgeTrainingConfig| result(&dataset, config).test_metric.expect("test edges of both classes");
    // Neighbors are drawn by the weights, or messages are multiplied by them.
    for edge_weights in [false, true] {
        let training = TrainingConfig {
            sampler: SamplerConfig::new(vec![Fanout::Count(64)]).with_weights(!edge_weights),
            eval_num_neighbors: vec![Fanout::Count(64)].into(),
            edge_weights,
            ..base.training.clone()
        };
        let base = EdgeTrainingConfig { training, ..base.clone() };
        let included = auc(&EdgeTrainingConfig { target_edges: TargetEdges::Include, ..base.clone() });
        assert!(included > 0.75, "the message over the edge tells its class: {included}, {edge_weights}");
        let excluded = auc(&base);
        assert!((0.4..0.6).contains(&excluded), "without it, the class is unknown: {excluded}, {edge_weights}");
    }
}

/// Generates payments of one user each at the time 100, with random classes, and a refund at another time for each payment of
/// class 1.
fn refunds_at(time: i64) -> Dataset {
    const PAYMENTS: usize = 1200;
    const SHOPS: usize = 50;
    let mut numbers = Numbers(13);
    let mut node_types = Vec::new();
    for (name, num_nodes) in [("user", PAYMENTS), ("shop", SHOPS)] {
        // The first feature is a constant, so that a message tells that there is an edge.
        let values: Vec<f32> = (0..num_nodes).flat_map(|_| [1.0, numbers.below(1000) as f32 / 500.0 - 1.0]).collect();
        let features = Some(Features::F32 { values: values.into(), dim: 2 });
        node_types.push(NodeData { name: name.into(), num_nodes, features, ..NodeData::default() });
    }
    let users: Vec<u32> = (0..PAYMENTS as u32).collect();
    let shops: Vec<u32> = users.iter().map(|_| numbers.below(SHOPS as u64) as u32).collect();
    let classes: Vec<i64> = users.iter().map(|_| numbers.below(2) as i64).collect();
    let refunded: Vec<u32> = users.iter().copied().filter(|&user| classes[user as usize] == 1).collect();
    let refunding: Vec<u32> = refunded.iter().map(|_| numbers.below(SHOPS as u64) as u32).collect();
    let splits = [Split::Train, Split::Train, Split::Train, Split::Valid, Split::Test].map(Split::code);
    let mut pays = EdgeData::new(NodeTypeId(0), "pays", NodeTypeId(1), users.into(), shops.into());
    pays.attributes.times = Some(vec![100_i64; PAYMENTS].into());
    pays.attributes.labels = Some(EdgeLabels {
        values: EdgeLabelValues::Classes { of_edges: classes.into(), num_classes: 2 },
        splits: splits.repeat(PAYMENTS / splits.len()).into(),
    });
    let times = vec![time; refunded.len()];
    let mut refunds = EdgeData::new(NodeTypeId(1), "refunds", NodeTypeId(0), refunding.into(), refunded.into());
    refunds.attributes.times = Some(times.into());
    let mut dataset = Dataset { name: "refunds".into(), node_types, edge_types: vec![pays, refunds] };
    dataset.validate().expect("a valid graph");
    dataset.add_reverse_edges();
    dataset
}

/// A later edge of an end tells the class. With times, it is not in the neighborhood of the edge, while earlier edges are.
#[test]
fn what_comes_after_an_edge_does_not_tell_its_class() {
    let base = EdgeTrainingConfig { scoring: scoring("roc-auc"), ..config(24) };
    let temporal = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
    for (time, temporal, is_told) in [(101, None, true), (101, Some(temporal), false), (99, Some(temporal), true)] {
        let sampler = SamplerConfig::new(vec![Fanout::All]).with_times(temporal);
        let config =
            EdgeTrainingConfig { training: TrainingConfig { sampler, ..base.training.clone() }, ..base.clone() };
        let auc = result(&refunds_at(time), &config).test_metric.expect("test edges of both classes");
        let what = format!("{auc} with refunds at {time}, times: {}", temporal.is_some());
        if is_told {
            assert!(auc > 0.9, "{what}");
        } else {
            assert!((0.35..0.65).contains(&auc), "{what}");
        }
    }
}

/// If the edges of a batch carry messages, a step over all edges is the same however ranks divide them.
#[test]
fn ranks_together_train_the_model_of_one() {
    let dataset = payments(classes_of_amounts, |_, _| 1.0);
    let dir = tempfile::tempdir().expect("a folder");
    let whole = config(4);
    let training = TrainingConfig { batch_size: NUM_EDGES, ..whole.training.clone() };
    let whole = EdgeTrainingConfig { training, target_edges: TargetEdges::Include, ..whole };
    let mut all = Vec::new();
    for num_ranks in [1, 2, 3] {
        let parts = dir.path().join(num_ranks.to_string());
        write_parts(&dataset, num_ranks, Method::Random, &parts);
        let mut trained = train(&parts, num_ranks as usize, &whole);
        let (model, losses) = trained.remove(0);
        assert!(trained.iter().all(|(other, _)| other.result == model.result));
        all.push((flatten_parameters(&model.model), losses));
    }
    for (parameters, losses) in &all[1..] {
        for (found, expected) in losses.iter().zip(&all[0].1) {
            assert!((found - expected).abs() < 1e-4, "{losses:?}, expected {:?}", all[0].1);
        }
        for (found, expected) in parameters.iter().zip(&all[0].0) {
            assert!((found - expected).abs() < 1e-3, "{found}, expected {expected}");
        }
    }
}

/// Generates payments with an amount of 1 or -1, which the shop determines, or with an amount of 0. The latter have labels,
/// the class of the shop, which a model can only read from the other payments at the shop.
fn payments_told_by_others() -> Dataset {
    let mut dataset = payments(random_classes, |_, _| 1.0);
    let of_shop = |shop: u32| i64::from(shop % 2);
    let shops = dataset.edge_types[0].dst.to_vec();
    let amount = |edge: usize| if edge.is_multiple_of(2) { of_shop(shops[edge]) as f32 * 2.0 - 1.0 } else { 0.0 };
    for edges in &mut dataset.edge_types {
        let amounts: Vec<f32> = (0..NUM_EDGES).map(amount).collect();
        edges.attributes.features = Some(Features::F32 { values: amounts.into(), dim: 1 });
    }
    let class = |edge: usize| if edge.is_multiple_of(2) { -1 } else { of_shop(shops[edge]) };
    let split = |edge: usize| match (edge % 2, edge / 2 % 4) {
        (0, _) => NO_SPLIT,
        (_, 0) => Split::Test.code(),
        (_, 1) => Split::Valid.code(),
        _ => Split::Train.code(),
    };
    let of_edges: Vec<i64> = (0..NUM_EDGES).map(class).collect();
    dataset.edge_types[0].attributes.labels = Some(EdgeLabels {
        values: EdgeLabelValues::Classes { of_edges: of_edges.into(), num_classes: 2 },
        splits: (0..NUM_EDGES).map(split).collect::<Vec<_>>().into(),
    });
    dataset.validate().expect("a valid graph");
    dataset
}

#[test]
fn predictions_of_all_edges_read_the_other_edges_of_their_ends() {
    let dataset = payments_told_by_others();
    let dir = parts_of(&dataset, 2);
    let mut config = config(8);
    config.training.kind = ConvKind::Gine(GineSettings(GinSettings { mlp_layers: 1, learn_epsilon: false }));
    let found = on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
        let trained = trained(&graph, &config, world);
        let sampler = config.training.sampler.clone();
        let request = EdgePredictionConfig { split: None, sampler, batch_size: 400, seed: 0, prefetch_bytes: 1 << 24 };
        let rows = outputs(&graph, world, (&trained.model, &trained.settings), &request);
        let shops = ids(&graph, 1, rows.iter().map(|row| row.1));
        let mut num_correct = 0;
        for (shop, (_, _, logits)) in shops.iter().zip(&rows) {
            num_correct += usize::from((logits[1] > logits[0]) == (shop % 2 == 1));
        }
        world.barrier().expect("all ranks have the ids");
        (num_correct, trained.result.test_acc)
    });
    let test_acc = found[0].1.expect("test edges");
    let num_correct: usize = found.iter().map(|(num_correct, _)| num_correct).sum();
    assert!(test_acc > 0.9, "{test_acc}");
    assert!(num_correct as f64 > 0.9 * NUM_EDGES as f64, "{num_correct} of {NUM_EDGES}, {test_acc} of the test edges");
}

/// The other edges of a batch, of which a rank has some, would change the neighborhoods.
#[test]
fn outputs_from_all_neighbors_do_not_depend_on_batches() {
    let dir = parts_of(&payments(classes_of_amounts, |_, _| 1.0), 2);
    let config = config(1);
    let of_ranks = on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
        let trained = trained(&graph, &config, world);
        [(400, 0), (37, 0), (37, 5)].map(|(batch_size, seed)| {
            let sampler = config.training.sampler.clone();
            let request = EdgePredictionConfig { split: None, sampler, batch_size, seed, prefetch_bytes: 1 << 24 };
            outputs(&graph, world, (&trained.model, &trained.settings), &request)
        })
    });
    let mut runs: [Rows; 3] = Default::default();
    for of_rank in of_ranks {
        runs.iter_mut().zip(of_rank).for_each(|(run, rows)| run.extend(rows));
    }
    for run in &mut runs {
        run.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    }
    for run in &runs[1..] {
        for ((src, dst, row), (expected_src, expected_dst, expected)) in run.iter().zip(&runs[0]) {
            assert_eq!((src, dst), (expected_src, expected_dst));
            let far = row.iter().zip(expected).any(|(found, expected)| (found - expected).abs() > 1e-4);
            assert!(!far, "{src} to {dst}: {row:?} instead of {expected:?}");
        }
    }
}

/// Each edge has a neighborhood of its own, which is drawn by the edge, with and without messages over this edge.
#[test]
fn outputs_from_sampled_neighbors_do_not_depend_on_batches_parts_and_processes() {
    let dataset = payments(classes_of_amounts, |_, _| 1.0);
    let [one, two] = [1, 2].map(|num_parts| parts_of(&dataset, num_parts));
    for target_edges in [TargetEdges::Exclude, TargetEdges::Include] {
        let sampler = SamplerConfig::new(vec![Fanout::Count(3), Fanout::Count(2)]);
        let training = TrainingConfig { sampler: sampler.clone(), ..config(1).training };
        let config = EdgeTrainingConfig { training, target_edges, ..EdgeTrainingConfig::default() };
        let mut runs: Vec<Rows> = Vec::new();
        for (dir, num_ranks, batch_size) in [(&one, 1, 400), (&two, 2, 400), (&two, 3, 37)] {
            let of_ranks = on_ranks(dir.path(), num_ranks, &DistGraphConfig::default(), |graph, world| {
                let settings = edge_model_config(graph.part().meta(), &config).expect("a model");
                let model = settings.init::<Cpu>(5, &Default::default()).expect("a model");
                let sampler = sampler.clone();
                let request =
                    EdgePredictionConfig { split: None, sampler, batch_size, seed: 7, prefetch_bytes: 1 << 24 };
                let mut rows = outputs(&graph, world, (&model, &settings), &request);
                let src = ids(&graph, 0, rows.iter().map(|row| row.0));
                let dst = ids(&graph, 1, rows.iter().map(|row| row.1));
                for (row, ends) in rows.iter_mut().zip(src.into_iter().zip(dst)) {
                    (row.0, row.1) = ends;
                }
                world.barrier().expect("all ranks have the ids");
                rows
            });
            let mut rows: Rows = of_ranks.concat();
            rows.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
            assert_eq!(rows.len(), NUM_EDGES);
            runs.push(rows);
        }
        for run in &runs[1..] {
            for ((src, dst, row), (expected_src, expected_dst, expected)) in run.iter().zip(&runs[0]) {
                assert_eq!((src, dst), (expected_src, expected_dst));
                let far = row.iter().zip(expected).any(|(found, expected)| (found - expected).abs() > 1e-5);
                assert!(!far, "{target_edges:?}, {src} to {dst}: {row:?} instead of {expected:?}");
            }
        }
    }
}

#[test]
fn predictions_are_those_of_the_evaluation() {
    let dataset = payments(classes_of_amounts, |_, _| 1.0);
    let dir = parts_of(&dataset, 2);
    let config = config(6);
    let found = on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
        let trained = trained(&graph, &config, world);
        let tables: &[EmbeddingTable] = &[];
        let saved = TrainedModel::new(&trained.model, &trained.settings, tables);
        let evaluated = evaluate_model::<EdgePrediction, Cpu>(&graph, &config, saved, world, &Default::default());
        let evaluated = evaluated.expect("scores");
        assert_eq!((evaluated.valid_acc, evaluated.test_acc), (trained.result.valid_acc, trained.result.test_acc));
        let sampler = config.training.sampler.clone();
        let split = Some(Split::Test);
        let request = EdgePredictionConfig { split, sampler, batch_size: 100, seed: 0, prefetch_bytes: 1 << 24 };
        let mut rows = outputs(&graph, world, (&trained.model, &trained.settings), &request);
        let src = ids(&graph, 0, rows.iter().map(|row| row.0));
        let dst = ids(&graph, 1, rows.iter().map(|row| row.1));
        for (row, ends) in rows.iter_mut().zip(src.into_iter().zip(dst)) {
            (row.0, row.1) = ends;
        }
        world.barrier().expect("all ranks have the ids");
        (rows, trained.result.test_acc)
    });
    let test_acc = found[0].1.expect("test edges");
    let rows: Rows = found.into_iter().flat_map(|(rows, _)| rows).collect();
    let pays = &dataset.edge_types[0];
    let labels = pays.attributes.labels.as_ref().expect("labels");
    let classes = labels.values.classes().expect("classes");
    let test: Vec<usize> = (0..NUM_EDGES).filter(|&edge| labels.splits[edge] == Split::Test.code()).collect();
    assert_eq!(rows.len(), test.len());
    // Several payments can join the same ends. The outputs then name the payments in any order.
    let mut expected: Vec<(u32, u32)> = test.iter().map(|&edge| (pays.src[edge], pays.dst[edge])).collect();
    let mut ends: Vec<(u32, u32)> = rows.iter().map(|(src, dst, _)| (*src, *dst)).collect();
    expected.sort_unstable();
    ends.sort_unstable();
    assert_eq!(ends, expected);
    let best = |row: &[f32]| (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("three outputs") as i64;
    let is_alone =
        |edge: &&usize| expected.iter().filter(|ends| **ends == (pays.src[**edge], pays.dst[**edge])).count() == 1;
    let alone: Vec<usize> = test.iter().filter(is_alone).copied().collect();
    let correct = alone.iter().filter(|&&edge| {
        let ends = (pays.src[edge], pays.dst[edge]);
        let row = rows.iter().find(|(src, dst, _)| (*src, *dst) == ends).expect("a row");
        best(&row.2) == classes[edge]
    });
    let share = correct.count() as f64 / alone.len() as f64;
    // The batches of the evaluation leave out other edges, so few outputs differ.
    assert!((share - test_acc).abs() < 0.03, "{share}, expected {test_acc}");
}

#[test]
fn graphs_and_settings_that_do_not_fit_are_named() {
    let dataset = payments(classes_of_amounts, |_, _| 1.0);
    let mut unlabeled = dataset.clone();
    unlabeled.edge_types[0].attributes.labels = None;
    let mut untrained = dataset.clone();
    if let Some(labels) = &mut untrained.edge_types[0].attributes.labels {
        labels.splits = vec![Split::Test.code(); NUM_EDGES].into();
    }
    let named = |name: &str| EdgeTrainingConfig { edge_type: Some(name.into()), ..config(1) };
    let of_numbers = EdgeTrainingConfig { scoring: scoring("rmse"), ..config(1) };
    for (dataset, config, why) in [
        (&unlabeled, config(1), "no edge type has labels, which train edge needs"),
        (&untrained, config(1), "no training edges of type user__pays__shop: list them in edge_train_idx.npy, or give"),
        (&dataset, named("rev_pays"), "edge type rev_pays has no labels: choose one of user__pays__shop (`edge_type`)"),
        (&dataset, named("likes"), "there is no edge type likes"),
        (&dataset, of_numbers, "rmse"),
    ] {
        let dir = parts_of(dataset, 1);
        on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
            let device = Default::default();
            let found = train_model::<EdgePrediction, Autodiff<Cpu>>(&graph, &config, world, &device, &mut ());
            assert_has(found.err().expect("it is refused").to_string(), &[why]);
        });
    }
}
