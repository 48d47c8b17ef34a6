//! Predictions and embeddings of nodes, from real processes: the same for any partitioning and number of processes, equal
//! to an evaluation with all neighbors, and complete or absent.

use crate::programs;
use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{DiskPartId, Features, NodeTypeId, Part, Split, map_npy, write_npy};
use edgecut_testing::{names, python_has};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{ListAccessor, RowAccessor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub(crate) fn numbers(out: &Path) -> (Vec<usize>, Vec<f32>) {
    let (shape, values) = map_npy::<f32>(&out.join("predictions.npy")).expect("an array");
    (shape, values.to_vec())
}

/// Predicts logits in each of the layouts: parts and flags. All are equal to the expected ones except for rounding.
pub(crate) fn assert_same_logits(
    layouts: &[(&Parts, &[&str])],
    model: &Path,
    out: &Path,
    expected: &[f32],
    what: &str,
) {
    for &(parts, flags) in layouts {
        predicted(&parts.path, model, out, &[flags, &["--output", "logit"]].concat());
        assert_close(&numbers(out).1, expected, &format!("{what} {flags:?}"));
    }
}

#[test]
fn predictions_do_not_depend_on_the_partitioning() {
    let two = fake_parts(2);
    let others = [fake_parts(1), fake_parts(3)];
    let Scratch { folder: _folder, model, out } = scratch();
    // `layers_one_after_the_other_compute_the_same_as_the_network` compares all convolutions with all blocks in memory.
    let kinds = [
        "--model sage",
        "--model sage --residual --layer-norm --num-neighbors 5,3,2 --eval-num-neighbors -1,-1,-1",
        "--model gcn",
        "--model gatv2 --heads 2 --layer-norm",
        "--model sage --encoder-decoder --residual --layer-norm --feed-forward 2",
        "--model rgcn",
        "--model sage --node-embeddings node=6 --ema 0.5",
        "--model sage --node-embeddings node:add",
        "--model sage --batch-norm --readout jumping-knowledge --ema 0.5",
    ];
    // Batches of few nodes, fewer and more processes than parts, and processes that share parts unevenly.
    let layouts = [
        (&others[0], &["--memory-bytes", "100KB"][..]),
        (&others[1], &["--nproc-per-node", "3"]),
        (&two, &["--nproc-per-node", "1", "--memory-bytes", "1"]),
        (&two, &["--nproc-per-node", "3"]),
        (&two, &["--nproc-per-node", "4"]),
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        let result = trained("node", &two.path, &model, &kind.split(' ').collect::<Vec<_>>());
        let ours = predicted(&two.path, &model, &out, &["--output", "logit", "--nproc-per-node", "2"]);
        let (shape, expected) = numbers(&out);
        assert_eq!(shape, [1000, 10], "{kind:?}");
        // The evaluation after training has read all neighbors too.
        for score in ["valid_acc", "test_acc"] {
            let difference = ours[score].as_f64().expect("a score") - result[score].as_f64().expect("a score");
            assert!(difference.abs() < 0.01, "{kind:?}: {ours} after {result}");
        }
        // Layouts divide the nodes, whatever computes their rows: two kinds have all layouts, and the others have two.
        let layouts = if number < 2 { &layouts[..] } else { &layouts[number % 4..][..2] };
        assert_same_logits(layouts, &model, &out, &expected, kind);
        // Sampling all neighbors gives the same rows.
        let hops = if kind.contains("5,3,2") { "-1,-1,-1" } else { "-1,-1" };
        predicted(&two.path, &model, &out, &["--output", "logit", "--nproc-per-node", "2", "--num-neighbors", hops]);
        assert_close(&numbers(&out).1, &expected, &format!("{kind:?}, sampled"));
    }
}

#[test]
fn files_agree_with_each_other_and_with_the_reported_accuracy() {
    let parts = fake_parts(2);
    let Scratch { folder, model, .. } = scratch();
    trained("node", &parts.path, &model, &[]);
    let two = ["--nproc-per-node", "2"];
    let flags = |more: &[&str]| [&two[..], more].concat().iter().map(ToString::to_string).collect::<Vec<String>>();
    let run = |name: &str, more: &[&str]| -> Value {
        let flags = flags(more);
        predicted(&parts.path, &model, &folder.join(name), &flags.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let result = run("class", &[]);
    let (shape, classes) = map_npy::<i64>(&folder.join("class").join("predictions.npy")).expect("classes");
    assert_eq!(shape, [1000]);
    // The accuracy of the file is the reported one.
    let mut right = 0;
    let mut tests = BTreeMap::new();
    for id in 0..2 {
        let part = Part::open(&parts.path, DiskPartId(id), true).expect("a part");
        let nodes = part.nodes(NodeTypeId(0));
        let labels = nodes.labels.as_ref().expect("labels");
        for &row in nodes.splits.test.iter() {
            let id = nodes.original_ids[row as usize];
            right += u32::from(classes[id as usize] == labels[row as usize]);
            tests.insert(id, labels[row as usize]);
        }
    }
    assert_eq!(result["test_acc"].as_f64(), Some(f64::from(right) / tests.len() as f64));
    assert_eq!(result["nodes"], 1000);

    // Probabilities add up to 1, and the greatest belongs to the class.
    run("probability", &["--output", "probability"]);
    let (_, shares) = numbers(&folder.join("probability"));
    for (row, &class) in shares.chunks_exact(10).zip(classes.iter()) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        assert!(row.iter().all(|share| *share <= row[class as usize]), "{row:?} for {class}");
    }

    // CSV files of both processes have all nodes once, with the classes of the array.
    run("csv", &["--format", "csv"]);
    run("gathered", &["--format", "csv", "--gather"]);
    let rows_of = |path: PathBuf| -> Vec<(usize, i64)> {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("node_id,class"));
        lines
            .map(|line| line.split_once(',').expect("two columns"))
            .map(|(id, class)| (id.parse().expect("an id"), class.parse().expect("a class")))
            .collect()
    };
    let mut rows = rows_of(folder.join("csv").join("predictions-00000-of-00002.csv"));
    rows.extend(rows_of(folder.join("csv").join("predictions-00001-of-00002.csv")));
    rows.sort_unstable();
    let expected: Vec<(usize, i64)> = classes.iter().copied().enumerate().collect();
    assert_eq!(rows, expected);
    let mut gathered = rows_of(folder.join("gathered").join("predictions.csv"));
    gathered.sort_unstable();
    assert_eq!(gathered, expected);

    // Some nodes: a split, and a list in any order with an id given twice.
    run("test", &["--nodes", "test"]);
    let (_, ids) = map_npy::<i64>(&folder.join("test").join("node_ids.npy")).expect("ids");
    assert_eq!(ids.iter().map(|&id| id as u32).collect::<Vec<_>>(), tests.keys().copied().collect::<Vec<_>>());
    let (_, of_test) = map_npy::<i64>(&folder.join("test").join("predictions.npy")).expect("classes");
    assert!(ids.iter().zip(of_test.iter()).all(|(&id, class)| classes[id as usize] == *class));
    let list = folder.join("list.npy");
    write_npy(&list, &[4], &[900_i64, 3, 17, 900]).expect("a list");
    run("list", &["--nodes", list.to_str().expect("UTF-8")]);
    let (_, ids) = map_npy::<i64>(&folder.join("list").join("node_ids.npy")).expect("ids");
    let (_, of_list) = map_npy::<i64>(&folder.join("list").join("predictions.npy")).expect("classes");
    assert_eq!(ids[..], [3, 17, 900]);
    assert_eq!(of_list[..], [classes[3], classes[17], classes[900]]);
    // No temporary files are left.
    for entry in std::fs::read_dir(folder.join("list")).expect("the folder") {
        let name = entry.expect("an entry").file_name();
        assert!(["predictions.npy", "node_ids.npy"].contains(&name.to_str().expect("UTF-8")), "{name:?}");
    }
}

#[test]
fn embeddings_of_typed_graphs_and_of_models_for_links_are_exact() {
    let Scratch { folder: _folder, model, out } = scratch();
    let typed = [typed_parts(2), typed_parts(3)];
    for kind in [&["--model", "sage", "--layer-norm"][..], &["--model", "rgcn"]] {
        trained("node", &typed[0].path, &model, kind);
        let mut rows = Vec::new();
        for (parts, processes) in [(&typed[0], "2"), (&typed[1], "3")] {
            let flags = ["--nproc-per-node", processes, "--output"];
            predicted(&parts.path, &model, &out, &[&flags[..], &["logit"]].concat());
            let logits = numbers(&out);
            // A type that the model does not classify has embeddings of every layer.
            for layer in ["0", "1", "2"] {
                let more = ["embedding", "--node-type", "v2", "--layer", layer];
                predicted(&parts.path, &model, &out, &[&flags[..], &more].concat());
                let (shape, values) = numbers(&out);
                assert_eq!(shape, [300, 16]);
                rows.push((layer, values));
            }
            rows.push(("logits", logits.1));
        }
        for (name, values) in &rows[4..] {
            let (_, expected) = rows.iter().find(|(first, _)| first == name).expect("the first");
            assert_close(values, expected, &format!("{kind:?} {name}"));
        }
    }
    let links = link_parts(2);
    trained("link", &links.path, &model, &[]);
    predicted(&links.path, &model, &out, &["--output", "embedding", "--nproc-per-node", "2"]);
    let (shape, expected) = numbers(&out);
    assert_eq!(shape, [400, 16]);
    predicted(&link_parts(1).path, &model, &out, &["--output", "embedding"]);
    assert_close(&numbers(&out).1, &expected, "links");
    assert_error(&predict(&links.path, &model, &out, &["--overwrite"]), &["use --output embedding"]);
}

#[test]
fn wrong_requests_are_refused_with_one_error() {
    let fake_graph = fake_parts(2);
    let Scratch { folder, model, .. } = scratch();
    trained("node", &fake_graph.path, &model, &[]);
    let out = folder.join("out");
    let list = |name: &str, ids: &[i64]| {
        let path = folder.join(name);
        write_npy(&path, &[ids.len()], ids).expect("a list");
        path.to_str().expect("UTF-8").to_owned()
    };
    let beyond = list("beyond.npy", &[4, 1000]);
    let negative = list("negative.npy", &[-4]);
    let absent = folder.text("absent");
    for (flags, status, parts) in [
        (vec!["--layer", "1"], 2, &["--layer", "--output embedding"][..]),
        (vec!["--output", "embedding", "--num-neighbors", "5,3"], 2, &["--num-neighbors"]),
        (vec!["--gather"], 2, &["--gather"]),
        (vec!["--output", "embedding", "--layer", "2"], 1, &["--layer", "from 1 to 1"]),
        (vec!["--num-neighbors", "5"], 1, &["--num-neighbors", "2 layers"]),
        (vec!["--node-type", "author"], 1, &["--node-type", "author"]),
        (vec!["--nodes", &beyond], 1, &["beyond.npy", "1 of 2 ids do not exist: 1000 (row 2)"]),
        (vec!["--nodes", &negative], 1, &["negative.npy", "-4"]),
        (vec!["--nodes", "tests"], 1, &["--nodes", "tests"]),
        (vec!["--scratch-dir", &absent], 1, &["--scratch-dir", "absent"]),
    ] {
        assert_fails(&predict(&fake_graph.path, &model, &out, &flags), status, parts);
        let is_empty = std::fs::read_dir(&out).map_or(true, |mut entries| entries.next().is_none());
        assert!(is_empty, "{flags:?} left files");
    }
    // A graph with other features.
    let other = parts(2, 1);
    assert_error(&predict(&other.path, &model, &out, &[]), &["the model was trained for another graph"]);
    // Predictions of an earlier run are kept.
    predicted(&fake_graph.path, &model, &out, &[]);
    let again = predict(&fake_graph.path, &model, &out, &[]);
    assert_error(&again, &["holds predictions of an earlier run", "--overwrite"]);
}

#[test]
fn predictions_of_an_earlier_run_stay_if_their_replacement_fails() {
    let [fake_graph, other] = [fake_parts(1), parts(2, 1)];
    let Scratch { folder, model, .. } = scratch();
    trained("node", &fake_graph.path, &model, &[]);
    let out = folder.join("out");
    predicted(&fake_graph.path, &model, &out, &["--format", "csv"]);
    let old = names(&out);
    let csv = out.join("predictions-00000-of-00001.csv");
    let content = std::fs::read(&csv).expect("predictions");
    // The job cannot be joined: another program has the port of rank 0.
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let absent = ["--num-nodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", &port];
    assert_error(&predict(&fake_graph.path, &model, &out, &[&absent[..], &["--overwrite"]].concat()), &[&port]);
    assert_eq!(names(&out), old);
    // The model does not fit the graph.
    assert_error(&predict(&other.path, &model, &out, &["--overwrite"]), &["the model was trained for another graph"]);
    assert_eq!(names(&out), old);
    assert_eq!(std::fs::read(&csv).expect("predictions"), content);
    // Other names than in the earlier run.
    predicted(&fake_graph.path, &model, &out, &["--overwrite"]);
    assert_eq!(names(&out), ["predictions.npy"]);
}

#[test]
fn parquet_files_have_the_rows_of_the_array() {
    let parts = fake_parts(2);
    let Scratch { folder, model, .. } = scratch();
    trained("node", &parts.path, &model, &[]);
    let out = folder.join("out");
    let flags = ["--nproc-per-node", "2", "--output", "probability"];
    predicted(&parts.path, &model, &out, &flags);
    let (_, expected) = numbers(&out);
    let read = |path: PathBuf, rows: &mut BTreeMap<i64, Vec<f32>>| {
        let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let reader = SerializedFileReader::new(file).expect("a Parquet file");
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("a row");
            let list = row.get_list(1).expect("a list");
            let values = (0..list.len()).map(|at| list.get_float(at).expect("a number")).collect();
            assert!(rows.insert(row.get_long(0).expect("an id"), values).is_none(), "each id once");
        }
    };
    for gather in [false, true] {
        let more: &[&str] = if gather { &["--format", "parquet", "--gather"] } else { &["--format", "parquet"] };
        predicted(&parts.path, &model, &out, &[&flags[..], more].concat());
        let mut rows = BTreeMap::new();
        if gather {
            read(out.join("predictions.parquet"), &mut rows);
        } else {
            read(out.join("predictions-00000-of-00002.parquet"), &mut rows);
            read(out.join("predictions-00001-of-00002.parquet"), &mut rows);
        }
        assert!(rows.keys().copied().eq(0..1000), "{} rows", rows.len());
        assert_eq!(rows.into_values().flatten().collect::<Vec<f32>>(), expected);
    }
    // Files of the user stay, whatever they are called.
    let own = out.join("predictions_of_last_year.csv");
    std::fs::write(&own, "node_id\n").expect("write a file");
    predicted(&parts.path, &model, &out, &["--format", "parquet"]);
    assert!(own.exists() && !out.join("predictions.parquet").exists());
    let file = std::fs::File::open(out.join("predictions-00000-of-00001.parquet")).expect("a file");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    assert_eq!(reader.metadata().file_metadata().num_rows(), 1000);
}

