//! Evaluation of links with the rows of all nodes, from real processes: layer by layer, against given negatives, and
//! with both ends ranked. The expected metrics are computed from written embeddings by the formulas of OGB's evaluators.

use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, export_npy, fake, fake_hetero, read_npy_folder};
use edgecut_graph::{Dataset, EdgeList, EdgeTypeId, GivenNegatives, HoldOut, NodeData, map_npy};
use edgecut_testing::assert_has;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;

const HOLD_OUT: HoldOut = HoldOut::random(0.1, 0.1, 3);

fn graph() -> Dataset {
    let options = FakeOptions { avg_num_nodes: 300, num_channels: 16, num_classes: 5, ..FakeOptions::default() };
    let mut graph = fake(&options).expect("a fake graph");
    graph.hold_out_edges(&graph.edge_type_ids(), &HOLD_OUT).expect("held-out edges");
    graph
}

/// Returns the graph with `count` negative pairs for each split.
fn with_shared_negatives(count: usize) -> Dataset {
    let mut graph = graph();
    give_negatives(&mut graph, count);
    graph
}

/// Gives each split of the first edge type `count` negative pairs.
fn give_negatives(graph: &mut Dataset, count: usize) {
    let held_out = &mut graph.edge_types[0].held_out;
    for (list, seed) in [(&mut held_out.valid, 3), (&mut held_out.test, 5)] {
        let src = ids(count, seed).into();
        let dst = ids(count, seed + 1).into();
        list.negatives = Some(GivenNegatives::Shared { src, dst });
    }
}

/// Returns `count` node ids below 300, different for each `seed`.
fn ids(count: usize, seed: u64) -> Vec<u32> {
    (0..count as u64).map(|at| ((at * 7919 + seed * 104_729) * 31 % 8191 % 300) as u32).collect()
}

fn score(result: &Value, split: &str, name: &str) -> f64 {
    number_of(result, &format!("{split}.{name}"))
}

/// Trains for a few epochs and saves the model.
fn train(dataset: &Path, model: &Path, flags: &[&str]) {
    let shape = ["--num-neighbors", "5,3", "--num-epochs", "3", "--eval-negatives", "20", "--json"];
    json_of(link(dataset, 2, &[&shape[..], flags, &["--save-model", text(model)]].concat()));
}

/// Evaluates a saved model.
fn evaluate(dataset: &Path, processes: u32, model: &Path, flags: &[&str]) -> Value {
    let shape = ["--num-neighbors=5,3", "--json", "--load-model", text(model)];
    json_of(link(dataset, processes, &[&shape[..], flags].concat()))
}

/// Returns the embedding of each node.
fn embeddings(dataset: &Path, model: &Path, out: &Path) -> Vec<Vec<f64>> {
    predicted(dataset, model, out, &["--output", "embedding"]);
    let (shape, values) = map_npy::<f32>(&out.join("predictions.npy")).expect("an array");
    values.chunks_exact(shape[1]).map(|row| row.iter().map(|&value| f64::from(value)).collect()).collect()
}

fn dot(rows: &[Vec<f64>], src: u32, dst: u32) -> f64 {
    rows[src as usize].iter().zip(&rows[dst as usize]).map(|(a, b)| a * b).sum()
}

/// Returns the mean reciprocal rank and the share of ranks up to `depth`, as `_eval_mrr` of OGB.
fn mrr_and_hits(positive: &[f64], negatives: &[Vec<f64>], depth: f64) -> [f64; 2] {
    let rank = |(score, others): (&f64, &Vec<f64>)| {
        let optimistic = others.iter().filter(|&other| other > score).count() as f64;
        let pessimistic = others.iter().filter(|&other| other >= score).count() as f64;
        0.5 * (optimistic + pessimistic) + 1.0
    };
    let ranks: Vec<f64> = positive.iter().zip(negatives).map(rank).collect();
    let mrr = ranks.iter().map(|rank| 1.0 / rank).sum::<f64>() / ranks.len() as f64;
    [mrr, ranks.iter().filter(|&&rank| rank <= depth).count() as f64 / ranks.len() as f64]
}

/// Returns the share of positives above the `depth`-th highest negative, as `_eval_hits` of OGB.
fn shared_hits(positive: &[f64], negatives: &[f64], depth: usize) -> f64 {
    let mut descending = negatives.to_vec();
    descending.sort_by(|a, b| b.total_cmp(a));
    let bound = descending[depth - 1];
    positive.iter().filter(|&&score| score > bound).count() as f64 / positive.len() as f64
}

