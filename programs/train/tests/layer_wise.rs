//! Layers that are computed for all nodes read the edges that the evaluation of the model reads, or are refused, from real
//! processes.

use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{HoldOut, map_npy};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// Fan-outs of a training that reads no edges of one type, and of its exact evaluation.
const TRAINED: [&str; 2] = ["--num-neighbors", "e1=0,0;5,3"];
const EXACT: &str = "e1=0,0;-1,-1";

fn logits(parts: &Path, model: &Path, out: &Path, flags: &[&str]) -> Vec<f32> {
    predicted(parts, model, out, &[&["--output", "logit"], flags].concat());
    map_npy::<f32>(&out.join("predictions.npy")).expect("an array").1.to_vec()
}

/// Evaluates a saved model with its own fan-outs.
fn evaluated(task: &str, parts: &Path, model: &Path, flags: &[&str]) -> Value {
    json_of(run_on(parts, &format!("{task} --json --load-model {} {}", text(model), flags.join(" "))))
}

/// Checks that a job of any number of processes has failed with these words.
fn assert_job_fails(output: &Output, words: &[&str]) {
    let said = stderr(output);
    assert!(!output.status.success() && words.iter().all(|word| said.contains(word)), "{said}, expected {words:?}");
}

#[test]
fn edge_types_with_fan_outs_of_0_are_not_read() {
    let [two, one, three] = [2, 1, 3].map(typed_parts);
    let Scratch { folder, model, out } = scratch();
    trained("node", &two.path, &model, &[&TRAINED[..], &["--eval-num-neighbors", EXACT]].concat());
    let expected = logits(&two.path, &model, &out, &["--num-neighbors", EXACT]);
    assert_ne!(logits(&two.path, &model, &out, &["--num-neighbors", "-1,-1"]), expected, "the edges matter");
    for (parts, flags) in [
        (&one, &["--nproc-per-node", "1"][..]),
        (&three, &["--nproc-per-node", "2"]),
        (&two, &["--nproc-per-node", "3", "--memory-bytes", "100KB"]),
    ] {
        assert_close(&logits(&parts.path, &model, &out, flags), &expected, &format!("{flags:?}"));
        let processes = &flags[..2];
        let layer_wise = evaluated("node", &parts.path, &model, &[processes, &["--eval", "layer-wise"]].concat());
        let sampled = evaluated("node", &parts.path, &model, processes);
        let difference = number_of(&layer_wise, "test_acc") - number_of(&sampled, "test_acc");
        assert!(difference.abs() < 0.01, "{flags:?}: {layer_wise} for {sampled}");
    }
    // An explanation reads the same edges.
    let explain = ["--explain", "--nodes", "test", "--format", "csv", "--explain-top", "2", "--explain-steps", "4"];
    let mut explanations = Vec::new();
    for flags in [&[][..], &["--num-neighbors", EXACT]] {
        predicted(&two.path, &model, &out, &[&explain[..], flags].concat());
        explanations.push(std::fs::read_to_string(out.join("explanations.csv")).expect("a file"));
    }
    assert!(explanations[0] == explanations[1], "explanations");
    // A training that evaluates layer by layer tells the model file.
    let model = folder.join("layer-wise");
    let mut command = train("node", &two.path);
    command.args(TRAINED).args(["--eval", "layer-wise", "--num-epochs", "2", "--nproc-per-node", "2", "--json"]);
    json_of(run(command.args(["--hidden-channels", "16", "--save-model", text(&model)])));
    let expected = logits(&two.path, &model, &out, &["--num-neighbors", EXACT]);
    assert_close(&logits(&three.path, &model, &out, &["--nproc-per-node", "2"]), &expected, "trained layer by layer");
}