#[test]
fn a_killed_run_leaves_no_partial_file() {
    let parts = fake_parts(2);
    let Scratch { folder, model, .. } = scratch();
    trained("node", &parts.path, &model, &[]);
    let whole = folder.join("whole");
    let start = Instant::now();
    predicted(&parts.path, &model, &whole, &["--nproc-per-node", "2", "--format", "csv", "--output", "probability"]);
    let mut needed = start.elapsed();
    let names = ["predictions-00000-of-00002.csv", "predictions-00001-of-00002.csv"];
    let complete = names.map(|name| std::fs::read(whole.join(name)).expect("a file"));
    let mut num_killed = 0;
    const RUNS: u32 = 8;
    for run in 0..RUNS {
        let out = folder.join(format!("out-{run}"));
        let mut command = Command::new(TRAIN);
        command.args(["predict", "--nproc-per-node", "2", "--format", "csv", "--output", "probability"]);
        command.arg("--dataset-root-dir").arg(&parts.path).arg("--load-model").arg(&model).arg("--out").arg(&out);
        unplace(&mut command);
        let start = Instant::now();
        let mut child = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        // The moments cover the whole run. Its end, where files are written, is as likely as its start.
        std::thread::sleep(needed * (run + 1) / RUNS);
        match child.try_wait().expect("wait for a child") {
            None => num_killed += 1,
            // Runs take less time than the first one if the caches were cold or the machine was busier.
            Some(_) => needed = start.elapsed(),
        }
        let _ = child.kill();
        let _ = child.wait();
        for (name, complete) in names.iter().zip(&complete) {
            if let Ok(found) = std::fs::read(out.join(name)) {
                assert!(found == *complete, "run {run}: {name} has {} of {} bytes", found.len(), complete.len());
            }
        }
    }
    assert!(num_killed > 0, "none of {RUNS} runs was killed");
}

