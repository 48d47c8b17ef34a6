//! Tests of `train graph` with real processes and real files, including invalid ones.

use crate::programs::*;

use edgecut_testing::assert_has;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Runs `train graph` on `nproc` processes, with `scratch` as the temporary folder for shared files.
fn graph(nproc: u32, scratch: &Path, flags: &[&str]) -> Output {
    let mut command = program();
    command.env("TMPDIR", scratch);
    train_or_evaluate(
        command.args(["graph", "--nproc-per-node", &nproc.to_string(), "--hidden-channels", "16"]).args(flags),
    )
}

const FAKE: [&str; 6] = ["--dataset", "fake-graphs", "--num-graphs", "301", "--num-epochs", "8"];

#[test]
fn processes_train_on_one_copy_and_say_how_it_went() {
    let dir = Folder::new();
    let scratch = dir.join("scratch");
    fs::create_dir(&scratch).expect("a folder");
    let (metrics, model) = (dir.join("metrics.jsonl"), dir.join("model.safetensors"));
    for (nproc, others, packing) in
        [(1, 2, ["--max-nodes", "64"]), (2, 1, ["--batch-size", "7"]), (3, 2, ["--max-nodes", "64"])]
    {
        let files = ["--json", "--metrics", text(&metrics), "--save-model", text(&model)];
        let trained = json_of(graph(nproc, &scratch, &[&FAKE[..], &files].concat()));
        assert!(trained["test_acc"].as_f64() > Some(0.8), "{nproc} processes: {trained}");
        let lines = metrics_lines(&metrics);
        // 8 epochs, the confusion matrix, the scores of classes, the curves and the result.
        assert_eq!(lines.len(), 12);
        // 301 graphs minus 30 validation and 30 test graphs, on any number of processes.
        assert!(lines[..8].iter().all(|line| line["graphs"] == 241 && line["seconds"].as_f64() > Some(0.0)));
        let best = trained["best_epoch"].as_u64().expect("an epoch") as usize;
        assert_same(&lines[best - 1], &trained, &["valid_acc"]);
        // The saved model gives the same results on any number of processes and with any batch size.
        let load = ["--json", "--load-model", text(&model)];
        let loaded = json_of(graph(others, &scratch, &[&FAKE[..], &packing, &load].concat()));
        assert_same(&loaded, &trained, &["valid_acc", "test_acc"]);
        assert_eq!(fs::read_dir(&scratch).expect("the folder").count(), 0, "nothing is left behind");
    }
    let output = graph(2, &scratch, &FAKE);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("validation accuracy ") && said.contains("(epoch "), "{said}");
    let progress = stderr(&output);
    assert!(progress.starts_with("fake-graphs: 301 graphs of 2 classes, "), "{progress}");
    assert!(progress.contains("epoch 8/8: loss ") && progress.contains(" % waiting"), "{progress}");
}

#[test]
fn every_model_and_packing_trains() {
    let dir = Folder::new();
    for flags in [
        &["--model", "gin", "--learn-epsilon", "--readout", "last", "--max-nodes", "500", "--drop-last"][..],
        &["--model", "gcn", "--pooling", "mean", "--no-batch-norm", "--lr", "0.03"],
        &["--model", "sage", "--aggregation", "sum", "--pooling", "max", "--metric", "roc-auc"],
        &["--model", "gin", "--graph-norm", "--residual", "--readout", "jumping-knowledge-max", "--ema", "0.9"],
        &["--model", "gcn", "--layer-norm", "--drop-edge", "0.1", "--lr", "0.03"],
    ] {
        let trained = json_of(graph(2, dir.path(), &[&FAKE[..], flags, &["--num_layers", "2", "--json"]].concat()));
        assert!(trained["test_metric"].as_f64() > Some(0.65), "{flags:?}: {trained}");
    }
}

