//! Tests of processes that take their rank from a launcher's environment variables.

use crate::programs::*;

use edgecut_testing::{Need, assert_has, free_port, skip};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;

type Variables<'a> = &'a [(&'a str, &'a str)];

fn start(parts: &Path, variables: Variables<'_>) -> Process {
    let mut command = node(parts);
    command.args(["--num-epochs", "1", "--rendezvous-timeout", "100"]).envs(variables.iter().copied());
    Process::start(&mut command)
}

/// Starts one process for each set of variables. All of them must succeed.
fn trains(parts: &Path, ranks: &[Variables<'_>]) {
    let children: Vec<Process> = ranks.iter().map(|variables| start(parts, variables)).collect();
    for child in children {
        succeeded(end(child));
    }
}

/// Runs one process, which must fail with the status of invalid usage, and returns its error.
fn usage_error(parts: &Path, flags: &[&str], variables: Variables<'_>) -> String {
    let output = run(node(parts).args(flags).envs(variables.iter().copied()));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    error_of(&output)
}

/// Returns the number of a Slurm job whose derived port is free and of no other test.
fn slurm_job() -> String {
    let port = edgecut_testing::free_ports_from(10_000, 9_000, 1)[0];
    (port - 10_000 + 20_000).to_string()
}

#[test]
fn srun_places_ranks_and_names_the_first_node() {
    let parts = parts(2, 21);
    let job = slurm_job();
    let task = |rank: &'static str| {
        [
            ("SLURM_JOB_ID", job.as_str()),
            ("SLURM_STEP_ID", "0"),
            // Both nodes are this machine.
            ("SLURM_STEP_NODELIST", "127.0.0.[1-2]"),
            ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
            ("SLURM_NTASKS", "2"),
            ("SLURM_PROCID", rank),
            ("SLURM_NODEID", rank),
            ("SLURM_LOCALID", "0"),
            // A batch script for torchrun may export this. Without RANK it must be ignored.
            ("WORLD_SIZE", "64"),
        ]
    };
    trains(&parts.path, &[&task("1"), &task("0")]);
    assert!(usage_error(&parts.path, &["--nproc-per-node", "2"], &task("1")).contains("SLURM_PROCID"));
}

/// Starts ranks as `srun` does on two nodes, the last rank on the second one.
fn ranks_of_srun(num_ranks: usize, train: impl Fn() -> Command) -> Vec<Process> {
    let job = slurm_job();
    let on_first = num_ranks - 1;
    let tasks = format!("{on_first},1");
    let mut ranks = Vec::new();
    for rank in 0..num_ranks {
        let mut command = train();
        command.args(["--rendezvous-timeout", "100"]).envs([
            ("SLURM_JOB_ID", job.as_str()),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NODELIST", "127.0.0.[1-2]"),
            ("SLURM_STEP_TASKS_PER_NODE", tasks.as_str()),
        ]);
        command.env("SLURM_NTASKS", num_ranks.to_string()).env("SLURM_PROCID", rank.to_string());
        let (node, local) = if rank < on_first { (0, rank) } else { (1, 0) };
        command.env("SLURM_NODEID", node.to_string()).env("SLURM_LOCALID", local.to_string());
        ranks.push(Process::start(&mut command));
    }
    ranks
}

/// Starts three ranks that train until something ends them, and waits until they have trained an epoch.
fn endless_ranks_of_srun(parts: &Path) -> Vec<Process> {
    let dir = Folder::new();
    let metrics = dir.join("metrics.jsonl");
    let mut ranks = ranks_of_srun(3, || {
        let mut command = node(parts);
        command.args(["--num-epochs", "1000000", "--metrics"]).arg(&metrics);
        command
    });
    wait_until(|| has_trained(&mut ranks[0], &metrics), || "training did not start".into());
    ranks
}

/// Returns true once rank 0 has written the metrics of an epoch.
fn has_trained(rank_0: &mut Process, metrics: &Path) -> bool {
    assert!(rank_0.try_wait().expect("wait for a child").is_none(), "rank 0 has ended");
    std::fs::read_to_string(metrics).is_ok_and(|text| text.contains("\"event\":\"epoch\""))
}