#[test]
fn layer_wise_evaluation_is_that_of_all_neighbors() {
    let two = fake_parts(2);
    let typed = typed_parts(2);
    let Scratch { folder: _folder, model, .. } = scratch();
    for (parts, kind, metric) in [
        (&two, &["--model", "gcn"][..], "accuracy"),
        (&two, &["--model", "sage", "--encoder-decoder"], "macro-f1"),
        (&typed, &["--model", "gat", "--heads", "2"], "accuracy"),
    ] {
        trained("node", &parts.path, &model, kind);
        let evaluated = |processes: &str, flags: &[&str]| -> Value {
            let mut command = programs::train("node", &parts.path);
            command.args(["--json", "--nproc-per-node", processes, "--metric", metric, "--load-model"]).arg(&model);
            json_of(run(command.args(flags)))
        };
        let expected = evaluated("2", &["--eval-num-neighbors", "-1,-1"]);
        for processes in ["1", "3"] {
            let found = evaluated(processes, &["--eval", "layer-wise"]);
            for score in ["valid_acc", "test_acc", "valid_metric", "test_metric"] {
                let difference = found[score].as_f64().expect("a score") - expected[score].as_f64().expect("a score");
                // Rounding may change a prediction.
                assert!(difference.abs() < 0.01, "{kind:?} {processes}: {found} for {expected}");
            }
        }
    }
    // Training selects its best epoch by it, and the model is evaluated from all neighbors later.
    let mut command = programs::node(&two.path);
    command.args(["--eval", "layer-wise", "--nproc-per-node", "2", "--num-epochs", "3", "--json"]);
    let trained = json_of(run(command.arg("--save-model").arg(&model)));
    let mut command = programs::train("node", &two.path);
    command.args(["--json", "--nproc-per-node", "2", "--load-model"]).arg(&model);
    let output = run(&mut command);
    let evaluated = json_of(&output);
    let difference = evaluated["test_acc"].as_f64().expect("a score") - trained["test_acc"].as_f64().expect("a score");
    assert!(difference.abs() < 0.01, "{evaluated} after {trained}");
    // Fan-outs of a training do not set the evaluation's on a small graph.
    assert_eq!(stderr(&output).matches("since the graph is small").count(), 1, "{}", stderr(&output));
    let output = succeeded(run(command.args(["--eval-num-neighbors", "1,1"])));
    assert!(!stderr(&output).contains("since the graph is small"), "{}", stderr(&output));
    assert_ne!(json_of(&output)["test_acc"], evaluated["test_acc"]);
    let output = run(programs::train("node", &two.path).args(["--eval", "layer-wise", "--eval-num-neighbors", "5,3"]));
    assert_refused(&output, 2, &["--eval layer-wise reads all neighbors"]);
}

