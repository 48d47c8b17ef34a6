//! Tests of `train sample` with weights and times, with real processes.

use crate::programs;
use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, fake};
use std::path::PathBuf;
use std::process::Output;

const NODES: usize = 500;
const SEEDS: usize = 60;

/// Writes the graph of `partition-graph --dataset fake`, with or without `--edge-attributes`.
fn graph(num_parts: u32, edge_attributes: bool) -> Parts {
    let options = FakeOptions { avg_num_nodes: NODES, num_channels: 8, edge_attributes, ..FakeOptions::default() };
    written_by(&fake(&options).expect("a fake graph"), num_parts)
}

struct Given {
    dir: Folder,
    seeds: PathBuf,
    times: PathBuf,
}

impl Given {
    /// Writes seeds, one of them twice, with times at half of the time range of the nodes.
    fn new() -> Self {
        let dir = Folder::new();
        let seeds = dir.join("seeds.npy");
        let times = dir.join("times.npy");
        let ids: Vec<i64> = (0..SEEDS as i64).map(|i| (i.max(1) * 7 + 3) % NODES as i64).collect();
        edgecut_graph::write_npy(&seeds, &[SEEDS], &ids).expect("write the seeds");
        edgecut_graph::write_npy(&times, &[SEEDS], &vec![500_i64; SEEDS]).expect("write the times");
        Self { dir, seeds, times }
    }

    fn sample(&self, parts: &Parts, num_parts: u32, out: &str, flags: &[&str]) -> Output {
        let mut command = train("sample", &parts.path);
        command.args(["--nproc-per-node", &num_parts.to_string(), "--batch-size", "16", "--seed", "5", "--out"]);
        run(command.arg(self.dir.join(out)).args(flags))
    }

    /// Runs `train sample` and returns the four batches that it writes.
    fn batches(&self, num_parts: u32, out: &str, flags: &[&str]) -> Vec<Vec<u8>> {
        succeeded(self.sample(&graph(num_parts, true), num_parts, out, flags));
        assert_eq!(std::fs::read_dir(self.dir.join(out)).expect("the folder").count(), SEEDS.div_ceil(16));
        let file = |k: usize| self.dir.join(out).join(format!("batch_{k:05}.npz"));
        (0..SEEDS.div_ceil(16)).map(|k| std::fs::read(file(k)).expect("a batch")).collect()
    }
}

/// Returns the values of an array of 64-bit integers in an uncompressed archive.
fn array(npz: &[u8], name: &str) -> Option<Vec<i64>> {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(npz)).expect("an archive");
    let mut file = zip.by_name(&format!("{name}.npy")).ok()?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut bytes).expect("an array");
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (words, rest) = bytes[header..].as_chunks::<8>();
    assert!(rest.is_empty() && String::from_utf8_lossy(&bytes[..header]).contains("<i8"), "{name} is int64");
    Some(words.iter().map(|word| i64::from_le_bytes(*word)).collect())
}

/// Checks that every sampled edge connects nodes of the same seed's neighborhood.
fn assert_disjoint(npz: &[u8]) {
    let get = |name: &str| array(npz, name).unwrap_or_else(|| panic!("{name} is there"));
    let (batch, nodes, offsets) = (get("batch"), get("input_nodes"), get("hop_offsets"));
    let (indptr, indices, seeds) = (get("indptr"), get("indices"), get("seeds"));
    assert_eq!(batch.len(), nodes.len());
    assert_eq!(offsets[0] as usize, seeds.len());
    assert_eq!(batch[..seeds.len()], (0..seeds.len() as i64).collect::<Vec<_>>()[..]);
    assert!(!indices.is_empty(), "something was sampled");
    for (row, ends) in indptr.windows(2).enumerate() {
        for &src in &indices[ends[0] as usize..ends[1] as usize] {
            assert_eq!(batch[src as usize], batch[row], "an edge within a neighborhood");
        }
    }
}

