//! Predictions for whole graphs, from real processes: equal for any number of processes, and as accurate as the
//! evaluation of `train graph`.

use crate::programs::*;

use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs, split_dataset};
use edgecut_graph::{map_npy, write_npy};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

const NUM_GRAPHS: usize = 1000;

fn train(words: &[&str], model: &Path) -> Output {
    let mut command = program();
    command.args(words).arg(model);
    run(&mut command)
}

/// Trains a small model, and returns the result of an evaluation of the saved model.
fn evaluated(model: &Path, kind: &[&str]) -> Value {
    let data = ["graph", "--dataset", "fake-graphs", "--json"];
    let training = ["--num-epochs", "2", "--num-layers", "2", "--hidden-channels", "8", "--nproc-per-node", "2"];
    json_of(train(&[&data[..], &training, kind, &["--save-model"]].concat(), model));
    json_of(train(&[&data[..], &["--load-model"]].concat(), model))
}

fn predict(model: &Path, out: &Path, flags: &[&str]) -> Output {
    let out = out.to_str().expect("UTF-8");
    let words = ["predict", "--dataset", "fake-graphs", "--out", out, "--overwrite", "--json"];
    train(&[&words[..], flags, &["--load-model"]].concat(), model)
}

#[test]
fn classes_of_graphs_have_the_accuracy_of_the_evaluation() {
    let Scratch { folder: _folder, model, out } = scratch();
    let labels = fake_graphs(&FakeGraphsOptions { num_graphs: NUM_GRAPHS, ..FakeGraphsOptions::default() });
    let labels = labels.expect("graphs").labels().to_vec();
    let [_, valid, test] = split_dataset(NUM_GRAPHS, [0.8, 0.1, 0.1], 0).expect("a split");
    for (kind, pooled) in [
        (&["--model", "gin"][..], None),
        (&["--model", "gcn", "--readout", "last", "--pooling", "mean"], Some(8)),
        (&["--model", "sage", "--no-batch-norm"], None),
        (&["--model", "gin", "--graph-norm", "--residual", "--readout", "jumping-knowledge-max"], Some(8)),
    ] {
        let expected = evaluated(&model, kind);
        let all = ["--graphs", "all"];
        let result = json_of(predict(&model, &out, &[&all[..], &["--nproc-per-node", "2"]].concat()));
        let (shape, classes) = map_npy::<i64>(&out.join("predictions.npy")).expect("classes");
        assert_eq!(shape, [NUM_GRAPHS]);
        let share = |graphs: &[u32]| {
            let right = graphs.iter().filter(|&&graph| classes[graph as usize] == i64::from(labels[graph as usize]));
            right.count() as f64 / graphs.len() as f64
        };
        for (score, graphs) in [("valid_acc", &valid), ("test_acc", &test)] {
            let difference = expected[score].as_f64().expect("a score") - share(graphs);
            // Batches of other sizes are rounded differently, which may change a prediction.
            assert!(difference.abs() < 0.011, "{kind:?}: {score} of {expected} is {}", share(graphs));
        }
        let every: Vec<u32> = (0..NUM_GRAPHS as u32).collect();
        assert_eq!(result["acc"].as_f64(), Some(share(&every)));
        assert_eq!(result["graphs"], NUM_GRAPHS);

        // Logits and pooled rows do not depend on the processes and on the batches.
        for rows in ["logit", "embedding"] {
            let mut expected = Vec::new();
            for flags in [&["--nproc-per-node", "1"][..], &["--nproc-per-node", "3", "--memory-bytes", "10KB"]] {
                succeeded(predict(&model, &out, &[&all[..], flags, &["--output", rows]].concat()));
                let (shape, values) = map_npy::<f32>(&out.join("predictions.npy")).expect("rows");
                assert_eq!(shape[0], NUM_GRAPHS);
                if let (Some(width), "embedding") = (pooled, rows) {
                    assert_eq!(shape[1], width);
                }
                if expected.is_empty() {
                    expected = values.to_vec();
                }
                assert_close(&values, &expected, &format!("{kind:?} {rows}"));
            }
        }
    }
}

