//! Tests of the program `train` with real processes and real sockets, including failures.

use crate::programs;

use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{DiskPartId, HotnessRule, NodeTypeId, Part};
use edgecut_partition::{Method, PartitionOptions, partition};
use edgecut_testing::{free_port, python_has};
use programs::{
    Folder, Process, assert_error, assert_refused, assert_same, children_of, end, entry, error_of, fake_parts, json_of,
    metrics_lines, node, number_of, parts, program, random_graph, rank, run, send, start_training, stderr, succeeded,
    train, train_or_evaluate, typed_parts, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[test]
fn two_processes_train_and_say_how_it_went() {
    let parts = fake_parts(2);
    let metrics = parts.path.join("../metrics.jsonl");
    let model = parts.path.join("../model.safetensors");
    let result = |extra: &[&str]| -> Value {
        let mut command = node(&parts.path);
        command.args(["--nproc-per-node", "2", "--json", "--metrics"]).arg(&metrics).args(extra);
        json_of(train_or_evaluate(&command))
    };
    let trained = result(&["--num-epochs", "4", "--save-model", model.to_str().expect("a UTF-8 path")]);
    // There are ten classes, and the features alone allow an accuracy of about 40 %.
    assert!(trained["test_acc"].as_f64().expect("an accuracy") > 0.7, "{trained}");
    let facts = std::fs::read_to_string(&metrics).expect("the metrics");
    let facts: Value = serde_json::from_str(facts.lines().next().expect("a line")).expect("a JSON line");
    assert_eq!((&facts["event"], &facts["dataset"]), (&json!("run"), &json!("fake")));
    assert_eq!(
        ["nodes", "edges", "parts", "processes", "machines"].map(|field| facts[field].as_u64()),
        [1000, 10_000, 2, 2, 1].map(Some)
    );
    assert!(
        facts["command"].as_str().is_some_and(|line| line.starts_with("train node --dataset-root-dir ")),
        "{facts}"
    );
    assert!(facts["version"].as_str().is_some_and(|version| version.starts_with("0.1.0 (")), "{facts}");
    assert!(facts["date"].as_str().is_some_and(|date| date.starts_with("20") && date.ends_with('Z')), "{facts}");
    let lines = metrics_lines(&metrics);
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["partition", "epoch", "epoch", "epoch", "epoch", "confusion", "classes", "result"]);
    for (i, line) in lines[1..5].iter().enumerate() {
        assert_eq!((&line["event"], line["epoch"].as_u64()), (&Value::from("epoch"), Some(i as u64 + 1)));
        for field in
            ["loss", "train_acc", "valid_acc", "seconds", "sample_wait_seconds", "compute_seconds", "allreduce_seconds"]
        {
            assert!(line[field].is_number(), "{field} of {line}");
        }
        assert!(line["remote_nodes"].as_u64() > Some(0) && line["remote_bytes"].as_u64() > Some(0), "{line}");
    }
    assert!(number_of(&lines[4], "loss") < number_of(&lines[1], "loss"), "the loss falls");
    assert_same(&lines[7], &trained, &["test_acc"]);
    assert_eq!(result(&["--num-epochs", "4"]), trained, "the same seed gives the same result");
    let loaded = result(&["--load-model", model.to_str().expect("a UTF-8 path")]);
    assert_same(&loaded, &trained, &["test_acc", "valid_acc"]);
}

/// Both processes run on one machine, so they share one cache.
#[test]
fn a_cache_of_features_changes_the_traffic_alone() {
    let parts = fake_parts(2);
    let metrics = parts.path.join("../metrics.jsonl");
    let lines = |extra: &[&str]| -> Vec<Value> {
        let mut command = node(&parts.path);
        command
            .args(["--nproc-per-node", "2", "--num-epochs", "3", "--metrics"])
            .arg(&metrics)
            .arg("--verbose")
            .args(extra);
        let output = succeeded(run(&mut command));
        let said = stderr(&output);
        assert_eq!(said.contains("cached nodes"), extra.iter().any(|flag| flag.starts_with("--cache")), "{said}");
        assert_eq!(said.contains("rank  peer   requests"), extra.contains(&"--stats"), "{said}");
        metrics_lines(&metrics)
    };
    let number = |line: &Value, field: &str| line[field].as_u64().unwrap_or_else(|| panic!("{field} of {line}"));
    let plain = lines(&[]);
    for flags in [
        ["--cache-ratio", "0.3", "--stats"].as_slice(),
        &["--cache-bytes", "20KB", "--cache-ranking", "in-degree"],
        &["--cache-bytes", "20KB", "--cache-ranking", "look-ahead", "--look-ahead", "4"],
    ] {
        let found = lines(flags);
        let mut received = 0;
        for (line, plain) in found.iter().zip(&plain).skip(1).take(3) {
            for field in ["epoch", "loss", "train_acc", "valid_acc"] {
                assert_eq!(line[field], plain[field], "{field} with {flags:?}");
            }
            let fetched = number(line, "remote_nodes");
            let cached = number(line, "cached_nodes");
            assert!(cached > 0 && number(line, "cached_bytes") > 0, "{line}");
            assert_eq!(fetched + cached, number(plain, "remote_nodes"), "{line}");
            assert!(number(line, "shared_nodes") <= fetched, "{line}");
            received += number(line, "remote_bytes");
            // With the default, two finished batches wait at most.
            let depth = line["queue_depth"].as_f64().expect("a mean number of batches");
            assert!((0.0..=2.0).contains(&depth), "{line}");
        }
        assert_eq!(found.last(), plain.last(), "the result with {flags:?}");
        if flags.contains(&"--stats") {
            let ranks = found[4]["ranks"].as_array().expect("the traffic of each rank");
            assert_eq!((&found[4]["event"], ranks.len()), (&Value::from("traffic"), 2));
            let peers = ranks.iter().flat_map(|rank| rank["peers"].as_array().expect("the peers of a rank"));
            let total: u64 = peers.map(|peer| number(peer, "received_bytes")).sum();
            assert!(total > received, "{total} bytes with evaluation and the cache, {received} in training");
        }
    }
}