/// Returns the area under the ROC curve and the average precision by their definitions.
fn auc_and_precision(positive: &[f64], negatives: &[f64]) -> [f64; 2] {
    let mut won = 0.0;
    for score in positive {
        for other in negatives {
            won += f64::from(u8::from(score > other)) + 0.5 * f64::from(u8::from(score == other));
        }
    }
    let auc = won / (positive.len() * negatives.len()) as f64;
    // The precision at the threshold of each positive, weighted by the increase of the recall.
    let precision = |score: &f64| {
        let hits = positive.iter().filter(|&other| other >= score).count() as f64;
        let misses = negatives.iter().filter(|&other| other >= score).count() as f64;
        hits / (hits + misses)
    };
    [auc, positive.iter().map(precision).sum::<f64>() / positive.len() as f64]
}

fn pairs(list: &EdgeList) -> impl Iterator<Item = (u32, u32)> {
    list.src.iter().copied().zip(list.dst.iter().copied())
}

/// Fails unless two metrics are equal up to the swap of a few almost equal scores among `count` edges.
fn assert_near(found: f64, expected: f64, count: usize, what: &str) {
    assert!((found - expected).abs() <= 2.0 / count as f64, "{what}: {found} instead of {expected}");
}

#[test]
fn layer_wise_evaluation_equals_that_with_all_sampled_neighbors() {
    let Scratch { folder: _folder, model, .. } = scratch();
    let plain = graph();
    let options = FakeOptions { avg_num_nodes: 200, num_channels: 6, num_classes: 5, ..FakeOptions::default() };
    let mut typed = fake_hetero(&options).expect("a fake graph");
    typed.hold_out_edges(&[EdgeTypeId(0), EdgeTypeId(4)], &HOLD_OUT).expect("held-out edges");
    for (graph, flags) in [(&plain, &["--decoder", "dot"][..]), (&typed, &["--model", "rgcn", "--decoder", "distmult"])]
    {
        let three = written_by(graph, 3);
        let two = written_by(graph, 2);
        train(&two.path, &model, flags);
        for (negatives, layouts) in [("20", [(&two, 2), (&three, 3)]), ("all", [(&three, 3), (&two, 4)])] {
            let sampled = ["--eval-num-neighbors=-1,-1", "--eval-negatives", negatives];
            let expected = evaluate(&two.path, 2, &model, &[flags, &sampled].concat());
            let layer_wise = ["--eval", "layer-wise", "--eval-negatives", negatives];
            for (parts, processes) in layouts {
                let found = evaluate(&parts.path, processes, &model, &[flags, &layer_wise].concat());
                for split in ["valid", "test"] {
                    assert_same(&found, &expected, &[&format!("{split}.edges")]);
                    let edges = found[split]["edges"].as_u64().expect("edges") as usize;
                    assert_near(score(&found, split, "mrr"), score(&expected, split, "mrr"), edges, negatives);
                }
            }
        }
        // Training chooses the best epoch by it.
        let flags =
            [flags, &["--num-neighbors", "5,3", "--num-epochs", "2", "--eval", "layer-wise", "--json"]].concat();
        assert!(json_of(link(&two.path, 2, &flags))["valid"]["mrr"].as_f64() > Some(0.0));
    }
}

