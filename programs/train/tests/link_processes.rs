//! Tests of `train link` with real processes and real sockets, including invalid flags.

use crate::programs;
use crate::programs::*;

use crate::predict_links::purchases;
use crate::predict_tables::{NUM_USERS, partition_tables, partition_tables_with, user, write_tables_of};
use edgecut_graph::readers::{FakeOptions, fake, fake_hetero};
use edgecut_graph::{Dataset, EdgeData, EdgeList, EdgeTypeId, HoldOut, NodeData, NodeTypeId, OverlapPolicy};
use edgecut_partition::{PartitionOptions, partition};
use edgecut_testing::assert_has;
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

#[test]
fn two_processes_train_links_and_say_how_it_went() {
    let parts = link_parts(2);
    let (metrics, model) = (parts.path.join("../metrics.jsonl"), parts.path.join("../model.safetensors"));
    let shape = ["--num-neighbors", "5,3", "--eval-negatives", "20", "--metric", "roc-auc"];
    let training = ["--num-epochs", "4", "--num-negatives", "2", "--negatives", "degree", "--exclude-positives"];
    let with_files =
        [&shape[..], &training, &["--json", "--metrics", text(&metrics), "--save-model", text(&model)]].concat();
    let trained = json_of(link(&parts.path, 2, &with_files));
    let score = |result: &Value, split: &str, name: &str| result[split][name].as_f64().expect("a score");
    assert!(score(&trained, "test", "roc_auc") > 0.65, "chance is 0.5: {trained}");
    assert!(score(&trained, "test", "mrr") > 0.25, "chance is 0.174: {trained}");
    assert!(score(&trained, "valid", "hits@10") > score(&trained, "valid", "hits@1"), "{trained}");
    assert_eq!(trained["metric"], "roc-auc");
    assert!(trained["valid"]["edges"].as_u64() > Some(100), "{trained}");
    let lines = metrics_lines(&metrics);
    let events: Vec<&Value> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["partition", "epoch", "epoch", "epoch", "epoch", "histogram", "curves", "result"]);
    assert!(number_of(&lines[4], "loss") < number_of(&lines[1], "loss"), "the loss falls");
    let best = trained["best_epoch"].as_u64().expect("an epoch") as usize;
    assert_same(&lines[best], &trained, &["valid"]);
    assert!(lines[1..5].iter().all(|line| score(line, "valid", "roc_auc") <= score(&trained, "valid", "roc_auc")));
    let load = [&shape[..], &["--load-model", text(&model)]].concat();
    let loaded = json_of(link(&parts.path, 2, &[&load[..], &["--json"]].concat()));
    assert_same(&loaded, &trained, &["valid", "test"]);
    let output = link(&parts.path, 2, &load);
    let said = String::from_utf8_lossy(&output.stdout);
    let expected =
        ["mrr", "hits@1", "roc_auc"].map(|name| format!("{:.4}", trained["test"][name].as_f64().expect("a score")));
    let test = said.lines().find(|line| line.starts_with("test: MRR ")).expect("a line about test edges");
    assert!(expected.iter().all(|number| test.contains(number)), "{test}, not {expected:?}");
    // Ranked against all nodes, the same model has other metrics, which are equal on any number of processes.
    let all = |nproc: u32| {
        let flags = ["--num-neighbors=-1,-1", "--eval-negatives", "all", "--json", "--load-model", text(&model)];
        json_of(link(&parts.path, nproc, &flags))
    };
    let (two, four) = (all(2), all(4));
    for split in ["valid", "test"] {
        let edges = format!("{split}.edges");
        assert_same(&two, &trained, &[&edges]);
        assert_same(&four, &trained, &[&edges]);
        // Batches of other sizes may round the last bit of a score differently, which may swap two almost equal ones.
        let one_swap = 1.0 / trained[split]["edges"].as_f64().expect("a number of edges");
        assert!((score(&two, split, "mrr") - score(&four, split, "mrr")).abs() <= one_swap, "{two} and {four}");
    }
    assert!(
        entry(&two, "test.roc_auc").is_null() && score(&two, "test", "mrr") < score(&trained, "test", "mrr"),
        "{two}"
    );

    let output = train_or_evaluate(node(&parts.path).args(["--nproc-per-node", "2", "--load-model"]).arg(&model));
    assert_both_fail(&output, &format!("model {}: ", text(&model)));
    assert_both_fail(&output, "it describes a model of the task link: use it with `train link`");
    let output = link(&parts.path, 2, &["--num-neighbors", "5", "--load-model", text(&model)]);
    assert_both_fail(&output, "the model has 2 layers, but --num-neighbors has 1 fan-outs");
}

