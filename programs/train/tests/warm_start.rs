//! Training from the weights of a saved model, and frozen layers, with real processes.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::programs::*;

use edgecut_graph::part_writer::ExtraFiles;
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{
    Dataset, DiskPartId, EdgeData, Features, NodeData, NodeTypeId, OriginalIds, Part, Splits, Workspace,
};
use edgecut_partition::{Changes, Replaces, UpdateOptions, update};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The values of a model's tensors by name.
type Tensors = BTreeMap<String, Vec<f32>>;

/// A folder for the models of a test.
struct Models(Folder);

impl Models {
    fn new() -> Self {
        Self(Folder::new())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.0.text(name)
    }

    fn tensors(&self, name: &str) -> Tensors {
        tensors_of(&self.path(name), "")
    }

    /// Returns the embeddings of all nodes, by their file names without the random part.
    fn embeddings(&self, name: &str) -> Tensors {
        let mut all = Tensors::new();
        for entry in std::fs::read_dir(self.path(&format!("{name}.embeddings"))).expect("embeddings") {
            let path = entry.expect("a file").path();
            let rank = path.to_str().and_then(|name| name.split_once(".rank_")).expect("a shard").1.to_owned();
            all.extend(tensors_of(&path, &rank));
        }
        all
    }
}

/// Reads the `F32` tensors of a file. Their names get a prefix.
fn tensors_of(path: &Path, prefix: &str) -> Tensors {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let of_words = |data: &[u8]| data.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let floats = file.iter().filter(|(_, view)| view.dtype() == safetensors::Dtype::F32);
    floats.map(|(name, view)| (format!("{prefix}{name}"), of_words(view.data()))).collect()
}

fn command(task: &str, parts: &Path, flags: &[&str]) -> Output {
    let mut command = program();
    command.args([task, "--dataset-root-dir"]).arg(parts).args(["--num-neighbors", "5,3", "--hidden-channels", "16"]);
    command.args(["--batch-size", "64", "--lr", "0.01", "--num-epochs", "2", "--dropout", "0", "--json"]);
    command.args(evaluation_of(task));
    // Of a flag that is given twice, the last one counts.
    command.args(flags);
    train_or_evaluate(&command)
}

/// Trains, and returns the result and the standard error.
fn trained(task: &str, parts: &Path, flags: &[&str]) -> (Value, String) {
    let output = command(task, parts, flags);
    let text = stderr(&output);
    assert!(output.status.success(), "{flags:?}: {text}");
    (serde_json::from_slice(&output.stdout).expect("a result"), text)
}

/// Returns the lines about `--init-from` without the name of the file.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("--init-from "));
    lines.map(|line| line.split_once(": ").expect("a file").1.to_owned()).collect()
}

/// Checks which tensors have the same bits in two models.
fn assert_kept(before: &Tensors, after: &Tensors, is_kept: impl Fn(&str) -> bool) {
    assert!(before.keys().eq(after.keys()), "{:?} and {:?}", before.keys(), after.keys());
    for (name, values) in before {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(values) == bits(&after[name]), is_kept(name), "{name}");
    }
}

#[test]
fn frozen_layers_keep_their_bits_on_any_number_of_ranks() {
    let models = Models::new();
    let parts = fake_parts(2);
    let first = models.text("first");
    trained("node", &parts.path, &["--save-model", &first]);
    let before = models.tensors("first");
    // Decoupled weight decay would also shrink parameters without gradients.
    let more = ["--init-from", &first, "--freeze", "layers.0", "--optimizer", "adamw", "--weight-decay", "0.1"];
    // One batch of all seeds with all neighbors, so that the number of ranks does not change the steps.
    let whole = ["--batch-size", "1000", "--num-neighbors", "-1,-1", "--num-epochs", "4", "--save-model"];
    for (nproc, name) in [("1", "one"), ("2", "two")] {
        let path = models.text(name);
        let flags = [&more[..], &whole, &[&path, "--nproc-per-node", nproc]].concat();
        let (_, text) = trained("node", &parts.path, &flags);
        assert_kept(&before, &models.tensors(name), |tensor| tensor.starts_with("layers.0."));
        assert_eq!(lines(&text), [""; 0], "all tensors match");
        assert!(text.contains(" are frozen"), "{text}");
    }
    let one = models.tensors("one");
    let two = models.tensors("two");
    for (name, values) in &one {
        for (one, two) in values.iter().zip(&two[name]) {
            assert!((one - two).abs() < 1e-4, "{name}: {one} on one rank, {two} on two");
        }
    }
    let config = std::fs::read_to_string(models.path("one.config.yaml")).expect("the flags");
    assert!(config.contains("freeze: [\"layers.0\"]") && config.contains(&format!("init-from: {first:?}")), "{config}");
}