/// An evaluation lists the same destinations as predictions, which are compared with brute force in `predict_links.rs`.
#[test]
fn lists_of_the_best_destinations_are_those_of_predictions() {
    let [two, three] = [2, 3].map(link_parts);
    let Scratch { folder: _folder, model, out } = scratch();
    let metrics = "recall@20,ndcg@20,map@20,hit-rate@20,coverage@20,recall@5";
    let found = trained("link", &two.path, &model, &["--metric", metrics, "--eval", "layer-wise"]);
    assert_eq!(entry(&found, "metric"), "recall@20");
    let top = ["--output", "top-k", "--sources", "all", "--top-k", "20", "--exclude-known", "train"];
    let listed = predicted(&three.path, &model, &out, &top);
    assert_eq!(entry(&found, "test.lists.sources"), entry(&listed, "test.sources"));
    let sources = number_of(&listed, "test.sources") as usize;
    for (name, of_lists) in
        [("recall@20", "recall"), ("ndcg@20", "ndcg"), ("map@20", "map"), ("hit-rate@20", "hit_rate")]
    {
        let expected = number_of(&listed, &format!("test.{of_lists}"));
        assert_near(number_of(&found, &format!("test.lists.metrics.{name}")), expected, sources, name);
        let expected = number_of(&listed, &format!("popularity.{of_lists}"));
        let of_popularity = number_of(&found, &format!("test.lists.popularity.{name}"));
        assert!((of_popularity - expected).abs() < 1e-9, "{name}: {of_popularity} instead of {expected}");
    }
    // Predictions also count the lists of sources without test edges.
    let coverage = number_of(&found, "test.lists.metrics.coverage@20");
    assert!(coverage > 0.0 && coverage <= number_of(&listed, "test.coverage") + 1e-9, "{found} {listed}");
    let short = number_of(&found, "test.lists.metrics.recall@5");
    assert!(short < number_of(&found, "test.lists.metrics.recall@20"), "{found}");
    // The sources that are drawn do not depend on parts and processes.
    let few = ["--metric", "recall@20,mrr", "--eval", "layer-wise", "--eval-negatives", "20", "--eval-sources", "30"];
    let mut results = Vec::new();
    for (parts, processes) in [(&two, 1), (&three, 3), (&two, 4)] {
        results.push(evaluate(&parts.path, processes, &model, &few));
    }
    for result in &results {
        for split in ["valid", "test"] {
            assert_eq!(number_of(result, &format!("{split}.lists.sources")), 30.0);
            let of_graph = ["popularity", "listed_share"].map(|name| format!("{split}.lists.{name}"));
            assert_same(result, &results[0], &[&of_graph[0], &of_graph[1]]);
            // A list holds 20 of the 400 destinations, without a few training edges.
            let share = number_of(result, &format!("{split}.lists.listed_share.20"));
            assert!((0.05..0.06).contains(&share), "{share}");
            let name = format!("{split}.lists.metrics.recall@20");
            assert_near(number_of(result, &name), number_of(&results[0], &name), 30, &name);
        }
    }
    assert_ne!(entry(&results[0], "valid.lists"), entry(&results[0], "test.lists"));
    // Several edge types, and rows from sampled neighbors.
    let typed = typed_link_parts(2);
    let flags =
        "--model rgcn --decoder distmult --num-neighbors 5,3 --num-epochs 2 --metric ndcg@9 --eval-negatives 9 --json";
    let flags: Vec<&str> = flags.split(' ').collect();
    let typed = json_of(link(&typed.path, 3, &flags));
    assert!(number_of(&typed, "valid.lists.metrics.ndcg@9") > 0.0, "{typed}");
}

#[test]
fn a_loaded_model_keeps_its_convolution_and_its_use_of_edge_features() {
    let options = FakeOptions { avg_num_nodes: 300, edge_attributes: true, ..FakeOptions::default() };
    let mut graph = fake(&options).expect("a fake graph");
    graph.hold_out_edges(&graph.edge_type_ids(), &HOLD_OUT).expect("held-out edges");
    let parts = written_by(&graph, 2);
    let Scratch { folder: _folder, model, .. } = scratch();
    for flags in [&["--model", "gat"][..], &["--model", "gat", "--no-edge-features"]] {
        train(&parts.path, &model, flags);
        let found = json_of(link(&parts.path, 1, &["--json", "--eval-negatives", "20", "--load-model", text(&model)]));
        assert!(score(&found, "test", "mrr") > 0.0, "{found}");
    }
    let output = link(&parts.path, 1, &["--load-model", text(&model), "--no-edge-features", "--model", "sage"]);
    assert_error(&output, &["--model sage: the model"]);
}

#[test]
fn sampled_negatives_do_not_depend_on_layout_and_batches() {
    let Scratch { folder: _folder, model, .. } = scratch();
    let mut plain = graph();
    // Embeddings are loaded bit by bit, so that scores are equal too.
    plain.node_types[0].features = None;
    let embedding = ["--model", "embedding"];
    train(&written_by(&plain, 2).path, &model, &embedding);
    let mut results = Vec::new();
    for (parts, processes, batch_size) in [(1, 1, "128"), (1, 3, "8"), (2, 2, "500"), (3, 2, "20")] {
        let flags = [&embedding[..], &["--eval-negatives", "20", "--batch-size", batch_size]].concat();
        results.push(evaluate(&written_by(&plain, parts).path, processes, &model, &flags));
    }
    for found in &results {
        for (split, name) in [("valid", "mrr"), ("test", "mrr"), ("test", "hits@3")] {
            let expected = score(&results[0], split, name);
            assert!((score(found, split, name) - expected).abs() < 1e-12, "{found} and {}", results[0]);
        }
    }
    // Another seed draws other negatives.
    let other = [&embedding[..], &["--eval-negatives", "20", "--seed", "5"]].concat();
    let other = evaluate(&written_by(&plain, 1).path, 1, &model, &other);
    assert_ne!(score(&other, "test", "mrr"), score(&results[0], "test", "mrr"));
}