/// A model predicts for a graph that it was not trained on, if the schema is the same.
#[test]
fn a_model_predicts_for_another_graph_of_the_same_schema() {
    let trained_on = fake_parts(2);
    let options = FakeOptions { avg_num_nodes: 321, seed: 9, ..FakeOptions::default() };
    let other = programs::written_by(&fake(&options).expect("a fake graph"), 2);
    let Scratch { folder: _folder, model, out } = scratch();
    trained("node", &trained_on.path, &model, &[]);
    let result = predicted(&other.path, &model, &out, &["--nproc-per-node", "2"]);
    let (shape, _) = map_npy::<i64>(&out.join("predictions.npy")).expect("classes");
    assert_eq!((shape, result["nodes"].as_u64()), (vec![321], Some(321)));
}

#[test]
fn fan_outs_of_an_evaluation_need_no_fan_outs_of_a_training() {
    let parts = fake_parts(1);
    let Scratch { folder: _folder, model, .. } = scratch();
    // The model has two layers, and --num-neighbors has three fan-outs by default.
    let result = trained("node", &parts.path, &model, &[]);
    let mut command = program();
    command.args(["node", "--json", "--dataset-root-dir"]).arg(&parts.path).arg("--load-model").arg(&model);
    // Of a flag that is given twice, the last one counts.
    assert_same(&json_of(run(command.arg("--eval-num-neighbors=-1,-1"))), &result, &["test_acc"]);
    assert_error(&run(command.arg("--eval-num-neighbors=-1")), &["the model has 2 layers"]);
}