#[test]
fn batches_by_weight_do_not_depend_on_the_parts() {
    let given = Given::new();
    let flags = |more: &[&'static str]| -> Vec<String> {
        ["--seeds", text(&given.seeds)].iter().chain(more).map(|&flag| flag.to_owned()).collect()
    };
    // A seed that is listed twice has one row, except in disjoint sampling, where each listing has its own
    // neighborhood.
    let sample = |num_parts: u32, out: &str, more: &[&'static str]| {
        let flags = flags(more);
        given.batches(num_parts, out, &flags.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let by_weight = sample(1, "one", &["--weighted", "--disjoint"]);
    assert_eq!(sample(2, "two", &["--weighted", "--disjoint"]), by_weight, "byte for byte");
    assert_ne!(sample(1, "alike", &["--disjoint"]), by_weight, "weights count");
    by_weight.iter().for_each(|batch| assert_disjoint(batch));
    let replaced = sample(1, "replaced", &["--weighted", "--disjoint", "--replace"]);
    assert_ne!(replaced, by_weight);
    assert_eq!(sample(2, "replaced-two", &["--weighted", "--disjoint", "--replace"]), replaced, "byte for byte");
}

#[test]
fn batches_by_layers_do_not_depend_on_the_parts() {
    let given = Given::new();
    // Shared neighborhoods need distinct seeds.
    let seeds = given.dir.join("distinct.npy");
    edgecut_graph::write_npy(&seeds, &[SEEDS], &(0..SEEDS as i64).collect::<Vec<_>>()).expect("write the seeds");
    let mut all = Vec::new();
    for more in
        [&["--sampler", "labor"][..], &["--sampler", "labor", "--batch-dependency", "4"], &["--sampler", "neighbor"]]
    {
        let flags = [&["--seeds", text(&seeds)], more].concat();
        let one = given.batches(1, &format!("one-{}", all.len()), &flags);
        assert_eq!(given.batches(2, &format!("two-{}", all.len()), &flags), one, "byte for byte: {more:?}");
        assert!(all.iter().all(|other| *other != one), "{more:?} counts");
        all.push(one);
    }
}

#[test]
fn batches_by_time_do_not_depend_on_the_parts() {
    let given = Given::new();
    let listed = ["--seeds", text(&given.seeds), "--seed-times", text(&given.times)];
    let times = |attr: &'static str, strategy: &'static str| {
        [&["--time-attr", attr, "--temporal-strategy", strategy][..], &listed].concat()
    };
    let mut all = Vec::new();
    for (attr, strategy) in [("edge_time", "uniform"), ("edge_time", "last"), ("node_time", "uniform")] {
        let one = given.batches(1, &format!("one-{attr}-{strategy}"), &times(attr, strategy));
        assert_eq!(given.batches(2, &format!("two-{attr}-{strategy}"), &times(attr, strategy)), one, "byte for byte");
        one.iter().for_each(|batch| assert_disjoint(batch));
        assert!(all.iter().all(|other| *other != one), "{attr} and {strategy} count");
        all.push(one);
    }
    // Only the seeds themselves may be later than the time of the seeds.
    let options =
        FakeOptions { avg_num_nodes: NODES, num_channels: 8, edge_attributes: true, ..FakeOptions::default() };
    let graph = fake(&options).expect("a fake graph");
    let of_node = graph.node_types[0].times.as_ref().expect("times");
    for batch in &all[2] {
        let (nodes, seeds) = (array(batch, "input_nodes").expect("nodes"), array(batch, "seeds").expect("seeds"));
        assert!(nodes[seeds.len()..].iter().all(|&node| of_node[node as usize] <= 500));
        // The times of nodes and edges are in the batch.
        let expected: Vec<i64> = nodes.iter().map(|&node| of_node[node as usize]).collect();
        assert_eq!(array(batch, "time").expect("times"), expected);
        let get = |name: &str| array(batch, name).unwrap_or_else(|| panic!("{name} is there"));
        let indptr = get("indptr");
        let indices = get("indices");
        let edge_times = get("edge_time");
        let edges = &graph.edge_types[0];
        let of_edges = edges.attributes.times.as_ref().expect("times of edges");
        let all = || edges.src.iter().zip(&edges.dst[..]).zip(&of_edges[..]);
        for (row, ends) in indptr.windows(2).enumerate() {
            for edge in ends[0] as usize..ends[1] as usize {
                let src = nodes[indices[edge] as usize] as u32;
                let dst = nodes[row] as u32;
                assert!(all().any(|((s, d), t)| (*s, *d, *t) == (src, dst, edge_times[edge])));
            }
        }
    }
}

/// Training receives nothing from the other process. Validation, test and predictions read the whole graph.
#[test]
fn isolated_training_receives_no_features() {
    let typed = typed_parts(2);
    let parts = fake_parts(2);
    for parts in [parts, typed] {
        let metrics = parts.path.join("../metrics.jsonl");
        let checkpoints = parts.path.join("../checkpoints");
        let train = |more: &[&str]| {
            let mut command = node(&parts.path);
            command.args(["--nproc-per-node", "2", "--num-epochs", "2", "--json", "--metrics", text(&metrics)]);
            run(command.args(["--checkpoint-dir", text(&checkpoints)]).args(more))
        };
        let model = parts.path.join("../model.safetensors");
        let trained = json_of(train(&["--isolated", "--save-model", text(&model)]));
        for epoch in metrics_lines(&metrics).iter().filter(|line| line["event"] == "epoch") {
            assert!(epoch["remote_nodes"] == 0 && epoch["remote_bytes"] == 0, "{epoch}");
        }
        let mut command = programs::train("node", &parts.path);
        command.args(["--nproc-per-node", "2", "--batch-size", "32", "--json", "--load-model", text(&model)]);
        let loaded = json_of(run(&mut command));
        assert_eq!(loaded["test_acc"], trained["test_acc"], "the evaluation is not isolated");
        let refused = run(command.arg("--isolated"));
        assert_refused(&refused, 2, &["'--load-model <FILE>' cannot be used with '--isolated'"]);
        let uneven = run(node(&parts.path).args(["--isolated", "--nproc-per-node", "3"]));
        assert_refused(&uneven, 2, &["--isolated needs the same number of processes for each part"]);
        assert_error(&train(&["--resume"]), &["--isolated"]);
    }
    let one = error_of(&run(node(&fake_parts(2).path).arg("--isolated")));
    assert!(one.contains("--isolated has no effect on a single process"), "{one}");
    let whole = error_of(&run(node(&fake_parts(1).path).args(["--isolated", "--nproc-per-node", "2"])));
    assert!(whole.contains("--isolated has no effect on a graph in one part"), "{whole}");
}

#[test]
fn wrong_seed_times_are_one_error() {
    let given = Given::new();
    let (attributes, plain) = (graph(1, true), graph(1, false));
    let short = given.dir.join("short.npy");
    edgecut_graph::write_npy(&short, &[SEEDS - 1], &vec![500_i64; SEEDS - 1]).expect("write the times");
    let square = given.dir.join("square.npy");
    edgecut_graph::write_npy(&square, &[SEEDS / 2, 2], &vec![500_i64; SEEDS]).expect("write the times");
    let [short, square, times] = [&short, &square, &given.times].map(|times| format!("--seed-times {}", text(times)));
    let [short, square, of_edges] =
        [short, square, times.clone()].map(|times| format!("--time-attr edge_time {times}"));
    for (parts, flags, status, why) in [
        (&attributes, &short[..], 1, "it has 59 times for the 60 seeds of "),
        (&attributes, &square, 1, "its shape is [30, 2], but it has to be one-dimensional"),
        (&attributes, "--time-attr edge_time --seed-times absent.npy", 1, "absent.npy"),
        (&attributes, &times, 2, "--time-attr"),
        (&attributes, "--temporal-strategy last", 2, "--time-attr"),
        (&attributes, "--weighted --time-attr edge_time --temporal-strategy last", 1, "exclude each other"),
        (&attributes, "--batch-dependency 4", 2, "use the sampler labor for a batch dependency"),
        (&attributes, "--sampler labor --batch-dependency 0", 2, "--batch-dependency"),
        (&attributes, "--sampler layer", 2, "--sampler"),
        (&attributes, "--sampler labor --replace", 1, "(labor) and sampling with replacement exclude each other"),
        (&plain, &of_edges, 1, "edge_time: edge type node__to__node of dataset fake has no times"),
        (&plain, "--time-attr node_time", 1, "node_time: no nodes of dataset fake have times"),
        (&plain, "--weighted", 1, "with weights"),
    ] {
        let words: Vec<&str> = ["--seeds", text(&given.seeds)].into_iter().chain(flags.split(' ')).collect();
        let output = given.sample(parts, 1, "wrong", &words);
        assert_eq!(output.status.code(), Some(status), "{flags:?}: {}", stderr(&output));
        let error = error_of(&output);
        let text = stderr(&output);
        assert!(error.contains(why) || (status == 2 && text.contains(why)), "{flags:?}: {text}");
        let written = given.dir.join("wrong/batch_00000.npz");
        assert!(!written.exists(), "nothing is written");
    }
}