#[test]
fn the_norm_of_gradients_does_not_count_frozen_parameters() {
    let models = Models::new();
    let parts = fake_parts(1);
    trained("node", &parts.path, &["--save-model", &models.text("first"), "--num-epochs", "1"]);
    // One step that moves the trained parameters by the clipped gradient.
    let step = ["--optimizer", "sgd", "--momentum", "0", "--lr", "1", "--grad-clip", "0.01", "--batch-size", "1000"];
    let start = ["--init-from", &models.text("first"), "--freeze", "layers.1", "--num-epochs", "1"];
    trained("node", &parts.path, &[&step[..], &start, &["--save-model", &models.text("second")]].concat());
    let before = models.tensors("first");
    let after = models.tensors("second");
    let moved = |(name, values): (&String, &Vec<f32>)| {
        values.iter().zip(&after[name]).map(|(before, after)| f64::from(before - after).powi(2)).sum::<f64>()
    };
    let norm = before.iter().map(moved).sum::<f64>().sqrt();
    assert!((norm - 0.01).abs() < 1e-4, "the parameters moved by {norm}");
}

#[test]
fn without_a_learning_rate_the_scores_are_those_of_the_loaded_model() {
    let models = Models::new();
    for (parts, model) in [(fake_parts(2), "gat"), (typed_parts(2), "sage")] {
        let saved = models.text(model);
        let kind = ["--model", model, "--nproc-per-node", "2"];
        trained("node", &parts.path, &[&kind[..], &["--save-model", &saved]].concat());
        let (expected, _) = trained("node", &parts.path, &[&kind[..], &["--load-model", &saved]].concat());
        // Embeddings have the same learning rate.
        let start = ["--init-from", &saved, "--lr", "0", "--num-epochs", "1"];
        let (found, text) = trained("node", &parts.path, &[&kind[..], &start].concat());
        for score in ["valid_acc", "test_acc"] {
            assert_same(&found, &expected, &[score]);
        }
        assert_eq!(lines(&text), [""; 0], "{model}");
    }
}

/// Adds ten training nodes to parts of a fake graph. They have the features and labels of nodes of the first part, and edges from
/// these nodes.
fn add_nodes(dir: &Path) {
    let opened: Vec<Part> = (0..2).map(|part| Part::open(dir, DiskPartId(part), true).expect("a part")).collect();
    let meta = opened[0].meta();
    let of_type = &meta.node_types[0];
    let known = opened[0].nodes(NodeTypeId(0));
    let features = known.features.as_ref().expect("features");
    let mut values = vec![0.0; 10 * features.dim()];
    for (row, values) in values.chunks_exact_mut(features.dim()).enumerate() {
        features.copy_row(row, values);
    }
    let num_known = of_type.book.num_nodes() as u32;
    let numbers: Vec<u32> = (num_known..num_known + 10).collect();
    let nodes = NodeData {
        name: of_type.name.clone(),
        num_nodes: 10,
        features: Some(Features::F32 { values: values.into(), dim: features.dim() }),
        labels: known.labels.as_ref().map(|labels| labels[..10].to_vec().into()),
        num_classes: of_type.num_classes,
        splits: Splits { train: (0..10).collect::<Vec<u32>>().into(), ..Splits::default() },
        ..NodeData::default()
    };
    let relation = meta.edge_types[0].relation.clone();
    let src = known.original_ids[..10].to_vec().into();
    let edges = EdgeData::new(NodeTypeId(0), relation, NodeTypeId(0), src, numbers.clone().into());
    let changes = Changes {
        rows: Dataset { name: meta.dataset.clone(), node_types: vec![nodes], edge_types: vec![edges] },
        numbers: vec![numbers],
        removed_nodes: vec![vec![false; num_known as usize]],
        removed_edges: Vec::new(),
        held_out: Vec::new(),
    };
    let options = UpdateOptions {
        space: Workspace::default(),
        overlap: None,
        reverse_types: Vec::new(),
        skips_missing_edges: false,
        replaces: Replaces::Updated,
        extra: ExtraFiles::default(),
        keys: &OriginalIds,
    };
    let report = update(&opened, changes, options, dir, &()).expect("an update");
    assert_eq!((report.nodes[0].new, report.edges[0].added), (10, 10));
}

