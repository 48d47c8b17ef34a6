//! Complete jobs: partition, copy, launch and train on three hosts with two processes each, compared with one process.

mod features;
mod recovery;
#[path = "../support/mod.rs"]
mod support;

use edgecut_testing::Need;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use support::{Lab, signal, text};

static TRAIN_FLAGS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "--model sage --hidden-channels 32 --num-neighbors 10,5 --batch-size 64 --num-epochs 15 --lr 0.005 --num-threads 1"
        .split(' ')
        .collect()
});

/// Returns a program of the workspace, built beside `launch` or in the folder EDGECUT_BIN.
fn program(name: &str) -> Option<String> {
    let beside = Path::new(env!("CARGO_BIN_EXE_launch")).parent().unwrap().to_owned();
    let folder = std::env::var_os("EDGECUT_BIN").map_or(beside, PathBuf::from);
    let path = folder.join(name);
    path.is_file().then(|| path.display().to_string())
}

struct Ready {
    lab: Lab,
    train: String,
    config: String,
}

/// Three hosts, and a graph on the launching side in three parts and in one.
fn ready(test: &str, nodes: &str) -> Option<Ready> {
    let lab = Lab::namespaces_for(test, 3)?;
    let (Some(train), Some(partition)) = (program("train"), program("partition-graph")) else {
        edgecut_testing::skip(
            Need::Programs,
            test,
            "the programs train and partition-graph are not built: test the whole workspace",
        );
        return None;
    };
    for parts in ["1", "3"] {
        let mut command = Command::new(&partition);
        command.args(["--dataset", "fake", "--avg-num-nodes", nodes, "--num-partitions", parts, "--root-dir", "."]);
        text(&command.current_dir(lab.path("")).output().unwrap());
    }
    let config = lab.ip_config(2).display().to_string();
    Some(Ready { lab, train, config })
}

const PARTS: &str = "partitions/fake/3-parts";

impl Ready {
    /// Returns the flags of `launch`, up to the flags of the program.
    fn flags<'a>(&'a self, subcommand: &'a str) -> Vec<&'a str> {
        let launch = ["--ip-config", &self.config, "--copy-parts", "--sync-binary", "--", &self.train, subcommand];
        [launch.as_slice(), &["--dataset-root-dir", PARTS]].concat()
    }

    /// Runs the same training in one process on one part, without a cluster.
    fn alone(&self, subcommand: &str, flags: &[&str]) -> String {
        let mut command = Command::new(&self.train);
        command.args([subcommand, "--dataset-root-dir", "partitions/fake/1-parts"]).args(flags);
        text(&command.current_dir(self.lab.path("")).output().unwrap())
    }
}

fn accuracy(result: &str) -> f64 {
    let field = result.split("\"test_acc\":").nth(1).unwrap_or_else(|| panic!("no accuracy in {result}"));
    field.split([',', '}']).next().unwrap().trim().parse().unwrap()
}

#[test]
fn three_nodes_train_and_sample_as_one_process_does() {
    let Some(ready) = ready("training on three nodes", "3000") else { return };
    let run = ready.lab.run(&[ready.flags("node"), TRAIN_FLAGS.clone(), vec!["--json"]].concat());
    assert!(run.status.success(), "{run:#?}");
    assert_eq!(run.out.lines().count(), 1, "rank 0 speaks for all: {run:#?}");
    assert!(run.err.contains("[10.99.0.1:0] epoch 15/15"), "{run:#?}");
    let (cluster, alone) =
        (accuracy(&run.out), accuracy(&ready.alone("node", &[TRAIN_FLAGS.as_slice(), &["--json"]].concat())));
    // With 600 test nodes, two standard deviations of an accuracy near 0.9 are 0.025.
    assert!(alone > 0.8 && (cluster - alone).abs() < 0.025, "{cluster} on three nodes, {alone} alone");

    let seeds: Vec<u8> = npy(&(0..200).map(|i| (i * 13 + 5) % 3000).collect::<Vec<i64>>());
    let flags = ["--seeds", "seeds.npy", "--num-neighbors", "5,5", "--batch-size", "32", "--seed", "3", "--out", "out"];
    std::fs::write(ready.lab.path("seeds.npy"), &seeds).unwrap();
    ready.lab.hosts.iter().for_each(|host| std::fs::write(host.files.join("seeds.npy"), &seeds).unwrap());
    let run = ready.lab.run(&[ready.flags("sample"), flags.into()].concat());
    assert!(run.status.success(), "{run:#?}");
    ready.alone("sample", &flags);
    let alone = batches(&ready.lab.path("out"));
    let mut cluster = BTreeMap::new();
    ready.lab.hosts.iter().for_each(|host| cluster.extend(batches(&host.files.join("out"))));
    assert_eq!(alone.len(), 7);
    assert_eq!(cluster.keys().collect::<Vec<_>>(), alone.keys().collect::<Vec<_>>());
    assert!(cluster == alone, "the batches differ");
}

