//! Tests of training under a real Slurm with two nodes on this machine. They need root, munge and slurm-wlm, and are
//! skipped without them. They wait for Slurm most of the time, so the name of this module lets them start first.

use crate::programs::*;
use crate::slurm_cluster;

use edgecut_testing::{Need, skip};
use serde_json::Value;
use slurm_cluster::SlurmCluster;
use std::path::Path;
use std::process::{Command, Output};

const TEST: &str = "jobs_of_slurm_train_as_processes_of_one_node_do";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/train.sbatch");
const SERVER_CLIENT_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/server_client.sbatch");

#[test]
fn jobs_of_slurm_train_as_processes_of_one_node_do() {
    let slurm = match SlurmCluster::start() {
        Ok(slurm) => slurm,
        Err(why) => {
            return skip(Need::Slurm, TEST, why);
        }
    };
    let parts = fake_parts(2);
    let mut plain = node(&parts.path);
    let expected = result(&run(plain.args(FLAGS).args(["--nproc-per-node", "4"])));
    assert_eq!(srun(&slurm, &parts), expected, "srun");
    assert_eq!(batch_script(&slurm, &parts), expected, "sbatch");
    tasks_in_turn_are_refused(&slurm, &parts);
    errors_appear_once(&slurm);
    mpirun_in_an_allocation(&slurm, &parts, &expected);
    servers_and_trainers(&slurm);
    requeued(&slurm, &parts);
}

const FLAGS: [&str; 5] = ["--num-epochs", "3", "--rendezvous-timeout", "100", "--json"];

/// Returns the single result that the processes of a job print.
fn result(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("one JSON object: {output:?}"))
}

/// Returns the command `train node`, started by a program of Slurm.
fn under(slurm: &SlurmCluster, starter: &[&str], parts: &Path) -> Command {
    let train = node(parts);
    let mut command = slurm.command(starter[0]);
    command.args(&starter[1..]).arg(train.get_program()).args(train.get_args()).args(FLAGS);
    command
}

fn srun(slurm: &SlurmCluster, parts: &Parts) -> Value {
    result(&run(&mut under(slurm, &["srun", "-N2", "-n4"], &parts.path)))
}

fn tasks_in_turn_are_refused(slurm: &SlurmCluster, parts: &Parts) {
    let starter = ["srun", "-N2", "-n4", "--distribution=cyclic", "--kill-on-bad-exit=1"];
    let output = run(&mut under(slurm, &starter, &parts.path));
    assert!(!output.status.success());
    assert!(stderr(&output).contains("--distribution=block"), "{}", stderr(&output));
}

/// Runs jobs that fail: in one rank, under `srun`, and in all of them, in the batch script.
fn errors_appear_once(slurm: &SlurmCluster) {
    let parts = fake_parts(2);
    std::fs::remove_file(parts.path.join("part_1/edges/node__to__node/indices.npy")).expect("a file of the part");
    let output = run(&mut under(slurm, &["srun", "-N2", "-n2"], &parts.path));
    assert_eq!(stderr(&output).matches("indices.npy").count(), 1, "{}", stderr(&output));

    let dir = Folder::new();
    let log = dir.join("job.log");
    let mut command = slurm.command("sbatch");
    command.args(["--wait", "--ntasks-per-node=2", "--cpus-per-task=1", "--chdir"]).arg(dir.path());
    command.arg("--output").arg(&log).arg(SCRIPT).args(["--no-such-flag"]);
    command.env("EDGECUT_BIN", Path::new(TRAIN).parent().expect("a folder"));
    assert!(!run(&mut command).status.success());
    let log = std::fs::read_to_string(&log).expect("the log of the job");
    assert_eq!(log.matches("error: unexpected argument '--no-such-flag'").count(), 1, "{log}");
}

/// Runs the batch script of the repository with the sizes of this cluster.
fn batch_script(slurm: &SlurmCluster, parts: &Parts) -> Value {
    let dir = Folder::new();
    let log = dir.join("job.log");
    recorder(dir.path());
    let mut command = slurm.command("sbatch");
    command.args(["--wait", "--ntasks-per-node=2", "--cpus-per-task=1", "--chdir"]).arg(dir.path());
    command.arg("--output").arg(&log).arg(SCRIPT);
    let train = node(&parts.path);
    // The script adds the subcommand itself, so it is skipped here.
    command.args(train.get_args().skip(1)).args(FLAGS).env("EDGECUT_BIN", dir.path());
    let output = run(&mut command);
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(output.status.success(), "{}\n{log}", stderr(&output));

    let read = |name: &str| std::fs::read_to_string(dir.join(name)).expect("what train recorded");
    let tokens = read("tokens");
    let lines = read("command-lines");
    let token = tokens.lines().next().expect("a secret");
    assert!(token.len() == 64 && tokens.lines().all(|other| other == token), "one secret for all");
    assert_eq!(tokens.lines().count(), 4);
    assert!(!lines.contains(token) && !log.contains(token), "the secret stays secret");
    let results: Vec<&str> = log.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(results.len(), 1, "{log}");
    serde_json::from_str(results[0]).expect("a JSON object")
}