#[test]
fn a_learning_rate_without_embeddings_has_a_note() {
    let said = "--embedding-lr has no effect";
    for (flags, is_noted) in [(&[][..], true), (&["--node-embeddings", "node=4"], false)] {
        let flags = [&["--embedding-lr", "0.1", "--num-epochs", "1"][..], flags].concat();
        let output = succeeded(run(programs::train("node", &fake_parts(1).path).args(flags)));
        assert_eq!(stderr(&output).contains(said), is_noted, "{}", stderr(&output));
    }
}

#[test]
fn other_splits_than_in_the_training_have_a_note() {
    let mut graph = fake(&FakeOptions::default()).expect("a fake graph");
    let here = programs::written_by(&graph, 2);
    let features = graph.node_types[0].features.take();
    let Some(Features::F32 { values, dim }) = &features else { panic!("features in f32") };
    let doubled: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
    graph.node_types[0].features = Some(Features::F32 { values: doubled.into(), dim: *dim });
    let other_features = programs::written_by(&graph, 3);
    graph.node_types[0].features = features;
    let splits = &mut graph.node_types[0].splits;
    let train = splits.train.to_vec();
    splits.set(Split::Train, splits.test.to_vec().into());
    splits.set(Split::Test, train.into());
    let other = programs::written_by(&graph, 1);
    let Scratch { folder: _folder, model, out } = scratch();
    trained("node", &here.path, &model, &[]);
    let path = model.display();
    let leak = "so that validation and test data may be among the training data of the model";
    for (parts, expected) in [
        (&here, None),
        (&other, Some(format!("the nodes of type node have other splits than in the training of {path}, {leak}"))),
        (&other_features, Some(format!("have other features than in the training of {path}, but the same splits"))),
    ] {
        // One note of two processes.
        let load = ["--nproc-per-node", "2", "--load-model", model.to_str().expect("UTF-8")];
        let evaluated = succeeded(run(programs::train("node", &parts.path).args(load)));
        let output = succeeded(predict(&parts.path, &model, &out, &["--overwrite", "--nproc-per-node", "2"]));
        for text in [stderr(&evaluated), stderr(&output)] {
            match &expected {
                Some(said) => assert_eq!(text.matches(said).count(), 1, "{said} in {text}"),
                None => assert!(!text.contains("than in the training"), "{text}"),
            }
        }
    }
}