/// Returns the labels of the training nodes of a part.
fn train_labels(dir: &Path, id: u32) -> Vec<usize> {
    let part = Part::open(dir, DiskPartId(id), true).expect("a part");
    let nodes = part.nodes(NodeTypeId(0));
    let labels = nodes.labels.as_ref().expect("labels");
    nodes.splits.train.iter().map(|&row| labels[row as usize] as usize).collect()
}

#[test]
fn losses_may_have_weights_and_gradients_may_be_accumulated() {
    let parts = fake_parts(2);
    let result = |flags: &[&str]| -> Value {
        let mut command = node(&parts.path);
        json_of(run(command.args(["--num-epochs", "3", "--nproc-per-node", "2", "--json"]).args(flags)))
    };
    let plain = result(&[]);
    let even = ["1"; 10].join(",");
    // Equal weights take another path of the code, and round differently.
    let weighted = result(&["--class-weights", &even]);
    let close = |a: &Value, b: &Value| (a["test_acc"].as_f64().unwrap() - b["test_acc"].as_f64().unwrap()).abs() < 0.05;
    assert!(close(&plain, &weighted), "{plain} {weighted}");
    // Without the other classes, all nodes are predicted to be of the first class or two.
    let first = "1,0,0,0,0,0,0,0,0,0";
    let skewed = result(&["--class-weights", first, "--num-epochs", "10"]);
    assert!(number_of(&skewed, "test_acc") < 0.3, "{skewed}");
    result(&["--label-smoothing", "0.1"]);
    // Balanced weights equal those that are computed from the labels of all parts.
    let labels: Vec<usize> = (0..2).flat_map(|id| train_labels(&parts.path, id)).collect();
    let mean = labels.len() as f64 / 10.0;
    let count = |class: usize| labels.iter().filter(|label| **label == class).count() as f64;
    let weights: Vec<String> = (0..10).map(|class| (mean / count(class)).to_string()).collect();
    let balanced = result(&["--class-weights", "balanced"]);
    assert_eq!(balanced, result(&["--class-weights", &weights.join(",")]));
    // Two ranks with one part each, and four that share them, count the same labels.
    let metrics = parts.path.join("../metrics.jsonl");
    let loss = |weights: &str| -> f64 {
        result(&["--class-weights", weights, "--nproc-per-node", "4", "--metrics", metrics.to_str().expect("UTF-8")]);
        let text = std::fs::read_to_string(&metrics).expect("the metrics");
        let line: Value = serde_json::from_str(text.lines().nth(2).expect("three epochs")).expect("JSON");
        line["loss"].as_f64().expect("a loss")
    };
    let of_four = loss("balanced");
    assert_eq!(of_four, loss(&weights.join(",")));
    assert_ne!(of_four, loss("equal"));
    // With all neighbors and without shuffled draws, four steps of 16 seeds are one of 64.
    let exact = ["--num-neighbors", "-1,-1", "--optimizer", "sgd", "--lr", "0.5"];
    let large = result(&[&exact[..], &["--batch-size", "64"]].concat());
    let small = result(&[&exact[..], &["--batch-size", "16", "--accumulate-steps", "4"]].concat());
    assert!(close(&large, &small), "{large} {small}");
}

