//! Edges that a training leaves out at random, with real processes.

use crate::programs::*;
use std::path::Path;

/// Trains for three epochs of one step with all neighbors, and returns the losses.
fn losses(parts: &Path, processes: &str, model: &[&str], flags: &[&str]) -> Vec<f64> {
    let dir = Folder::new();
    let metrics = dir.join("metrics");
    let mut command = node(parts);
    command.args(["--num-neighbors", "-1,-1", "--batch-size", "100000", "--num-epochs", "3", "--json", "--metrics"]);
    command.arg(&metrics).args(["--nproc-per-node", processes]).args(model).args(flags);
    json_of(run(&mut command));
    losses_in(&metrics)
}

#[test]
fn the_edges_left_out_do_not_depend_on_parts_or_processes() {
    let [one, three] = [1, 3].map(fake_parts);
    // The choice of edges is the same for all models. A GCN also counts the edges that are left, and other models have other
    // passes.
    let layouts = [(&three, "3"), (&three, "1"), (&one, "2")];
    for (model, layouts) in [
        (&["--model", "sage"][..], &layouts[..]),
        (&["--model", "gcn"], &layouts[..1]),
        (&["--model", "sage", "--encoder-decoder"], &layouts[..1]),
    ] {
        let all = losses(&one.path, "1", model, &[]);
        let dropped = losses(&one.path, "1", model, &["--drop-edge", "0.6"]);
        assert_eq!(dropped.len(), 3);
        for &(parts, processes) in layouts {
            let found = losses(&parts.path, processes, model, &["--drop-edge", "0.6"]);
            for (found, expected) in found.iter().zip(&dropped) {
                assert!((found - expected).abs() < 1e-4 * expected, "{model:?}: {found} for {expected}");
            }
        }
        assert!(all.iter().zip(&dropped).any(|(all, dropped)| (all - dropped).abs() > 1e-3), "{all:?}, {dropped:?}");
    }
}

#[test]
fn blocks_without_effect_and_impossible_blocks_are_refused() {
    let parts = fake_parts(1);
    for (flags, expected) in [
        (&["--drop-edge", "1"][..], "1 is not in 0"),
        (&["--model", "embedding", "--drop-edge", "0.1"], "--drop-edge has no effect on --model embedding"),
        (&["--batch-norm", "--layer-norm"], "it has layer norm and batch norm: choose one of them"),
        (&["--ema", "1.5"], "1.5 is not in 0"),
    ] {
        let output = run(node(&parts.path).args(["--num-neighbors", "3,3"]).args(flags));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(expected), "{flags:?}: {text}");
        assert!(!output.status.success() && !text.contains("panicked"), "{text}");
    }
    let output = run(node(&parts.path).args(["--num-neighbors", "3,3", "--graph-norm"]));
    assert!(error_of(&output).contains("--graph-norm"));
}