#[test]
fn given_negatives_are_those_of_the_evaluation() {
    const EACH: usize = 25;
    let Scratch { folder, model, .. } = scratch();
    let mut graph = graph();
    let held_out = &mut graph.edge_types[0].held_out;
    for (list, seed) in [(&mut held_out.valid, 1), (&mut held_out.test, 2)] {
        let dst = ids(list.len() * EACH, seed);
        list.negatives = Some(GivenNegatives::OfEach { num: EACH, dst: dst.into() });
    }
    // The reader reads what the exporter has written.
    let arrays = folder.join("arrays");
    export_npy(&graph, &arrays).expect("arrays");
    assert!(arrays.join("valid_neg.npy").exists() && arrays.join("test_neg.npy").exists());
    let graph = read_npy_folder("given", &arrays).expect("the arrays");
    let one = written_by(&graph, 1);
    train(&one.path, &model, &[]);
    let rows = embeddings(&one.path, &model, &folder.join("rows"));
    let test = &graph.edge_types[0].held_out.test;
    let Some(GivenNegatives::OfEach { num: EACH, dst }) = &test.negatives else { panic!("{:?}", test.negatives) };
    let positive: Vec<f64> = pairs(test).map(|(src, dst)| dot(&rows, src, dst)).collect();
    let mut negatives: Vec<Vec<f64>> = Vec::new();
    for (&src, own) in test.src.iter().zip(dst.chunks(EACH)) {
        negatives.push(own.iter().map(|&dst| dot(&rows, src, dst)).collect());
    }
    let [mrr, hits] = mrr_and_hits(&positive, &negatives, 5.0);
    let [auc, precision] = auc_and_precision(&positive, &negatives.concat());
    // Given negatives are the default of a dataset that has them.
    let flags = ["--eval", "layer-wise", "--metric", "hits@5"];
    let mut results = vec![evaluate(&arrays, 1, &model, &flags)];
    for (parts, processes) in [(3, 2), (2, 4)] {
        results.push(evaluate(&written_by(&graph, parts).path, processes, &model, &flags));
    }
    for found in &results {
        assert_eq!(found["test"]["edges"].as_u64(), Some(test.len() as u64));
        assert_near(score(found, "test", "mrr"), mrr, test.len(), "mrr");
        assert_near(score(found, "test", "hits@5"), hits, test.len(), "hits@5");
    }
    let two = written_by(&graph, 2);
    for (metric, name, expected) in [("roc-auc", "roc_auc", auc), ("average-precision", "average_precision", precision)]
    {
        let found = evaluate(&two.path, 2, &model, &["--eval", "layer-wise", "--metric", metric]);
        assert!((score(&found, "test", name) - expected).abs() < 1e-3, "{name}: {found} instead of {expected}");
    }
    // Sampled neighborhoods, and other negatives.
    let sampled = evaluate(&two.path, 2, &model, &["--eval-num-neighbors=-1,-1"]);
    assert_near(score(&sampled, "test", "mrr"), mrr, test.len(), "sampled neighborhoods");
    let all = evaluate(&two.path, 2, &model, &["--eval-negatives", "all"]);
    assert!(score(&all, "test", "mrr") < mrr);
}