/// The file is what OGB's `MAG240MEvaluator.save_test_submission` writes.
#[test]
fn a_submission_has_the_classes_in_the_order_of_the_file() {
    const NUM_NODES: usize = 60_000;
    const NUM_SUBMITTED: i64 = 58_726;
    let options = FakeOptions { avg_num_nodes: NUM_NODES, avg_degree: 3.0, num_channels: 4, ..FakeOptions::default() };
    let parts = programs::fake_parts_of(&options, 2);
    let Scratch { folder, model, out } = scratch();
    let fast = ["--num-epochs", "1", "--batch-size", "4096", "--eval-num-neighbors", "5,3"];
    trained("node", &parts.path, &model, &fast);
    let list = folder.join("list.npy");
    let descending: Vec<i64> = (0..NUM_SUBMITTED).rev().collect();
    write_npy(&list, &[descending.len()], &descending).expect("a list");
    let list = list.to_str().expect("UTF-8");
    let flags = ["--nproc-per-node", "2", "--ogb-submission", "mag240m-test-challenge", "--nodes"];
    predicted(&parts.path, &model, &out, &[&flags[..], &[list]].concat());
    let (_, classes) = map_npy::<i64>(&out.join("predictions.npy")).expect("classes");
    assert!(classes.windows(2).any(|pair| pair[0] != pair[1]), "several classes");
    let alone = ["--overwrite", "--ogb-submission", "mag240m-test-challenge", "--nodes", "test"];
    let output = predict(&parts.path, &model, &out, &alone);
    assert_error(&output, &["--ogb-submission", "58726 nodes, but --nodes test has"]);
    for (more, why) in [(&["all"][..], "add --nodes test"), (&["test", "--output", "logit"], "contains classes")] {
        assert_fails(&predict(&parts.path, &model, &out, &[&flags[..], more].concat()), 2, &[why]);
    }
    // NumPy reads the archive, and OGB's checks of it hold.
    predicted(&parts.path, &model, &out, &[&flags[..], &[list]].concat());
    let script = "import numpy, sys\n\
                  y = numpy.load(sys.argv[1] + '/y_pred_mag240m_test-challenge.npz')['y_pred']\n\
                  p = numpy.load(sys.argv[1] + '/predictions.npy')\n\
                  assert y.dtype == numpy.short and y.shape == (58726,), (y.dtype, y.shape)\n\
                  assert (y == p[::-1]).all()";
    if !python_has(Command::new("python3"), "numpy", "a_submission_has_the_classes_in_the_order_of_the_file") {
        return;
    }
    succeeded(Command::new("python3").args(["-c", script]).arg(&out).output().expect("start Python"));
}