/// Returns the lines with errors in the outputs of the ranks of a job, which all appear in one terminal.
fn errors_in(outputs: &[Output]) -> Vec<String> {
    let said: String = outputs.iter().map(stderr).collect();
    said.lines().filter(|line| line.starts_with("error: ")).map(str::to_owned).collect()
}

#[test]
fn ranks_of_srun_print_the_failure_of_a_rank_once() {
    let parts = parts(3, 31);
    // Rank 0 decides on failures of others. Without it, the first rank that is left prints them.
    for killed in [&[1][..], &[0], &[1, 0]] {
        let ranks = endless_ranks_of_srun(&parts.path);
        // Ranks that are killed together notice nothing of each other.
        for &rank in killed {
            send(Signal::STOP, ranks[rank].id());
        }
        for &rank in killed {
            send(Signal::KILL, ranks[rank].id());
        }
        let outputs: Vec<Output> = ranks.into_iter().map(end).collect();
        let errors = errors_in(&outputs);
        assert_eq!(errors.len(), 1, "killed {killed:?}: {errors:?}");
        assert!(killed.iter().any(|rank| errors[0].contains(&format!("rank {rank} at 127.0.0."))), "{errors:?}");
        for (rank, output) in outputs.iter().enumerate().filter(|(rank, _)| !killed.contains(rank)) {
            assert_eq!(output.status.code(), Some(3), "rank {rank} after the end of {killed:?}");
        }
    }
}

fn has_ended(rank: &mut Process) -> bool {
    rank.try_wait().expect("wait for a child").is_some()
}

#[test]
fn a_failure_is_printed_before_another_rank_ends() {
    const RUNS: usize = 4;
    let parts = parts(2, 33);
    std::fs::remove_file(parts.path.join("part_1/edges/node__to__node/indices.npy")).expect("a file of the part");
    for _ in 0..RUNS {
        let mut ranks = ranks_of_srun(2, || node(&parts.path));
        // A launcher kills all ranks once the first one has ended.
        wait_until(|| ranks.iter_mut().any(has_ended), || "no rank ends".into());
        for rank in &mut ranks {
            rank.kill().expect("a process that was not waited for");
        }
        let outputs: Vec<Output> = ranks.into_iter().map(end).collect();
        let errors = errors_in(&outputs);
        assert!(errors.len() == 1 && errors[0].starts_with("error: rank 1 on "), "{errors:?}");
    }
}

#[test]
fn the_batch_script_shows_lines_as_they_come_and_errors_once() {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/train.sbatch");
    let dir = Folder::new();
    edgecut_testing::write_executable(&dir.join("train"), b"");
    // In place of srun. The second part of its output comes when the test has read the first part.
    let srun = "#!/bin/sh\n{ echo epoch 1; echo; } >&2\nread go\necho result\nprintf 'error: %s\\n' 'a $b]' 'a $b]' c >&2\n\
                printf 'no\\\\n end' >&2\nexit 3\n";
    edgecut_testing::write_executable(&dir.join("srun"), srun.as_bytes());
    let mut command = Command::new("bash");
    command.arg(SCRIPT).env("EDGECUT_BIN", dir.path());
    command.env("PATH", format!("{}:{}", dir.path().display(), std::env::var("PATH").expect("a path")));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut script = Process::start(&mut command);
    let mut said = BufReader::new(script.stderr.take().expect("a pipe"));
    let mut go = script.stdin.take().expect("a pipe");
    let (sender, first) = channel();
    let rest = std::thread::spawn(move || {
        let mut line = String::new();
        said.read_line(&mut line).expect("read");
        sender.send(line).expect("the test waits");
        std::io::read_to_string(said).expect("read")
    });
    assert_eq!(first.recv_timeout(ENDS_WITHIN).as_deref(), Ok("epoch 1\n"), "the line is shown while the job runs");
    go.write_all(b"\n").expect("srun reads");
    let output = end(script);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"result\n"[..]));
    assert_eq!(rest.join().expect("no panic"), "\nerror: a $b]\nerror: c\nno\\n end\n");
}