/// Checks that both processes failed with the same error, which was printed once and contains `why`.
fn assert_both_fail(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    let text = stderr(output);
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "one error of both: {text}");
    assert!(errors.iter().all(|error| error.contains(why)) && !text.contains("panicked"), "{text}");
}

#[test]
fn embeddings_and_relations_are_trained_saved_and_loaded() {
    let folder = Folder::new();
    let [parts, model] = ["parts", "model.safetensors"].map(|name| folder.join(name));
    // Edges of e1 connect ends of held-out edges by chance.
    let options = PartitionOptions { overlap: OverlapPolicy::Allow, ..PartitionOptions::new(2) };
    partition(&typed_link_graph(), &options, &parts, &()).expect("parts");
    for flags in [
        "--model embedding --shared-negatives --in-batch-negatives --num-negatives 50",
        "--model rgcn --num-neighbors 4 --reverse-types e0=e1 --n3-weight 0.001 --prefetch-bytes 1",
    ] {
        let flags: Vec<&str> = flags.split(' ').collect();
        let shape = ["--decoder", "distmult", "--eval-negatives", "all", "--edge-types", "e0,e4", "--json"];
        let training = ["--loss", "softmax", "--num-epochs", "3", "--save-model", text(&model)];
        let trained = json_of(link(&parts, 2, &[&flags[..], &shape, &training].concat()));
        // A random ranking of 300 nodes has an MRR of 0.021. The edges are random too, so little can be learned from them:
        // a high MRR would be a leak.
        let mrr = trained["test"]["mrr"].as_f64().expect("a score");
        assert!(mrr > 0.015 && mrr < 0.15, "{trained}");
        let loaded = json_of(link(&parts, 2, &[&flags[..], &shape, &["--load-model", text(&model)]].concat()));
        assert_same(&loaded, &trained, &["valid", "test"]);
    }
}

#[test]
fn gradients_of_embeddings_alone_are_not_clipped() {
    let parts = link_parts(1);
    let clipped = ["--num-epochs", "1", "--model", "embedding", "--node-embeddings", "node", "--grad-clip", "1"];
    // The features of nodes have a layer, whose gradients are clipped.
    succeeded(link(&parts.path, 1, &clipped));
    let users = written_by(&purchases(), 1);
    let clipped = ["--num-epochs", "1", "--model", "embedding", "--grad-clip", "1"];
    let output = link(&users.path, 1, &clipped);
    assert!(error_of(&output).contains("--grad-clip has no effect on embeddings"), "{}", stderr(&output));
    succeeded(link(&users.path, 1, &[&clipped[..], &["--decoder", "distmult"]].concat()));
}

/// Flags that are refused, and what the error says.
const WRONG_FLAGS: &str = r#"
--metric roc-auc --eval-negatives all => give --eval-negatives a number
--eval-negatives 0 => neither `all`, `given` nor a number
--metric accuracy => expected mrr, hits@K such as hits@50, roc-auc, average-precision, or recall@K, ndcg@K
--metric ndcg@0 => unknown metric "ndcg@0"
--eval-sources 5 => add one, such as --metric recall@20
--in-batch-negatives => --shared-negatives
--shared-negatives --exclude-positives => cannot be used with
--shared-negatives --train-negatives to => cannot be used with
--hard-negatives 0 => hard-negatives
--shared-negatives --ranked-negatives 2-5 => cannot be used with
--ranked-negatives 5-2 => write FIRST-LAST, such as 20-50
--ranked-among 100 => --ranked-negatives
--negative-pairs absent.csv => --negative-pairs absent.csv: No such file
--row-numbers => --negative-pairs
--reverse-types writes => is not a pair of edge types
--model embedding --batch-norm => --batch-norm has no effect on --model embedding
--model embedding --layer-norm => --layer-norm has no effect on --model embedding
--model embedding --residual => --residual has no effect on --model embedding
--model embedding --feed-forward 2 => --feed-forward has no effect on --model embedding
--model embedding --replace => --replace has no effect on --model embedding
--model embedding --sampler labor => --sampler labor has no effect on --model embedding
--reverse-types a=b=c => types with `=` in their names cannot be paired
--n3-weight=-1 => not a finite number
--num-negatives 0 => num-negatives
--prefetch-bytes much => is not a number of bytes
--hold-out-edges 0 => give --num-epochs
--hold-out-edges 0 --num-epochs 2 --eval-every 2 => no edges to validate on
--hold-out-edges 0 --num-epochs 2 --lr-schedule plateau => no edges to validate on
--hold-out-edges 0 --load-model m => --load-model evaluates: leave out --hold-out-edges
--decoder cosine => expected dot, distmult, complex, bilinear, transe, rotate or mlp
--decoder rotate:gamma=2 => rotate has no setting "gamma": use margin
--loss margin:margin=0 => margin 0 is not a number above 0 within the range of f32
"#;