#[test]
fn models_of_links_leave_out_the_same_edge_types() {
    let [two, three] = [2, 3].map(typed_link_parts);
    let Scratch { folder: _folder, model, .. } = scratch();
    let flags = ["--edge-types", "e0", "--eval-negatives", "all", "--eval-num-neighbors", EXACT];
    trained("link", &two.path, &model, &[&TRAINED[..], &flags].concat());
    let shape = ["--edge-types", "e0", "--eval-negatives", "all", "--nproc-per-node"];
    let expected = evaluated("link", &two.path, &model, &[&shape[..], &["2"]].concat());
    let all = evaluated("link", &two.path, &model, &[&shape[..], &["2", "--eval-num-neighbors", "-1,-1"]].concat());
    let difference = number_of(&all, "test.mrr") - number_of(&expected, "test.mrr");
    assert!(difference.abs() > 1e-3, "the edges matter: {all} and {expected}");
    for (parts, processes) in [(&three, "2"), (&two, "4")] {
        let flags = [&shape[..], &[processes, "--eval", "layer-wise"]].concat();
        let found = evaluated("link", &parts.path, &model, &flags);
        let difference = number_of(&found, "test.mrr") - number_of(&expected, "test.mrr");
        assert!(difference.abs() < 1e-3, "{processes}: {found} for {expected}");
    }
}

/// A model that draws neighbors by weights is not evaluated by equal means of all neighbors.
#[test]
fn weighted_sampling_is_not_evaluated_layer_by_layer() {
    let options = FakeOptions { avg_num_nodes: 300, edge_attributes: true, ..FakeOptions::default() };
    let mut graph = fake(&options).expect("a fake graph");
    let nodes = [1, 2].map(|num_parts| written_by(&graph, num_parts));
    graph.hold_out_edges(&graph.edge_type_ids(), &HoldOut::random(0.1, 0.1, 0)).expect("held-out edges");
    let links = [1, 2].map(|num_parts| written_by(&graph, num_parts));
    let Scratch { folder: _folder, model, .. } = scratch();
    for (task, [one, two]) in [("node", &nodes), ("link", &links)] {
        trained(task, &two.path, &model, &["--weighted"]);
        for (parts, processes) in [(one, "1"), (two, "4")] {
            let flags = ["--eval", "layer-wise", "--nproc-per-node", processes];
            let load = ["--load-model", text(&model)];
            for more in [&["--weighted", "--num-epochs", "1"][..], &load] {
                let output = run(train(task, &parts.path).args(flags).args(more));
                assert_job_fails(&output, &["by the weights of edges (--weighted)", "--eval sampled"]);
            }
        }
        // Sampled batches read the weights, also if each node is computed once.
        let flags = ["--weighted", "--num-epochs", "1", "--json", "--nproc-per-node", "2"];
        let more = if task == "link" { &["--eval-negatives", "all"][..] } else { &[] };
        json_of(run(train(task, &two.path).args(flags).args(more)));
    }
}

#[test]
fn fan_outs_of_0_in_some_hops_are_not_computed_layer_by_layer() {
    let two = typed_parts(2);
    let Scratch { folder: _folder, model, out } = scratch();
    let some = "e1=5,0;5,3";
    for (task, parts) in [("node", &two), ("link", &typed_link_parts(2))] {
        let mut command = train(task, &parts.path);
        let output = run(command.args(["--eval", "layer-wise", "--num-epochs", "1", "--num-neighbors", some]));
        assert_job_fails(&output, &["0 in some hops only (--num-neighbors)", "--eval sampled"]);
    }
    trained("node", &two.path, &model, &["--num-neighbors", some, "--eval-num-neighbors", "e1=-1,0;-1,-1"]);
    let expected = logits(&two.path, &model, &out, &["--num-neighbors", "e1=-1,0;-1,-1"]);
    // Predictions are sampled as the evaluation was. Embeddings are not, and a note says so.
    assert_close(&logits(&two.path, &model, &out, &["--nproc-per-node", "2"]), &expected, "sampled");
    let output = predict(&two.path, &model, &out, &["--output", "embedding", "--overwrite"]);
    assert!(stderr(&output).contains("fan-outs of 0 in some hops only"), "{}", stderr(&output));
}
