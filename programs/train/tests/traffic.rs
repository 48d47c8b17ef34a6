//! Test that the counted traffic is what the kernel counts. It needs root and network namespaces, and is skipped without
//! them.

use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_testing::{Need, skip};
use serde_json::Value;
use std::process::Command;

const TEST: &str = "the_counted_bytes_are_those_of_the_interface";

/// A network namespace with a loopback interface only.
struct Namespace(String);

impl Namespace {
    fn new() -> Result<Self, String> {
        let name = format!("edgecut-traffic-{}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Self(name);
        ip(&["-n", &namespace.0, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Returns the bytes that the interface has received so far.
    fn received_bytes(&self) -> u64 {
        let text = ip(&["netns", "exec", &self.0, "cat", "/proc/net/dev"]).expect("the counters");
        let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:")).expect("the loopback interface");
        line.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).expect("a number")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0]);
    }
}

fn ip(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(args).output().map_err(|error| format!("start ip: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

#[test]
fn the_counted_bytes_are_those_of_the_interface() {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(why) => {
            return skip(Need::Namespaces, TEST, why);
        }
    };
    let options = FakeOptions { avg_num_nodes: 3_000, num_channels: 256, ..FakeOptions::default() };
    // Parts at random, so that half of the features are remote.
    let parts = written_by(&fake(&options).expect("a graph"), 2);
    let metrics = parts.path.join("../metrics.jsonl");
    let train = train("node", &parts.path);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.0]).arg(train.get_program()).args(train.get_args());
    // Few steps of a small model, so that gradients take few bytes.
    command.args(["--nproc-per-node", "2", "--num-epochs", "2", "--hidden-channels", "2", "--batch-size", "128"]);
    command.args(["--stats", "--metrics"]);
    command.arg(&metrics);
    let before = namespace.received_bytes();
    succeeded(run(&mut command));
    let on_the_wire = namespace.received_bytes() - before;

    let lines = metrics_lines(&metrics);
    let traffic = lines.iter().find(|line| line["event"] == "traffic").expect("the traffic");
    let ranks = traffic["ranks"].as_array().expect("the ranks");
    let peers = ranks.iter().flat_map(|rank| rank["peers"].as_array().expect("the peers of a rank"));
    let number = |peer: &Value, field: &str| peer[field].as_u64().expect("a number");
    let counted: u64 = peers.map(|peer| number(peer, "sent_bytes") + number(peer, "received_bytes")).sum();
    assert!(counted > 10 << 20, "{counted} bytes are too few to compare");
    // Headers, acknowledgments, gradients and heartbeats are not counted.
    assert!(on_the_wire > counted, "{on_the_wire} bytes on the wire, {counted} counted");
    assert!(on_the_wire < counted + counted / 20 + (2 << 20), "{on_the_wire} bytes on the wire, {counted} counted");
}