/// Returns a graph with early and late edges, and held-out edges between these times with negatives of their own. Without
/// `late`, the late edges are left out.
fn graph_with_late_edges(late: bool) -> Dataset {
    const EACH: usize = 12;
    let options = FakeOptions { avg_num_nodes: 200, num_channels: 6, num_classes: 5, ..FakeOptions::default() };
    let mut graph = fake_hetero(&options).expect("a fake graph");
    // Reverses of an edge carry no messages for it in temporal sampling. Types between different nodes have none.
    let predicted = graph.edge_types.iter().position(|edges| edges.src_type != edges.dst_type).expect("a type");
    graph.hold_out_edges(&[EdgeTypeId(predicted as u16)], &HOLD_OUT).expect("held-out edges");
    for edges in &mut graph.edge_types {
        let kept: Vec<usize> = (0..edges.src.len()).filter(|at| late || at % 2 == 0).collect();
        edges.src = kept.iter().map(|&at| edges.src[at]).collect::<Vec<u32>>().into();
        edges.dst = kept.iter().map(|&at| edges.dst[at]).collect::<Vec<u32>>().into();
        let times: Vec<i64> = kept.iter().map(|&at| if at % 2 == 0 { 3 } else { 9 }).collect();
        edges.attributes.times = Some(times.into());
    }
    let held_out = &mut graph.edge_types[predicted].held_out;
    for list in [&mut held_out.valid, &mut held_out.test] {
        list.times = Some(vec![5; list.len()].into());
        let dst: Vec<u32> = (0..list.len() * EACH).map(|at| list.dst[at * 7919 % list.len()]).collect();
        list.negatives = Some(GivenNegatives::OfEach { num: EACH, dst: dst.into() });
    }
    graph
}

#[test]
fn given_negatives_are_ranked_at_the_time_of_their_edge() {
    // The rate leaves the parameters as they are, which do not depend on the edges.
    let flags = "--model rgcn --decoder distmult --lr 0 --num-epochs 1 --json --num-neighbors=-1,-1 \
                 --eval-num-neighbors=-1,-1";
    let flags: Vec<&str> = flags.split(' ').collect();
    let early = graph_with_late_edges(false);
    let expected = json_of(link(&written_by(&early, 1).path, 1, &flags));
    let all = graph_with_late_edges(true);
    let num_edges: usize = all.edge_types.iter().map(|edges| edges.held_out.test.len()).sum();
    for (parts, processes) in [(1, 1), (2, 2), (2, 3)] {
        let parts = written_by(&all, parts);
        let found = json_of(link(&parts.path, processes, &[&flags[..], &["--time-attr", "edge_time"]].concat()));
        assert_eq!(found["test"]["edges"].as_u64(), Some(num_edges as u64));
        for name in ["mrr", "hits@3"] {
            assert_near(score(&found, "test", name), score(&expected, "test", name), num_edges, name);
        }
    }
}

#[test]
fn shared_negatives_have_no_time() {
    let Scratch { folder: _folder, model, .. } = scratch();
    let options = FakeOptions { avg_num_nodes: 300, edge_attributes: true, ..FakeOptions::default() };
    let mut timed = fake(&options).expect("a fake graph");
    timed.hold_out_edges(&timed.edge_type_ids(), &HOLD_OUT).expect("held-out edges");
    give_negatives(&mut timed, 40);
    let parts = written_by(&timed, 2);
    let shape =
        ["--num-neighbors", "5,3", "--time-attr", "edge_time", "--num-epochs", "1", "--save-model", text(&model)];
    let sampled = succeeded(link(&parts.path, 2, &shape));
    let note = "negatives that all edges share, which have no time";
    assert!(stderr(&sampled).contains(note), "{}", stderr(&sampled));
    let chosen = succeeded(link(&parts.path, 2, &[&shape[..], &["--eval-negatives", "20"]].concat()));
    assert!(!stderr(&chosen).contains(note), "{}", stderr(&chosen));
    let given = link(&parts.path, 1, &["--load-model", text(&model), "--eval-negatives", "given"]);
    assert_error(&given, &["which have no time"]);
}

#[test]
fn shared_negatives_are_ranked_as_by_ogb() {
    const SHARED: usize = 700;
    let Scratch { folder, model, .. } = scratch();
    let graph = with_shared_negatives(SHARED);
    let arrays = folder.join("arrays");
    export_npy(&graph, &arrays).expect("arrays");
    let graph = read_npy_folder("given", &arrays).expect("the arrays");
    let one = written_by(&graph, 1);
    train(&one.path, &model, &[]);
    let rows = embeddings(&one.path, &model, &folder.join("rows"));
    let test = &graph.edge_types[0].held_out.test;
    let Some(GivenNegatives::Shared { src, dst }) = &test.negatives else { panic!("{:?}", test.negatives) };
    let positive: Vec<f64> = pairs(test).map(|(src, dst)| dot(&rows, src, dst)).collect();
    let negatives: Vec<f64> = src.iter().zip(&dst[..]).map(|(&src, &dst)| dot(&rows, src, dst)).collect();
    let hits = shared_hits(&positive, &negatives, 50);
    let [auc, precision] = auc_and_precision(&positive, &negatives);
    assert!((0.02..0.98).contains(&hits), "a share that tells rankings apart: {hits}");
    for (parts, processes) in [(1, 1), (3, 3), (2, 4)] {
        let parts = written_by(&graph, parts);
        let found = evaluate(&parts.path, processes, &model, &["--eval", "layer-wise", "--metric", "hits@50"]);
        assert_near(score(&found, "test", "hits@50"), hits, test.len(), "hits@50");
        assert!((score(&found, "test", "roc_auc") - auc).abs() < 1e-3, "{found} instead of {auc}");
        assert!((score(&found, "test", "average_precision") - precision).abs() < 1e-3, "{found}, not {precision}");
    }
}