#[test]
fn a_stored_ranking_fills_the_cache_by_default() {
    let folder = Folder::new();
    let dir = folder.join("2-parts");
    let rule = HotnessRule::Presample { num_neighbors: vec![15, 10, 5], batch_size: 64 };
    let options = PartitionOptions { hotness: Some(rule), method: Method::Random, ..PartitionOptions::new(2) };
    partition(&random_graph(2), &options, &dir, &()).expect("write the parts");
    let result = |extra: &[&str]| {
        let mut command = node(&dir);
        let output = succeeded(run(command
            .args(["--nproc-per-node", "2", "--num-epochs", "2", "--json", "--verbose"])
            .args(extra)));
        assert_eq!(stderr(&output).contains("cached nodes"), !extra.is_empty(), "{}", stderr(&output));
        serde_json::from_slice::<Value>(&output.stdout).expect("a result")
    };
    let plain = result(&[]);
    for extra in [["--cache-ratio", "0.3"].as_slice(), &["--cache-ratio", "0.3", "--cache-ranking", "stored"]] {
        assert_eq!(result(extra), plain, "{extra:?}");
    }
    let unranked = parts(2, 2);
    let mut command = node(&unranked.path);
    command.args(["--nproc-per-node", "2", "--num-epochs", "1", "--cache-ratio", "0.3", "--cache-ranking", "stored"]);
    let output = run(&mut command);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("--cache-ranking is stored, but"), "{}", stderr(&output));
}

#[test]
fn torchrun_variables_place_a_rank_and_pyg_spelling_is_taken() {
    let parts = parts(2, 2);
    let port = free_port().to_string();
    let start = |rank: &str| {
        let mut command = train("node", &parts.path);
        command.args(["--num_epochs", "1", "--batch_size=64", "--hidden_channels", "8"]);
        command
            .env("RANK", rank)
            .env("LOCAL_RANK", rank)
            .env("WORLD_SIZE", "2")
            .env("MASTER_ADDR", "localhost")
            .env("MASTER_PORT", &port);
        Process::start(&mut command)
    };
    let children = [start("1"), start("0")];
    for child in children {
        succeeded(end(child));
    }
}

#[test]
fn sampled_batches_do_not_depend_on_the_parts() {
    let dir = Folder::new();
    let seeds = dir.join("seeds.npy");
    let ids: Vec<i64> = (0..100).map(|i| (i * 7 + 3) % 600).collect();
    edgecut_graph::write_npy(&seeds, &[100], &ids).expect("write the seeds");
    let sample = |num_parts: u32, processes: u32, extra: &[&str]| -> Vec<Vec<u8>> {
        let parts = parts(num_parts, 3);
        let out = dir.join(format!("out-{num_parts}-{processes}-{}", extra.len()));
        let mut command = train("sample", &parts.path);
        command.args(["--nproc-per-node", &processes.to_string(), "--batch-size", "16", "--seed", "5", "--out"]);
        command.arg(&out).args(extra);
        succeeded(run(&mut command));
        let files = std::fs::read_dir(&out).expect("read the folder");
        let mut names: Vec<PathBuf> = files.map(|entry| entry.expect("a file").path()).collect();
        names.sort();
        assert!(names[0].ends_with("batch_00000.npz"));
        names.iter().map(|name| std::fs::read(name).expect("read a batch")).collect()
    };
    let given = ["--seeds", seeds.to_str().expect("a UTF-8 path")];
    let one = sample(1, 1, &given);
    assert_eq!(one.len(), 7);
    for (num_parts, processes) in [(3, 3), (3, 2), (3, 1), (2, 3)] {
        assert_eq!(sample(num_parts, processes, &given), one, "byte for byte");
    }
    assert_eq!(sample(2, 2, &["--num-batches", "5"]).len(), 5, "counted over all ranks");
}

#[test]
fn features_converted_in_files_and_at_the_start_are_the_same() {
    let dir = Folder::new();
    let seeds = dir.join("seeds.npy");
    edgecut_graph::write_npy(&seeds, &[90], &(0..90).map(|i| i * 7 % 300).collect::<Vec<i64>>()).expect("seeds");
    let batches = |graph: &edgecut_graph::Dataset, num_parts: u32, nproc: &str, dtypes: &str| -> Vec<Vec<u8>> {
        let parts = programs::written_by(graph, num_parts);
        let out = dir.join("out");
        let mut command = train("sample", &parts.path);
        command.args(["--nproc-per-node", nproc, "--batch-size", "16", "--overwrite"]);
        command.arg("--seeds").arg(&seeds).arg("--out").arg(&out);
        if !dtypes.is_empty() {
            command.args(["--feature-dtype", dtypes]);
        }
        succeeded(run(&mut command));
        (0..6).map(|k| std::fs::read(out.join(format!("batch_{k:05}.npz"))).expect("a batch")).collect()
    };
    let options = FakeOptions { avg_num_nodes: 300, avg_degree: 5.0, ..FakeOptions::default() };
    let graph = fake_hetero(&options).expect("a graph");
    let plain = batches(&graph, 1, "1", "");
    for dtypes in ["f16", "bf16", "int8", "bf16,v1=int8"] {
        let mut stored = graph.clone();
        stored.convert_features(&dtypes.parse().expect("types")).expect("values in range");
        let expected = batches(&stored, 1, "1", "");
        assert_ne!(expected, plain, "{dtypes} rounds");
        assert_eq!(batches(&graph, 1, "1", dtypes), expected, "{dtypes} at the start");
        // The ranks of a machine share the converted features, whether they have the same part or not.
        assert_eq!(batches(&graph, 2, "4", dtypes), expected, "{dtypes} at the start, on four ranks");
        assert_eq!(batches(&stored, 3, "3", ""), expected, "{dtypes} in files, on three parts");
    }
    let parts = programs::written_by(&graph, 2);
    for (dtypes, status, why) in [
        ("f64", 2, "unknown type of features \"f64\": expected f32, f16, bf16 or int8"),
        (
            "v7=f16",
            1,
            "--feature-dtype names node type v7, which does not exist or has no features. Node types with features: v0, v1",
        ),
    ] {
        let mut command = train("sample", &parts.path);
        command.args(["--nproc-per-node", "2", "--feature-dtype", dtypes, "--out"]).arg(dir.join("wrong"));
        let output = run(&mut command);
        assert_refused(&output, status, &[why]);
    }
}

