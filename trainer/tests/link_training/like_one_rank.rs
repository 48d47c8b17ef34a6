//! Tests that several ranks, which divide the edges of a step, train the same model as one rank with all edges.

use super::{Cpu, Log, config, no_layers};
use crate::support::{Numbers, on_ranks, write_parts};
use burn::backend::Autodiff;
use edgecut_dist_loader::NegativePairs;
use edgecut_dist_sampler::{DistGraphConfig, NumNeighbors};
use edgecut_graph::{Dataset, EdgeData, EdgeList, Features, HeldOutEdges, NodeData, NodeTypeId};
use edgecut_partition::Method;
use edgecut_trainer::gradients::flatten_parameters;

use edgecut_gnn::nn::{Aggregation, Decomposition};
use edgecut_trainer::link::{LinkEvaluation, LinkPrediction, LinkScores, LinkTrainingConfig};
use edgecut_trainer::models::{ConvKind, RgcnSettings, SageSettings};
use edgecut_trainer::{EpochReport, TrainingConfig, train_model};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PEOPLE: usize = 30;
const THINGS: usize = 14;
/// The number of things that each person likes, without held-out edges. All other things are negatives.
const LIKED: usize = 8;

/// Generates a graph of people who like things. Everyone likes the same number of things, and the number of negatives
/// equals the number of other things, so the negatives of an edge are the same in every batch. The message-passing
/// edges have another type than the predicted edges, so no batch excludes any of them.
fn graph() -> Dataset {
    let mut numbers = Numbers(5);
    let (mut likes, mut held_out) = (EdgeList::default(), HeldOutEdges::default());
    let (mut src, mut dst) = (Vec::new(), Vec::new());
    let mut of_split = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for person in 0..PEOPLE as u32 {
        let mut things: Vec<u32> = (0..THINGS as u32).collect();
        for last in (1..THINGS).rev() {
            things.swap(last, numbers.below(last as u64 + 1) as usize);
        }
        src.extend([person; LIKED]);
        dst.extend(&things[..LIKED]);
        for ((src, dst), thing) in of_split.iter_mut().zip(&things[LIKED..]) {
            src.push(person);
            dst.push(*thing);
        }
    }
    (likes.src, likes.dst) = (src.into(), dst.into());
    let list = |(src, dst): (Vec<u32>, Vec<u32>)| EdgeList::new(src.into(), dst.into());
    let [valid, test] = of_split;
    (held_out.valid, held_out.test) = (list(valid), list(test));
    let mut between = |name: &str, node_type: u16, num_nodes: usize| {
        let mut ends = || (0..num_nodes * 3).map(|_| numbers.below(num_nodes as u64) as u32).collect::<Vec<_>>();
        let (src, dst) = (ends(), ends());
        EdgeData::new(NodeTypeId(node_type), name, NodeTypeId(node_type), src.into(), dst.into())
    };
    let (knows, near) = (between("knows", 0, PEOPLE), between("near", 1, THINGS));
    let nodes = |name: &str, num_nodes: usize, features: Option<Features>| NodeData {
        name: name.into(),
        num_nodes,
        features,
        ..NodeData::default()
    };
    let values: Vec<f32> = (0..PEOPLE * 4).map(|i| (i as f32 * 0.37).sin()).collect();
    let features = Features::F32 { values: values.into(), dim: 4 };
    let mut likes = EdgeData { held_out, ..EdgeData::new(NodeTypeId(0), "likes", NodeTypeId(1), likes.src, likes.dst) };
    let weights = (0..likes.src.len()).map(|edge| (edge % 5) as f32 / 2.0);
    likes.attributes.weights = Some(weights.collect::<Vec<_>>().into());
    Dataset {
        name: "likes".into(),
        node_types: vec![nodes("person", PEOPLE, Some(features)), nodes("thing", THINGS, None)],
        edge_types: vec![likes, knows, near],
    }
}

/// The result of a run on one rank.
struct Run {
    epochs: Vec<EpochReport<LinkScores>>,
    parameters: Vec<f32>,
    embeddings: Vec<f32>,
}

