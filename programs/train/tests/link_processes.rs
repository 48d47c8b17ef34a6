//! Tests of `train link` with real processes and real sockets, including invalid flags.

use crate::programs;

use edgecut_graph::HoldOut;
use edgecut_graph::readers::{FakeOptions, fake};
use programs::{
    error_of, json_of, link_parts, node, predict, program, run, stderr, succeeded, train, typed_link_parts, written_by,
};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// Runs `train link` on the given number of processes.
fn link(parts: &Path, nproc: u32, flags: &[&str]) -> Output {
    let mut command = program();
    command.args(["link", "--dataset-root-dir"]).arg(parts).args(["--nproc-per-node", &nproc.to_string()]);
    command.args(["--hidden-channels", "16", "--batch-size", "128", "--lr", "0.01", "--dropout", "0"]);
    run(command.args(flags))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

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
    let lines: Vec<Value> = std::fs::read_to_string(&metrics)
        .expect("read the metrics")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect();
    let events: Vec<&Value> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["epoch", "epoch", "epoch", "epoch", "partition", "histogram", "curves", "result"]);
    assert!(lines[3]["loss"].as_f64() < lines[0]["loss"].as_f64(), "the loss falls");
    let best = trained["best_epoch"].as_u64().expect("an epoch") as usize;
    assert_eq!(lines[best - 1]["valid"], trained["valid"], "the best epoch was taken");
    assert!(lines[..4].iter().all(|line| score(line, "valid", "roc_auc") <= score(&trained, "valid", "roc_auc")));
    let load = [&shape[..], &["--load-model", text(&model)]].concat();
    let loaded = json_of(link(&parts.path, 2, &[&load[..], &["--json"]].concat()));
    assert_eq!((&loaded["valid"], &loaded["test"]), (&trained["valid"], &trained["test"]));
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
        assert_eq!([&two[split]["edges"], &four[split]["edges"]], [&trained[split]["edges"]; 2]);
        // Batches of other sizes may round the last bit of a score differently, which may swap two almost equal ones.
        let one_swap = 1.0 / trained[split]["edges"].as_f64().expect("a number of edges");
        assert!((score(&two, split, "mrr") - score(&four, split, "mrr")).abs() <= one_swap, "{two} and {four}");
    }
    assert!(two["test"]["roc_auc"].is_null() && score(&two, "test", "mrr") < score(&trained, "test", "mrr"), "{two}");

    let output = run(node(&parts.path).args(["--nproc-per-node", "2", "--load-model"]).arg(&model));
    assert_each_says(&output, &format!("model {}: ", text(&model)));
    assert_each_says(&output, "it describes a model for links: use it with `train link`");
    let output = link(&parts.path, 2, &["--num-neighbors", "5", "--load-model", text(&model)]);
    assert_each_says(&output, "the model has 2 layers, but --num-neighbors has 1 fan-outs");
}

/// Checks that both processes failed and that each printed exactly one error, which contains `why`.
fn assert_each_says(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    let text = stderr(output);
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 2, "one error a process: {text}");
    assert!(errors.iter().all(|error| error.contains(why)) && !text.contains("panicked"), "{text}");
}

#[test]
fn embeddings_and_relations_are_trained_saved_and_loaded() {
    let parts = typed_link_parts(2);
    let model = parts.path.join("../model.safetensors");
    for flags in [
        &["--model", "embedding", "--shared-negatives", "--in-batch-negatives", "--num-negatives", "50"][..],
        &[
            "--model",
            "rgcn",
            "--num-neighbors",
            "4",
            "--reverse-types",
            "e0=e1",
            "--n3-weight",
            "0.001",
            "--prefetch-bytes",
            "1",
        ],
    ] {
        let shape = ["--decoder", "distmult", "--eval-negatives", "all", "--edge-types", "e0,e4", "--json"];
        let training = ["--loss", "softmax", "--num-epochs", "3", "--save-model", text(&model)];
        let trained = json_of(link(&parts.path, 2, &[flags, &shape, &training].concat()));
        // A random ranking of 300 nodes has an MRR of 0.021. The edges are random too, so little can be learned from them:
        // a high MRR would be a leak.
        let mrr = trained["test"]["mrr"].as_f64().expect("a score");
        assert!(mrr > 0.015 && mrr < 0.15, "{trained}");
        let loaded = json_of(link(&parts.path, 2, &[flags, &shape, &["--load-model", text(&model)]].concat()));
        assert_eq!((&loaded["valid"], &loaded["test"]), (&trained["valid"], &trained["test"]));
    }
}