#[test]
fn a_feature_that_one_rank_cannot_convert_is_the_error_of_all() {
    let options = FakeOptions { avg_num_nodes: 300, avg_degree: 5.0, ..FakeOptions::default() };
    let mut graph = fake_hetero(&options).expect("a graph");
    let mut values = vec![1.0; 300 * 3];
    values[299 * 3 + 1] = 70_000.0;
    graph.node_types[0].features = Some(edgecut_graph::Features::F32 { values: values.into(), dim: 3 });
    let parts = programs::written_by(&graph, 2);
    let mut command = train("sample", &parts.path);
    command.args(["--nproc-per-node", "2", "--feature-dtype", "f16", "--out"]).arg(parts.path.join("../out"));
    let output = run(&mut command);
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("node type v0: feature 1 of row ") && said.contains("is 70000, which f16 cannot"), "{said}");
    assert!(!said.contains("TMPDIR"), "{said}");
}

#[test]
fn sampled_batches_of_several_types_do_not_depend_on_the_parts() {
    let dir = Folder::new();
    let sample = |num_parts: u32, out: &str, extra: &[&str]| -> Output {
        let parts = typed_parts(num_parts);
        let mut command = program();
        command.args(["sample", "--dataset-root-dir"]).arg(&parts.path);
        command.args(["--nproc-per-node", &num_parts.to_string(), "--batch-size", "16", "--seed", "5", "--out"]);
        run(command.arg(dir.join(out)).args(extra))
    };
    let seeds = dir.join("seeds.npy");
    edgecut_graph::write_npy(&seeds, &[40], &(0..40).map(|i| (i * 7 + 3) % 300).collect::<Vec<i64>>()).expect("seeds");
    let given = ["--seeds", seeds.to_str().expect("a UTF-8 path"), "--num-neighbors", "e1=4,2;v2__e4__v0=3,0;2,2"];
    let batches = |num_parts: u32, out: &str| -> Vec<Vec<u8>> {
        succeeded(sample(num_parts, out, &given));
        (0..3).map(|k| std::fs::read(dir.join(out).join(format!("batch_{k:05}.npz"))).expect("a batch")).collect()
    };
    let one = batches(1, "one");
    assert_eq!(batches(3, "three"), one, "byte for byte");
    let names = |name: &str| one[0].windows(name.len()).any(|bytes| bytes == name.as_bytes());
    for name in ["seeds.npy", "y.npy", "v0/x.npy", "v1/x.npy", "v2/input_nodes.npy", "v2__e4__v0/indices.npy"] {
        assert!(names(name), "{name}");
    }
    assert!(!names("v2/x.npy"), "v2 has no features");
    for (flags, why) in [
        (&["--seed-type", "paper"][..], "--seed-type paper: dataset fake-hetero has node types v0, v1, v2"),
        (&["--num-neighbors", "cites=2;3"], "names edge type cites, but the graph has v0__e0__v1, "),
        (&["--num-neighbors", "e0=2"], "nothing for edge type v1__e1__v0"),
    ] {
        let output = sample(1, "wrong", flags);
        assert!(!output.status.success() && stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn node_types_without_features_have_embeddings_that_are_saved_and_loaded() {
    let parts = typed_parts(2);
    let model = parts.path.join("../model.safetensors");
    let result_of = |processes: &str, extra: &[&str]| -> Value {
        let mut command = node(&parts.path);
        command.args(["--nproc-per-node", processes, "--json"]).args(extra);
        json_of(train_or_evaluate(&command))
    };
    let result = |extra: &[&str]| result_of("2", extra);
    let model_path = model.to_str().expect("a UTF-8 path");
    let trained = result(&["--num-epochs", "6", "--embedding-lr", "0.02", "--save-model", model_path]);
    // There are ten classes, so chance is 0.1.
    assert!(trained["test_acc"].as_f64() > Some(0.3), "{trained}");
    let shards = std::fs::read_dir(format!("{model_path}.embeddings")).expect("a folder");
    let shards: Vec<PathBuf> = shards.map(|entry| entry.expect("a file").path()).collect();
    assert_eq!(shards.len(), 2, "one of each process: {shards:?}");
    let rows = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("the shard");
        let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
        file.tensor("embeddings.v2").expect("the embeddings of v2").shape().to_vec()
    };
    assert!(shards.iter().all(|shard| rows(shard)[1] == 16));
    assert_eq!(shards.iter().map(|shard| rows(shard)[0]).sum::<usize>(), 300);
    let loaded = result(&["--load-model", model_path]);
    assert_same(&loaded, &trained, &["test_acc", "valid_acc"]);
    // One process holds both parts, and stores its rows in another order than it writes them.
    let alone = parts.path.join("../alone.safetensors");
    let alone = alone.to_str().expect("a UTF-8 path");
    let loaded = result_of("1", &["--load-model", model_path]);
    assert_same(&loaded, &trained, &["test_acc", "valid_acc"]);
    let trained_alone = result_of("1", &["--num-epochs", "6", "--embedding-lr", "0.02", "--save-model", alone]);
    let loaded = result_of("2", &["--load-model", alone]);
    assert_same(&loaded, &trained_alone, &["test_acc", "valid_acc"]);
    // The embeddings matter: with untrained ones the same model has another accuracy.
    let untrained = result(&["--num-epochs", "6", "--embedding-lr", "0"]);
    assert_ne!(entry(&untrained, "test_acc"), entry(&trained, "test_acc"));
}

#[test]
fn a_restarted_attempt_appends_metrics_and_keeps_the_better_model() {
    let parts = fake_parts(2);
    let file = |name: &str| parts.path.with_file_name(name);
    let (model, metrics) = (file("model.safetensors"), file("metrics.jsonl"));
    let attempt = |attempt: &str, flags: &[&str]| {
        let mut command = train("node", &parts.path);
        command.args(["--hidden-channels", "16", "--batch-size", "32", "--dropout", "0", "--nproc-per-node", "2"]);
        command.arg("--metrics").arg(&metrics).arg("--save-model").arg(&model).args(flags);
        let output = succeeded(run(command.env("EDGECUT_RESTART_COUNT", attempt).env("EDGECUT_RUN_ID", "test")));
        let lines = metrics_lines(&metrics);
        let attempts: Vec<u64> = lines.iter().filter_map(|line| line["attempt"].as_u64()).collect();
        (attempts, std::fs::read(&model).expect("a model"), stderr(&output))
    };
    let (attempts, good, _) = attempt("0", &["--num-epochs", "4", "--lr", "0.01"]);
    // The partition, four epochs, the confusion matrix, the scores of classes and the result.
    assert_eq!(attempts, [0; 8]);
    // One epoch with a learning rate near zero gives a worse model.
    let worse = ["--num-epochs", "1", "--lr", "1e-9", "--seed", "9"];
    let (attempts, kept, said) = attempt("1", &worse);
    assert_eq!(attempts, [[0; 8].as_slice(), &[1; 5]].concat());
    assert!(kept == good && said.contains("the model of attempt 0"), "{said}");
    let (attempts, replaced, _) = attempt("0", &worse);
    assert_eq!(attempts, [0; 5], "a fresh start replaces both");
    assert!(replaced != good);
}

#[test]
fn a_model_that_cannot_be_saved_is_refused_before_the_training() {
    let parts = parts(1, 3);
    let link = parts.path.with_file_name("link");
    std::os::unix::fs::symlink("/dev/full", &link).expect("a link");
    let absent = parts.path.join("absent/model");
    for (path, why) in [
        (link.as_path(), "it is a device"),
        (parts.path.as_path(), "it is a directory"),
        (absent.as_path(), "absent does not exist: create it"),
    ] {
        let error = error_of(&run(node(&parts.path).args(["--num-epochs", "100000", "--save-model"]).arg(path)));
        assert!(error.contains("--save-model") && error.contains(why), "{error}");
    }
    assert!(link.is_symlink());
}

#[test]
fn python_reads_batches_as_the_readme_shows() {
    if !python_has(Command::new("python3"), "numpy", "python_reads_batches_as_the_readme_shows") {
        return;
    }
    let dir = Folder::new();
    let parts = parts(2, 3);
    let mut command = train("sample", &parts.path);
    command.args(["--nproc-per-node", "2", "--batch-size", "16", "--num-batches", "2", "--out", "data/batches"]);
    succeeded(run(command.current_dir(dir.path())));
    let blocks = include_str!("../../../docs/src/batches.md").split("```python\n").skip(1);
    let mut blocks = blocks.filter_map(|block| block.split("```").next()).filter(|block| block.contains("np.load"));
    let shown = blocks.next().expect("the guide shows how to read a batch");
    let checks = "assert edge_index.shape[1] > 0 and edge_index.max() < len(x) and len(y) == len(seeds) == 16\n\
                  assert batch['hop_offsets'].tolist()[0] == 16 and batch['hop_offsets'][-1] == len(x)\n\
                  assert x.dtype == np.float32 and rows.max() < batch['hop_offsets'][-2]";
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{shown}\n{checks}")]).current_dir(dir.path());
    succeeded(python.output().expect("run Python"));
}

#[test]
fn a_job_goes_on_when_nobody_reads_its_output() {
    let parts = fake_parts(2);
    let metrics = parts.path.join("../metrics.jsonl");
    for closes_stdout in [false, true] {
        let mut command = node(&parts.path);
        command.args(["--nproc-per-node", "2", "--log-every", "0", "--metrics"]).arg(&metrics);
        let mut child = Process::start(&mut command);
        if closes_stdout {
            drop(child.stdout.take());
        } else {
            // As `2>&1 | head -c 1`.
            let mut said = child.stderr.take().expect("standard error is a pipe");
            said.read_exact(&mut [0]).expect("the first letter");
        }
        let output = end(child);
        assert!(output.status.success(), "{:?} {}", output.status, stderr(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).contains("test accuracy"), !closes_stdout);
        let text = std::fs::read_to_string(&metrics).expect("read the metrics");
        assert!(text.lines().last().is_some_and(|line| line.contains("\"event\":\"result\"")), "{text}");
    }
    // A result that is lost is an error, in contrast to one that nobody wants.
    let mut command = node(&parts.path);
    command.args(["--num-epochs", "1"]).stdout(std::fs::File::create("/dev/full").expect("a full device"));
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(1));
    assert_error(&output, &["print the result to standard output", "space"]);
}

#[test]
fn a_killed_rank_ends_the_others_with_its_name() {
    let parts = parts(3, 4);
    let port = free_port();
    let metrics = parts.path.join("../metrics.jsonl");
    let mut children: Vec<Process> = (0..3)
        .map(|k| {
            let mut command = rank(&parts.path, k, 3, port);
            command.args(["--num-epochs", "1000000", "--metrics"]).arg(&metrics);
            Process::start(&mut command)
        })
        .collect();
    // Once an epoch is reported, the job is training the next ones.
    let has_two_lines = || std::fs::read_to_string(&metrics).unwrap_or_default().lines().count() >= 2;
    wait_until(has_two_lines, || "training did not start".into());
    children[1].kill().expect("kill -9 rank 1");
    for (k, child) in children.into_iter().enumerate() {
        let output = end(child);
        if k != 1 {
            let error = error_of(&output);
            assert!(error.contains("rank 1 at 127.0.0.1"), "rank {k}: {error}");
            assert_eq!(output.status.code(), Some(3));
        }
    }
}

#[test]
fn a_rank_that_never_starts_is_named() {
    let parts = parts(2, 5);
    let mut command = rank(&parts.path, 0, 2, free_port());
    command.args(["--rendezvous-timeout", "2"]);
    assert_error(&run(&mut command), &["rank 1 has not joined"]);
}

#[test]
fn a_missing_master_is_named() {
    let parts = parts(2, 5);
    let port = free_port();
    let mut command = rank(&parts.path, 1, 2, port);
    command.args(["--rendezvous-timeout", "2"]);
    assert_error(&run(&mut command), &[&format!("127.0.0.1:{port}")]);
}

#[test]
fn ranks_of_different_partitionings_do_not_start() {
    let these = parts(2, 6);
    let others = parts(2, 7);
    let port = free_port();
    let children = [rank(&these.path, 0, 2, port), rank(&others.path, 1, 2, port)];
    let started = children.map(|mut command| Process::start(&mut command));
    for child in started {
        assert_error(&end(child), &["another partitioning"]);
    }
}

#[test]
fn ranks_with_different_flags_do_not_start() {
    let parts = parts(2, 6);
    let port = free_port();
    let mut other = rank(&parts.path, 1, 2, port);
    other.args(["--num-epochs", "77"]);
    let started = [rank(&parts.path, 0, 2, port), other].map(|mut command| Process::start(&mut command));
    for child in started {
        assert_error(&end(child), &["--num-epochs is 77 on rank 1"]);
    }
}

#[test]
fn a_wrong_token_is_said_on_both_sides() {
    let parts = parts(2, 8);
    let port = free_port();
    let start = |k: usize, token: &str| {
        let mut command = rank(&parts.path, k, 2, port);
        Process::start(command.args(["--rendezvous-timeout", "8"]).env("EDGECUT_TOKEN", token))
    };
    let children = [start(0, "0123456789-right"), start(1, "0123456789-wrong")];
    for child in children {
        let error = error_of(&end(child));
        assert!(error.contains("token"), "{error}");
        assert!(!error.contains("right") && !error.contains("wrong"), "the secret stays secret: {error}");
    }
}

#[test]
fn a_damaged_part_is_named_on_all_ranks_and_nothing_is_written() {
    let features = "part_1/nodes/node/features.npy";
    // A wrong file size is always detected; a flipped bit only with checksums.
    for (damage, flags, why) in [("truncate", &[][..], "truncated"), ("flip", &["--verify"], "corrupt")] {
        let parts = parts(2, 9);
        let file = parts.path.join(features);
        let mut bytes = std::fs::read(&file).expect("read the features");
        match damage {
            "truncate" => bytes.truncate(bytes.len() - 5),
            _ => *bytes.last_mut().expect("a byte") ^= 1,
        }
        std::fs::write(&file, bytes).expect("damage the features");
        let model = parts.path.join("../model.safetensors");
        let port = free_port();
        let started = [0, 1].map(|k| {
            let mut command = rank(&parts.path, k, 2, port);
            Process::start(command.args(flags).arg("--save-model").arg(&model))
        });
        for child in started {
            assert_error(&end(child), &[features, why]);
        }
        assert!(!model.exists());
    }
}

#[test]
fn a_port_in_use_is_named() {
    let parts = parts(2, 10);
    let holder = TcpListener::bind(("127.0.0.1", 0)).expect("hold a port");
    let port = holder.local_addr().expect("its address").port();
    assert_error(&run(&mut rank(&parts.path, 0, 2, port)), &[&format!("127.0.0.1:{port}"), "--master-port"]);
}

#[test]
fn wrong_flags_end_with_status_2_and_say_what_to_do() {
    let parts = parts(2, 11);
    for (flags, what) in [
        (&["--num-neighbors", "5,3,2", "--num-layers", "2"][..], "3 fan-outs"),
        (&["--eval-num-neighbors", "-1"], "1 fan-outs"),
        (&["--num-neighbors=-2,1"], "fan-out"),
        (&["--num-nodes", "2"], "--node-rank is missing"),
        (&["--nproc-per-node", "2000"], "too many for the"),
        (&["--model", "sage", "--heads", "2"], "--heads has no effect on --model sage"),
        (&["--model", "gat", "--num-bases", "2"], "choose --model rgcn"),
        (&["--dataset", "another"], "are of dataset random"),
        (&["--lr", "-1"], "-1 is not a finite number"),
        (&["--num-nodes", "2", "--node-rank", "2"], "must be less than --num-nodes"),
        (&["--dropout", "1.5"], "1.5"),
        (&["--lr", "NaN"], "NaN"),
        (&["--batch-size", "0"], "batch-size"),
    ] {
        let output = run(program().args(["node", "--dataset-root-dir"]).arg(&parts.path).args(flags));
        assert_refused(&output, 2, &[what]);
    }
}

#[test]
fn the_commands_of_pygs_and_dgls_tutorials_train() {
    let parts = fake_parts(2);
    let port = free_port().to_string();
    // All flags of PyG's node_ogb_cpu.py.
    let pyg = "--dataset=fake --num_nodes=2 --master_addr=127.0.0.1 --num_neighbors 15,10,5 --num_epochs 2 --batch_size 1024 \
               --num_workers 4 --num_loader_threads 10 --concurrency 4 --async_sampling True --train_loader_port 11112 \
               --test_loader_port 11113 --logging --progress_bar";
    // And of DGL's node_classification.py, as far as they have a meaning, with the other order of the fan-outs.
    let dgl = "--graph_name fake --num_nodes 2 --master_addr 127.0.0.1 --fan_out 5,10,15 --num_epochs 2 --batch_size 1024 \
               --num_hidden 256 --lr 0.003 --part_config x/META.json";
    let losses = [pyg, dgl].map(|line| {
        let start = |rank: &str| {
            let mut command = train("node", &parts.path);
            command.args(line.split_whitespace()).args(["--node_rank", rank, "--ddp_port", &port, "--json"]);
            command.env("EDGECUT_TOKEN", "a secret of the tests");
            Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
        };
        let [first, second] = ["0", "1"].map(start).map(end);
        assert!(first.status.success() && second.status.success(), "{} {}", stderr(&first), stderr(&second));
        let said = stderr(&first);
        let has_note = |flag: &str| said.contains(&format!("note: --{flag} "));
        let expected: &[&str] = if line == pyg {
            &[
                "num-loader-threads",
                "async-sampling",
                "train-loader-port",
                "test-loader-port",
                "logging",
                "progress-bar",
            ]
        } else {
            &["fan-out", "part-config"]
        };
        assert!(expected.iter().all(|flag| has_note(flag)), "{said}");
        assert_eq!(said.matches("note: --").count(), expected.len(), "{said}");
        entry(&json_of(&first), "valid_acc").clone()
    });
    assert_eq!(losses[0], losses[1], "both commands mean the same");
}

#[test]
fn a_file_of_flags_repeats_a_run() {
    let parts = fake_parts(2);
    let file = |name: &str| parts.path.with_file_name(name);
    let given = file("run.yaml");
    std::fs::write(&given, "training:\n  hidden_size: 16\n  num_epochs: 9\n  lr: 0.02\n  num_neighbors: [4, 3]\n")
        .expect("write the flags");
    let result = |command: &mut Command| -> Value { json_of(run(command.args(["--nproc-per-node", "2", "--json"]))) };
    // A flag on the command line takes precedence over the file.
    let mut first = train("node", &parts.path);
    let metrics = file("metrics.jsonl");
    let trained = result(first.arg("--config").arg(&given).args(["--num-epochs", "3", "--metrics"]).arg(&metrics));
    let lines = std::fs::read_to_string(&metrics).expect("the metrics");
    assert_eq!(lines.matches("\"event\":\"epoch\"").count(), 3, "{lines}");
    let written = file("metrics.jsonl.config.yaml");
    let text = std::fs::read_to_string(&written).expect("the flags of the run");
    // `train` sets other fan-outs on the command line.
    assert!(text.contains("hidden-channels: 16") && text.contains("num-neighbors: \"5,3\""), "{text}");
    let mut again = program();
    again.args(["node", "--json", "--config"]).arg(&written);
    assert!(text.contains("nproc-per-node: \"2\""), "{text}");
    assert_eq!(json_of(run(&mut again)), trained, "the file has all flags of the run");
    std::fs::write(&given, "num_epoch: 9\n").expect("write the flags");
    let wrong = run(train("node", &parts.path).arg("--config").arg(&given));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("run.yaml, line 1: there is no flag --num-epoch"), "{}", stderr(&wrong));
}