/// Runs the batch script of servers and trainers: a server on one node, and a trainer on the other.
fn servers_and_trainers(slurm: &SlurmCluster) {
    let server = Path::new(TRAIN).with_file_name("sampling-server");
    if !server.exists() {
        return skip(Need::Programs, TEST, "sampling-server is not built: test the whole workspace");
    }
    let parts = fake_parts(1);
    let expected = result(&run(node(&parts.path).args(FLAGS)));
    let dir = Folder::new();
    let log = dir.join("job.log");
    let mut command = slurm.command("sbatch");
    command.args(["--wait", "--nodes=2", "--cpus-per-task=1", "--chdir"]).arg(dir.path()).arg("--output").arg(&log);
    command.arg(SERVER_CLIENT_SCRIPT);
    let train = node(&parts.path);
    // The script adds the subcommand itself, and the trainers read the servers from the environment.
    let flags =
        train.get_args().skip(1).filter(|flag| *flag != "--dataset-root-dir" && *flag != parts.path.as_os_str());
    command.args(flags).args(FLAGS);
    command.env("EDGECUT_BIN", server.parent().expect("a folder")).env("DATASET_ROOT_DIR", &parts.path);
    let output = run(&mut command);
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(output.status.success(), "{}\n{log}", stderr(&output));
    let line = log.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("a result in {log}"));
    assert_eq!(serde_json::from_str::<Value>(line).expect("a JSON object"), expected, "servers and trainers");
}

/// Sends SIGTERM to a job as before the end of its time. It stores its state, is put back into the queue, and continues.
fn requeued(slurm: &SlurmCluster, parts: &Parts) {
    const LONG: [&str; 4] = ["--num-epochs", "100", "--batch-size", "32"];
    let whole = result(&run(node(&parts.path).args(FLAGS).args(["--nproc-per-node", "2"]).args(LONG)));
    let dir = Folder::new();
    let log = dir.join("job.log");
    let checkpoints = dir.join("checkpoints");
    let mut command = slurm.command("sbatch");
    command.args(["--parsable", "--cpus-per-task=1", "--chdir"]).arg(dir.path()).arg("--output").arg(&log).arg(SCRIPT);
    command.args(node(&parts.path).get_args().skip(1)).args(FLAGS).args(LONG);
    command.arg("--checkpoint-dir").arg(&checkpoints).args(["--checkpoint-every", "50steps", "--resume"]);
    let output = succeeded(run(command.env("EDGECUT_BIN", Path::new(TRAIN).parent().expect("a folder"))));
    let job = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let is_stored = || num_checkpoints(&checkpoints) > 0;
    wait_until(is_stored, || format!("the job writes checkpoints: {}", text()));
    assert!(run(slurm.command("scancel").args(["--signal=TERM", &job])).status.success());
    wait_until(|| text().contains("SIGTERM: stopped after "), || format!("the job is stopped: {}", text()));
    let state = || {
        let output = run(slurm.command("squeue").args(["-h", "-o", "%T", "-j", &job]));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    wait_until(|| state() == "PENDING", || format!("the job is in the queue: {} {}", state(), text()));
    // Slurm starts such a job two minutes later by itself.
    assert!(run(slurm.command("scontrol").args(["update", &format!("JobId={job}"), "StartTime=now"])).status.success());
    wait_until(|| text().lines().any(|line| line.starts_with('{')), || format!("the job ends: {} {}", state(), text()));
    let text = text();
    assert!(text.contains("resuming after "), "{text}");
    let line = text.lines().find(|line| line.starts_with('{')).expect("a result");
    assert_eq!(serde_json::from_str::<Value>(line).expect("a JSON object"), whole, "{text}");
}

/// Writes a wrapper script named `train` that records its token and command line, and then runs `train`.
fn recorder(dir: &Path) {
    let script = format!(
        "#!/bin/sh\necho \"$EDGECUT_TOKEN\" >> {0}/tokens\necho \"$*\" >> {0}/command-lines\nexec {TRAIN} \"$@\"\n",
        dir.display()
    );
    edgecut_testing::write_executable(&dir.join("train"), script.as_bytes());
}

/// Runs `mpirun` in a Slurm allocation. It starts its daemons on other nodes with srun, so the ranks inherit the Slurm
/// variables of the daemons and must ignore them.
fn mpirun_in_an_allocation(slurm: &SlurmCluster, parts: &Parts, expected: &Value) {
    let mpirun = "mpirun.openmpi";
    if Command::new(mpirun).arg("--version").output().is_err() {
        return skip(Need::Mpi, TEST, format!("no {mpirun}"));
    }
    let starter = ["salloc", "-N2", "-n4", mpirun, "--allow-run-as-root", "-n", "4"];
    let mut command = under(slurm, &starter, &parts.path);
    let output = run(command.args(["--master-addr", "127.0.0.1"]));
    assert_eq!(&result(&output), expected, "mpirun");
    let error = run(&mut under(slurm, &starter, &parts.path));
    assert!(stderr(&error).contains("--master-addr"), "{}", stderr(&error));
}