#[test]
fn wrong_flags_end_with_status_2_and_say_what_to_do() {
    let parts = link_parts(1);
    for (flags, words) in cases(WRONG_FLAGS) {
        assert_refused(&link(&parts.path, 1, &flags), 2, &words);
    }
}

/// All edges are trained on, and the model of the last epoch is kept. The note tells it.
#[test]
fn training_on_all_edges_keeps_the_model_of_the_last_epoch() {
    let whole = programs::parts(2, 6);
    let Scratch { folder: _folder, model, out } = scratch();
    let flags = ["--hold-out-edges", "0", "--num-epochs", "3", "--num-neighbors", "3", "--json", "--save-model"];
    let output = succeeded(link(&whole.path, 2, &[&flags[..], &[text(&model)]].concat()));
    let note = "training uses all edges: there is no validation, and the model of epoch 3, the last one, is kept";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    assert!(!stderr(&output).contains("has no value"), "{}", stderr(&output));
    let result = json_of(&output);
    assert_eq!(result["best_epoch"], 3, "{result}");
    for split in ["valid", "test"] {
        let found = ["edges", "mrr"].map(|name| entry(&result, &format!("{split}.{name}")));
        assert_eq!(found, [&Value::from(0), &Value::Null], "{result}");
    }
    // Flags of the evaluation, which have no effect here, do not count as given when the file repeats the run.
    let mut config = model.as_os_str().to_owned();
    config.push(".config.yaml");
    let mut again = program();
    again.args(["link", "--json", "--config"]).arg(config);
    assert_eq!(json_of(run(&mut again)), result, "the file has all flags of the run");
    let top = ["--output", "top-k", "--sources", "all", "--top-k", "3"];
    succeeded(predict(&whole.path, &model, &out, &top));
}

/// Flags that do not fit a graph with one edge type, and what the error says.
const UNFITTING_FLAGS: &str = "
--edge-types cites => there is no edge type cites: the graph has node__to__node
--reverse-types to=cites => there is no edge type cites
--hold-out-edges 0 => it has validation edges, which are not trained on
--weighted-loss => edges of type node__to__node have no weights
--shared-negatives --in-batch-negatives --log-q-correction => the log-Q correction estimates a softmax over all nodes, which the loss bce does not compute
--decoder rotate --n3-weight 0.1 => not for the decoder rotate
--hard-negatives 2 --num-negatives 8 => add --exclude-positives, or leave --hard-negatives out
--hard-negatives 8 --num-negatives 8 --exclude-positives => the 8 hardest of 8 negatives are all of them: raise --num-negatives
--train-negatives cites => there is no edge type cites
--metric mrr,recall@500 => recall@500 lists more destinations than there are: type node has 400 nodes
--metric ndcg@400,hit-rate@400 => hit-rate@400 is the same for every model: the lists of all
--ranked-negatives 300-500 => --ranked-negatives 300-500: only 400 of 400 nodes of type node are ranked
--ranked-negatives 30-50 --ranked-among 40 => rank more nodes (--ranked-among)
--max-given-negatives 2 => --max-given-negatives has no effect without given negatives
--max-given-negatives 2 --num-negatives 2 --ranked-negatives 2-9 => --max-given-negatives 2 has no effect on 2 negatives per edge
--train-negatives to => node__to__node gives negatives (--train-negatives) and is predicted
--exclude-positives --num-negatives 400 => 400 distinct negatives were requested for an edge of type node__to__node, but there are only 400 nodes
--weighted => weight
--time-attr node_time => no nodes of dataset fake have times
--time-attr edge_time => has no times
";