#[test]
fn files_of_graphs_agree() {
    let Scratch { folder, model, out } = scratch();
    evaluated(&model, &[]);
    let two = ["--nproc-per-node", "2"];
    let probability = [&two[..], &["--graphs", "all", "--output", "probability"]].concat();
    json_of(predict(&model, &out, &probability));
    let (shape, expected) = map_npy::<f32>(&out.join("predictions.npy")).expect("probabilities");
    let width = shape[1];
    assert!(expected.chunks_exact(width).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));
    let expected = expected.to_vec();
    let rows_of = |name: &str| -> Vec<f32> {
        let text = std::fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut lines = text.lines();
        assert!(lines.next().expect("names").starts_with("graph_id,probability_0,"));
        lines.flat_map(|line| line.split(',')).map(|number| number.parse().expect("a number")).collect()
    };
    let with_ids: Vec<f32> = expected
        .chunks_exact(width)
        .enumerate()
        .flat_map(|(id, row)| [id as f32].into_iter().chain(row.iter().copied()))
        .collect();
    json_of(predict(&model, &out, &[&probability[..], &["--format", "csv"]].concat()));
    let files = ["predictions-00000-of-00002.csv", "predictions-00001-of-00002.csv"];
    assert_close(&files.map(rows_of).concat(), &with_ids, "two files");
    json_of(predict(&model, &out, &[&probability[..], &["--format", "csv", "--gather"]].concat()));
    assert_close(&rows_of("predictions.csv"), &with_ids, "one file");
    // A list keeps its order.
    let list = folder.join("list.npy");
    write_npy(&list, &[3], &[900_i64, 3, 900]).expect("a list");
    let list = list.to_str().expect("UTF-8");
    json_of(predict(&model, &out, &[&two[..], &["--graphs", list, "--output", "probability"]].concat()));
    assert_eq!(map_npy::<i64>(&out.join("graph_ids.npy")).expect("ids").1[..], [900, 3, 900]);
    let (_, listed) = map_npy::<f32>(&out.join("predictions.npy")).expect("probabilities");
    let of_list: Vec<f32> = [900, 3, 900].iter().flat_map(|&id| expected[id * width..][..width].to_vec()).collect();
    assert_close(&listed, &of_list, "a list");
}

/// The number of graphs whose class a node decides, and of nodes of each.
const NUM_MARKED: usize = 300;
/// The number of graphs that are explained, of both classes.
const NUM_EXPLAINED: usize = 60;
const NUM_NODES: usize = 9;

/// Returns the marked node of a graph of class 1.
fn marked(graph: usize) -> usize {
    graph * 7 % NUM_NODES
}

/// Writes a set of rings in TU format. A graph has class 1 if a feature of one of its nodes is 1, and the other features of
/// nodes and the features of edges mean nothing.
fn write_marked_graphs(dir: &Path) {
    let [mut edges, mut graph_of, mut labels, mut features, mut of_edges] = [(); 5].map(|()| String::new());
    for graph in 0..NUM_MARKED {
        labels += &format!("{}\n", graph % 2);
        for node in 0..NUM_NODES {
            let first = graph * NUM_NODES + 1;
            graph_of += &format!("{}\n", graph + 1);
            let is_marked = graph % 2 == 1 && node == marked(graph);
            features += &format!("{}, {}\n", (graph + node * 5) % 3, u8::from(is_marked));
            let next = (node + 1) % NUM_NODES;
            for (src, dst) in [(node, next), (next, node)] {
                edges += &format!("{}, {}\n", first + src, first + dst);
                of_edges += &format!("{}\n", (graph + src * 3) % 4);
            }
        }
    }
    let folder = dir.join("MARKED");
    std::fs::create_dir(&folder).expect("create a folder");
    for (name, text) in [
        ("A", edges),
        ("graph_indicator", graph_of),
        ("graph_labels", labels),
        ("node_attributes", features),
        ("edge_attributes", of_edges),
    ] {
        std::fs::write(folder.join(format!("MARKED_{name}.txt")), text).expect("write a file");
    }
}