#[test]
fn a_pytorch_job_of_kubeflow_places_ranks() {
    let manifest = include_str!("../../../deploy/kubeflow/pytorch-job.yaml");
    let lines: Vec<&str> = manifest.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    let own: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("name: ")).collect();
    assert_eq!(own, ["pytorch", "EDGECUT_LISTEN_ADDR", "EDGECUT_TOKEN", "data", "data"]);
    // The test sets the other flags itself: the parts, the number of epochs, and the files.
    let args = ["--model=", "--num-neighbors=", "--batch-size=", "--rendezvous-timeout="];
    let args: Vec<&str> = lines.into_iter().filter(|line| args.iter().any(|flag| line.starts_with(flag))).collect();
    assert_eq!(args.len(), 4, "{args:?}");

    let parts = parts(2, 32);
    let port = free_port().to_string();
    let port = port.as_str();
    let pod = |rank: &str| {
        let mut command = Command::new(TRAIN);
        unplace(&mut command);
        command.args(["node", "--num-epochs", "1", "--dataset-root-dir"]).arg(&parts.path).args(&args);
        command.envs([("MASTER_ADDR", "localhost"), ("MASTER_PORT", port), ("WORLD_SIZE", "2"), ("RANK", rank)]);
        command.envs([("PET_MASTER_ADDR", "localhost"), ("PET_MASTER_PORT", port), ("PET_NNODES", "2")]);
        command.envs([("PET_NODE_RANK", rank), ("PET_NPROC_PER_NODE", "1"), ("PYTHONUNBUFFERED", "1")]);
        command.envs([(own[1], "127.0.0.1"), (own[2], "a secret of the tests")]);
        Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    for child in ["1", "0"].map(pod) {
        succeeded(end(child));
    }
}

#[test]
fn a_shell_in_a_batch_job_starts_its_own_ranks() {
    let parts = parts(2, 22);
    let shells: [Variables<'_>; 2] = [
        // The environments of a batch script and of `srun --pty bash`.
        &[("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_NODEID", "0")],
        &[("SLURM_PROCID", "0"), ("SLURM_STEP_NODELIST", "n1"), ("SLURM_STEP_NUM_TASKS", "1")],
    ];
    for shell in shells {
        let mut command = node(&parts.path);
        command.args(["--nproc-per-node", "2", "--num-epochs", "1"]).envs(shell.iter().copied());
        succeeded(run(&mut command));
    }
}

#[test]
fn a_process_of_a_launcher_that_is_not_read_says_so() {
    let parts = parts(1, 29);
    for (flags, is_noted) in [(&["--num-epochs", "1"][..], true), (&["--num-epochs", "1", "--num-nodes", "1"], false)] {
        let mut command = node(&parts.path);
        command.args(flags).envs([("FLUX_TASK_RANK", "1"), ("FLUX_JOB_SIZE", "4")]);
        let said = stderr(&succeeded(run(&mut command)));
        assert_eq!(said.contains("note: FLUX_TASK_RANK is 1 and FLUX_JOB_SIZE is 4, but"), is_noted, "{said}");
    }
}

#[test]
fn mpirun_places_ranks() {
    let parts = parts(2, 23);
    let port = free_port().to_string();
    let open_mpi = |rank: &'static str| {
        [
            ("OMPI_COMM_WORLD_RANK", rank),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", rank),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("MASTER_PORT", port.as_str()),
        ]
    };
    trains(&parts.path, &[&open_mpi("1"), &open_mpi("0")]);
    let mut spread = open_mpi("1");
    (spread[2].1, spread[3].1) = ("0", "1");
    assert!(usage_error(&parts.path, &[], &spread).contains("--master-addr"));
    let hydra = |rank: &'static str| {
        [
            ("PMI_RANK", rank),
            ("PMI_SIZE", "2"),
            ("MPI_LOCALRANKID", rank),
            ("MPI_LOCALNRANKS", "2"),
            ("MASTER_PORT", port.as_str()),
        ]
    };
    trains(&parts.path, &[&hydra("0"), &hydra("1")]);
}

