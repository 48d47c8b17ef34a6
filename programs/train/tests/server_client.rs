//! Tests of `train --servers` with real processes, and servers in this process.

use crate::link_reverse_types::papers;
use crate::programs;
use crate::programs::*;

use edgecut_cluster::{ServiceConfig, ServiceListener};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, ServerList};
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{GivenNegatives, HoldOut, Meta};
use edgecut_testing::{Need, free_port, skip};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Serves the parts in a folder. Returns the list of servers.
pub(crate) fn serve(parts: &Path) -> (String, Vec<Arc<DistGraph>>) {
    let meta = Meta::read(parts).expect("read META.json");
    let service = ServiceConfig::new(None);
    let listen = |_| ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), 0, &service).expect("a free port");
    let listeners: Vec<ServiceListener> = (0..meta.num_parts).map(listen).collect();
    let list = listeners.iter().map(|listener| listener.addr().to_string()).collect::<Vec<_>>().join(",");
    let servers = ServerList::parse(&list, service.clone()).expect("a list");
    let config = DistGraphConfig { num_workers: 2, connect_budget_ms: 3_000, ..DistGraphConfig::default() };
    let start = |(server, listener)| {
        let part = Arc::new(servers.open_part(parts, server, false).expect("open the part"));
        DistGraph::serve(part, servers.clone(), server, listener, config.clone()).expect("serve")
    };
    let graphs = listeners.into_iter().enumerate().map(start).collect();
    (list, graphs)
}