#[test]
fn what_does_not_fit_the_graph_is_one_error() {
    let (plain, whole) = (link_parts(1), programs::parts(1, 6));
    let none = (vec![], vec!["no edges are held out for validation: partition it with --hold-out-edges"]);
    for (parts, (flags, words)) in cases(UNFITTING_FLAGS).map(|case| (&plain, case)).chain([(&whole, none)]) {
        let output = link(&parts.path, 1, &[&["--num-neighbors", "3", "--num-epochs", "1"], &flags[..]].concat());
        assert_fails(&output, 1, &words);
    }
    let options = FakeOptions { avg_num_nodes: 300, edge_attributes: true, ..FakeOptions::default() };
    let mut graph = fake(&options).expect("a fake graph");
    let hold_out = HoldOut::random(0.1, 0.1, 0);
    graph.hold_out_edges(&graph.edge_type_ids(), &hold_out).expect("held-out edges");
    let timed = written_by(&graph, 1);
    let flags = ["--num-neighbors", "3", "--num-epochs", "1", "--eval-negatives", "10", "--time-attr", "edge_time"];
    let saved = timed.path.join("../timed.safetensors");
    // Held-out edges have their own times.
    succeeded(link(&timed.path, 1, &[&flags[..], &["--save-model", text(&saved)]].concat()));
    let output = succeeded(predict(&timed.path, &saved, &timed.path.join("../out"), &["--output", "embedding"]));
    let note = "was trained with --time-attr edge_time, but neighbors of all times are read here";
    assert_has(stderr(&output), &[note]);
    // Lists of all times are not compared with test edges, which their rows may foresee.
    let top = ["--output", "top-k", "--sources", "all", "--top-k", "3"];
    let output = succeeded(predict(&timed.path, &saved, &timed.path.join("../top"), &top));
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    assert!(said.contains(note) && !said.contains("recall"), "{said}");
    for more in [&["--time-attr", "edge_time"][..], &["--seed-time", "3"], &["--batch-size", "3"], &["--seed", "3"]] {
        let output = predict(&timed.path, &saved, &timed.path.join("../none"), &[&top[..], more].concat());
        assert_fails(&output, 2, &[&format!("{} applies to rows of nodes", more[0])]);
    }
    let all = link(&timed.path, 1, &[&flags[..], &["--eval-negatives", "all"]].concat());
    assert_error(&all, &["the neighbors of a node depend on the time of the edge"]);
    let absent = ["--num-nodes", "1", "--load-model", "absent.safetensors"];
    assert_error(&run(train("link", &timed.path).args(absent)), &["absent.safetensors"]);
}

/// Returns purchases of items by users, and the reverse edges under a name that does not tell it. The sources have the degrees
/// of the destinations.
fn shop(held_out: &[EdgeTypeId]) -> Dataset {
    const NUM: usize = 60;
    let nodes = |name: &str| NodeData { name: name.into(), num_nodes: NUM, ..NodeData::default() };
    let src: Vec<u32> = (0..6 * NUM as u32).map(|edge| edge % NUM as u32).collect();
    let dst: Vec<u32> = (0..6 * NUM as u32).map(|edge| (edge * 7 + edge / NUM as u32) % NUM as u32).collect();
    let [user, item] = [NodeTypeId(0), NodeTypeId(1)];
    let mut graph = Dataset {
        name: "shop".into(),
        node_types: vec![nodes("user"), nodes("item")],
        edge_types: vec![
            EdgeData::new(user, "buys", item, src.clone().into(), dst.clone().into()),
            EdgeData::new(item, "of", user, dst.into(), src.into()),
        ],
    };
    graph.hold_out_edges(held_out, &HoldOut::random(0.1, 0.1, 0)).expect("held-out edges");
    graph
}

const BUYS: EdgeTypeId = EdgeTypeId(0);
const OF: EdgeTypeId = EdgeTypeId(1);

