//! Tests that start the example like users do, with one process and with several.

use std::process::Command;

fn run(processes: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_graph-classification"));
    // The crate's own folder holds no graphs, so the example generates them.
    command.args(["--root-dir", env!("CARGO_MANIFEST_DIR"), "--nproc-per-node", processes, "--num-epochs", "8"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_process_and_several_learn_the_same_and_count_each_graph_once() {
    for processes in ["1", "2", "3"] {
        let text = run(processes);
        assert!(text.contains("generating graphs instead") && text.contains("epoch 7: loss"), "{text}");
        let test =
            text.lines().find_map(|line| line.strip_prefix("test accuracy ")).unwrap_or_else(|| panic!("{text}"));
        let (accuracy, graphs) = test.split_once(" of ").unwrap();
        assert!(accuracy.parse::<f64>().unwrap() > 0.7 && graphs == "100 graphs", "{text}");
    }
}
