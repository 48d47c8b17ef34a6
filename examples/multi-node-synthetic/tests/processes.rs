//! Tests that start the example like users do: alone, and as two processes with a launcher's variables.

use edgecut_testing::free_port;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn example(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multi-node-synthetic"));
    command.args(["--avg-num-nodes", "2000", "--num-epochs", "6", "--root-dir"]).arg(root);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn accuracy(text: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix("test accuracy ")).unwrap_or_else(|| panic!("{text}"));
    value.parse().unwrap()
}

/// Runs two processes and returns their outputs. With `local_world_size` 1 each process is a node with its own folder;
/// with 2 both processes are on one node.
fn two(roots: [&Path; 2], local_world_size: usize) -> [String; 2] {
    let port = free_port();
    let start = |rank: usize| -> Child {
        let mut command = example(roots[rank]);
        command.envs([("RANK", rank.to_string()), ("WORLD_SIZE", "2".into())]);
        command.env("LOCAL_RANK", (rank % local_world_size).to_string());
        command.env("LOCAL_WORLD_SIZE", local_world_size.to_string());
        command.envs([("MASTER_ADDR", "127.0.0.1".to_owned()), ("MASTER_PORT", port.to_string())]);
        command.spawn().unwrap()
    };
    [0, 1].map(start).map(|child| text(&child.wait_with_output().unwrap()))
}

#[test]
fn the_flags_of_the_tutorial_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_multi-node-synthetic"));
    command
        .args("--avg-num-nodes 500 --hidden_channels 16 --lr 0.02 --epochs 2 --batch_size 64 --fan_out 5".split(' '));
    let output = command.args(["--ngpu_per_node", "1", "--root-dir"]).arg(dir.path()).output().unwrap();
    let text = text(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--ngpu-per-node has no effect"));
    for part in ["epoch 1: validation accuracy", "best validation accuracy", "total time", "mean iteration time"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("epoch 2:"), "{text}");
}

#[test]
fn one_process_and_two_learn_the_same() {
    let dirs = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let alone = text(&example(dirs[0].path()).output().unwrap());
    assert!(alone.contains("epoch 5: validation accuracy") && alone.contains("mean iteration time"), "{alone}");
    let [nodes, silent] = two([dirs[0].path(), dirs[1].path()], 1);
    assert_eq!(silent, "", "only rank 0 prints");
    let [processes, _] = two([dirs[0].path(), dirs[0].path()], 2);
    for text in [&nodes, &processes] {
        // The bound allows for the noise of 400 test nodes.
        assert!(accuracy(&alone) > 0.8 && (accuracy(text) - accuracy(&alone)).abs() < 0.05, "{alone}\n{text}");
    }
    let parts = |number: usize, name: &str| dirs[number].path().join("fake-2000").join(name).join("META.json").exists();
    assert!(parts(0, "1-parts") && parts(0, "2-parts") && parts(1, "2-parts"));
}
