//! Numbers and several labels: training, evaluation of saved models, predictions and checkpoints with the program.

use crate::programs::*;

use edgecut_graph::{Dataset, TargetKind, Targets, map_npy};
use serde_json::Value;
use std::path::Path;

/// Returns a graph whose nodes have two numbers that are linear in their features, or two labels that tell whether these
/// numbers are large. The second value is often unknown.
fn graph(kind: TargetKind) -> Dataset {
    let mut graph = random_graph(3);
    let nodes = &mut graph.node_types[0];
    let features = nodes.features.as_ref().expect("features");
    let mut values = Vec::new();
    let mut row = vec![0.0_f32; features.dim()];
    for node in 0..features.num_rows() {
        features.copy_row(node, &mut row);
        let numbers = [3.0 * row[0] - row[1], row[1] + 0.25];
        let of_node = match kind {
            TargetKind::Regression => numbers,
            TargetKind::MultiLabel => numbers.map(|number| f32::from(u8::from(number > 0.5))),
        };
        values.extend([of_node[0], if node % 4 == 0 { f32::NAN } else { of_node[1] }]);
    }
    nodes.labels = None;
    nodes.num_classes = 0;
    nodes.targets = Some(Targets { values: values.into(), dim: 2, kind });
    graph
}

/// The flags of a model of the features alone, which learns the numbers and labels exactly.
const ALONE: [&str; 2] = ["--model", "embedding"];

/// Trains with some flags, and checks that the saved model is evaluated and predicts as it was trained. Returns the
/// predictions.
fn round_trip(parts: &Path, folder: &Path, model_flags: &[&str], flags: &[&str]) -> (Value, Vec<usize>, Vec<f32>) {
    let model = folder.join("model.safetensors");
    let flags = [&["--num-epochs", "60", "--dropout", "0"], model_flags, flags].concat();
    let result = trained("node", parts, &model, &flags);
    assert!(result["valid_metric"].is_number(), "{result}");
    let mut evaluation = node(parts);
    evaluation.args(["--json", "--eval-num-neighbors", "-1,-1"]).args(model_flags).arg("--load-model").arg(&model);
    if let Some(metric) = result["metric"].as_str() {
        evaluation.args(["--metric", metric]);
    }
    let evaluated = succeeded(train_or_evaluate(&evaluation));
    let evaluated: Value = serde_json::from_slice(&evaluated.stdout).expect("a result");
    for score in ["valid_metric", "test_metric"] {
        assert!((number_of(&evaluated, score) - number_of(&result, score)).abs() < 1e-5, "{evaluated} {result}");
    }
    let out = folder.join("predictions");
    predicted(parts, &model, &out, &[]);
    let (shape, values) = map_npy::<f32>(&out.join("predictions.npy")).expect("predictions");
    (result, shape, values.to_vec())
}

#[test]
fn numbers_are_learned_and_predicted() {
    let graph = graph(TargetKind::Regression);
    let folder = Folder::new();
    let targets = graph.node_types[0].targets.as_ref().expect("targets");
    let parts = written_by(&graph, 2);
    for flags in [&[][..], &["--loss", "huber:delta=0.5", "--metric", "r2"], &["--loss", "mae"]] {
        // A stack of convolutions also sees the numbers of neighbors, which are noise.
        let is_stack = flags.is_empty();
        let model: &[&str] = if is_stack { &[] } else { &ALONE };
        let (result, shape, values) = round_trip(&parts.path, folder.path(), model, flags);
        let name = result["metric"].as_str().expect("a metric");
        assert_eq!(name, *flags.get(3).unwrap_or(&if flags.is_empty() { "rmse" } else { "mae" }));
        assert!(entry(&result, "valid_acc").is_null(), "{result}");
        let test = number_of(&result, "test_metric");
        // A constant has an error of 2, and an R2 of 0.
        let most = if is_stack { 1.0 } else { 0.3 };
        assert!(if name == "r2" { test > 0.9 } else { test < most }, "{flags:?}: {result}");
        assert_eq!(shape, [600, 2]);
        let known = values.iter().zip(&targets.values[..]).filter(|(_, target)| !target.is_nan());
        let error: f32 = known.clone().map(|(value, target)| (value - target).abs()).sum::<f32>();
        assert!(f64::from(error) / (known.count() as f64) < most, "{flags:?}: {error}");
    }
}

