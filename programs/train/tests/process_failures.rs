//! Tests of failures of `train` with real processes and real sockets: ranks, peers, files and flags.

use crate::programs::*;
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_testing::free_port;
use rustix::process::Signal;
use std::net::TcpListener;
use std::path::Path;

#[test]
fn a_feature_that_one_rank_cannot_convert_is_the_error_of_all() {
    let options = FakeOptions { avg_num_nodes: 300, avg_degree: 5.0, ..FakeOptions::default() };
    let mut graph = fake_hetero(&options).expect("a graph");
    let mut values = vec![1.0; 300 * 3];
    values[299 * 3 + 1] = 70_000.0;
    graph.node_types[0].features = Some(edgecut_graph::Features::F32 { values: values.into(), dim: 3 });
    let parts = written_by(&graph, 2);
    let mut command = train("sample", &parts.path);
    command.args(["--nproc-per-node", "2", "--feature-dtype", "f16", "--out"]).arg(parts.path.join("../out"));
    let output = run(&mut command);
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("node type v0: feature 1 of row ") && said.contains("is 70000, which f16 cannot"), "{said}");
    assert!(!said.contains("TMPDIR"), "{said}");
}

#[test]
fn a_model_that_cannot_be_saved_is_refused_before_the_training() {
    let parts = parts(1, 3);
    let link = parts.path.with_file_name("link");
    std::os::unix::fs::symlink("/dev/full", &link).expect("a link");
    let absent = parts.path.join("absent/model");
    for (path, why) in [
        (link.as_path(), "it is a device"),
        (parts.path.as_path(), "it is a directory"),
        (absent.as_path(), "absent does not exist: create it"),
    ] {
        let error = error_of(&run(node(&parts.path).args(["--num-epochs", "100000", "--save-model"]).arg(path)));
        assert!(error.contains("--save-model") && error.contains(why), "{error}");
    }
    assert!(link.is_symlink());
}

#[test]
fn a_killed_rank_ends_the_others_with_its_name() {
    assert_killed_rank_is_named(&[]);
    // The others may wait for it within a pass.
    assert_killed_rank_is_named(&["--batch-norm", "--sync-batch-norm"]);
}

fn assert_killed_rank_is_named(flags: &[&str]) {
    let parts = parts(3, 4);
    let port = free_port();
    let metrics = parts.path.join("../metrics.jsonl");
    let mut children: Vec<Process> = (0..3)
        .map(|k| {
            let mut command = rank(&parts.path, k, 3, port);
            command.args(["--num-epochs", "1000000", "--metrics"]).arg(&metrics).args(flags);
            Process::start(&mut command)
        })
        .collect();
    // Once an epoch is reported, the job is training the next ones.
    let has_two_lines = || std::fs::read_to_string(&metrics).unwrap_or_default().lines().count() >= 2;
    wait_until(has_two_lines, || "training did not start".into());
    children[1].kill().expect("kill -9 rank 1");
    for (k, child) in children.into_iter().enumerate() {
        let output = end(child);
        if k != 1 {
            let error = error_of(&output);
            assert!(error.contains("rank 1 at 127.0.0.1"), "rank {k}: {error}");
            assert_eq!(output.status.code(), Some(3));
        }
    }
}

#[test]
fn a_rank_that_never_starts_is_named() {
    let parts = parts(2, 5);
    let mut command = rank(&parts.path, 0, 2, free_port());
    command.args(["--rendezvous-timeout", "2"]);
    assert_error(&run(&mut command), &["rank 1 has not joined"]);
}

#[test]
fn a_missing_master_is_named() {
    let parts = parts(2, 5);
    let port = free_port();
    let mut command = rank(&parts.path, 1, 2, port);
    command.args(["--rendezvous-timeout", "2"]);
    assert_error(&run(&mut command), &[&format!("127.0.0.1:{port}")]);
}

#[test]
fn ranks_of_different_partitionings_do_not_start() {
    let these = parts(2, 6);
    let others = parts(2, 7);
    let port = free_port();
    let children = [rank(&these.path, 0, 2, port), rank(&others.path, 1, 2, port)];
    let started = children.map(|mut command| Process::start(&mut command));
    for child in started {
        assert_error(&end(child), &["another partitioning"]);
    }
}

