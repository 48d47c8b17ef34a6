//! Predictions of nodes from times, weights and features of edges, from real processes: the same for any partitioning, and equal
//! to the evaluation.

use crate::predict::{assert_same_logits, numbers};
use crate::programs;
use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, fake};
use serde_json::Value;

/// Writes a graph whose edges have attributes as 2, 1 and 3 parts.
fn attributed_parts() -> [Parts; 3] {
    let options = FakeOptions { avg_num_nodes: 400, edge_attributes: true, ..FakeOptions::default() };
    let graph = fake(&options).expect("a fake graph");
    [2, 1, 3].map(|num_parts| programs::written_by(&graph, num_parts))
}

#[test]
fn a_model_predicts_from_the_times_and_weights_of_its_evaluation() {
    let [two, one, three] = attributed_parts();
    let Scratch { folder, model, out } = scratch();
    let layouts = [(&one, &[][..]), (&three, &["--nproc-per-node", "2"]), (&three, &["--batch-size", "7"])];
    for flags in [&["--time-attr", "edge_time"][..], &["--time-attr", "node_time"], &["--weighted"]] {
        let result = trained("node", &two.path, &model, flags);
        let ours = predicted(&two.path, &model, &out, &["--output", "logit"]);
        let expected = numbers(&out).1;
        // The evaluation has read all neighbors that the flags allow, and so does the prediction.
        assert_same(&ours, &result, &["valid_acc", "test_acc"]);
        assert_same_logits(&layouts, &model, &out, &expected, &format!("{flags:?}"));
        // Evaluations take the flags from the file too.
        let load = ["--load-model", model.to_str().expect("a path"), "--json"];
        let evaluation = train_or_evaluate(programs::node(&three.path).args(load).args(["--nproc-per-node", "3"]));
        let output = succeeded(evaluation);
        let evaluated: Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_same(&evaluated, &result, &["test_acc"]);
    }
    trained("node", &two.path, &model, &["--time-attr", "edge_time"]);
    let logits = |flags: &[&str]| {
        predicted(&two.path, &model, &out, &[&["--output", "logit"], flags].concat());
        numbers(&out).1
    };
    let own_times = logits(&[]);
    let all_times = logits(&["--time-attr", "none"]);
    assert_ne!(own_times, all_times);
    // After the last edge, all edges are known.
    assert_close(&logits(&["--seed-time", "9000000000000000000"]), &all_times, "the end of time");
    assert_ne!(logits(&["--seed-time", "-1"]), own_times);
    for (flags, why) in [
        (&["--time-attr", "none", "--seed-time", "3"][..], "--seed-time has no effect: no times are compared"),
        (&["--time-attr", "none", "--batch-size", "3"], "--batch-size has no effect: all neighbors are read"),
        (&["--time-attr", "yesterday"], "expected edge_time or node_time"),
    ] {
        let output = predict(&two.path, &model, &folder.join("none"), flags);
        assert_refused(&output, 2, &[why]);
    }
}

#[test]
fn predictions_from_sampled_neighbors_do_not_depend_on_the_partitioning() {
    let [two, one, three] = attributed_parts();
    let Scratch { folder: _folder, model, out } = scratch();
    let sampled = ["--num-neighbors", "4,3", "--seed", "5"];
    let layouts = [
        (&one, [&sampled[..], &["--batch-size", "33"]].concat()),
        (&three, [&sampled[..], &["--nproc-per-node", "2"]].concat()),
        (&two, [&sampled[..], &["--nproc-per-node", "3"]].concat()),
    ];
    let layouts = layouts.each_ref().map(|(parts, flags)| (*parts, &flags[..]));
    for flags in [&["--model", "sage"][..], &["--time-attr", "edge_time"], &["--weighted"], &["--sampler", "labor"]] {
        trained("node", &two.path, &model, &[flags, &["--num-epochs", "1"]].concat());
        predicted(&two.path, &model, &out, &[&sampled[..], &["--output", "logit", "--nproc-per-node", "2"]].concat());
        let expected = numbers(&out).1;
        assert_same_logits(&layouts, &model, &out, &expected, &format!("{flags:?}"));
        predicted(&two.path, &model, &out, &["--output", "logit", "--num-neighbors", "4,3", "--seed", "6"]);
        assert_ne!(numbers(&out).1, expected, "another seed draws other neighbors");
    }
}

