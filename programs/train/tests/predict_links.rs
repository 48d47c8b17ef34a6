//! Scores of pairs, best destinations and learned vectors of models for links, from real processes. All are compared
//! with brute force over the embeddings that the program writes.

use crate::plain_scores::plain_score;
use crate::programs;
use crate::programs::*;

use edgecut_gnn::nn::DecoderKind;
use edgecut_graph::rng::CounterRng;
use edgecut_graph::{
    Dataset, DiskPartId, EdgeData, EdgeTypeId, HoldOut, Meta, NodeData, NodeTypeId, Part, map_npy, write_npy,
};
use edgecut_testing::assert_has;
use edgecut_trainer::Cpu;
use edgecut_trainer::model_file::load_model;
use edgecut_trainer::models::LinkModelConfig;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use safetensors::SafeTensors;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The rows of all nodes at both ends of an edge type, and the decoder.
struct Oracle {
    src: Vec<f32>,
    dst: Vec<f32>,
    decoder: DecoderKind,
    /// The tensors of the decoder.
    tensors: Vec<Vec<f64>>,
    edge_type: usize,
}

impl Oracle {
    /// Reads the embeddings that the program writes for node types. The graph may have one type.
    fn new(parts: &Parts, model: &Path, out: &Path, types: Option<[&str; 2]>, relation: Option<Vec<f32>>) -> Self {
        let rows = |end: usize| {
            let of_type = types.map_or(vec![], |types| vec!["--node-type", types[end]]);
            predicted(&parts.path, model, out, &[&["--output", "embedding"], &of_type[..]].concat());
            map_npy::<f32>(&out.join("predictions.npy")).expect("embeddings").1.to_vec()
        };
        let (src, dst) = (rows(0), rows(1));
        let (decoder, tensors) = match relation {
            None => ("dot", vec![]),
            Some(relation) => ("distmult", vec![relation.into_iter().map(f64::from).collect()]),
        };
        Self { src, dst, decoder: decoder.parse().expect("a decoder"), tensors, edge_type: 0 }
    }

    fn scores(&self, sources: &[i64], destinations: &[i64]) -> Vec<f32> {
        sources.iter().zip(destinations).map(|(&src, &dst)| self.score(src, dst)).collect()
    }

    /// Reads the decoder of a model file.
    fn with_decoder(self, model: &Path, decoder: &str, edge_type: usize) -> Self {
        let bytes = std::fs::read(model).expect("the model");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let mut tensors = Vec::new();
        for name in ["source", "destination", "product", "relations", "output"] {
            let Ok(tensor) = file.tensor(&format!("decoder.{name}")) else { continue };
            // Files have matrices transposed.
            let [columns, rows] = tensor.shape() else { panic!("{name} is a matrix") };
            let values: Vec<f32> = bytemuck::pod_collect_to_vec(tensor.data());
            let transposed = (0..rows * columns).map(|at| values[at % columns * rows + at / columns]);
            tensors.push(transposed.map(f64::from).collect());
        }
        Self { decoder: decoder.parse().expect("a decoder"), tensors, edge_type, ..self }
    }

    fn score(&self, src: i64, dst: i64) -> f32 {
        let row = |rows: &[f32], node: i64| -> Vec<f64> {
            rows[node as usize * 16..][..16].iter().map(|&value| f64::from(value)).collect()
        };
        plain_score(self.decoder, &self.tensors, self.edge_type, &row(&self.src, src), &row(&self.dst, dst)) as f32
    }

    fn num_destinations(&self) -> i64 {
        self.dst.len() as i64 / 16
    }
}

/// Returns the known edges of a type as ids of the dataset: training and held-out.
fn known_edges(parts: &Parts, num_parts: u32, edge_type: EdgeTypeId) -> BTreeSet<(i64, i64)> {
    edges_by_split(parts, num_parts, edge_type).into_iter().flatten().collect()
}