/// Reverse edge types have the reversed pairs. Each type is ranked among its own, so the metrics stay the same.
#[test]
fn edge_types_do_not_share_their_negatives() {
    const SHARED: usize = 300;
    let Scratch { folder: _folder, model, .. } = scratch();
    let mut graph = with_shared_negatives(SHARED);
    graph.add_reverse_edges();
    let two = written_by(&graph, 2);
    train(&two.path, &model, &[]);
    let flags = ["--eval", "layer-wise", "--metric", "hits@20"];
    let one_type = evaluate(&two.path, 2, &model, &[&flags[..], &["--edge-types", "to"]].concat());
    let both = evaluate(&two.path, 2, &model, &flags);
    assert_eq!(both["test"]["edges"].as_u64(), one_type["test"]["edges"].as_u64().map(|edges| 2 * edges));
    for name in ["mrr", "hits@20", "roc_auc", "average_precision"] {
        // The scores of reversed pairs are equal, because the decoder is symmetric.
        assert!((score(&both, "test", name) - score(&one_type, "test", name)).abs() < 1e-3, "{both} and {one_type}");
    }
    // Only one of two types has negatives, so they are not the default.
    let Some(GivenNegatives::Shared { .. }) = graph.edge_types[1].held_out.test.negatives.take() else {
        panic!("the reverse type has reversed pairs")
    };
    graph.edge_types[1].held_out.valid.negatives = None;
    let some = written_by(&graph, 2);
    let found = evaluate(&some.path, 2, &model, &["--eval", "layer-wise"]);
    assert_same(&found, &both, &["test.edges"]);
    assert!(entry(&found, "test.roc_auc").is_null(), "sampled negatives: {found}");
}

#[test]
fn both_ends_are_ranked_among_all_nodes() {
    let Scratch { folder, model, .. } = scratch();
    let graph = graph();
    let two = written_by(&graph, 2);
    train(&two.path, &model, &[]);
    let rows = embeddings(&two.path, &model, &folder.join("rows"));
    let edges = &graph.edge_types[0];
    let trained = edges.src.iter().copied().zip(edges.dst.iter().copied());
    let held_out = pairs(&edges.held_out.valid).chain(pairs(&edges.held_out.test));
    let known: HashSet<(u32, u32)> = trained.chain(held_out).collect();
    let nodes = rows.len() as u32;
    let mut positive = Vec::new();
    let mut negatives = Vec::new();
    for (src, dst) in pairs(&edges.held_out.test) {
        positive.extend([dot(&rows, src, dst); 2]);
        let tails = (0..nodes).filter(|&other| !known.contains(&(src, other)));
        negatives.push(tails.map(|other| dot(&rows, src, other)).collect());
        let heads = (0..nodes).filter(|&other| !known.contains(&(other, dst)));
        negatives.push(heads.map(|other| dot(&rows, other, dst)).collect());
    }
    let [mrr, hits] = mrr_and_hits(&positive, &negatives, 10.0);
    let flags = ["--eval", "layer-wise", "--eval-negatives", "all", "--rank", "both"];
    for (parts, processes) in [(1, 1), (3, 3), (2, 4)] {
        let found = evaluate(&written_by(&graph, parts).path, processes, &model, &flags);
        assert_eq!(found["test"]["edges"].as_u64(), Some(edges.held_out.test.len() as u64));
        assert_near(score(&found, "test", "mrr"), mrr, positive.len(), "mrr");
        assert_near(score(&found, "test", "hits@10"), hits, positive.len(), "hits@10");
    }
}

