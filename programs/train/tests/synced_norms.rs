//! Batch normalization over the batches of all processes, with real processes.

use crate::multi::shop_parts;
use crate::programs::{
    Folder, assert_refused, edge_parts, error_of, fake_parts, json_of, losses_in, node, program, run, succeeded, text,
    trained, typed_link_parts, typed_parts,
};
use std::path::Path;
use std::process::Command;

const SYNC: [&str; 2] = ["--batch-norm", "--sync-batch-norm"];

/// Trains for three epochs of one step with SGD, and returns the losses.
fn losses(mut command: Command, processes: u32, flags: &[&str]) -> Vec<f64> {
    let dir = Folder::new();
    let metrics = dir.join("metrics");
    // Adam would divide gradients that are zero but for rounding, such as of biases before a normalization, by themselves.
    command.args([
        "--batch-size",
        "100000",
        "--num-epochs",
        "3",
        "--optimizer",
        "sgd",
        "--lr",
        "0.005",
        "--dropout",
        "0",
    ]);
    command.args(["--nproc-per-node", &processes.to_string(), "--json", "--metrics"]).arg(&metrics).args(flags);
    json_of(run(&mut command));
    losses_in(&metrics)
}

/// Returns the greatest difference between losses, as a share of the expected ones.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!((found.len(), expected.len()), (3, 3));
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs() / expected).fold(0.0, f64::max)
}

fn one_layer(parts: &Path) -> Command {
    let mut command = node(parts);
    command.args(["--num-neighbors", "-1", "--encoder-decoder", "--batch-norm"]);
    command
}

fn graphs() -> Command {
    let mut command = program();
    command.args(["graph", "--dataset", "fake-graphs", "--num-graphs", "60", "--hidden-channels", "8"]);
    command.args(["--num-layers", "2", "--model", "gin"]);
    command
}

/// With one layer, its rows are the seeds, each of which is in the batch of one process.
#[test]
fn nodes_learn_as_on_one_process() {
    let [one, three] = [1, 3].map(fake_parts);
    let expected = losses(one_layer(&one.path), 1, &[]);
    assert_eq!(losses(one_layer(&one.path), 1, &["--sync-batch-norm"]), expected, "one process");
    for (parts, processes) in [(&one, 2), (&three, 3)] {
        let found = losses(one_layer(&parts.path), processes, &["--sync-batchnorm"]);
        assert!(difference(&found, &expected) < 1e-4, "{processes}: {found:?}, {expected:?}");
        assert_eq!(losses(one_layer(&parts.path), processes, &["--sync-batch-norm"]), found, "a repetition");
    }
    let apart = losses(one_layer(&three.path), 3, &[]);
    assert!(difference(&apart, &expected) > 4e-4, "{apart:?}, {expected:?}");
}

#[test]
fn graphs_learn_as_on_one_process() {
    // GIN has normalizations between its layers and in them.
    let expected = losses(graphs(), 1, &[]);
    for processes in [2, 3] {
        let found = losses(graphs(), processes, &["--sync-batch-norm"]);
        assert!(difference(&found, &expected) < 5e-4, "{processes}: {found:?}, {expected:?}");
    }
    let apart = losses(graphs(), 3, &[]);
    assert!(difference(&apart, &expected) > 1e-3, "{apart:?}, {expected:?}");
}

#[test]
fn every_task_trains_and_repeats() {
    let shop = Folder::new();
    let shop_path = shop.join("2-parts");
    shop_parts(shop.path(), 2, 1.0, &shop_path);
    let [plain, nodes, links, edges] = [fake_parts(2), typed_parts(2), typed_link_parts(2), edge_parts(2, true)];
    for (task, parts, flags) in [
        ("node", nodes.path.as_path(), &["--model", "hgt", "--residual"][..]),
        ("node", plain.path.as_path(), &["--isolated", "--accumulate-steps", "2"]),
        ("link", links.path.as_path(), &["--num-negatives", "4"]),
        ("edge", edges.path.as_path(), &[]),
        ("multi", shop_path.as_path(), &["--target", "churn,spend,item"]),
    ] {
        let mut runs = Vec::new();
        for _ in 0..2 {
            let dir = Folder::new();
            let metrics = dir.text("metrics");
            let more = ["--batch-size", "24", "--num-epochs", "2", "--metrics", &metrics];
            trained(task, parts, &dir.join("model"), &[flags, &SYNC, &more].concat());
            runs.push(losses_in(Path::new(&metrics)));
        }
        assert_eq!(runs[0].len(), 2, "{task}");
        assert_eq!(runs[0], runs[1], "{task}");
    }
}

#[test]
fn the_flag_without_effect_is_refused() {
    let parts = fake_parts(1);
    let dir = Folder::new();
    let model = dir.join("model");
    succeeded(run(node(&parts.path).args(["--num-epochs", "1", "--save-model", text(&model)]).args(SYNC)));
    let refused = run(node(&parts.path).arg("--sync-batch-norm"));
    assert!(error_of(&refused).contains("--sync-batch-norm has no effect without batch normalization"));
    let mut command = program();
    command.args(["node", "--sync-batch-norm", "--load-model", text(&model), "--dataset-root-dir"]).arg(&parts.path);
    assert_refused(&run(&mut command), 2, &["--sync-batch-norm", "--load-model"]);
    for flag in ["--no-batch-norm", "--layer-norm"] {
        let mut command = program();
        command.args(["graph", "--dataset", "fake-graphs", "--num-graphs", "30", "--sync-batch-norm", flag]);
        assert!(error_of(&run(&mut command)).contains("--sync-batch-norm has no effect"), "{flag}");
    }
}
