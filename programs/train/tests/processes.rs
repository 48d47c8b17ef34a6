//! Tests of the program `train` with real processes and real sockets.

use crate::programs::*;
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{DiskPartId, HotnessRule, NodeTypeId, Part};
use edgecut_partition::{Method, PartitionOptions, partition};
use edgecut_testing::free_port;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

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

#[test]
fn the_file_of_nodes_gives_trainers_their_addresses() {
    let parts = fake_parts(2);
    let port = free_port();
    for (listens_at, is_own) in [("127.0.0.2", true), ("192.0.2.9", false)] {
        let text = format!(
            "master_port: {port}\nhosts:\n- {{address: 192.0.2.1, role: server}}\n\
             - {{address: 127.0.0.1, role: trainer, interface: lo}}\n\
             - {{address: 127.0.0.1, role: trainer, listen_addr: {listens_at}}}\n"
        );
        let nodes = ["0", "1"].map(|number| {
            // The processes of a node cannot read a pipe again.
            let (file, mut writer) = std::io::pipe().expect("a pipe");
            writer.write_all(text.as_bytes()).expect("write the list of nodes");
            let mut command = node(&parts.path);
            command.args(["--num-epochs", "1", "--nproc-per-node", if is_own { "2" } else { "1" }]);
            command.args(["--node-rank", number, "--ip-config", "/dev/stdin"]).stdin(file);
            Process::start(&mut command)
        });
        let [first, second] = nodes.map(end);
        assert_eq!((first.status.success(), second.status.success()), (is_own, is_own), "{}", stderr(&first));
        assert!(is_own || error_of(&second).contains(listens_at), "{}", stderr(&second));
    }
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
fn features_converted_in_files_and_at_the_start_are_the_same() {
    let dir = Folder::new();
    let seeds = dir.join("seeds.npy");
    edgecut_graph::write_npy(&seeds, &[90], &(0..90).map(|i| i * 7 % 300).collect::<Vec<i64>>()).expect("seeds");
    let batches = |graph: &edgecut_graph::Dataset, num_parts: u32, nproc: &str, dtypes: &str| -> Vec<Vec<u8>> {
        let parts = written_by(graph, num_parts);
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
    for dtypes in ["f16", "bf16,v1=int8"] {
        let mut stored = graph.clone();
        stored.convert_features(&dtypes.parse().expect("types")).expect("values in range");
        let expected = batches(&stored, 3, "3", "");
        assert_ne!(expected, plain, "{dtypes} rounds");
        assert_eq!(batches(&graph, 1, "1", dtypes), expected, "{dtypes} at the start");
        // The ranks of a machine share the converted features, whether they have the same part or not.
        assert_eq!(batches(&graph, 2, "4", dtypes), expected, "{dtypes} at the start, on four ranks");
    }
    let parts = written_by(&graph, 2);
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
    assert_fails(&run(&mut command), 1, &["print the result to standard output", "space"]);
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
        let of_pyg = "num-loader-threads async-sampling train-loader-port test-loader-port logging progress-bar";
        let expected: Vec<&str> = if line == pyg { of_pyg } else { "fan-out part-config" }.split(' ').collect();
        assert!(expected.iter().all(|flag| has_note(flag)), "{said}");
        assert_eq!(said.matches("note: --").count(), expected.len(), "{said}");
        entry(&json_of(&first), "valid_acc").clone()
    });
    assert_eq!(losses[0], losses[1], "both commands mean the same");
}

#[test]
fn any_number_of_processes_trains_on_any_number_of_parts() {
    for (num_parts, processes) in [(3, "2"), (2, "3")] {
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