/// Returns the edges of a type as ids of the dataset: for training, for validation and for the test.
fn edges_by_split(parts: &Parts, num_parts: u32, edge_type: EdgeTypeId) -> [Vec<(i64, i64)>; 3] {
    let parts: Vec<Part> =
        (0..num_parts).map(|id| Part::open(&parts.path, DiskPartId(id), true).expect("a part")).collect();
    let originals = |node_type: NodeTypeId| -> Vec<i64> {
        parts.iter().flat_map(|part| part.nodes(node_type).original_ids.iter().map(|&id| i64::from(id))).collect()
    };
    let edges = parts[0].edges(edge_type);
    let sources = originals(edges.src_type);
    let destinations = originals(edges.dst_type);
    let mut all: [Vec<(i64, i64)>; 3] = Default::default();
    for part in &parts {
        let edges = part.edges(edge_type);
        let start = part.owned(edges.dst_type).start as usize;
        for row in 0..edges.csc.num_rows() {
            let neighbors = edges.csc.neighbors(row).iter();
            all[0].extend(neighbors.map(|&src| (sources[src as usize], destinations[start + row])));
        }
        for (list, all) in [&edges.held_out.valid, &edges.held_out.test].into_iter().zip(&mut all[1..]) {
            let pairs = list.src.iter().zip(&list.dst[..]);
            all.extend(pairs.map(|(&src, &dst)| (sources[src as usize], destinations[dst as usize])));
        }
    }
    all
}

fn array_file(path: PathBuf, shape: &[usize], values: &[i64]) -> String {
    write_npy(&path, shape, values).expect("an array");
    path.to_str().expect("UTF-8").to_owned()
}

/// Returns pairs of two types with 400 or 300 nodes. Some occur twice.
fn some_pairs(num: usize, num_nodes: i64) -> (Vec<i64>, Vec<i64>) {
    let sources = (0..num as i64).map(|at| at * 7 % num_nodes).collect();
    let destinations = (0..num as i64).map(|at| at * at % num_nodes).collect();
    (sources, destinations)
}

fn scores_of(out: &Path, name: &str) -> (Vec<usize>, Vec<f32>) {
    let (shape, values) = map_npy::<f32>(&out.join(name)).expect("scores");
    (shape, values.to_vec())
}

/// Checks the arrays of `--output top-k` against all scores.
fn check_top_k(out: &Path, sources: &[i64], k: usize, oracle: &Oracle, known: &BTreeSet<(i64, i64)>, what: &str) {
    let (shape, destinations) = map_npy::<i64>(&out.join("destinations.npy")).expect("destinations");
    assert_eq!(shape, [sources.len(), k], "{what}");
    let (shape, scores) = scores_of(out, "scores.npy");
    assert_eq!(shape, [sources.len(), k], "{what}");
    assert_eq!(map_npy::<i64>(&out.join("source_ids.npy")).expect("sources").1[..], *sources, "{what}");
    for (row, &src) in sources.iter().enumerate() {
        let found = &destinations[row * k..][..k];
        let scores = &scores[row * k..][..k];
        let mut all: Vec<f32> = (0..oracle.num_destinations())
            .filter(|&dst| !known.contains(&(src, dst)))
            .map(|dst| oracle.score(src, dst))
            .collect();
        all.sort_unstable_by(|a, b| b.total_cmp(a));
        let num = all.len().min(k);
        // Scores that are equal but for rounding may change places, so the scores are compared rank by rank, and the
        // score of each destination.
        assert_close(&scores[..num], &all[..num], &format!("{what}, source {src}"));
        assert!(scores[..num].is_sorted_by(|a, b| a >= b), "{what}, source {src}: {scores:?}");
        let exact: Vec<f32> = found[..num].iter().map(|&dst| oracle.score(src, dst)).collect();
        assert_close(&scores[..num], &exact, &format!("{what}, destinations of {src}"));
        assert_eq!(found[..num].iter().collect::<BTreeSet<_>>().len(), num, "{what}, source {src}: distinct");
        assert!(found[..num].iter().all(|&dst| !known.contains(&(src, dst))), "{what}, source {src}: known");
        assert!(found[num..].iter().all(|&dst| dst == -1) && scores[num..].iter().all(|score| score.is_nan()));
    }
}