#[test]
fn a_saved_model_is_evaluated_on_the_edge_types_that_it_was_trained_to_predict() {
    let both = written_by(&shop(&[BUYS, OF]), 2);
    let folder = Folder::new();
    let [model, out] = ["model", "out"].map(|name| folder.join(name));
    let shape = ["--model", "embedding", "--decoder", "distmult", "--json"];
    let training = ["--num-epochs", "2", "--edge-types", "buys", "--save-model", text(&model)];
    let output = link(&both.path, 2, &[&shape[..], &training].concat());
    assert!(stderr(&output).contains("edge types to predict: user__buys__item\n"), "{}", stderr(&output));
    let trained = json_of(output);
    let load = [&shape[..], &["--load-model", text(&model)]].concat();
    assert_same(&json_of(link(&both.path, 2, &load)), &trained, &["valid", "test"]);
    for (flags, why) in [
        (&["--edge-types", "of"][..], "--edge-types: the model"),
        (&["--edge-types", "buys,of"], "was trained to predict user__buys__item, but not item__of__user"),
        (&["--loss", "softmax"], "--loss softmax: the model"),
    ] {
        assert_error(&link(&both.path, 1, &[&load[..], flags].concat()), &[why]);
    }
    let top = ["--output", "top-k", "--sources", "all", "--top-k", "3", "--edge-type"];
    assert_error(
        &predict(&both.path, &model, &out, &[&top[..], &["of"]].concat()),
        &["--edge-type item__of__user: the model", "predict user__buys__item"],
    );
    succeeded(predict(&both.path, &model, &out, &[&top[..], &["buys"]].concat()));
    // A dot product has no vector of the edge type.
    let training = ["--model", "embedding", "--num-epochs", "1", "--edge-types", "buys", "--save-model", text(&model)];
    succeeded(link(&both.path, 2, &training));
    succeeded(predict(&both.path, &model, &out, &[&top[..], &["of", "--overwrite"]].concat()));
}

#[test]
fn a_training_on_all_edges_names_its_edge_types_and_is_not_evaluated_on_its_edges() {
    let whole = written_by(&shop(&[]), 1);
    let held_out = written_by(&shop(&[BUYS]), 1);
    let mut test_alone = shop(&[BUYS]);
    test_alone.edge_types[0].held_out.valid = EdgeList::default();
    let test_alone = written_by(&test_alone, 1);
    let folder = Folder::new();
    let [model, tested] = ["model", "tested"].map(|name| folder.join(name));
    let all = ["--model", "embedding", "--hold-out-edges", "0", "--num-epochs", "1", "--json"];
    let choice = "must be named: choose from user__buys__item, item__of__user (--edge-types)";
    assert_error(&link(&whole.path, 1, &all), &[choice]);
    let paired = succeeded(link(&whole.path, 1, &[&all[..], &["--reverse-types", "buys=of"]].concat()));
    assert!(stderr(&paired).contains("edge types to predict: user__buys__item\n"), "{}", stderr(&paired));
    for flag in [&["--metric", "mrr"][..], &["--eval-negatives", "all"], &["--eval", "layer-wise"]] {
        let output = link(&whole.path, 1, &[&all[..], &["--edge-types", "buys"], flag].concat());
        assert_fails(&output, 2, &["no edges to evaluate on"]);
    }
    let save = ["--edge-types", "buys", "--save-model", text(&model)];
    succeeded(link(&whole.path, 1, &[&all[..], &save].concat()));
    let load = ["--model", "embedding", "--json", "--load-model", text(&model)];
    assert_error(&link(&held_out.path, 1, &load), &["was trained on all edges of type user__buys__item"]);
    assert_error(&link(&whole.path, 1, &load), &["it has no held-out edges to evaluate on"]);
    // Test edges alone are ranked in both ways.
    let save = ["--eval-negatives", "all", "--save-model", text(&tested)];
    let trained = json_of(link(&test_alone.path, 1, &[&all[..], &save].concat()));
    assert!(number_of(&trained, "test.edges") > 10.0, "{trained}");
    let load = ["--model", "embedding", "--json", "--eval-negatives", "all", "--load-model", text(&tested)];
    let output = link(&test_alone.path, 1, &load);
    assert!(!stderr(&output).contains("held-out edges"), "{}", stderr(&output));
    assert_same(&json_of(output), &trained, &["valid", "test"]);
    let output = succeeded(link(&held_out.path, 1, &load));
    assert!(stderr(&output).contains("are not those of the training"), "{}", stderr(&output));
}