/// Returns the command of a trainer without parts.
fn client(subcommand: &str, servers: &str) -> Command {
    let mut command = Command::new(TRAIN);
    command.args([subcommand, "--servers", servers, "--num-neighbors", "5,3"]);
    unplace(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn result(mut command: Command, flags: &[&str]) -> Value {
    let output = succeeded(run(command.args(flags).arg("--json")));
    serde_json::from_slice(&output.stdout).expect("--json prints one JSON object")
}

#[test]
fn a_killed_server_is_named_once_with_the_epoch_of_the_training() {
    let program = Path::new(TRAIN).with_file_name("sampling-server");
    if !program.is_file() {
        return skip(Need::Programs, "a_killed_server", "sampling-server is not built: test the whole workspace");
    }
    let parts = fake_parts(1);
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = Command::new(program);
    unplace(&mut command);
    command.arg("--dataset-root-dir").arg(&parts.path).args(["--servers", &address]).stderr(Stdio::null());
    let mut server = Process::start(&mut command);
    let metrics = parts.path.with_file_name("metrics.jsonl");
    let mut trainer = client("node", &address);
    let trainer = start_training(trainer.args(["--nproc-per-node", "2"]), &metrics);
    server.kill().expect("kill the server");
    server.wait().expect("wait for the server");
    let output = end(trainer);
    assert_fails(&output, 3, &[&format!("server {address}"), " of epoch "]);
}

#[test]
fn trainers_without_parts_learn_what_ranks_with_parts_learn() {
    let parts = fake_parts(2);
    let (servers, _graphs) = serve(&parts.path);
    let flags = ["--hidden-channels", "16", "--batch-size", "32", "--lr", "0.01", "--num-epochs", "3"];
    for more in [
        ["--nproc-per-node", "2"].as_slice(),
        &["--nproc-per-node", "4", "--cache-ratio", "0.2", "--stats"],
        &["--nproc-per-node", "2", "--cache-ratio", "0.2", "--cache-ranking", "look-ahead"],
    ] {
        let flags = [&flags[..], more].concat();
        let expected = result(train("node", &parts.path), &flags);
        assert_eq!(result(client("node", &servers), &flags), expected);
        assert!(expected["test_acc"].as_f64().expect("an accuracy") > 0.5, "{expected}");
    }
    // A number of trainers that ranks with parts could not have.
    let alone = result(client("node", &servers), &flags);
    assert!(alone["test_acc"].as_f64().expect("an accuracy") > 0.5, "{alone}");
    let error = error_of(&run(client("node", &servers).args(flags).args(["--isolated", "--nproc-per-node", "2"])));
    assert!(error.contains("--isolated does not support --servers"), "{error}");
}

#[test]
fn trainers_without_parts_read_the_values_of_edges_that_ranks_with_parts_read() {
    let options = FakeOptions { avg_num_nodes: 300, edge_attributes: true, ..FakeOptions::default() };
    let parts = programs::written_by(&fake(&options).expect("a fake graph"), 2);
    let (servers, _graphs) = serve(&parts.path);
    let flags = ["--hidden-channels", "16", "--batch-size", "32", "--lr", "0.01", "--num-epochs", "2"];
    for more in [
        &["--model", "gcn", "--edge-weights"][..],
        &["--model", "sage", "--edge-weights", "--time-attr", "edge_time", "--time-encoding", "4"],
        &["--model", "hgt"],
    ] {
        let flags = [&flags[..], &["--nproc-per-node", "2"], more].concat();
        assert_eq!(result(client("node", &servers), &flags), result(train("node", &parts.path), &flags), "{more:?}");
    }
}

#[test]
fn held_out_edges_in_a_declared_reverse_type_are_found_at_servers() {
    for timed in [false, true] {
        let parts = programs::written_by(&papers(true, timed), 2);
        let (servers, _graphs) = serve(&parts.path);
        let flags = ["--nproc-per-node", "3", "--num-epochs", "1", "--reverse-types", "writes=written_by"];
        let error = error_of(&run(client("link", &servers).args(flags)));
        assert!(error.contains(" test edges of author__writes__paper are training edges"), "{error}");
    }
}

#[test]
fn links_are_predicted_from_servers_as_from_parts() {
    let parts = link_parts(2);
    let (servers, _graphs) = serve(&parts.path);
    let flags = ["--hidden-channels", "8", "--num-epochs", "2", "--nproc-per-node", "2", "--eval-negatives", "20"];
    assert_eq!(result(client("link", &servers), &flags), result(train("link", &parts.path), &flags));
    for (flags, expected) in [
        (["--eval-negatives", "all"].as_slice(), "servers compute no embeddings of all nodes"),
        (&["--metric", "recall@5"], "recall@5 lists the best of all destinations, and servers compute no embeddings"),
        (&["--negatives", "degree"], "servers draw no negatives by degree"),
        (&["--train-negatives", "to"], "servers look up no given negatives (--train-negatives)"),
    ] {
        assert_fails(&run(client("link", &servers).args(flags)), 1, &[expected]);
    }
}

#[test]
fn given_negatives_are_ranked_from_servers_as_from_parts() {
    const EACH: usize = 9;
    let options = FakeOptions { avg_num_nodes: 300, num_channels: 16, num_classes: 5, ..FakeOptions::default() };
    for are_shared in [false, true] {
        let mut graph = fake(&options).expect("a fake graph");
        graph.hold_out_edges(&graph.edge_type_ids(), &HoldOut::random(0.1, 0.1, 3)).expect("held-out edges");
        let held_out = &mut graph.edge_types[0].held_out;
        for list in [&mut held_out.valid, &mut held_out.test] {
            let dst: Vec<u32> = (0..list.len() * EACH).map(|at| list.dst[at * 31 % list.len()]).collect();
            let src: Vec<u32> = dst.iter().rev().copied().collect();
            list.negatives = Some(if are_shared {
                GivenNegatives::Shared { src: src.into(), dst: dst.into() }
            } else {
                GivenNegatives::OfEach { num: EACH, dst: dst.into() }
            });
        }
        let num_edges = graph.edge_types[0].held_out.test.len();
        let parts = programs::written_by(&graph, 2);
        let (servers, _graphs) = serve(&parts.path);
        // With all neighbors, batches score edges as the rows of all nodes do.
        let flags = "--hidden-channels 8 --num-epochs 1 --nproc-per-node 2 --eval-num-neighbors=-1,-1";
        let flags: Vec<&str> = flags.split(' ').collect();
        let found = result(client("link", &servers), &flags);
        let expected = result(train("link", &parts.path), &flags);
        assert_eq!(found["test"]["edges"].as_u64(), Some(num_edges as u64));
        for name in ["mrr", "hits@3"] {
            let [found, expected] = [&found, &expected].map(|result| result["test"][name].as_f64().expect("a metric"));
            assert!((found - expected).abs() <= 2.0 / num_edges as f64, "{name}: {found} instead of {expected}");
        }
    }
}

#[test]
fn blocks_averages_thresholds_and_temperatures_are_those_of_ranks_with_parts() {
    let flags = ["--hidden-channels", "8", "--batch-size", "32", "--lr", "0.02", "--num-epochs", "3"];
    let more = "--nproc-per-node 2 --ema 0.9 --drop-edge 0.3 --calibrate --batch-norm --sync-batch-norm";
    let more: Vec<&str> = more.split(' ').collect();
    let of_nodes = fake_parts(2);
    let of_edges = edge_parts(2, false);
    for (task, parts, chosen) in [
        ("node", &of_nodes, &[][..]),
        ("edge", &of_edges, &["--threshold", "best-f1", "--metric", "macro-f1,calibration-error"]),
    ] {
        let (servers, _graphs) = serve(&parts.path);
        let flags = [&flags[..], &more[..], chosen].concat();
        let found = result(client(task, &servers), &flags);
        assert_eq!(found, result(train(task, &parts.path), &flags), "{task}");
        assert!(found["decision"]["temperature"].as_f64().is_some_and(|temperature| temperature > 0.0), "{found}");
        assert_eq!(found["decision"]["logit_thresholds"][0].is_number(), task == "edge", "{found}");
    }
    // Explanations are predictions, which need the parts.
    let Scratch { folder: _folder, model, out } = scratch();
    let (servers, _graphs) = serve(&of_nodes.path);
    result(client("node", &servers), &[&flags[..], &["--save-model", model.to_str().expect("UTF-8")]].concat());
    let mut explain = Command::new(TRAIN);
    explain.args(["predict", "--servers", &servers, "--explain", "--format", "csv", "--load-model"]).arg(&model);
    unplace(explain.arg("--out").arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert_refused(&run(&mut explain), 2, &["--servers: predictions need the parts", "--dataset-root-dir"]);
}

#[test]
fn edges_are_predicted_from_servers_as_from_parts() {
    let parts = edge_parts(2, false);
    let (servers, _graphs) = serve(&parts.path);
    let flags =
        ["--hidden-channels", "8", "--num-epochs", "8", "--batch-size", "16", "--lr", "0.02", "--nproc-per-node", "2"];
    let found = result(client("edge", &servers), &flags);
    assert_eq!(found, result(train("edge", &parts.path), &flags));
    assert!(found["test_acc"].as_f64().expect("an accuracy") > 0.6, "{found}");
}

#[test]
fn flags_and_graphs_that_servers_cannot_serve_are_refused() {
    let typed = typed_parts(2);
    let (servers, _graphs) = serve(&typed.path);
    let nobody = format!("127.0.0.1:{}", free_port());
    let reversed = servers.split(',').rev().collect::<Vec<_>>().join(",");
    for (list, flags, status, expected) in [
        (nobody.as_str(), ["--rendezvous-timeout", "1"].as_slice(), 1, format!("connect to server {nobody}")),
        // Both connections are wrong, and either may be refused first.
        (&reversed, &[], 1, ": check the addresses of both, the list of servers".into()),
        ("127.0.0.1", &[], 2, "--servers: cluster configuration: \"127.0.0.1\" is not the address of a server".into()),
        (&servers, &["--dataset-root-dir", "a"], 2, "--servers and --dataset-root-dir exclude each other".into()),
        (&servers, &["--split", "a"], 2, "--split: the servers hold parts that are made already".into()),
        (&servers, &["--dataset", "other"], 2, "--dataset other: the servers hold parts of dataset ".into()),
        (&servers, &["--feature-dtype=int8"], 2, "--feature-dtype: the servers read the parts".into()),
        (&servers, &["--map-edges"], 2, "--map-edges: the servers read the parts: pass it to sampling-server".into()),
    ] {
        let output = run(client("node", list).args(flags));
        assert_refused(&output, status, &[&expected]);
    }
    for flags in [&["--node-embeddings", "v0=4:add"][..], &["--node-embeddings", "v0=4:add", "--ema", "0.9"]] {
        let error = error_of(&run(client("node", &servers).args(flags)));
        let expected = "nodes of type v0 have embeddings (--node-embeddings), and servers keep no embeddings: train with the \
                        parts on this node (--dataset-root-dir), or leave these embeddings out";
        assert!(error.contains(expected), "{error}");
    }
    let output = run(client("node", &nobody).args(["--rendezvous-timeout", "1"]));
    assert_eq!(error_of(&output).matches(&nobody).count(), 1, "a server is named once: {}", stderr(&output));
    let output = run(client("node", &nobody).args(["--rendezvous-timeout", "7"]));
    assert_refused(&output, 1, &["connect to server"]);
    let line = format!("waiting for the servers {nobody}, up to 7 s (--rendezvous-timeout)");
    assert!(stderr(&output).contains(&line), "{}", stderr(&output));
    let mut nothing = Command::new(TRAIN);
    nothing.arg("node").stdout(Stdio::piped()).stderr(Stdio::piped());
    unplace(&mut nothing);
    assert_fails(&run(&mut nothing), 2, &["give the folder of the graph, or --servers"]);
}

#[test]
fn a_server_that_dies_ends_the_job_with_its_name() {
    let parts = fake_parts(2);
    let (servers, mut graphs) = serve(&parts.path);
    let mut command = client("node", &servers);
    command.args(["--nproc-per-node", "2", "--num-epochs", "100000", "--hidden-channels", "16", "--batch-size", "32"]);
    let mut child = Process::start(&mut command);
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.starts_with("epoch 2/") {
        line.clear();
        assert!(said.read_line(&mut line).expect("read") > 0, "training ended");
    }
    drop(graphs.pop());
    let rest = std::thread::spawn(move || std::io::read_to_string(said).expect("read"));
    let status = end(child).status;
    let text = rest.join().expect("no panic");
    let dead = servers.split(',').nth(1).expect("two servers");
    assert!(!status.success());
    assert!(text.lines().any(|line| line.starts_with("error: ") && line.contains(&format!("server {dead}"))), "{text}");
}
