//! Starts the example like users do: two servers, and two clients.

use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_partition::{PartitionOptions, partition};
use std::process::{Child, Command, Stdio};

/// A server that is killed at the end of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_learn_from_servers() {
    let dir = tempfile::tempdir().unwrap();
    let parts = dir.path().join("parts");
    let graph = fake(&FakeOptions { avg_num_nodes: 2_000, ..FakeOptions::default() }).unwrap();
    partition(&graph, &PartitionOptions::new(2), &parts, &()).unwrap();
    // Below the ports that the system gives to other sockets.
    let first_port = 16_000 + std::process::id() % 1_000 * 2;
    let servers = [0, 1].map(|server| format!("127.0.0.1:{}", first_port + server)).join(",");
    let program = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_server-client"));
        command.args(["--servers", &servers]).env_remove("EDGECUT_TOKEN").stdout(Stdio::piped());
        command
    };
    let start = |rank: usize| {
        let mut command = program();
        command.args(["server", "--server-rank", &rank.to_string(), "--parts"]).arg(&parts);
        Server(command.spawn().unwrap())
    };
    let _servers = [start(0), start(1)];
    let client = |rank: &str| -> Child {
        let mut command = program();
        command.args(["client", "--num-epochs", "4"]);
        command.envs([("RANK", rank), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1")]);
        command.env("MASTER_PORT", (first_port + 2_000).to_string()).spawn().unwrap()
    };
    let [first, second] = ["0", "1"].map(client).map(|child| child.wait_with_output().unwrap());
    assert!(first.status.success() && second.status.success());
    assert!(second.stdout.is_empty(), "only the first client prints");
    let text = String::from_utf8(first.stdout).unwrap();
    let accuracy =
        text.lines().find_map(|line| line.strip_prefix("test accuracy ")).unwrap_or_else(|| panic!("{text}"));
    assert!(text.contains("epoch  4: loss") && accuracy.parse::<f64>().unwrap() > 0.7, "{text}");
}