/// Returns the number of graphs of class 1 whose greatest contribution of a feature is the one of the marked node.
fn num_marked_nodes(explanations: &str) -> usize {
    let mut lines = explanations.lines();
    let names = "graph_id,output,rank,kind,type,input_id,input_dst_id,feature,score,baseline,value,contribution";
    assert_eq!(lines.next(), Some(names));
    let mut num_found = 0;
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let graph: usize = fields[0].parse().expect("a graph");
        let is_first = (fields[1], fields[2]) == ("1", "1");
        if graph % 2 == 1 && is_first && fields[3] == "node-feature" {
            assert_eq!((fields[4], fields[6]), ("node", "-1"), "{line}");
            let is_marked = fields[5].parse() == Ok(marked(graph));
            num_found += usize::from(is_marked && fields[7] == "feature[1]" && fields[10] == "1");
        }
    }
    num_found
}

/// Returns the contributions by graph and kind, by rank: each with its input, and its value.
fn contributions(explanations: &str) -> BTreeMap<[String; 2], Vec<(String, f64)>> {
    let mut found: BTreeMap<[String; 2], Vec<(String, f64)>> = BTreeMap::new();
    for line in explanations.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let value: f64 = fields[11].parse().expect("a contribution");
        let of_kind = found.entry([fields[0].to_owned(), fields[3].to_owned()]).or_default();
        of_kind.push((fields[4..8].join(","), value.abs()));
        assert_eq!(fields[2].parse(), Ok(of_kind.len()), "{line}");
    }
    found
}

/// Checks that explanations are equal except for rounding, which also decides the ranks of equal contributions. Returns the
/// number of greatest contributions that are not equal to others.
fn compare_explanations(found: &str, expected: &str) -> usize {
    const TOLERANCE: f64 = 1e-4;
    let found = contributions(found);
    let expected = contributions(expected);
    assert!(found.keys().eq(expected.keys()));
    let mut num_compared = 0;
    for (of, expected) in &expected {
        let found = &found[of];
        assert_eq!(found.len(), expected.len(), "{of:?}");
        for ((_, a), (_, b)) in found.iter().zip(expected) {
            assert!((a - b).abs() <= TOLERANCE, "{of:?}: {found:?}, not {expected:?}");
        }
        if expected.len() > 1 && expected[0].1 - expected[1].1 > 2.0 * TOLERANCE {
            assert_eq!(found[0].0, expected[0].0, "{of:?}");
            num_compared += 1;
        }
    }
    num_compared
}

#[test]
fn the_planted_node_of_a_graph_explains_its_class() {
    let Scratch { folder, model, out } = scratch();
    write_marked_graphs(folder.path());
    let dir = folder.path().to_str().expect("UTF-8");
    let data = ["--dataset", "MARKED", "--dataset-root-dir", dir];
    // An explanation with 200 steps is 200 evaluations and gradients.
    let explained: Vec<i64> = (0..NUM_EXPLAINED as i64).map(|at| at * 5).collect();
    write_npy(&folder.join("graphs.npy"), &[NUM_EXPLAINED], &explained).expect("a list");
    let list = folder.text("graphs.npy");
    for kind in [&["--model", "gine"][..], &["--model", "pna", "--virtual-node", "--readout", "last"]] {
        let training = ["--num-epochs", "30", "--num-layers", "2", "--hidden-channels", "16", "--json", "--save-model"];
        let found = json_of(train(&[&["graph"][..], &data, kind, &training].concat(), &model));
        assert!(found["test_acc"].as_f64().expect("an accuracy") > 0.95, "{kind:?}: {found}");
        let to = out.to_str().expect("UTF-8");
        let explain =
            ["predict", "--out", to, "--overwrite", "--json", "--explain", "--graphs", &list, "--format", "csv"];
        let more = ["--explain-top", "2", "--explain-steps", "200", "--batch-size", "8", "--nproc-per-node"];
        let mut files = Vec::new();
        for processes in ["1", "3"] {
            let result = json_of(train(&[&explain[..], &data, &more, &[processes, "--load-model"]].concat(), &model));
            assert_eq!(result["explained"].as_u64(), Some(NUM_EXPLAINED as u64));
            assert!(result["largest_gap"].as_f64().expect("a gap") < 0.05, "{kind:?}: {result}");
            files.push(std::fs::read_to_string(out.join("explanations.csv")).expect("the file"));
        }
        for file in &files {
            let num_found = num_marked_nodes(file);
            assert!(num_found > 26, "{kind:?}: {num_found} of {} marked nodes", NUM_EXPLAINED / 2);
            let num_compared = compare_explanations(file, &files[0]);
            assert!(num_compared > NUM_EXPLAINED, "{kind:?}: {num_compared} greatest contributions");
        }
    }
}