#[test]
fn scores_and_best_destinations_are_those_of_all_pairs() {
    let two = link_parts(2);
    let others = [link_parts(1), link_parts(3)];
    let Scratch { folder, model, out } = scratch();
    trained("link", &two.path, &model, &[]);
    let oracle = Oracle::new(&two, &model, &out, None, None);
    let (sources, destinations) = some_pairs(1501, 400);
    let pairs = array_file(folder.join("pairs.npy"), &[2, 1501], &[sources.clone(), destinations.clone()].concat());
    let expected = oracle.scores(&sources, &destinations);
    let known = known_edges(&two, 2, EdgeTypeId(0));
    let few = [17, 399, 0, 5, 17];
    let list = array_file(folder.join("sources.npy"), &[5], &few);
    let all: Vec<i64> = (0..400).collect();
    // Several blocks, fewer and more processes than parts, and processes that share parts unevenly.
    for (parts, flags) in [
        (&two, &["--nproc-per-node", "1", "--memory-bytes", "20KB"][..]),
        (&others[0], &["--nproc-per-node", "2", "--memory-bytes", "30KB"]),
        (&others[1], &["--nproc-per-node", "2"]),
        (&two, &["--nproc-per-node", "3", "--memory-bytes", "10KB"]),
    ] {
        let what = format!("{} {flags:?}", parts.path.display());
        let result = predicted(&parts.path, &model, &out, &[flags, &["--output", "score", "--pairs", &pairs]].concat());
        assert_eq!(result["pairs"], 1501);
        let (shape, scores) = scores_of(&out, "scores.npy");
        assert_eq!(shape, [1501]);
        assert_close(&scores, &expected, &what);
        for (text, sources, k) in [("all", &all[..], "7"), (&list, &few, "399")] {
            let flags = [flags, &["--output", "top-k", "--sources", text, "--top-k", k]].concat();
            let k = k.parse().expect("a number");
            if text == "all" {
                predicted(&parts.path, &model, &out, &flags);
                check_top_k(&out, sources, k, &oracle, &BTreeSet::new(), &what);
            } else {
                predicted(&parts.path, &model, &out, &[&flags[..], &["--exclude-known"]].concat());
                check_top_k(&out, sources, k, &oracle, &known, &what);
            }
        }
    }
    // The excluded edges are some of the best: the model has learned them.
    assert!(known.len() > 1000, "{} edges", known.len());
    // All nodes.
    predicted(&two.path, &model, &out, &["--output", "top-k", "--sources", &list, "--top-k", "400"]);
    check_top_k(&out, &few, 400, &oracle, &BTreeSet::new(), "all");
}

