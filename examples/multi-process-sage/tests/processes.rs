//! Tests that start the example like users do.

use edgecut_graph::readers::{FakeOptions, export_npy, fake};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn example(processes: usize, tmp: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multi-process-sage"));
    command.args(["--nproc-per-node", &processes.to_string()]).env("TMPDIR", tmp);
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

/// Returns the losses of a run. Two equal runs have equal losses.
fn losses(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_once("loss ")?.1.split(',').next()).collect()
}

#[test]
fn one_process_and_two_learn_the_same_from_a_generated_graph_and_from_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let tmp = dir.path().join("tmp");
    let set = dir.path().join("set");
    std::fs::create_dir(&tmp).unwrap();
    let generated = ["--avg-num-nodes", "8000", "--num-epochs", "8"];
    let one = text(&example(1, &tmp).args(generated).output().unwrap());
    let two = text(&example(2, &tmp).args(generated).output().unwrap());
    assert_eq!(two.lines().count(), 9, "only rank 0 prints: {two}");
    assert!(one.contains("epoch  8: loss ") && one.contains("validation accuracy"), "{one}");
    // The bound allows for the noise of 1600 test nodes.
    assert!(accuracy(&one) > 0.7 && (accuracy(&one) - accuracy(&two)).abs() < 0.1, "{one}\n{two}");
    export_npy(&fake(&FakeOptions { avg_num_nodes: 8000, ..FakeOptions::default() }).unwrap(), &set).unwrap();
    let mut read = example(2, &tmp);
    let read = text(&read.arg("--dataset-dir").arg(&set).args(["--num-epochs", "8"]).output().unwrap());
    assert_eq!((losses(&read), accuracy(&read)), (losses(&two), accuracy(&two)));
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0, "the temporary folder is left empty");
}

#[test]
fn a_dataset_that_is_not_there_is_said_by_the_rank_that_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let output = example(2, dir.path()).arg("--dataset-dir").arg(dir.path().join("nothing")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!(errors.matches("no dataset found").count(), 1, "{errors}");
    assert!(errors.contains("error: rank 1: rank 0 at 127.0.0.1"), "{errors}");
    assert!(errors.contains("Error: rank 0 failed with exit status 1"), "{errors}");
}