#[test]
fn ranks_with_different_flags_do_not_start() {
    let parts = parts(2, 6);
    let port = free_port();
    let mut other = rank(&parts.path, 1, 2, port);
    other.args(["--num-epochs", "77"]);
    let started = [rank(&parts.path, 0, 2, port), other].map(|mut command| Process::start(&mut command));
    for child in started {
        assert_error(&end(child), &["--num-epochs is 77 on rank 1"]);
    }
}

#[test]
fn a_wrong_token_is_said_on_both_sides() {
    let parts = parts(2, 8);
    let port = free_port();
    let start = |k: usize, token: &str| {
        let mut command = rank(&parts.path, k, 2, port);
        Process::start(command.args(["--rendezvous-timeout", "8"]).env("EDGECUT_TOKEN", token))
    };
    let children = [start(0, "0123456789-right"), start(1, "0123456789-wrong")];
    for child in children {
        let error = error_of(&end(child));
        assert!(error.contains("token"), "{error}");
        assert!(!error.contains("right") && !error.contains("wrong"), "the secret stays secret: {error}");
    }
}

#[test]
fn a_damaged_part_is_named_on_all_ranks_and_nothing_is_written() {
    let features = "part_1/nodes/node/features.npy";
    // A wrong file size is always detected; a flipped bit only with checksums.
    for (damage, flags, why) in [("truncate", &[][..], "truncated"), ("flip", &["--verify"], "corrupt")] {
        let parts = parts(2, 9);
        let file = parts.path.join(features);
        let mut bytes = std::fs::read(&file).expect("read the features");
        match damage {
            "truncate" => bytes.truncate(bytes.len() - 5),
            _ => *bytes.last_mut().expect("a byte") ^= 1,
        }
        std::fs::write(&file, bytes).expect("damage the features");
        let model = parts.path.join("../model.safetensors");
        let port = free_port();
        let started = [0, 1].map(|k| {
            let mut command = rank(&parts.path, k, 2, port);
            Process::start(command.args(flags).arg("--save-model").arg(&model))
        });
        for child in started {
            assert_error(&end(child), &[features, why]);
        }
        assert!(!model.exists());
    }
}

#[test]
fn a_port_in_use_is_named() {
    let parts = parts(2, 10);
    let holder = TcpListener::bind(("127.0.0.1", 0)).expect("hold a port");
    let port = holder.local_addr().expect("its address").port();
    assert_error(&run(&mut rank(&parts.path, 0, 2, port)), &[&format!("127.0.0.1:{port}"), "--master-port"]);
}

#[test]
fn wrong_flags_end_with_status_2_and_say_what_to_do() {
    let parts = parts(2, 11);
    for (flags, what) in [
        (&["--num-neighbors", "5,3,2", "--num-layers", "2"][..], "3 fan-outs"),
        (&["--eval-num-neighbors", "-1"], "1 fan-outs"),
        (&["--num-neighbors=-2,1"], "fan-out"),
        (&["--num-nodes", "2"], "--node-rank is missing"),
        (&["--nproc-per-node", "2000"], "too many for the"),
        (&["--model", "sage", "--heads", "2"], "--heads has no effect on --model sage"),
        (&["--model", "gat", "--num-bases", "2"], "choose --model rgcn"),
        (&["--dataset", "another"], "are of dataset random"),
        (&["--lr", "-1"], "-1 is not a finite number"),
        (&["--num-nodes", "2", "--node-rank", "2"], "must be less than --num-nodes"),
        (&["--dropout", "1.5"], "1.5"),
        (&["--lr", "NaN"], "NaN"),
        (&["--batch-size", "0"], "batch-size"),
    ] {
        let output = run(program().args(["node", "--dataset-root-dir"]).arg(&parts.path).args(flags));
        assert_refused(&output, 2, &[what]);
    }
}

#[test]
fn an_interrupt_ends_all_processes_of_the_node() {
    let parts = parts(2, 13);
    let metrics = parts.path.join("../metrics.jsonl");
    let parent = start_training(node(&parts.path).args(["--nproc-per-node", "2"]), &metrics);
    let children = children_of(parent.id());
    assert_eq!(children.len(), 2);
    send(Signal::INT, parent.id());
    assert_eq!(end(parent).status.code(), Some(130));
    for child in children {
        assert!(!Path::new(&format!("/proc/{child}")).exists(), "process {child} is left behind");
    }
}