#[test]
fn a_cross_validation_names_its_protocol() {
    let dir = Folder::new();
    for (protocol, says) in [
        ("validation", "the epoch of each fold was selected on a tenth of its training graphs"),
        ("best-mean-epoch", "one epoch for all folds, selected on the test graphs"),
    ] {
        let flags = [&FAKE[..], &["--num-epochs", "5", "--folds", "3", "--protocol", protocol]].concat();
        let metrics = dir.join("metrics.jsonl");
        let output = graph(2, dir.path(), &[&flags[..], &["--metrics", text(&metrics)]].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        let summary = said.lines().last().expect("a line");
        assert!(summary.starts_with("test accuracy ") && summary.contains(" over 3 folds; "), "{said}");
        assert!(summary.contains(protocol) && summary.contains(says), "{said}");
        let judge = if protocol == "validation" { ", valid " } else { ", test " };
        assert!(stderr(&output).contains(judge), "{}", stderr(&output));
        assert_eq!(said.lines().filter(|line| line.starts_with("fold ")).count(), 3);
        let lines = metrics_lines(&metrics);
        let result = lines.iter().find(|line| line["event"] == "result").expect("a result");
        assert_eq!((result["protocol"].as_str(), result["test"].as_array().map(Vec::len)), (Some(protocol), Some(3)));
        assert!(number_of(result, "mean") > 0.75 && number_of(result, "deviation") < 0.2, "{result}");
    }
}

#[test]
fn other_training_graphs_than_in_the_training_have_a_note() {
    let dir = Folder::new();
    let model = dir.join("model.safetensors");
    succeeded(graph(1, dir.path(), &[&FAKE[..], &["--num-epochs", "1", "--save-model", text(&model)]].concat()));
    for (flags, is_other) in [(&[][..], false), (&["--split-seed", "1"], true), (&["--split", "0.5,0.1,0.4"], true)] {
        let load = [&FAKE[..], &["--load-model", text(&model)], flags].concat();
        let output = succeeded(graph(2, dir.path(), &load));
        let said = "was trained on other graphs, so that validation";
        assert_eq!(stderr(&output).contains(said), is_other, "{}", stderr(&output));
    }
}

/// A dataset in files: twelve paths of three nodes and twelve triangles.
struct Files {
    dir: Folder,
}

impl Files {
    fn new() -> Self {
        let files = Self { dir: Folder::new() };
        let (mut edges, mut indicator, mut labels) = (String::new(), String::new(), String::new());
        for graph in 0..24 {
            let node = |n: usize| 3 * graph + n;
            let pairs = [(1, 2), (2, 3), (3, 1)];
            for (a, b) in &pairs[..2 + graph % 2] {
                edges += &format!("{}, {}\n{}, {}\n", node(*a), node(*b), node(*b), node(*a));
            }
            indicator += &format!("{0}\n{0}\n{0}\n", graph + 1);
            labels += &format!("{}\n", graph % 2);
        }
        files.put("A", &edges);
        files.put("graph_indicator", &indicator);
        files.put("graph_labels", &labels);
        files
    }

    fn put(&self, what: &str, text: &str) {
        fs::create_dir_all(self.folder()).expect("a folder");
        fs::write(self.folder().join(format!("SHAPES_{what}.txt")), text).expect("a file");
    }

    fn folder(&self) -> PathBuf {
        self.dir.join("SHAPES")
    }

    fn train(&self, nproc: u32, flags: &[&str]) -> Output {
        let of_files = ["--dataset", "SHAPES", "--dataset-root-dir", text(self.dir.path()), "--num-epochs", "3"];
        graph(nproc, self.dir.path(), &[&of_files[..], flags].concat())
    }

    fn why(&self, flags: &[&str]) -> String {
        let said = error_of(&self.train(1, flags));
        // An error that both processes report is printed once.
        let both = stderr(&self.train(2, flags));
        let cause = said.trim_start_matches("error: ").to_owned();
        assert_eq!(both.lines().filter(|line| line.starts_with("error: rank ")).count(), 1, "{both}");
        assert!(both.contains(&cause), "{both}, expected {cause}");
        cause
    }
}

#[test]
fn bad_graphs_are_named_with_file_and_line() {
    let files = Files::new();
    let trained = json_of(files.train(2, &["--split", "0.5,0.25,0.25", "--json"]));
    assert_eq!(trained["metric"], "accuracy");
    for (what, text, expected) in [
        ("graph_indicator", "1\n2\n1\n", "SHAPES_graph_indicator.txt: line 3: graph 1 comes after graph 2"),
        ("A", "1, 2\n3, 4\n", "SHAPES_A.txt: line 2: an edge from node 3 of graph 1 to node 4 of graph 2"),
        ("graph_labels", "0\n1\n", "SHAPES_graph_labels.txt: labels of graph 3 are missing: the indicator has 24"),
    ] {
        let files = Files::new();
        files.put(what, text);
        assert_has(files.why(&[]), &[expected]);
    }
}

#[test]
fn folds_are_those_of_the_files_and_bad_ones_are_named() {
    let files = Files::new();
    let folder = files.folder().join("2fold");
    fs::create_dir_all(&folder).expect("a folder");
    let list = |range: std::ops::Range<u32>| range.map(|graph| format!("{graph}\n")).collect::<String>();
    for (name, graphs) in
        [("train_idx-1", 0..12), ("test_idx-1", 12..24), ("train_idx-2", 12..24), ("test_idx-2", 0..12)]
    {
        fs::write(folder.join(format!("{name}.txt")), list(graphs)).expect("a file");
    }
    assert_eq!(json_of(files.train(1, &["--folds", "2", "--json"]))["test"].as_array().map(Vec::len), Some(2));
    let why = files.why(&["--folds", "3", "--folds-dir", text(&folder)]);
    assert!(why.contains("--folds is 3, but") && why.contains("2fold has 2 folds"), "{why}");
    fs::write(folder.join("test_idx-2.txt"), "24\n").expect("a file");
    let why = files.why(&["--folds", "2"]);
    assert!(why.contains("test_idx-2.txt: line 1: graph 24 is unknown: the set has 24, counted from 0"), "{why}");
}

#[test]
fn wrong_flags_and_too_many_processes_are_refused() {
    let files = Files::new();
    let output = files.train(4, &["--split", "0.1,0.1,0.8"]);
    assert_refused(&output, 1, &["training graphs for 4 processes: start at most as many"]);
    assert_has(
        files.why(&["--max-nodes", "2"]),
        &[" has 3 nodes, the most of all, but a batch may have 2: raise --max-nodes to at least 3"],
    );
    for flags in [
        &["--folds", "3", "--save-model", "model.safetensors"][..],
        &["--split", "0.5,0.5"],
        &["--split", "0.5,0.5,0.5"],
        &["--num-graphs", "9"],
        &["--concurrency", "1000000000000"],
        &["--prefetch-bytes", "much"],
        &["--protocol", "best-mean-epoch"],
        &["--folds", "2", "--split", "0.8,0.1,0.1"],
        &["--batch-size", "4", "--max-nodes", "9"],
        &["--folds", "2", "--protocol", "honest"],
    ] {
        let output = files.train(1, flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
    }
    let output = files.train(2, &["--split", "0.5,0.25,0.25", "--batch-size", "32", "--drop-last"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "12 training graphs do not fill one step of 2 processes with 32 graphs each";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    let absent = graph(1, files.dir.path(), &["--dataset", "OTHER", "--dataset-root-dir", text(files.dir.path())]);
    assert!(error_of(&absent).contains("dataset OTHER: no file OTHER_A.txt (TU format) found; looked in: "));
}