#[test]
fn tensorboard_reads_the_events_of_a_run() {
    const SCALARS: &str = "
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
for tag in ['train/loss', 'valid/accuracy']:
    print(' '.join(f'{e.step}:{e.value:.6f}' for e in events.Scalars(tag)))
";
    let module = "tensorboard.backend.event_processing.event_accumulator";
    if !python_has(Command::new("python3"), module, "tensorboard_reads_the_events_of_a_run") {
        return;
    }
    let parts = fake_parts(2);
    let events = parts.path.with_file_name("events");
    let metrics = parts.path.with_file_name("metrics.jsonl");
    let mut command = node(&parts.path);
    command.args(["--nproc-per-node", "2", "--num-epochs", "3", "--tensorboard"]).arg(&events);
    succeeded(run(command.arg("--metrics").arg(&metrics)));
    let read = Command::new("python3").args(["-c", SCALARS]).arg(&events).output().expect("run Python");
    assert!(read.status.success(), "{}", stderr(&read));
    let lines = metrics_lines(&metrics);
    let of_epochs = |key: &str| {
        let value = |line: &Value| format!("{}:{:.6}", line["epoch"], line[key].as_f64().expect("a number") as f32);
        lines[1..4].iter().map(value).collect::<Vec<_>>().join(" ")
    };
    let expected = format!("{}\n{}\n", of_epochs("loss"), of_epochs("valid_acc"));
    assert_eq!(String::from_utf8_lossy(&read.stdout), expected);
}