fn train(dir: &Path, ranks: usize, config: &LinkTrainingConfig) -> Vec<Run> {
    on_ranks(dir, ranks, &DistGraphConfig::default(), |graph, world| {
        let mut log = Log::default();
        let trained =
            train_model::<LinkPrediction, Autodiff<Cpu>>(&graph, config, world, &Default::default(), &mut log)
                .expect("a run");
        let embeddings = trained.embeddings.tables().expect("the embeddings").remove(0).values;
        world.barrier().expect("all ranks have read");
        Run { epochs: log.epochs, parameters: flatten_parameters(&trained.model), embeddings }
    })
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}

/// Fails unless training moved the values `found` as it moved the values `expected`, up to 2 % of the way. Single values
/// may be further off: products of batches of different sizes are rounded differently on some processors, a unit near
/// zero may then be on the other side of its activation, and Adam makes steps of the same size from small gradients.
fn assert_close(found: &[f32], expected: &[f32], start: &[f32], what: &str) {
    let off = distance(found, expected);
    let way = distance(expected, start);
    assert!(way > 0.01, "{what}: training moves the values, not only by {way}");
    assert!(off <= 0.02 * way, "{what}: {off} from the expected values, which are {way} from the start");
}

/// Writes a part of the graph whose weights are multiplied by a factor.
fn parts_of_scaled_weights(dir: &Path, factor: f32) -> PathBuf {
    let mut graph = graph();
    let weights = graph.edge_types[0].attributes.weights.take().expect("weights");
    graph.edge_types[0].attributes.weights =
        Some(weights.iter().map(|weight| weight * factor).collect::<Vec<_>>().into());
    let parts = dir.join(factor.to_string());
    write_parts(&graph, 1, Method::Random, &parts);
    parts
}

/// The unit of the weights of edges is arbitrary. Without positive weights there is nothing to learn.
#[test]
fn weights_of_another_unit_train_the_same_model() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut config = LinkTrainingConfig {
        n3_weight: 0.05,
        weighted_loss: true,
        edge_types: vec!["likes".to_owned()],
        ..config(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), no_layers())
    };
    config.training.fit.num_epochs = 2;
    let run = train(&parts_of_scaled_weights(dir.path(), 0.001), 1, &config).remove(0);
    let expected = losses_of(&train(&parts_of_scaled_weights(dir.path(), 1.0), 1, &config)[0]);
    assert_losses(&run, &expected, "another unit");
    on_ranks(&parts_of_scaled_weights(dir.path(), 0.0), 1, &DistGraphConfig::default(), |graph, world| {
        let trained = train_model::<LinkPrediction, Autodiff<Cpu>>(
            &graph,
            &config,
            world,
            &Default::default(),
            &mut Log::default(),
        );
        let error = trained.map(|_| ()).expect_err("nothing to learn").to_string();
        assert!(error.contains("all training data has the weight 0"), "{error}");
    });
}