#[test]
fn models_of_edge_features_do_not_depend_on_the_partitioning() {
    let [two, one, three] = attributed_parts();
    let blind = fake_parts(1);
    let Scratch { folder, model, out } = scratch();
    let kinds = [
        "gine",
        "transformer --encoder-decoder",
        "sage",
        "sage --edge-weights",
        "gcn --edge-weights",
        "rgcn --edge-weights",
        "hgt",
    ];
    for (number, flags) in kinds.into_iter().enumerate() {
        let kind = [&["--model"][..], &flags.split(' ').collect::<Vec<_>>()[..]].concat();
        let result = trained("node", &two.path, &model, &kind);
        let ours = predicted(&two.path, &model, &out, &["--output", "logit", "--nproc-per-node", "2"]);
        let expected = numbers(&out).1;
        // Layer-wise inference and the evaluation of batches read all neighbors and the features of all edges.
        for score in ["valid_acc", "test_acc"] {
            let difference = ours[score].as_f64().expect("a score") - result[score].as_f64().expect("a score");
            assert!(difference.abs() < 0.02, "{flags:?}: {ours} after {result}");
        }
        let layer_wise = [(&one, &["--memory-bytes", "100KB"][..]), (&three, &["--nproc-per-node", "2"])][number % 2];
        let sampled = (&three, &["--nproc-per-node", "4", "--num-neighbors", "-1,-1"][..]);
        assert_same_logits(&[layer_wise, sampled], &model, &out, &expected, flags);
        let error = error_of(&predict(&blind.path, &model, &folder.join("none"), &[]));
        let values = if flags.contains("--edge-weights") { "weights" } else { "features" };
        let remedy = format!("store the {values} of its edges and partition it again");
        assert!(error.contains("the model was trained for another graph") && error.contains(&remedy), "{error}");
    }
    let output = run(programs::node(&one.path).args(["--model", "gine", "--no-edge-features"]));
    assert!(error_of(&output).contains("gine"), "{}", stderr(&output));
    for model in ["gcn", "gin", "embedding"] {
        let output = run(programs::node(&one.path).args(["--model", model, "--num-epochs", "1"]));
        let note = format!("note: edges have features, which messages of --model {model} do not read: sage, gat, ");
        assert_eq!(stderr(&output).matches(&note).count(), 1, "{}", stderr(&output));
    }
    let output = run(programs::node(&one.path).args(["--model", "sage", "--num-epochs", "1"]));
    assert!(!stderr(&output).contains("note: edges have features"), "{}", stderr(&output));
}

#[test]
fn models_of_times_of_edges_do_not_depend_on_the_partitioning() {
    let [two, one, three] = attributed_parts();
    let Scratch { folder, model, out } = scratch();
    let layouts = [(&one, &[][..]), (&three, &["--nproc-per-node", "2"]), (&three, &["--batch-size", "7"])];
    let times = ["--time-attr", "edge_time", "--time-encoding", "6"];
    for flags in
        [&["--model", "sage", "--edge-weights"][..], &["--model", "gatv2", "--no-edge-features"], &["--model", "hgt"]]
    {
        let result = trained("node", &two.path, &model, &[flags, &times].concat());
        // A prediction takes all settings from the file.
        let ours = predicted(&two.path, &model, &out, &["--output", "logit"]);
        let expected = numbers(&out).1;
        assert_eq!([&ours["valid_acc"], &ours["test_acc"]], [&result["valid_acc"], &result["test_acc"]], "{flags:?}");
        assert_same_logits(&layouts, &model, &out, &expected, &format!("{flags:?}"));
        let none = folder.join("none");
        for more in [&["--time-attr", "none"][..], &["--time-attr", "node_time"], &["--output", "embedding"]] {
            assert_error(
                &predict(&two.path, &model, &none, more),
                &["the model reads the time between each edge and its seed (--time-encoding)"],
            );
        }
        let load = ["--load-model", model.to_str().expect("a path"), "--time-encoding", "5"];
        let error = error_of(&programs::train_or_evaluate(programs::node(&three.path).args(load)));
        assert!(error.contains("--time-encoding 5: the model") && error.contains("was saved with 6"), "{error}");
    }
}

#[test]
fn values_of_edges_that_a_model_cannot_read_are_refused_with_one_error() {
    let options = FakeOptions { avg_num_nodes: 200, edge_attributes: true, ..FakeOptions::default() };
    let parts = programs::written_by(&fake(&options).expect("a fake graph"), 1);
    let blind = fake_parts(1);
    let by_time = ["--time-attr", "edge_time"];
    for (parts, flags, why) in [
        (&parts, &["--model", "gat", "--edge-weights"][..], "messages of gat are not multiplied by weights of edges"),
        (&parts, &["--model", "sage", "--aggregation", "max", "--edge-weights"], "choose sage or graphconv with"),
        (&parts, &["--model", "sage", "--weighted", "--edge-weights"], "would count weights twice"),
        (&parts, &["--model", "embedding", "--edge-weights"], "the model has no convolution"),
        (&blind, &["--model", "sage", "--edge-weights"], "have no weights (--edge-weights)"),
        (&parts, &["--model", "sage", "--time-encoding", "4"], "sample by time (--time-attr edge_time)"),
        (&parts, &["--model", "gin", "--time-encoding", "4", by_time[0], by_time[1]], "gin reads no features of edges"),
        (
            &parts,
            &["--time-encoding", "4", by_time[0], by_time[1], "--eval", "layer-wise"],
            "depend on the time of the seed",
        ),
    ] {
        assert_error(&run(programs::node(&parts.path).args(flags)), &[why]);
    }
}