#[test]
fn several_labels_are_learned_and_predicted() {
    let graph = graph(TargetKind::MultiLabel);
    let parts = written_by(&graph, 2);
    let folder = Folder::new();
    for metric in ["micro-f1", "roc-auc"] {
        let (result, shape, values) = round_trip(&parts.path, folder.path(), &ALONE, &["--metric", metric]);
        assert!(number_of(&result, "test_metric") > 0.9 && number_of(&result, "test_acc") > 0.9, "{result}");
        assert_eq!(shape, [600, 2]);
        assert!(values.iter().all(|&value| value == 0.0 || value == 1.0));
    }
    let model = folder.join("model.safetensors");
    let out = folder.join("probabilities");
    let result = predicted(&parts.path, &model, &out, &["--output", "probability"]);
    let found = ["metric", "train_acc"].map(|name| entry(&result, name));
    assert_eq!(found, [&"micro-f1".into(), &Value::Null]);
    assert!(number_of(&result, "test_metric") > 0.9, "{result}");
    let (_, shares) = map_npy::<f32>(&out.join("predictions.npy")).expect("probabilities");
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)) && shares.iter().any(|share| *share > 0.6));
    let refused = predict(&parts.path, &model, &out, &["--output", "class", "--overwrite"]);
    assert!(error_of(&refused).contains("--output class: the model predicts several labels: use --output prediction"));
    // The lowest error selects the best epoch.
    let metrics = folder.join("metrics.jsonl");
    let mut command = node(&parts.path);
    command.args(["--loss", "mse", "--metric", "mae", "--json", "--metrics"]).arg(&metrics);
    let result = json_of(run(&mut command));
    let epochs: Vec<f64> = metrics_lines(&metrics)
        .into_iter()
        .filter(|line| line["event"] == "epoch")
        .map(|line| number_of(&line, "valid_metric"))
        .collect();
    let lowest = epochs.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(number_of(&result, "valid_metric"), lowest);
    assert_eq!(epochs[number_of(&result, "best_epoch") as usize - 1], lowest);
}