#[test]
fn any_number_of_processes_trains_on_any_number_of_parts() {
    for (num_parts, processes) in [(3, "1"), (3, "2"), (2, "3")] {
        let parts = fake_parts(num_parts);
        let mut command = node(&parts.path);
        command.args(["--nproc-per-node", processes, "--num-epochs", "8", "--lr", "0.02", "--json"]);
        let output = run(&mut command);
        let result = json_of(&output);
        assert!(result["test_acc"].as_f64() > Some(0.5), "{num_parts} parts, {processes} processes: {result}");
        let is_uneven = (num_parts, processes) == (2, "3");
        assert_eq!(stderr(&output).contains("2 parts are spread unevenly over 3 processes"), is_uneven);
    }
    let parts = parts(3, 12);
    assert_error(&run(&mut node(parts.path.parent().expect("a folder"))), &["META.json is missing"]);
}

#[test]
fn an_interrupt_ends_all_processes_of_the_node() {
    let parts = parts(2, 13);
    let metrics = parts.path.join("../metrics.jsonl");
    let parent = start_training(node(&parts.path).args(["--nproc-per-node", "2"]), &metrics);
    let children = children_of(parent.id());
    assert_eq!(children.len(), 2);
    send(Signal::INT, parent.id());
    assert_eq!(end(parent).status.code(), Some(130));
    for child in children {
        assert!(!Path::new(&format!("/proc/{child}")).exists(), "process {child} is left behind");
    }
}