#[test]
fn the_log_q_correction_needs_in_degrees_in_proportion_to_the_predicted_edges() {
    let softmax = ["--loss", "softmax", "--shared-negatives", "--in-batch-negatives", "--log-q-correction"];
    let buys = ["--model", "embedding", "--num-epochs", "1", "--eval-negatives", "10", "--edge-types", "buys"];
    let flags = [&buys[..], &softmax].concat();
    let mut graph = shop(&[BUYS]);
    succeeded(link(&written_by(&graph, 2).path, 2, &flags));
    // Other edges lead to a few items.
    let ends: Vec<u32> = vec![0, 1, 2];
    graph.edge_types.push(EdgeData::new(NodeTypeId(0), "views", NodeTypeId(1), ends.clone().into(), ends.into()));
    let output = link(&written_by(&graph, 2).path, 2, &flags);
    assert_both_fail(&output, "a node of type item in a batch in proportion to its in-degree");
}

/// Returns the losses of the epochs of a training.
fn losses(parts: &Path, nproc: u32, metrics: &Path, flags: &[&str]) -> Vec<f64> {
    succeeded(link(parts, nproc, &[flags, &["--metrics", text(metrics)]].concat()));
    losses_in(metrics)
}

#[test]
fn a_run_with_shared_negatives_of_several_types_repeats() {
    let folder = Folder::new();
    let options = FakeOptions { avg_num_nodes: 60, num_channels: 6, num_classes: 5, ..FakeOptions::default() };
    let mut graph = fake_hetero(&options).expect("a fake graph");
    graph.hold_out_edges(&[EdgeTypeId(0), EdgeTypeId(4)], &HoldOut::random(0.1, 0.1, 0)).expect("held-out edges");
    let parts = written_by(&graph, 1);
    // Many batches have one edge into nodes of a type.
    let shared = ["--shared-negatives", "--num-negatives", "20", "--batch-size", "4", "--edge-types", "e0,e4"];
    let hgt = ["--model", "hgt", "--batch-size", "20"];
    let small = ["--num-neighbors", "4,3", "--eval-negatives", "5", "--num-epochs", "2"];
    for flags in [&shared[..], &hgt] {
        let mut runs = Vec::new();
        for run in 0..3 {
            let metrics = folder.join(format!("{}-{run}", flags[1]));
            let flags = [flags, &small, &["--metrics", text(&metrics)]].concat();
            succeeded(link(&parts.path, 1, &flags));
            let lines = metrics_lines(&metrics).into_iter().filter(|line| line["event"] == "epoch");
            runs.push(lines.map(|line| (line["loss"].clone(), line["valid"].clone())).collect::<Vec<_>>());
        }
        assert_eq!(runs[0].len(), 2);
        assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    }
}