#[test]
fn best_destinations_are_compared_with_test_edges_and_with_the_most_popular_ones() {
    const K: usize = 20;
    let two = link_parts(2);
    let three = link_parts(3);
    let Scratch { folder: _folder, model, out } = scratch();
    trained("link", &two.path, &model, &[]);
    let top = ["--output", "top-k", "--sources", "all", "--top-k", "20", "--exclude-known", "train"];
    let [train, _, test] = edges_by_split(&two, 2, EdgeTypeId(0));
    let train_pairs: BTreeSet<(i64, i64)> = train.iter().copied().collect();
    let mut degrees = vec![0_i64; 400];
    train.iter().for_each(|&(_, dst)| degrees[dst as usize] += 1);
    let mut popular: Vec<i64> = (0..400).collect();
    popular.sort_by_key(|&dst| (-degrees[dst as usize], dst));
    let held_out =
        |src: i64| -> BTreeSet<i64> { test.iter().filter(|(from, _)| *from == src).map(|&(_, dst)| dst).collect() };
    let recall_and_hits = |list_of: &dyn Fn(i64) -> Vec<i64>| {
        let (mut recall, mut hits, mut sources) = (0.0, 0.0, 0.0);
        for src in 0..400 {
            let held_out = held_out(src);
            if held_out.is_empty() {
                continue;
            }
            let found = list_of(src).iter().filter(|dst| held_out.contains(dst)).count();
            recall += found as f64 / held_out.len() as f64;
            hits += f64::from(u8::from(found > 0));
            sources += 1.0;
        }
        [recall / sources, hits / sources, sources]
    };
    let mut results = Vec::new();
    for (parts, processes) in [(&three, "4"), (&two, "1")] {
        let flags = [&top[..], &["--nproc-per-node", processes, "--memory-bytes", "30KB"]].concat();
        let result = predicted(&parts.path, &model, &out, &flags);
        let destinations = map_npy::<i64>(&out.join("destinations.npy")).expect("destinations").1;
        let of_model = recall_and_hits(&|src| destinations[src as usize * K..][..K].to_vec());
        let of_popularity = recall_and_hits(&|src| {
            popular.iter().copied().filter(|&dst| !train_pairs.contains(&(src, dst))).take(K).collect()
        });
        for (name, [recall, hits, sources]) in [("test", of_model), ("popularity", of_popularity)] {
            let found =
                ["recall", "hit_rate", "sources"].map(|metric| result[name][metric].as_f64().expect("a number"));
            let expected = [recall, hits, sources];
            let same = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9);
            assert!(same, "{name}, {processes} processes: {found:?} for {expected:?}");
        }
        results.push((result["test"].clone(), result["popularity"].clone()));
    }
    assert!(results.iter().all(|(_, popularity)| *popularity == results[0].1), "{results:?}");
    // The test edges are known, so that nothing can be compared.
    let all = predicted(&two.path, &model, &out, &[&top[..7], &["all"]].concat());
    assert!(all["test"].is_null() && all["popularity"].is_null(), "{all}");
}

#[test]
fn typed_graphs_are_scored_by_relation() {
    let two = typed_link_parts(2);
    let three = typed_link_parts(3);
    let Scratch { folder, model, out } = scratch();
    trained("link", &two.path, &model, &["--decoder", "distmult"]);
    // Relation vectors need no graph.
    let exported = |flags: &[&str]| {
        let mut command = program();
        command.args(["predict", "--load-model"]).arg(&model).arg("--out").arg(&out).args(["--overwrite", "--json"]);
        succeeded(programs::run(command.args(flags)));
    };
    exported(&["--output", "relation"]);
    let (shape, relations) = map_npy::<f32>(&out.join("predictions.npy")).expect("relations");
    assert_eq!(shape, [6, 16]);
    let names = std::fs::read(out.join("relation_names.json")).expect("names");
    let names: Vec<String> = serde_json::from_slice(&names).expect("a list");
    assert_eq!(names.len(), 6);
    let (sources, destinations) = some_pairs(500, 300);
    let pairs = array_file(folder.join("pairs.npy"), &[2, 500], &[sources.clone(), destinations.clone()].concat());
    // One edge type by its full name and one by its relation.
    for number in [0, 4] {
        let ends: Vec<&str> = names[number].split("__").collect();
        let name = if number == 0 { names[number].as_str() } else { ends[1] };
        let relation = relations[number * 16..][..16].to_vec();
        let oracle = Oracle::new(&two, &model, &out, Some([ends[0], ends[2]]), Some(relation));
        let known = known_edges(&two, 2, EdgeTypeId(number as u16));
        let expected = oracle.scores(&sources, &destinations);
        for (parts, processes) in [(&three, "2"), (&two, "3")] {
            let flags = ["--edge-type", name, "--nproc-per-node", processes];
            predicted(&parts.path, &model, &out, &[&flags[..], &["--output", "score", "--pairs", &pairs]].concat());
            assert_close(&scores_of(&out, "scores.npy").1, &expected, &names[number]);
            let top = ["--output", "top-k", "--sources", "all", "--top-k", "9", "--exclude-known"];
            predicted(&parts.path, &model, &out, &[&flags[..], &top].concat());
            check_top_k(&out, &(0..300).collect::<Vec<i64>>(), 9, &oracle, &known, &names[number]);
        }
    }
    let error = error_of(&predict(&two.path, &model, &out, &["--overwrite", "--output", "score", "--pairs", &pairs]));
    assert_has(&error, &["--edge-type", &names[0], &names[4]]);
    assert!(!error.contains(&names[5]), "the model was not trained on this type: {error}");

    // The table of the node type without features is what the model file holds.
    exported(&["--output", "table", "--node-type", "v2"]);
    let (shape, table) = map_npy::<f32>(&out.join("predictions.npy")).expect("a table");
    assert_eq!(shape, [300, 16]);
    let (_, _, tables) = load_model::<Cpu, LinkModelConfig>(&model, &Default::default()).expect("the model");
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].values, table.to_vec());
    // As a CSV file, in blocks.
    exported(&["--output", "table", "--format", "csv", "--memory-bytes", "5KB"]);
    let text = std::fs::read_to_string(out.join("predictions.csv")).expect("a file");
    let mut lines = text.lines();
    assert!(lines.next().expect("names").starts_with("node_id,embedding_0,embedding_1,"));
    let values = lines.flat_map(|line| line.split(',').skip(1)).map(|number| number.parse().expect("a number"));
    assert_eq!(values.collect::<Vec<f32>>(), tables[0].values);
}