/// Connects node 7 to all nodes, to three of them by validation edges.
fn with_heavy_source(mut graph: Dataset) -> Dataset {
    let num_nodes = graph.node_types[0].num_nodes as u32;
    let edges = &mut graph.edge_types[0];
    let from_7 = |ends: &mut dyn Iterator<Item = (u32, u32)>| -> HashSet<u32> {
        ends.filter(|(src, _)| *src == 7).map(|(_, dst)| dst).collect()
    };
    let trained = from_7(&mut edges.src.iter().copied().zip(edges.dst.iter().copied()));
    let held_out = from_7(&mut pairs(&edges.held_out.valid).chain(pairs(&edges.held_out.test)));
    let mut others = (0..num_nodes).filter(|node| !trained.contains(node) && !held_out.contains(node));
    let heavy_valid: Vec<u32> = others.by_ref().take(3).collect();
    let heavy: Vec<u32> = others.collect();
    let valid = &edges.held_out.valid;
    let valid_src = [&valid.src[..], &vec![7; heavy_valid.len()]].concat();
    let valid_dst = [&valid.dst[..], &heavy_valid].concat();
    edges.held_out.valid = EdgeList::new(valid_src.into(), valid_dst.into());
    edges.src = [&edges.src[..], &vec![7; heavy.len()]].concat().into();
    edges.dst = [&edges.dst[..], &heavy].concat().into();
    graph
}

#[test]
fn edges_without_negatives_are_left_out_and_counted() {
    let graph = with_heavy_source(graph());
    let count = |list: &EdgeList| pairs(list).filter(|(src, _)| *src == 7).count() as u64;
    let edges = &graph.edge_types[0];
    let num_valid = edges.held_out.valid.len() as u64;
    let num_heavy = count(&edges.held_out.valid);
    // In training, the held-out edges of node 7 are its only negatives.
    let num_negatives = num_heavy + count(&edges.held_out.test);
    let num_trained = edges.src.iter().filter(|&&src| src == 7).count() as u64;
    let parts = written_by(&graph, 2);
    let metrics = parts.path.with_file_name("metrics.jsonl");
    let shape = ["--num-neighbors", "5,3", "--num-epochs", "1", "--json", "--exclude-positives"];
    for (num_negatives, evaluation, left_out) in [(num_negatives + 1, "20", num_trained), (num_negatives, "all", 0)] {
        let num_negatives = num_negatives.to_string();
        let flags = ["--num-negatives", &num_negatives, "--eval-negatives", evaluation, "--metrics", text(&metrics)];
        let output = link(&parts.path, 2, &[&shape[..], &flags].concat());
        let found = json_of(&output);
        assert_eq!(found["valid"]["left_out"].as_u64(), Some(num_heavy), "{found}");
        assert_eq!(found["valid"]["edges"].as_u64(), Some(num_valid - num_heavy));
        let epoch = metrics_lines(&metrics).into_iter().find(|line| line["event"] == "epoch").expect("an epoch");
        assert_eq!(epoch["left_out"].as_u64(), Some(left_out), "{epoch}");
        let said = stderr(&output);
        assert!(said.contains(&format!("validation edges (left out {num_heavy} without negatives")), "{said}");
        assert_eq!(
            said.contains(&format!("training edges (left out {left_out} without negatives")),
            left_out > 0,
            "{said}"
        );
    }
}

#[test]
fn a_graph_without_negatives_is_one_error() {
    let ends: Vec<(u32, u32)> = (0..12).flat_map(|src| (0..12).map(move |dst| (src, dst))).collect();
    let nodes = NodeData { name: "node".into(), num_nodes: 12, ..NodeData::default() };
    let src: Vec<u32> = ends.iter().map(|pair| pair.0).collect();
    let dst: Vec<u32> = ends.iter().map(|pair| pair.1).collect();
    let mut complete = Dataset::homogeneous("complete", nodes, src.into(), dst.into());
    complete.hold_out_edges(&complete.edge_type_ids(), &HOLD_OUT).expect("held-out edges");
    let parts = written_by(&complete, 1);
    let why = |flags: &[&str]| {
        error_of(&link(&parts.path, 1, &[&["--num-neighbors", "2", "--num-epochs", "1"], flags].concat()))
    };
    for evaluation in ["5", "all"] {
        assert_has(why(&["--eval-negatives", evaluation]), &["no epoch can be selected: the sources of all"]);
    }
    let error = why(&["--exclude-positives", "--num-negatives", "11"]);
    assert!(error.contains("training edges has enough negatives") && error.contains("(--num-negatives)"), "{error}");
    assert_has(why(&["--exclude-positives", "--num-negatives", "12"]), &["12 distinct negatives were requested"]);
}