#[test]
fn wrong_flags_end_with_status_2_and_say_what_to_do() {
    let parts = link_parts(1);
    for (flags, what) in [
        (&["--metric", "roc-auc", "--eval-negatives", "all"][..], "give --eval-negatives a number"),
        (&["--eval-negatives", "0"], "neither `all`, `given` nor a number"),
        (&["--metric", "accuracy"], "expected mrr, hits@K such as hits@50, roc-auc or average-precision"),
        (&["--in-batch-negatives"], "--shared-negatives"),
        (&["--shared-negatives", "--exclude-positives"], "cannot be used with"),
        (&["--reverse-types", "writes"], "is not a pair of edge types"),
        (&["--reverse-types", "a=b=c"], "types with `=` in their names cannot be paired"),
        (&["--n3-weight=-1"], "not a finite number"),
        (&["--num-negatives", "0"], "num-negatives"),
        (&["--prefetch-bytes", "much"], "is not a number of bytes"),
        (&["--hold-out-edges", "0"], "give --num-epochs"),
        (&["--hold-out-edges", "0", "--num-epochs", "2", "--metric", "mrr"], "no edges to evaluate on"),
        (&["--decoder", "cosine"], "expected dot, distmult, complex, bilinear, transe, rotate or mlp"),
        (&["--decoder", "rotate:gamma=2"], "rotate has no setting \"gamma\": use margin"),
        (&["--loss", "margin:margin=0"], "margin 0 is not a finite number above 0"),
    ] {
        let output = link(&parts.path, 1, flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(what), "{flags:?}: {}", stderr(&output));
    }
}

/// All edges are trained on, and the model of the last epoch is kept. The note tells it.
#[test]
fn training_on_all_edges_keeps_the_model_of_the_last_epoch() {
    let whole = programs::parts(2, 6);
    let folder = tempfile::tempdir().expect("a folder");
    let [model, out] = ["model.safetensors", "out"].map(|name| folder.path().join(name));
    let flags = ["--hold-out-edges", "0", "--num-epochs", "3", "--num-neighbors", "3", "--json", "--save-model"];
    let output = link(&whole.path, 2, &[&flags[..], &[text(&model)]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let note = "training uses all edges: there is no validation, and the model of epoch 3, the last one, is kept";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    let result = json_of(&output);
    assert_eq!(result["best_epoch"], 3, "{result}");
    for split in ["valid", "test"] {
        assert_eq!((&result[split]["edges"], &result[split]["mrr"]), (&Value::from(0), &Value::Null), "{result}");
    }
    let top = ["--output", "top-k", "--sources", "all", "--top-k", "3"];
    let output = predict(&whole.path, &model, &out, &top);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn what_does_not_fit_the_graph_is_one_error() {
    let (plain, whole) = (link_parts(1), programs::parts(1, 6));
    for (parts, flags, why) in [
        (&plain, &["--edge-types", "cites"][..], "there is no edge type cites: the graph has node__to__node"),
        (&plain, &["--reverse-types", "to=cites"], "there is no edge type cites"),
        (&whole, &[], "no edges are held out for validation: partition it with --hold-out-edges"),
        (&plain, &["--hold-out-edges", "0"], "it has validation edges, which are not trained on"),
        (&plain, &["--weighted-loss"], "edges of type node__to__node have no weights"),
        (
            &plain,
            &["--shared-negatives", "--in-batch-negatives", "--log-q-correction"],
            "the log-Q correction estimates a softmax over all nodes, which the loss bce does not compute",
        ),
        (&plain, &["--decoder", "rotate", "--n3-weight", "0.1"], "not for the decoder rotate"),
        (
            &plain,
            &["--exclude-positives", "--num-negatives", "400"],
            "400 distinct negatives were requested for an edge of type node__to__node, but there are only 400 nodes",
        ),
        (&plain, &["--weighted"], "weight"),
        (&plain, &["--time-attr", "node_time"], "no nodes of dataset fake have times"),
        (&plain, &["--time-attr", "edge_time"], "has no times"),
    ] {
        let output = link(&parts.path, 1, &[&["--num-neighbors", "3", "--num-epochs", "1"], flags].concat());
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {error}");
        assert!(error.contains(why), "{flags:?}: {error}");
    }
    let options = FakeOptions { avg_num_nodes: 300, edge_attributes: true, ..FakeOptions::default() };
    let mut graph = fake(&options).expect("a fake graph");
    let hold_out = HoldOut::random(0.1, 0.1, 0);
    graph.hold_out_edges(&graph.edge_type_ids(), &hold_out).expect("held-out edges");
    let timed = written_by(&graph, 1);
    let flags = ["--num-neighbors", "3", "--num-epochs", "1", "--time-attr", "edge_time"];
    let saved = timed.path.join("../timed.safetensors");
    let output = link(&timed.path, 1, &[&flags[..], &["--save-model", text(&saved)]].concat());
    assert!(output.status.success(), "held-out edges have their own times: {}", stderr(&output));
    let output = succeeded(predict(&timed.path, &saved, &timed.path.join("../out"), &["--output", "embedding"]));
    let note = "was trained with --time-attr edge_time, but neighbors of all times are read here";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    let error = error_of(&link(&timed.path, 1, &[&flags[..], &["--eval-negatives", "all"]].concat()));
    assert!(error.contains("the neighbors of a node depend on the time of the edge"), "{error}");
    let error =
        error_of(&run(train("link", &timed.path).args(["--num-nodes", "1", "--load-model", "absent.safetensors"])));
    assert!(error.contains("absent.safetensors"), "{error}");
}