#[test]
fn a_training_that_fails_on_all_ranks_shows_one_error_with_its_host() {
    let Some(ready) = ready("an error of a training", "300") else { return };
    let run = ready.lab.run(&[ready.flags("node"), vec!["--load-model", "none.safetensors"]].concat());
    assert!(!run.status.success(), "{run:#?}");
    let errors: Vec<&str> = run.err.lines().filter(|line| line.contains("] error: ")).collect();
    assert!(
        errors.len() == 1 && errors[0].starts_with("[10.99.0.") && errors[0].contains("none.safetensors"),
        "{run:#?}"
    );
}

#[test]
fn trainers_train_from_servers_on_other_nodes() {
    let Some(Ready { lab, train, .. }) = ready("servers and trainers", "3000") else { return };
    let Some(server) = program("sampling-server") else {
        return edgecut_testing::skip(
            Need::Programs,
            "servers and trainers",
            "the program sampling-server is not built: test the whole workspace",
        );
    };
    let config = lab.roles_config(&["server", "server", "trainer, processes: 2"]).display().to_string();
    let token = lab.token();
    let of_role =
        |role| ["--ip-config", &config, "--token-file", &token, "--sync-binary", "--role", role].map(String::from);
    let launched = |role, rest: &[&str]| -> Vec<String> {
        of_role(role).into_iter().chain(rest.iter().map(ToString::to_string)).collect()
    };
    // Three parts on two servers.
    let servers = ["--copy-parts", "--max-restarts", "1", "--", &server, "--dataset-root-dir", PARTS];
    let servers = launched("server", &servers);
    let servers = lab.spawn(&servers.iter().map(String::as_str).collect::<Vec<_>>());
    servers.wait_for("listening on", 2);
    let node = [["--", &train, "node"].as_slice(), &TRAIN_FLAGS, &["--json"]].concat();
    let train = || {
        let flags = launched("trainer", &node);
        let run = lab.run(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(run.status.success(), "{run:#?}");
        run.out
    };
    let first = train();
    assert!(accuracy(&first) > 0.8, "{first}");
    // A server is killed, starts again while the other one runs, and serves the next job.
    signal(lab.rank(1), Signal::KILL);
    servers.wait_for("listening on", 3);
    assert_eq!(train(), first);
    servers.signal(Signal::INT);
    assert_eq!(servers.finish().status.code(), Some(130));
    lab.wait_until_all_are_gone();
}

/// Returns the batches by their file names.
fn batches(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

/// Reads a vector in NumPy's format, version 1.
fn npy(values: &[i64]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({},), }}", values.len());
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn a_training_job_ends_everywhere_with_one_of_its_ranks() {
    let Some(ready) = ready("the end of training", "300") else { return };
    let lab = &ready.lab;
    let flags = [&ready.flags("node")[..], &TRAIN_FLAGS, &["--num-epochs", "1000000"]].concat();
    let job = lab.spawn(&flags);
    job.wait_for("epoch 1/", 1);
    signal(lab.rank(3), Signal::KILL);
    lab.wait_until_all_are_gone();
    let run = job.finish();
    assert_eq!(run.status.code(), Some(137), "{run:#?}");
    assert!(run.err.contains("rank 3 on 10.99.0.2 was ended by signal 9"), "{run:#?}");
}