#[test]
fn hits_among_too_few_negatives_are_refused() {
    let folder = Folder::new();
    let arrays = folder.join("arrays");
    let graph = graph();
    export_npy(&graph, &arrays).expect("arrays");
    let why = |flags: &[&str]| error_of(&link(&arrays, 1, &[&["--num-neighbors", "5,3"], flags].concat()));
    let error = why(&["--metric", "hits@51", "--eval-negatives", "50"]);
    assert!(error.contains("hits@51 needs at least 51 negatives, but the validation edges have at most 50"), "{error}");
    assert!(error.contains("--metric mrr") && error.contains("(--eval-negatives)"), "{error}");
    assert_has(why(&["--metric", "hits@300", "--eval-negatives", "all"]), &["the validation edges have at most 299"]);
    // The given negatives of the splits differ in number.
    let [valid, test] = [&graph.edge_types[0].held_out.valid, &graph.edge_types[0].held_out.test].map(EdgeList::len);
    let put = |name: &str, shape: [usize; 2]| {
        let ids = vec![0_i64; shape[0] * shape[1]];
        edgecut_graph::write_npy(&arrays.join(name), &shape, &ids).expect("an array");
    };
    put("val_neg.npy", [valid, 12]);
    put("test_neg.npy", [test, 5]);
    let error = why(&["--metric", "hits@13"]);
    assert!(error.contains("hits@13 needs at least 13 negatives, but the validation edges have at most 12"), "{error}");
    assert_has(why(&["--metric", "hits@6"]), &["hits@6 needs at least 6 negatives, but the test edges have at most 5"]);
    // Other metrics are computed, without hits that all edges would be. An edge below all of K negatives is no hit at K.
    let flags = ["--num-neighbors", "5,3", "--num-epochs", "1", "--metric", "hits@5", "--json"];
    let found = json_of(link(&arrays, 1, &flags));
    assert!(entry(&found, "valid.hits@10").is_f64() && entry(&found, "test.hits@10").is_null(), "{found}");
    assert!(found["test"]["hits@3"].is_f64(), "{found}");
    let hits = score(&found, "test", "hits@5");
    assert!(0.0 < hits && hits < 1.0, "{found}");
    for name in ["val_neg.npy", "test_neg.npy"] {
        std::fs::remove_file(arrays.join(name)).expect("the array");
    }
    put("val_edge_neg.npy", [2, 40]);
    put("test_edge_neg.npy", [2, 20]);
    let error = why(&["--metric", "hits@21"]);
    assert!(error.contains("hits@21 needs at least 21 negatives, but the test edges have at most 20"), "{error}");
}

#[test]
fn wrong_negatives_have_one_error() {
    let folder = Folder::new();
    let graph = graph();
    let arrays = folder.join("arrays");
    export_npy(&graph, &arrays).expect("arrays");
    let num_test = graph.edge_types[0].held_out.test.len();
    let put = |name: &str, shape: &[usize], values: &[i64]| {
        edgecut_graph::write_npy(&arrays.join(name), shape, values).expect("an array");
    };
    let remove = |name: &str| std::fs::remove_file(arrays.join(name)).expect("the array");
    let why = |flags: &[&str]| error_of(&link(&arrays, 1, &[&["--num-neighbors", "5,3"], flags].concat()));
    put("test_neg.npy", &[3, 2], &[0; 6]);
    assert_has(why(&[]), &["test_neg.npy", &format!("expected [{num_test}, K]")]);
    put("test_neg.npy", &[num_test, 1], &vec![100_000; num_test]);
    assert_has(why(&[]), &["test_neg.npy", "negative 0 of edge 0 is node 100000"]);
    // Negatives of one split only.
    put("test_neg.npy", &[num_test, 1], &vec![0; num_test]);
    assert_has(why(&[]), &["the validation edges of type to have no given negatives"]);
    put("test_edge_neg.npy", &[2, 1], &[0, 1]);
    assert_has(why(&[]), &["test_edge_neg.npy exists as well; keep one of them"]);
    remove("test_neg.npy");
    remove("test_edge_neg.npy");
    assert_has(why(&["--eval-negatives", "given"]), &["it gives no negatives: save val_neg.npy"]);
    for (flags, expected) in [
        (&["--rank", "both"][..], "--rank both ranks both ends among all nodes: add --eval-negatives all"),
        (
            &["--eval-negatives", "all", "--metric", "average-precision"],
            "--metric average-precision needs sampled or given",
        ),
        (&["--metric", "hits@0"], "unknown metric \"hits@0\""),
    ] {
        assert_has(why(flags), &[expected]);
    }
}