#[test]
fn mpirun_itself_places_ranks() {
    let parts = parts(2, 24);
    for (program, flags) in MPI {
        let Some(mut command) = mpirun(program, flags, 2, &node(&parts.path)) else { continue };
        let output = run(command.args(["--num-epochs", "1", "--json"]));
        assert!(output.status.success(), "{program}: {}", stderr(&output));
        let results = String::from_utf8_lossy(&output.stdout).matches("test_acc").count();
        assert_eq!(results, 1, "{program}: one job of two, not two jobs: {}", stderr(&output));
    }
}

#[test]
fn mpirun_shows_the_failure_of_a_rank_once() {
    let parts = parts(3, 34);
    std::fs::remove_file(parts.path.join("part_1/edges/node__to__node/indices.npy")).expect("a file of the part");
    for (program, flags) in MPI {
        let Some(mut command) = mpirun(program, flags, 3, &node(&parts.path)) else { continue };
        let errors = errors_in(&[run(&mut command)]);
        assert!(errors.len() == 1 && errors[0].starts_with("error: rank 1: "), "{program}: {errors:?}");
    }
}

/// The programs that start MPI jobs, and their flags.
const MPI: [(&str, &[&str]); 2] =
    [("mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe"]), ("mpiexec.mpich", &[])];