#[test]
fn a_model_continues_on_updated_parts() {
    let models = Models::new();
    let parts = fake_parts(2);
    let saved = models.text("first");
    let (expected, _) = trained("node", &parts.path, &["--save-model", &saved, "--nproc-per-node", "2"]);
    add_nodes(&parts.path);
    // No edge leads from new nodes to others, so the test nodes have the same neighbors as before.
    let start = ["--init-from", &saved, "--lr", "0", "--num-epochs", "1", "--nproc-per-node", "2"];
    let (found, text) = trained("node", &parts.path, &start);
    assert_same(&found, &expected, &["test_acc"]);
    assert_eq!(lines(&text), [""; 0]);
}

#[test]
fn tensors_that_do_not_match_are_listed() {
    let models = Models::new();
    let parts = fake_parts(2);
    let first = models.text("first");
    trained("node", &parts.path, &["--save-model", &first]);
    let start = ["--init-from", first.as_str(), "--num-epochs", "1"];
    let (_, text) =
        trained("node", &parts.path, &[&start[..], &["--hidden-channels", "8", "--nproc-per-node", "2"]].concat());
    let expected = "5 tensors have another shape and keep their initial values: layers.0.weight_neighbors is [16, 64] \
                    in the file and [8, 64] in the model, layers.0.weight_self";
    assert!(lines(&text).len() == 1 && lines(&text)[0].starts_with(expected), "only rank 0 tells: {text}");
    // Three layers instead of two, with normalisation: the first layer fits, and also the last one by its shape.
    let deeper = ["--num-neighbors", "3,3,3", "--eval-num-neighbors", "3,3,3", "--layer-norm", "--quiet"];
    let (_, text) = trained("node", &parts.path, &[&start[..], &deeper].concat());
    let lines_of_deeper = lines(&text);
    assert_eq!(lines_of_deeper.len(), 2, "{text}");
    let missing = "7 tensors are not in the file and keep their initial values: layers.2.weight_neighbors";
    assert!(lines_of_deeper[0].starts_with(missing) && lines_of_deeper[0].contains("norms.1.beta"), "{text}");
    assert!(lines_of_deeper[1].starts_with("3 tensors have another shape"), "{text}");
    // The other way round.
    trained("node", &parts.path, &[&deeper[..], &["--save-model", &models.text("deeper")]].concat());
    let (_, text) = trained("node", &parts.path, &["--init-from", &models.text("deeper")]);
    assert!(lines(&text)[0].starts_with("the model does not have 7 tensors of the file: layers.2.bias, "), "{text}");

    let output = command("node", &parts.path, &[&start[..], &["--encoder-decoder"]].concat());
    let error = error_of(&output);
    for part in ["--init-from ", "layers.0, layers.1", "--model and --hidden-channels", "--encoder-decoder"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_encoder_of_a_link_model_starts_a_node_model() {
    let models = Models::new();
    let parts = link_parts(2);
    let links = models.text("links");
    let decoder = ["--decoder", "distmult", "--metric", "roc-auc", "--save-model", &links];
    trained("link", &parts.path, &[&decoder[..], &["--nproc-per-node", "2"]].concat());
    let nodes = ["--init-from", links.as_str(), "--encoder-decoder", "--freeze", "encoders,layers"];
    let (_, text) = trained("node", &parts.path, &[&nodes[..], &["--save-model", &models.text("nodes")]].concat());
    let expected = [
        "2 tensors are not in the file and keep their initial values: outputs.0.weight, outputs.0.bias",
        "the model does not have 1 tensor of the file: decoder.relations",
    ];
    assert_eq!(lines(&text), expected);
    let of_encoder = models.tensors("links").into_iter();
    let of_encoder: Tensors =
        of_encoder.filter_map(|(name, values)| Some((name.strip_prefix("encoder.")?.to_owned(), values))).collect();
    let mut of_nodes = models.tensors("nodes");
    of_nodes.retain(|name, _| !name.starts_with("outputs."));
    assert_kept(&of_encoder, &of_nodes, |_| true);
    // Back to links, with a decoder that is trained alone.
    let back = ["--init-from", &models.text("nodes"), "--freeze", "encoder", "--decoder", "distmult"];
    let (_, text) = trained("link", &parts.path, &[&back[..], &["--save-model", &models.text("back")]].concat());
    assert_eq!(lines(&text).len(), 2, "{text}");
    assert_kept(&models.tensors("links"), &models.tensors("back"), |name| name != "decoder.relations");
    // A stack of convolutions has other layers.
    assert_error(&command("node", &parts.path, &["--init-from", &links]), &["encoder.layers.0", "--encoder-decoder"]);
}

#[test]
fn embeddings_are_taken_over_if_the_graph_has_as_many_nodes() {
    let models = Models::new();
    let links = typed_link_parts(2);
    let first = models.text("first");
    let two = ["--nproc-per-node", "2"];
    trained("link", &links.path, &[&two[..], &["--metric", "roc-auc", "--save-model", &first]].concat());
    // The same node types in another partitioning.
    let nodes = typed_parts(3);
    let frozen = ["--freeze", "embeddings,layers.0", "--init-from", &first, "--nproc-per-node", "3"];
    let (_, text) = trained("node", &nodes.path, &[&frozen[..], &["--save-model", &models.text("nodes")]].concat());
    assert_eq!(
        lines(&text),
        ["2 tensors are not in the file and keep their initial values: outputs.0.weight, outputs.0.bias"]
    );
    let one = ["--freeze", "embeddings.v2", "--init-from", &models.text("nodes"), "--save-model"];
    trained("node", &typed_parts(1).path, &[&one[..], &[&models.text("one")]].concat());
    let loaded = ["--init-from", &first, "--lr", "0", "--num-epochs", "1", "--save-model", &models.text("all")];
    trained("node", &typed_parts(1).path, &loaded);
    assert_kept(&models.embeddings("one"), &models.embeddings("all"), |_| true);
    // They are trained if they are not frozen.
    let trained_again = ["--init-from", &first, "--freeze", "layers", "--save-model", &models.text("again")];
    trained("node", &typed_parts(1).path, &trained_again);
    assert_kept(&models.embeddings("one"), &models.embeddings("again"), |_| false);
    // A graph with more nodes of the type.
    let options = FakeOptions { avg_num_nodes: 310, avg_degree: 4.0, num_channels: 6, ..FakeOptions::default() };
    let larger = written_by(&fake_hetero(&options).expect("a fake graph"), 2);
    let (_, text) = trained("node", &larger.path, &[&two[..], &["--init-from", &first]].concat());
    let expected = "embeddings start fresh: node type v2 has 300 nodes of 16 values in the file, and 310 of 16 in the \
                    graph";
    assert_eq!(lines(&text)[1], expected, "{text}");
    // The files with embeddings are needed.
    std::fs::remove_dir_all(models.path("first.embeddings")).expect("the embeddings");
    assert_error(&command("node", &nodes.path, &["--init-from", &first]), &["embeddings of node type v2", "copy them"]);
}

/// The loss of a batch depends on no trained parameter if these belong to nodes that are not sampled.
#[test]
fn a_step_without_gradients_changes_nothing() {
    let models = Models::new();
    let parts = typed_parts(1);
    // Without the edges from `v1` to the seeds, no node of `v1` is sampled.
    let hop = ["--num-neighbors", "e1=0;5", "--eval-num-neighbors", "-1"];
    trained("node", &parts.path, &[&hop[..], &["--save-model", &models.text("first")]].concat());
    let frozen = ["--freeze", "encoders.0,layers,outputs,embeddings", "--init-from", &models.text("first")];
    trained("node", &parts.path, &[&hop[..], &frozen, &["--save-model", &models.text("second")]].concat());
    assert_kept(&models.tensors("first"), &models.tensors("second"), |_| true);
}

#[test]
fn wrong_requests_are_refused_with_one_error() {
    let models = Models::new();
    let parts = fake_parts(2);
    let first = models.text("first");
    let absent = models.text("absent");
    let damaged = models.text("damaged");
    std::fs::write(&damaged, "no model").expect("a file");
    trained("node", &parts.path, &["--save-model", &first]);
    for (flags, status, parts_of_error) in [
        (&["--freeze", "layers.7"][..], 1, &["--freeze names layers.7", "layers.0, layers.1"][..]),
        (&["--freeze", "layer"], 1, &["--freeze names layer,", "layers.0, layers.1"]),
        (&["--freeze", "embeddings"], 1, &["--freeze names embeddings", "layers.0, layers.1"]),
        (&["--freeze", "layers"], 1, &["--freeze", "nothing to train"]),
        (&["--freeze", "layers.0,"], 2, &["--freeze", "a name is empty"]),
        (&["--freeze", "layers.0", "--load-model", &first], 2, &["--freeze", "--load-model"]),
        (&["--init-from", &first, "--load-model", &first], 2, &["--init-from", "--load-model"]),
        (&["--init-from", &absent], 1, &["--init-from", "absent"]),
        (&["--init-from", &damaged], 1, &["--init-from", "damaged"]),
    ] {
        let output = command("node", &parts.path, flags);
        assert_eq!(output.status.code(), Some(status), "{flags:?}: {}", stderr(&output));
        let error = error_of(&output);
        // clap prints its errors in several lines.
        let text = if status == 2 { stderr(&output) } else { error };
        assert!(parts_of_error.iter().all(|part| text.contains(part)), "{flags:?}: {text}");
    }
}

#[test]
fn frozen_batch_normalization_keeps_its_statistics() {
    let models = Models::new();
    let graph = |flags: &[&str]| {
        let mut command = program();
        command.args(["graph", "--dataset", "fake-graphs", "--num-graphs", "200", "--num-epochs", "3", "--json"]);
        command.args(["--hidden-channels", "16", "--num-layers", "2", "--nproc-per-node", "2"]).args(flags);
        let output = succeeded(run(&mut command));
        stderr(&output)
    };
    let first = models.text("first");
    graph(&["--save-model", &first]);
    let frozen = ["--freeze", "layers.0,norms.0", "--init-from", &first];
    let text = graph(&[&frozen[..], &["--save-model", &models.text("second")]].concat());
    assert_eq!(lines(&text), [""; 0]);
    let is_frozen = |name: &str| name.starts_with("layers.0.") || name.starts_with("norms.0.");
    let before = models.tensors("first");
    let after = models.tensors("second");
    assert!(before.contains_key("norms.0.running_mean") && before.contains_key("layers.0.mlp.norms.0.running_var"));
    assert_kept(&before, &after, is_frozen);
    // A cross-validation starts each fold from the file, and tells it once.
    let text = graph(&["--folds", "2", "--init-from", &first, "--num-layers", "3"]);
    assert_eq!(lines(&text).len(), 2, "{text}");
}