/// Writes a graph of 300 proteins in OGB's layout of ogbn-proteins: 112 labels, which follow from four of the eight features of the
/// edges into a protein, and no features of proteins.
fn write_proteins(folder: &Path) {
    const NODES: usize = 300;
    let mut numbers = edgecut_graph::rng::CounterRng::new(5);
    let signs: Vec<[f64; 4]> = (0..NODES).map(|_| [(); 4].map(|()| numbers.below(2) as f64)).collect();
    let (mut edges, mut features) = (String::new(), String::new());
    for (node, signs) in signs.iter().enumerate() {
        for _ in 0..5 {
            edges += &format!("{},{node}\n", numbers.below(NODES as u64));
            let known = signs.map(|sign| format!("{:.3}", sign + 0.2 * numbers.unit()));
            let others = [(); 4].map(|()| format!("{:.3}", numbers.unit()));
            features += &format!("{}\n", [known, others].concat().join(","));
        }
    }
    let labels = signs.iter().map(|signs| vec![signs.map(|sign| format!("{sign:.0}")).join(","); 28].join(",") + "\n");
    let ids: Vec<String> = (0..NODES).map(|node| format!("{node}\n")).collect();
    for (name, text) in [
        ("raw/num-node-list.csv", format!("{NODES}\n")),
        ("raw/num-edge-list.csv", format!("{}\n", 5 * NODES)),
        ("raw/edge.csv", edges),
        ("raw/edge-feat.csv", features),
        ("raw/node-label.csv", labels.collect()),
        ("raw/node_species.csv", "3702\n".repeat(NODES)),
        ("split/species/train.csv", ids[..200].concat()),
        ("split/species/valid.csv", ids[200..250].concat()),
        ("split/species/test.csv", ids[250..].concat()),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
}

#[test]
fn a_folder_of_ogb_with_112_labels_and_features_of_edges_trains_as_it_is() {
    let root = Folder::new();
    let folder = root.join("ogbn_proteins");
    write_proteins(&folder);
    let mut command = node(&folder);
    command.args(["--model", "gine", "--num-neighbors", "-1", "--metric", "roc-auc", "--num-epochs", "30"]);
    let output = run(command.args(["--nproc-per-node", "2", "--json"]));
    assert!(stderr(&output).contains("train with --metric roc-auc"), "{}", stderr(&output));
    let result = json_of(&output);
    assert!(number_of(&result, "test_metric") > 0.75, "{result}");
}

#[test]
fn losses_and_metrics_that_do_not_fit_are_refused() {
    let classes = fake_parts(1);
    let numbers = written_by(&graph(TargetKind::Regression), 1);
    for (parts, flags, expected) in [
        (&classes, "--loss huber", "the loss huber needs numbers, but there are 10 classes: use --loss cross-entropy"),
        (&classes, "--metric rmse", "metric rmse needs numbers, but there are 10 classes: use accuracy or micro-f1"),
        (&classes, "--loss mse --label-smoothing 0.1", "the loss mse has no setting --label-smoothing: leave it out"),
        (&classes, "--loss huber:delta=-1", "-1 of the loss huber is not a finite number above 0"),
        (&classes, "--loss hinge", "unknown loss \"hinge\": expected cross-entropy"),
        (
            &numbers,
            "--class-weights balanced",
            "the loss cross-entropy needs classes, but there are 2 numbers to predict",
        ),
        (&numbers, "--metric accuracy", "metric accuracy needs classes or labels, but there are 2 numbers to predict"),
    ] {
        let output = run(node(&parts.path).args(flags.split(' ')));
        assert!(error_of(&output).contains(expected), "{flags}: {}", stderr(&output));
    }
}

/// The metric of a checkpoint is the one that the run has chosen, and the loss is part of its identity.
#[test]
fn checkpoints_are_those_of_a_loss() {
    let parts = written_by(&graph(TargetKind::Regression), 1);
    let folder = Folder::new();
    let with = |flags: &[&str]| {
        let mut command = node(&parts.path);
        command.args(["--num-epochs", "4", "--json", "--checkpoint-dir"]).arg(folder.join("state")).args(flags);
        run(&mut command)
    };
    succeeded(with(&["--loss", "huber"]));
    let longer = succeeded(with(&["--loss", "huber", "--metric", "mae", "--resume", "--num-epochs", "6"]));
    let whole = run(node(&parts.path).args(["--loss", "huber", "--num-epochs", "6", "--json"]));
    assert_eq!(longer.stdout, whole.stdout);
    let other = with(&["--loss", "huber:delta=2", "--resume"]);
    assert_error(&other, &["--loss is \"huber:delta=2\", but it is \"huber\""]);
}

/// Writes graphs of 3 to 12 nodes on a line, without labels. The numbers to predict are a tenth of the number of nodes, and the
/// sum of their features.
fn write_graphs(folder: &Path) -> Vec<[f32; 2]> {
    const NUM_GRAPHS: usize = 200;
    let [mut edges, mut indicator, mut features, mut numbers] = [(); 4].map(|()| String::new());
    let mut targets = Vec::new();
    let mut node = 0;
    for graph in 0..NUM_GRAPHS {
        let num_nodes = 3 + graph * 7 % 10;
        let mut sum = 0.0;
        for position in 0..num_nodes {
            node += 1;
            indicator += &format!("{}\n", graph + 1);
            let feature = ((node as f32) * 0.7).sin() / 4.0;
            sum += feature;
            features += &format!("1, {feature}\n");
            if position > 0 {
                edges += &format!("{}, {node}\n{node}, {}\n", node - 1, node - 1);
            }
        }
        let target = [num_nodes as f32 / 10.0, sum];
        numbers += &format!("{}, {}\n", target[0], target[1]);
        targets.push(target);
    }
    let files =
        [("A", edges), ("graph_indicator", indicator), ("node_attributes", features), ("graph_attributes", numbers)];
    std::fs::create_dir(folder.join("lines")).expect("a folder");
    for (what, text) in files {
        std::fs::write(folder.join(format!("lines/lines_{what}.txt")), text).expect("a file");
    }
    targets
}

#[test]
fn numbers_of_whole_graphs_are_learned_and_predicted() {
    let folder = Folder::new();
    let targets = write_graphs(folder.path());
    let model = folder.join("model.safetensors");
    let train_graph = |flags: &[&str]| -> Value {
        json_of(run_on(folder.path(), &format!("graph --dataset lines --json {}", flags.join(" "))))
    };
    let shape = ["--no-batch-norm", "--hidden-channels", "16", "--num-layers", "2", "--dropout", "0", "--lr", "0.005"];
    let path = model.to_str().expect("UTF-8");
    let flags = ["--num-epochs", "60", "--nproc-per-node", "2", "--loss", "huber", "--save-model", path];
    let trained = train_graph(&[&shape[..], &flags].concat());
    let found = ["metric", "valid_acc"].map(|name| entry(&trained, name));
    assert_eq!(found, [&"mae".into(), &Value::Null]);
    assert!(number_of(&trained, "test_metric") < 0.15, "{trained}");
    let evaluated = train_graph(&["--load-model", path]);
    assert!((number_of(&evaluated, "test_metric") - number_of(&trained, "test_metric")).abs() < 1e-5, "{evaluated}");
    let out = folder.join("out");
    let flags = ["--graphs", "all", "--dataset", "lines", "--format", "csv", "--gather"];
    succeeded(predict(folder.path(), &model, &out, &flags));
    let text = std::fs::read_to_string(out.join("predictions.csv")).expect("predictions");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("graph_id,value_0,value_1"));
    let mut error = 0.0;
    for (line, target) in lines.zip(&targets) {
        let fields: Vec<f32> = line.split(',').map(|field| field.parse().expect("a number")).collect();
        error += (fields[1] - target[0]).abs() + (fields[2] - target[1]).abs();
    }
    assert!(error / (2.0 * targets.len() as f32) < 0.15, "{error}");
    // Folds are drawn without classes, and each is evaluated by the metric of the loss.
    let folds = train_graph(&[&shape[..], &["--num-epochs", "5", "--folds", "3"]].concat());
    assert_eq!((&folds["metric"], folds["test"].as_array().map(Vec::len)), (&"rmse".into(), Some(3)));
}