/// Rewrites a file of a set of graphs.
fn rewrite(dir: &Path, name: &str, change: impl Fn(&str) -> String) {
    let path = dir.join("MARKED").join(format!("MARKED_{name}.txt"));
    let text = std::fs::read_to_string(&path).expect("the file");
    std::fs::write(path, change(&text)).expect("write the file");
}

/// Returns a text without its last two lines.
fn without_an_edge(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[..lines.len() - 2].iter().map(|line| format!("{line}\n")).collect()
}

/// Checks that predictions and evaluations note what differs from the training, with these ends of the sentence.
fn assert_noted(data: &[&str], model: &Path, out: &Path, what: Option<&str>, ends: [&str; 2]) {
    let start = "note: the set of graphs has other ";
    let to = out.to_str().expect("UTF-8");
    let words = ["predict", "--out", to, "--overwrite", "--graphs", "all", "--nproc-per-node", "2"];
    let predicted = train(&[&words[..], data, &["--load-model"]].concat(), model);
    let words = ["graph", "--nproc-per-node", "2"];
    let evaluated = train(&[&words[..], data, &["--load-model"]].concat(), model);
    for (output, end) in [predicted, evaluated].into_iter().zip(ends) {
        let text = stderr(&succeeded(output));
        assert_eq!(text.matches(start).count(), usize::from(what.is_some()), "{text}");
        if let Some(what) = what {
            let said = format!("{start}{what} than in the training of {}{end}\n", model.display());
            assert!(text.contains(&said), "{said} in {text}");
        }
    }
}

/// Returns the position of a column of a table.
fn column(names: &[&str], name: &str) -> usize {
    names.iter().position(|other| *other == name).expect("the column")
}

#[test]
fn classes_of_graphs_have_the_labels_of_the_files() {
    let Scratch { folder, model, out } = scratch();
    let dir = folder.path();
    write_marked_graphs(dir);
    rewrite(dir, "graph_labels", |text| text.replace('1', "7").replace('0', "-3"));
    let data = ["--dataset", "MARKED", "--dataset-root-dir", dir.to_str().expect("UTF-8")];
    let training = ["--num-epochs", "1", "--num-layers", "2", "--save-model"];
    succeeded(train(&[&["graph"][..], &data, &training].concat(), &model));
    let to = out.to_str().expect("UTF-8");
    let words = ["predict", "--out", to, "--overwrite", "--graphs", "all", "--format", "csv"];
    for (file, flags) in [
        ("predictions.csv", &["--gather", "--nproc-per-node", "2"][..]),
        ("predictions-00000-of-00001.csv", &[]),
        ("explanations.csv", &["--explain", "--explain-top", "1", "--explain-steps", "1"]),
    ] {
        succeeded(train(&[&words[..], &data, flags, &["--load-model"]].concat(), &model));
        let text = std::fs::read_to_string(out.join(file)).expect("the file");
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().expect("names").split(',').collect();
        let class = column(&names, if flags.contains(&"--explain") { "output" } else { "class" });
        let name = column(&names, "class_name");
        let mut num_rows = 0;
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let label = if fields[class] == "0" { "-3" } else { "7" };
            assert_eq!(fields[name], label, "{line}");
            num_rows += 1;
        }
        assert!(num_rows >= NUM_MARKED, "{file}: {num_rows} rows");
    }
    let probability = ["--output", "probability", "--load-model"];
    succeeded(train(&[&words[..], &data, &probability].concat(), &model));
    let text = std::fs::read_to_string(out.join("predictions-00000-of-00001.csv")).expect("the file");
    assert_eq!(text.lines().next(), Some("graph_id,probability_-3,probability_7"));
}