/// Returns a command that starts ranks by `mpirun` on a free port; `None` if it is not installed.
fn mpirun(program: &str, flags: &[&str], num_ranks: usize, train: &Command) -> Option<Command> {
    if Command::new(program).arg("--version").output().is_err() {
        skip(Need::Mpi, "mpirun", format!("no {program}"));
        return None;
    }
    let mut command = Command::new(program);
    unplace(&mut command);
    command.args(flags).args(["-n", &num_ranks.to_string()]).arg(train.get_program()).args(train.get_args());
    command.args(["--master-port", &free_port().to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

#[test]
fn the_index_of_a_kubernetes_job_is_a_rank() {
    let parts = parts(2, 25);
    let port = free_port().to_string();
    let pod = |index: &'static str| {
        [
            ("JOB_COMPLETION_INDEX", index),
            ("WORLD_SIZE", "2"),
            ("MASTER_ADDR", "localhost"),
            ("MASTER_PORT", port.as_str()),
            ("EDGECUT_LISTEN_ADDR", "127.0.0.1"),
            ("EDGECUT_TOKEN", "a secret of the tests"),
        ]
    };
    trains(&parts.path, &[&pod("0"), &pod("1")]);
    let pod = pod("1");
    let no_master = [("JOB_COMPLETION_INDEX", "1"), ("WORLD_SIZE", "2")];
    assert!(usage_error(&parts.path, &["--nproc-per-node", "2"], &pod).contains("JOB_COMPLETION_INDEX"));
    assert!(usage_error(&parts.path, &[], &no_master).contains("--master-addr"));
}

#[test]
fn the_kubernetes_manifest_starts_train_as_it_is() {
    let manifest = include_str!("../../../deploy/kubernetes/train-job.yaml");
    let after = |start: &str| manifest.split_once(start).expect("a part of the manifest").1;
    let args = after(" args:\n").split_once(" env:\n").expect("the variables after the flags").0;
    let args = args.lines().filter_map(|line| line.trim().strip_prefix("- "));
    // The test sets these flags itself: the parts, the number of epochs, and the files.
    let own = ["--dataset-root-dir=", "--num-epochs=", "--save-model=", "--checkpoint-dir="];
    let args: Vec<&str> = args.filter(|arg| !own.iter().any(|flag| arg.starts_with(flag))).collect();
    assert!(!args.is_empty(), "flags are left");
    let names = after(" env:\n").lines().filter_map(|line| line.trim().strip_prefix("- name: "));
    let names: Vec<&str> = names.take(5).collect();
    assert_eq!(names, ["WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "EDGECUT_LISTEN_ADDR", "EDGECUT_TOKEN"]);

    let parts = parts(2, 30);
    let dir = Folder::new();
    let port = free_port().to_string();
    let pod = |index: &str, epochs: &str| {
        let mut command = Command::new(TRAIN);
        unplace(&mut command);
        // In the order of the names above.
        let values = ["2", "localhost", &port, "127.0.0.1", "a secret of the tests"];
        command.envs(names.iter().zip(values)).env("JOB_COMPLETION_INDEX", index);
        command.args(["node", "--num-epochs", epochs, "--dataset-root-dir"]).arg(&parts.path).args(&args);
        command.arg("--checkpoint-dir").arg(dir.path());
        Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    // Rank 0 is killed, and Kubernetes starts the containers of both pods again.
    let mut killed = pod("0", "100000");
    let other = pod("1", "100000");
    let is_stored = || {
        assert!(killed.try_wait().expect("wait for a child").is_none(), "rank 0 has ended");
        num_checkpoints(dir.path()) > 1
    };
    wait_until(is_stored, || "no checkpoint is stored".into());
    killed.kill().expect("a running process");
    end(killed);
    assert!(!end(other).status.success(), "a failure of a rank ends the others");
    let again = ["0", "1"].map(|index| pod(index, "100001"));
    let newest = || std::fs::read_dir(dir.path()).into_iter().flatten().flatten().map(|entry| entry.file_name()).max();
    let before = newest();
    wait_until(|| newest() > before, || "the job does not continue".into());
    for child in &again {
        // As when the pods are evicted.
        send(Signal::TERM, child.id());
    }
    for output in again.map(end) {
        assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
    }
}

#[test]
fn flags_win_over_any_launcher() {
    let parts = parts(2, 26);
    let port = free_port().to_string();
    let others = [("RANK", "7"), ("WORLD_SIZE", "9"), ("OMPI_COMM_WORLD_RANK", "3"), ("MASTER_PORT", port.as_str())];
    let mut command = node(&parts.path);
    command.args(["--num-nodes", "1", "--nproc-per-node", "2", "--num-epochs", "1"]).envs(others);
    succeeded(run(&mut command));
}

#[test]
fn torchruns_variables_do_not_go_with_several_processes() {
    let parts = parts(2, 27);
    for variables in [[("RANK", "1"), ("WORLD_SIZE", "2")], [("RANK", "0"), ("WORLD_SIZE", "1")]] {
        assert_has(usage_error(&parts.path, &["--nproc-per-node", "2"], &variables), &["RANK", "--nproc-per-node"]);
    }
    assert!(usage_error(&parts.path, &[], &[("RANK", "1")]).contains("WORLD_SIZE is not"));
    assert!(usage_error(&parts.path, &[], &[("WORLD_SIZE", "2")]).contains("RANK is not"));
}

#[test]
fn the_environment_names_the_address_to_listen_on() {
    let parts = parts(2, 28);
    let port = free_port().to_string();
    let rank = |rank: &'static str| {
        let place = [("RANK", rank), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port.as_str())];
        let mut command = node(&parts.path);
        // An address reserved for documentation, which no machine has.
        command.envs(place).env("EDGECUT_LISTEN_ADDR", "192.0.2.1").env("EDGECUT_TOKEN", "a secret of the tests");
        command.args(["--num-epochs", "1"]);
        command
    };
    assert_error(&run(&mut rank("0")), &["192.0.2.1"]);
    let started = ["0", "1"].map(|k| Process::start(rank(k).args(["--listen-addr", "127.0.0.1"])));
    for child in started {
        let output = end(child);
        assert!(output.status.success(), "the flag wins: {}", stderr(&output));
    }
}

#[test]
fn threads_are_limited_by_flags_alone() {
    // burn-ndarray's library of matrix products has its own threads. It reads their number from this variable at its
    // first use, and reports an invalid value. `train` must not use it, or the ranks of a node would compete for cores.
    let parts = parts(1, 29);
    let model = parts.path.join("../model.safetensors");
    for kind in ["sage", "gcn"] {
        let train = |flags: &[&str]| {
            let mut command = node(&parts.path);
            command.args(["--num-epochs", "1", "--model", kind]).args(flags).arg(&model);
            let output = succeeded(train_or_evaluate(command.env("MATMUL_NUM_THREADS", "many")));
            assert!(!stderr(&output).contains("MATMUL_NUM_THREADS"), "{}", stderr(&output));
        };
        train(&["--save-model"]);
        train(&["--load-model"]);
    }
}