/// Generates purchases of users with tastes: most items that a user buys are of one kind, and some items of each kind are
/// more popular than others.
pub(crate) fn purchases() -> Dataset {
    const USERS: usize = 240;
    const KINDS: usize = 6;
    const ITEMS_OF_KIND: usize = 20;
    let mut numbers = CounterRng::new(7);
    let mut src = Vec::new();
    let mut dst = Vec::new();
    for user in 0..USERS {
        let mut bought = BTreeSet::new();
        while bought.len() < 12 {
            let kind = if numbers.below(6) == 0 { numbers.below(KINDS as u64) } else { (user % KINDS) as u64 };
            // The smaller of two numbers prefers the first items.
            let item = numbers.below(ITEMS_OF_KIND as u64).min(numbers.below(ITEMS_OF_KIND as u64));
            bought.insert(kind as u32 * ITEMS_OF_KIND as u32 + item as u32);
        }
        src.extend(std::iter::repeat_n(user as u32, bought.len()));
        dst.extend(bought);
    }
    let nodes = |name: &str, num_nodes| NodeData { name: name.into(), num_nodes, ..NodeData::default() };
    let mut graph = Dataset {
        name: "purchases".into(),
        node_types: vec![nodes("user", USERS), nodes("item", KINDS * ITEMS_OF_KIND)],
        edge_types: vec![EdgeData::new(NodeTypeId(0), "buys", NodeTypeId(1), src.into(), dst.into())],
    };
    graph.hold_out_edges(&[EdgeTypeId(0)], &HoldOut::random(0.1, 0.2, 3)).expect("held-out edges");
    graph
}

/// A recommender that has learned tastes is far better than lists of popular items, which know nothing of the user.
#[test]
fn planted_tastes_are_recommended_better_than_popular_items() {
    let parts = written_by(&purchases(), 2);
    let Scratch { folder: _folder, model, out } = scratch();
    let mut command = program();
    command.args(["link", "--dataset-root-dir"]).arg(&parts.path);
    command.args(["--nproc-per-node", "2", "--model", "embedding", "--hidden-channels", "16", "--batch-size", "64"]);
    command.args(["--loss", "softmax", "--shared-negatives", "--num-negatives", "60", "--in-batch-negatives"]);
    command.args(["--log-q-correction", "--num-epochs", "15", "--lr", "0.02", "--dropout", "0"]);
    command.args(["--eval-negatives", "10"]);
    succeeded(programs::run(command.arg("--save-model").arg(&model)));
    let top = ["--output", "top-k", "--sources", "all", "--top-k", "10", "--exclude-known", "train"];
    let result = predicted(&parts.path, &model, &out, &top);
    for metric in ["recall", "ndcg", "map", "hit_rate", "coverage"] {
        let of_model = result["test"][metric].as_f64().expect("a number");
        let of_popularity = result["popularity"][metric].as_f64().expect("a number");
        assert!(of_model > 1.3 * of_popularity, "{metric}: {result}");
    }
}