#[test]
fn other_graphs_than_in_the_training_have_a_note() {
    let Scratch { folder, model, out } = scratch();
    let dir = folder.path();
    write_marked_graphs(dir);
    let data = ["--dataset", "MARKED", "--dataset-root-dir", dir.to_str().expect("UTF-8")];
    let training = ["--num-epochs", "1", "--num-layers", "2", "--save-model"];
    succeeded(train(&[&["graph"][..], &data, &training].concat(), &model));
    assert_noted(&data, &model, &out, None, ["", ""]);
    rewrite(dir, "node_attributes", |text| text.replace("2, ", "3, "));
    assert_noted(&data, &model, &out, Some("features"), ["", ", but the same splits"]);
    rewrite(dir, "node_attributes", |text| text.replace("3, ", "2, "));
    rewrite(dir, "A", without_an_edge);
    rewrite(dir, "edge_attributes", without_an_edge);
    let leak = ", so that validation and test data may be among the training data of the model";
    assert_noted(&data, &model, &out, Some("edge features and graphs"), [leak, leak]);
}

#[test]
fn wrong_requests_for_graphs_are_refused_with_one_error() {
    let Scratch { folder, model, .. } = scratch();
    let of_nodes = folder.join("nodes.safetensors");
    let out = folder.join("out");
    evaluated(&model, &[]);
    let parts = fake_parts(1);
    trained("node", &parts.path, &of_nodes, &[]);
    let dir = parts.path.to_str().expect("UTF-8");
    let list = folder.join("list.npy");
    write_npy(&list, &[2], &[3_i64, 1000]).expect("a list");
    let list = list.to_str().expect("UTF-8");
    for (model, flags, status, words) in [
        (&model, vec![], 2, &["--load-model", "the model is for whole graphs", "add --graphs all"][..]),
        (&model, vec!["--graphs", list], 1, &["list.npy", "graph 1000", "there are 1000"]),
        (&model, vec!["--graphs", "some"], 1, &["--graphs", "all or a .npy file"]),
        (&model, vec!["--graphs", "all", "--nodes", "test"], 2, &["--nodes applies to"]),
        (&model, vec!["--graphs", "all", "--output", "embedding", "--layer", "1"], 2, &["--layer applies to"]),
        (&model, vec!["--graphs", "all", "--scratch-dir", "/tmp"], 2, &["--scratch-dir applies to"]),
        (&model, vec!["--graphs", "all", "--output", "score"], 2, &["--graphs applies to rows of graphs"]),
        (&model, vec!["--graphs", "all", "--explain"], 2, &["--explain writes a table"]),
        (&model, vec!["--graphs", "all", "--explain", "--format", "csv", "--seed", "1"], 2, &["--seed applies to"]),
        (
            &of_nodes,
            vec!["--graphs", "all", "--explain", "--format", "csv"],
            2,
            &["load a model of train graph for --explain"],
        ),
        (&model, vec!["--graphs", "all", "--dataset", "NONE", "--dataset-root-dir", dir], 1, &["NONE"]),
        (&of_nodes, vec!["--graphs", "all"], 2, &["the model is for nodes", "load a model of train graph"]),
    ] {
        let given = flags.contains(&"--dataset");
        let out_dir = out.to_str().expect("UTF-8");
        let data: &[&str] = if given { &[] } else { &["--dataset", "fake-graphs"] };
        let words_of = [&["predict", "--out", out_dir], data, &flags, &["--load-model"]].concat();
        assert_fails(&train(&words_of, model), status, words);
        let is_empty = std::fs::read_dir(&out).map_or(true, |mut entries| entries.next().is_none());
        assert!(is_empty, "{flags:?} left files");
    }
}