#[test]
fn ranks_together_train_like_one() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for parts in [1, 2, 3] {
        write_parts(&graph(), parts, Method::Random, &dir.path().join(parts.to_string()));
    }
    let sage = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    let rgcn = ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::None });
    let one_layer = || -> NumNeighbors { "likes=0;-1".parse().expect("fan-outs") };
    // Parts and ranks. Rows and negatives come from the same places whatever the decoder and the loss do with them.
    let all: &[(u32, usize)] = &[(2, 2), (3, 3), (2, 4)];
    let [few, shared] = [&all[1..2], &all[2..]];
    for (kind, num_neighbors, decoder, loss, n3_weight, layouts) in [
        (sage, no_layers(), "dot", "bce", 0.0, all),
        (sage, no_layers(), "distmult", "softmax", 0.01, shared),
        (sage, one_layer(), "dot", "softmax", 0.01, few),
        (rgcn, one_layer(), "distmult", "bce", 0.0, all),
        (sage, no_layers(), "complex", "self-adversarial:temperature=0.5", 0.01, shared),
        (sage, no_layers(), "rotate:margin=2", "bpr", 0.0, few),
        (sage, no_layers(), "transe:margin=2", "margin", 0.0, shared),
        (sage, no_layers(), "bilinear", "bpr", 0.0, few),
        (sage, one_layer(), "mlp", "self-adversarial", 0.0, shared),
    ] {
        let base = config(kind, num_neighbors);
        // Each epoch has one step, so the steps can be compared by epoch, and the model after the last one.
        let mut training = TrainingConfig { batch_size: 10_000, ..base.training.clone() };
        training.fit.num_epochs = 6;
        training.fit.eval_every = 6;
        let edge_types = vec!["likes".to_owned()];
        let config = LinkTrainingConfig {
            training,
            decoder: decoder.parse().expect("a decoder"),
            loss: loss.parse().expect("a loss"),
            n3_weight,
            hard_negatives: if ["bilinear", "complex"].contains(&decoder) { Some(3) } else { None },
            weighted_loss: loss.starts_with("bpr") || loss == "softmax",
            num_negatives: THINGS - LIKED,
            exclude_positives: true,
            edge_types,
            eval_negatives: LinkEvaluation::Filtered,
            ..base
        };
        let one = train(&dir.path().join("1"), 1, &config).remove(0);
        assert!(one.epochs[5].loss < one.epochs[0].loss, "it learns");
        // A step of almost no size leaves the initial values.
        let mut still = config.clone();
        still.training.fit.num_epochs = 1;
        still.training.fit.lr = 1e-30;
        still.training.embedding_lr = Some(1e-30);
        let start = train(&dir.path().join("1"), 1, &still).remove(0);
        for &(parts, ranks) in layouts {
            let what = format!("{kind:?}, {decoder}, {loss}, {ranks} ranks on {parts} parts");
            let many = train(&dir.path().join(parts.to_string()), ranks, &config);
            for run in &many {
                assert_losses(run, &losses_of(&one), &what);
                for (found, expected) in run.epochs.iter().zip(&one.epochs) {
                    let (share, expected) = (found.train_acc, expected.train_acc);
                    assert!((share.unwrap_or(-1.0) - expected.unwrap_or(-2.0)).abs() < 0.01, "{what}: {share:?}");
                }
                assert_close(&run.parameters, &one.parameters, &start.parameters, &what);
                assert_close(&run.embeddings, &one.embeddings, &start.embeddings, &what);
                assert_eq!(run.parameters, many[0].parameters, "{what}: same bits");
                assert_eq!(run.embeddings, many[0].embeddings, "{what}: same bits");
            }
        }
    }
}

/// Returns the losses of the epochs of a run.
fn losses_of(run: &Run) -> Vec<f64> {
    run.epochs.iter().map(|epoch| epoch.loss.expect("a loss")).collect()
}

fn assert_losses(run: &Run, expected: &[f64], what: &str) {
    for (found, expected) in losses_of(run).into_iter().zip(expected) {
        assert!((found - expected).abs() < 1e-4 * expected, "{what}: {found} instead of {expected}");
    }
}

#[test]
fn listed_negatives_and_ranks_of_the_last_epoch_do_not_depend_on_the_layout() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for parts in [1, 2, 3] {
        write_parts(&graph(), parts, Method::Random, &dir.path().join(parts.to_string()));
    }
    let base = config(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), no_layers());
    let mut training = TrainingConfig { batch_size: 10_000, ..base.training.clone() };
    training.fit.num_epochs = 4;
    training.fit.eval_every = 4;
    let edge_types = vec!["likes".to_owned()];
    let plain = LinkTrainingConfig { training, num_negatives: 3, exclude_positives: true, edge_types, ..base };
    let listed = (0..PEOPLE as u32).map(|person| (person, (person * 5 + 3) % THINGS as u32)).collect();
    let given = LinkTrainingConfig {
        negative_pairs: Some(Arc::new(NegativePairs::new(listed))),
        ranked_negatives: Some("2-4".parse().expect("ranks")),
        max_given_negatives: Some(2),
        ..plain.clone()
    };
    let first = dir.path().join("1");
    let drawn = losses_of(&train(&first, 1, &plain)[0]);
    let listed = losses_of(&train(&first, 1, &LinkTrainingConfig { ranked_negatives: None, ..given.clone() })[0]);
    let expected = losses_of(&train(&first, 1, &given)[0]);
    // The first epoch has no ranks.
    assert!(listed[0] != drawn[0] && expected[0] == listed[0] && expected[1] != listed[1], "{expected:?} {listed:?}");
    for (parts, ranks) in [(2, 3), (3, 2), (3, 3)] {
        for run in train(&dir.path().join(parts.to_string()), ranks, &given) {
            assert_losses(&run, &expected, &format!("{ranks} ranks on {parts} parts"));
        }
    }
}