/// Scores and lists of decoders that are no products of rows, too, do not depend on parts and processes.
#[test]
fn decoders_score_by_their_formulas_in_every_layout() {
    let two = typed_link_parts(2);
    let three = typed_link_parts(3);
    let Scratch { folder, model, out } = scratch();
    let (sources, destinations) = some_pairs(200, 300);
    let pairs = array_file(folder.join("pairs.npy"), &[2, 200], &[sources.clone(), destinations.clone()].concat());
    let listed = [5, 0, 299];
    let list = array_file(folder.join("listed.npy"), &[3], &listed);
    for decoder in ["complex", "rotate:margin=2", "mlp"] {
        trained("link", &two.path, &model, &["--decoder", decoder, "--num-epochs", "1"]);
        let names = edge_type_names(&two);
        let ends: Vec<&str> = names[4].split("__").collect();
        let oracle = Oracle::new(&two, &model, &out, Some([ends[0], ends[2]]), None).with_decoder(&model, decoder, 4);
        let known = known_edges(&two, 2, EdgeTypeId(4));
        let expected = oracle.scores(&sources, &destinations);
        for (parts, processes) in [(&two, "1"), (&three, "3")] {
            let what = format!("{decoder}, {processes} processes");
            let flags = ["--edge-type", &names[4], "--nproc-per-node", processes];
            predicted(&parts.path, &model, &out, &[&flags[..], &["--output", "score", "--pairs", &pairs]].concat());
            assert_close(&scores_of(&out, "scores.npy").1, &expected, &what);
            let top = ["--output", "top-k", "--sources", &list, "--top-k", "9", "--exclude-known", "all"];
            predicted(&parts.path, &model, &out, &[&flags[..], &top].concat());
            check_top_k(&out, &listed, 9, &oracle, &known, &what);
        }
    }
}

#[test]
fn a_model_of_one_edge_type_needs_no_name() {
    let two = typed_link_parts(2);
    let Scratch { folder, model, out } = scratch();
    let (sources, destinations) = some_pairs(50, 300);
    let pairs = array_file(folder.join("pairs.npy"), &[2, 50], &[sources, destinations].concat());
    let name = &edge_type_names(&two)[4];
    trained("link", &two.path, &model, &["--edge-types", name, "--num-epochs", "1"]);
    let score = ["--nproc-per-node", "2", "--output", "score", "--pairs", &pairs];
    let top = ["--nproc-per-node", "2", "--output", "top-k", "--sources", "all", "--top-k", "3"];
    for (flags, file) in [(&score[..], "scores.npy"), (&top[..], "destinations.npy")] {
        predicted(&two.path, &model, &out, &[flags, &["--edge-type", name]].concat());
        let expected = std::fs::read(out.join(file)).expect("a file");
        predicted(&two.path, &model, &out, flags);
        assert!(std::fs::read(out.join(file)).expect("a file") == expected, "{file}");
    }
}

/// Returns the full names of the edge types.
fn edge_type_names(parts: &Parts) -> Vec<String> {
    let meta = Meta::read(&parts.path).expect("META.json");
    meta.edge_types.iter().map(|edges| format!("{}__{}__{}", edges.src_type, edges.relation, edges.dst_type)).collect()
}