#[test]
fn a_file_lists_negatives_by_the_ids_of_the_tables() {
    let folder = Folder::new();
    let rows: Vec<usize> = (0..NUM_USERS).collect();
    write_tables_of(folder.path(), &rows, user, ["red", "green", "blue"]);
    let metrics = folder.join("metrics.jsonl");
    let file = folder.join("negatives.csv");
    let mut pairs = String::from("src,dst\n");
    for &n in &rows {
        pairs += &format!("\"{}\",{}\n", user(n).replace('"', "\"\""), (n * 11 + 3) % (NUM_USERS / 2) * 10);
    }
    std::fs::write(&file, pairs).expect("a file");
    // A step has all edges, and no message depends on the edges of a process.
    let learned = ["--model", "embedding", "--batch-size", "10000", "--num-epochs", "3", "--edge-types", "buys"];
    let flags = [&learned[..], &["--lr", "0.1", "--embedding-lr", "0.1"]].concat();
    let with_file = [&flags[..], &["--negative-pairs", text(&file)]].concat();
    let mut expected: Option<Vec<f64>> = None;
    for (num_parts, nproc) in [(1, 1), (2, 2), (3, 2)] {
        let parts = folder.join(format!("{num_parts}-parts"));
        partition_tables(folder.path(), num_parts, None, &parts);
        let found = losses(&parts, nproc, &metrics, &with_file);
        let expected = expected.get_or_insert_with(|| found.clone());
        for (found, expected) in found.iter().zip(&*expected) {
            assert!((found - expected).abs() < 1e-4 * expected, "{num_parts} parts: {found} for {expected}");
        }
    }
    let parts = folder.join("2-parts");
    let drawn = losses(&parts, 2, &metrics, &flags)[2];
    let expected = expected.expect("losses")[2];
    assert!((drawn - expected).abs() > 1e-3 * expected, "drawn negatives are others: {drawn} {expected}");
    let by_row = [&with_file[..], &["--row-numbers"]].concat();
    assert_error(&link(&parts, 2, &by_row), &["--negative-pairs", "expected the columns src_id and dst_id"]);
    std::fs::write(&file, "src,dst\nnobody,10\n").expect("a file");
    assert_error(&link(&parts, 2, &with_file), &["1 of 1 sources do not exist", "nobody (row 1)"]);
    // Types with other ends have no negatives in common.
    let both = ["--model", "embedding", "--num-epochs", "1", "--hold-out-edges", "0", "--edge-types", "buys,of"];
    let whole = folder.join("whole");
    partition_tables_with(folder.path(), 1, None, None, &whole);
    let both = [&both[..], &["--negative-pairs", text(&file)]].concat();
    assert_error(&link(&whole, 1, &both), &["choose types with the same ends (--edge-types)"]);
}

/// A run with negatives by ranks continues from the end of an epoch, because its checkpoints lack the model by which the
/// destinations were ranked.
#[test]
fn a_run_with_negatives_by_ranks_continues_from_the_end_of_an_epoch() {
    let parts = link_parts(2);
    let folder = Folder::new();
    let metrics = folder.join("metrics.jsonl");
    let dir = folder.join("checkpoints");
    let ranked = "--num-neighbors 3 --exclude-positives --num-negatives 4 --max-given-negatives 2 --ranked-negatives 5-20 \
                  --eval-negatives 10";
    let ranked: Vec<&str> = ranked.split(' ').collect();
    let whole = losses(&parts.path, 2, &metrics, &[&ranked[..], &["--num-epochs", "4"]].concat());
    let stored = ["--checkpoint-dir", text(&dir), "--checkpoint-every", "1step", "--keep", "1000"];
    let first = losses(&parts.path, 2, &metrics, &[&ranked[..], &["--num-epochs", "2"], &stored].concat());
    assert_eq!(first, whole[..2]);
    let mut steps: Vec<u64> = Vec::new();
    for entry in std::fs::read_dir(&dir).expect("checkpoints") {
        let name = entry.expect("an entry").file_name();
        steps.extend(name.to_str().and_then(|name| name.strip_prefix("step-")?.parse::<u64>().ok()));
    }
    steps.sort_unstable();
    let [.., before, last] = steps[..] else { panic!("checkpoints: {steps:?}") };
    assert_eq!(2 * before, last, "one at each step of the first epoch, and one at the end of the second: {steps:?}");
    let rest = [&ranked[..], &["--num-epochs", "4", "--resume"], &stored].concat();
    assert_eq!(losses(&parts.path, 2, &metrics, &rest), whole);
    // A run that is asked to end within an epoch ends with its last checkpoint.
    let other = folder.join("other");
    let mut command = train("link", &parts.path);
    command.args(&ranked[2..]).args(["--checkpoint-dir", text(&other), "--checkpoint-every", "1epoch"]);
    let job = start_training(&mut command, &folder.join("long.jsonl"));
    send(Signal::TERM, job.id());
    let output = end(job);
    assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    let said = stderr(&output);
    let stopped =
        said.split_once("SIGTERM: stopped after ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
    let epochs = (stopped.expect("a number of epochs") + 1).to_string();
    let mut command = train("link", &parts.path);
    command.args(&ranked[2..]).args(["--checkpoint-dir", text(&other), "--resume", "--num-epochs", &epochs]);
    let output = succeeded(run(&mut command));
    let resumed = stderr(&output).lines().find(|line| line.contains("resuming after ")).map(str::to_owned);
    assert!(resumed.as_ref().is_some_and(|line| line.contains(" epochs and 0 steps from ")), "{resumed:?}");
}