#[test]
fn tables_have_the_scores_of_the_arrays() {
    let parts = link_parts(2);
    let Scratch { folder, model, out } = scratch();
    trained("link", &parts.path, &model, &[]);
    let (sources, destinations) = some_pairs(1001, 400);
    let pairs = array_file(folder.join("pairs.npy"), &[2, 1001], &[sources.clone(), destinations.clone()].concat());
    let two = ["--nproc-per-node", "2"];
    let of_pairs = [&two[..], &["--output", "score", "--pairs", &pairs]].concat();
    predicted(&parts.path, &model, &out, &of_pairs);
    let (_, expected) = scores_of(&out, "scores.npy");
    let lines_of = |name: &str, header: &str| -> Vec<Vec<f64>> {
        let text = std::fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(header));
        lines.map(|line| line.split(',').map(|number| number.parse().expect("a number")).collect()).collect()
    };
    let expected: Vec<Vec<f64>> = sources
        .iter()
        .zip(&destinations)
        .zip(&expected)
        .map(|((&src, &dst), &score)| vec![src as f64, dst as f64, f64::from(score)])
        .collect();
    // The files of the ranks are stretches of the pairs, so their rows follow each other.
    predicted(&parts.path, &model, &out, &[&of_pairs[..], &["--format", "csv"]].concat());
    let files = ["scores-00000-of-00002.csv", "scores-00001-of-00002.csv"];
    let found = |rows: Vec<Vec<f64>>, what: &str| {
        assert_eq!(rows.len(), expected.len(), "{what}");
        for (found, expected) in rows.iter().zip(&expected) {
            assert_eq!(found[..2], expected[..2], "{what}");
            assert!((found[2] - expected[2]).abs() < 1e-4, "{what}: {found:?} for {expected:?}");
        }
    };
    found(files.iter().flat_map(|name| lines_of(name, "src_id,dst_id,score")).collect(), "two files");
    predicted(&parts.path, &model, &out, &[&of_pairs[..], &["--format", "csv", "--gather"]].concat());
    found(lines_of("scores.csv", "src_id,dst_id,score"), "one file");

    let top = [&two[..], &["--output", "top-k", "--sources", "all", "--top-k", "390", "--exclude-known"]].concat();
    predicted(&parts.path, &model, &out, &top);
    let (_, destinations) = map_npy::<i64>(&out.join("destinations.npy")).expect("destinations");
    let (_, scores) = scores_of(&out, "scores.npy");
    let mut expected = Vec::new();
    for (at, (&dst, &score)) in destinations.iter().zip(&scores).enumerate().filter(|(_, (dst, _))| **dst >= 0) {
        expected.push((at as i64 / 390, at as i64 % 390 + 1, dst, score));
    }
    assert!(expected.len() < destinations.len(), "some rows are padded");
    predicted(&parts.path, &model, &out, &[&top[..], &["--format", "parquet"]].concat());
    let mut rows = Vec::new();
    for name in ["top_k-00000-of-00002.parquet", "top_k-00001-of-00002.parquet"] {
        let file = std::fs::File::open(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for row in SerializedFileReader::new(file).expect("a Parquet file").get_row_iter(None).expect("rows") {
            let row = row.expect("a row");
            let long = |column: usize| row.get_long(column).expect("a number");
            rows.push((long(0), long(1), long(2), row.get_float(3).expect("a score")));
        }
    }
    assert_eq!(rows.len(), expected.len());
    for (found, expected) in rows.iter().zip(&expected) {
        assert_eq!((found.0, found.1), (expected.0, expected.1));
        assert!((found.3 - expected.3).abs() < 1e-4, "{found:?} for {expected:?}");
    }
    predicted(&parts.path, &model, &out, &[&top[..], &["--format", "csv", "--gather"]].concat());
    assert_eq!(lines_of("top_k.csv", "src_id,rank,dst_id,score").len(), expected.len());
}

/// The statuses and flags of wrong requests, and the words of their errors. `{}` is the folder of the test.
const WRONG_REQUESTS: &str = "
2 --output score => --pairs is missing
1 --output score --pairs {}/beyond.npy => beyond.npy | 1 of 2 destinations do not exist: 400 (row 2) | There are 400 nodes
1 --output score --pairs {}/wide.npy => wide.npy | [2, 3, 1] | expected [2, n]
1 --output score --pairs {}/columns.npy => columns.npy | [3, 2] | expected [2, n]
1 --output score --pairs {}/empty.npy => empty.npy | no ids
1 --output score --pairs {}/negative.npy => negative.npy | expected [2, n]
1 --output score --pairs absent.npy => --pairs | absent.npy
1 --output score --pairs {}/pairs.npy --edge-type likes => --edge-type | no edge type likes
2 --output score --pairs {}/pairs.npy --nodes test => --nodes applies to
2 --output score --pairs {}/pairs.npy --layer 1 => --layer
2 --output score --pairs {}/pairs.npy --gather => --gather
2 --output class --pairs {}/pairs.npy => --pairs applies to --output score
2 --output embedding --exclude-known => --exclude-known applies to --output top-k
2 --output embedding --edge-type edge => --edge-type applies to
2 --output top-k --top-k 3 => --sources is missing
2 --output top-k --sources all => --top-k is missing
2 --output top-k --top-k 0 --sources all => --top-k
1 --output top-k --top-k 3 --sources {}/far.npy => far.npy | 1 of 2 ids do not exist: 401 (row 2) | There are 400 nodes
1 --output top-k --top-k 3 --sources {}/negative.npy => negative.npy | -1
1 --output top-k --top-k 401 --sources all => --top-k 401 | only 400 destinations
1 --output top-k --top-k 3 --sources some => --sources | all or a file of ids
2 --output relation => --dataset-root-dir applies to
2 --graphs all => --dataset is missing
";

#[test]
fn wrong_requests_are_refused_with_one_error() {
    let links = link_parts(2);
    let folder = Folder::new();
    let model = folder.join("links.safetensors");
    let of_nodes = folder.join("nodes.safetensors");
    trained("link", &links.path, &model, &[]);
    let nodes = fake_parts(2);
    trained("node", &nodes.path, &of_nodes, &[]);
    let out = folder.join("out");
    let file = |name: &str, shape: &[usize], ids: &[i64]| array_file(folder.join(name), shape, ids);
    let pairs = file("pairs.npy", &[2, 2], &[1, 2, 3, 4]);
    file("beyond.npy", &[2, 2], &[1, 2, 3, 400]);
    file("wide.npy", &[2, 3, 1], &[1, 2, 3, 4, 5, 6]);
    file("columns.npy", &[3, 2], &[1, 2, 3, 4, 5, 6]);
    file("empty.npy", &[2, 0], &[]);
    file("negative.npy", &[2], &[3, -1]);
    file("far.npy", &[2], &[3, 401]);
    let score = ["--output", "score", "--pairs", &pairs];
    for (flags, words) in cases(WRONG_REQUESTS) {
        let (status, flags) = flags.split_first().expect("a status");
        let flags: Vec<String> = flags.iter().map(|flag| flag.replace("{}", text(folder.path()))).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let status = status.parse().expect("a status");
        assert_fails(&predict(&links.path, &model, &out, &flags), status, &words);
        let is_empty = std::fs::read_dir(&out).map_or(true, |mut entries| entries.next().is_none());
        assert!(is_empty, "{flags:?} left files");
    }
    // A model of another task, and a graph with other features.
    let output = predict(&nodes.path, &of_nodes, &out, &score);
    assert_fails(&output, 2, &["load a model of train link for --output score"]);
    assert_error(&predict(&parts(2, 1).path, &model, &out, &score), &["the model was trained for another graph"]);
    let exported = |model: &Path, kind: &str| {
        let mut command = program();
        command.args(["predict", "--output", kind, "--load-model"]).arg(model).arg("--out").arg(&out);
        error_of(&programs::run(&mut command))
    };
    assert_has(exported(&model, "relation"), &["dot", "no relation vectors"]);
    assert_has(exported(&model, "table"), &["has no embedding tables"]);
    assert_has(exported(&of_nodes, "relation"), &["load a model of train link for --output relation"]);
}
