//! Tests of processes that take their rank from a launcher's environment variables.

use crate::programs;

use edgecut_testing::{Need, free_port, skip};
use programs::{
    Folder, Process, TRAIN, assert_error, end, error_of, node, parts, run, send, stderr, train_or_evaluate, unplace,
    wait_until,
};
use rustix::process::Signal;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

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
        let output = end(child);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

/// Runs one process, which must fail with the status of invalid usage, and returns its error.
fn usage_error(parts: &Path, flags: &[&str], variables: Variables<'_>) -> String {
    let output = run(node(parts).args(flags).envs(variables.iter().copied()));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    error_of(&output)
}

/// Returns the number of a Slurm job whose derived port is free.
fn slurm_job() -> String {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (10_000 + std::process::id() as u16 % 5000..20_000).find(free).expect("a free port");
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

/// Starts three ranks as `srun` on two nodes does, which train until something ends them.
fn ranks_of_srun(parts: &Path, metrics: &Path) -> Vec<Process> {
    let job = slurm_job();
    let mut ranks = Vec::new();
    for rank in 0..3 {
        let mut command = node(parts);
        command.args(["--num-epochs", "1000000", "--rendezvous-timeout", "100", "--metrics"]).arg(metrics);
        command.envs([
            ("SLURM_JOB_ID", job.as_str()),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NODELIST", "127.0.0.[1-2]"),
            ("SLURM_STEP_TASKS_PER_NODE", "2,1"),
            ("SLURM_NTASKS", "3"),
        ]);
        let number = rank.to_string();
        command.env("SLURM_PROCID", &number);
        command.env("SLURM_NODEID", (rank / 2).to_string()).env("SLURM_LOCALID", (rank % 2).to_string());
        ranks.push(Process::start(&mut command));
    }
    ranks
}

/// Returns the lines with errors that the ranks of a job print, which all appear in one terminal.
fn errors_of(ranks: Vec<Process>) -> Vec<String> {
    let said: String = ranks.into_iter().map(|rank| stderr(&end(rank))).collect();
    said.lines().filter(|line| line.starts_with("error: ")).map(str::to_owned).collect()
}

#[test]
fn ranks_of_srun_print_the_failure_of_a_rank_once() {
    let parts = parts(3, 31);
    let dir = Folder::new();
    let metrics = dir.join("metrics.jsonl");
    let mut ranks = ranks_of_srun(&parts.path, &metrics);
    while !std::fs::read_to_string(&metrics).unwrap_or_default().contains("\"event\":\"epoch\"") {
        assert!(ranks[0].try_wait().expect("wait for a child").is_none(), "rank 0 has ended");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    ranks[1].kill().expect("a running process");
    let errors = errors_of(ranks);
    assert!(errors.len() == 1 && errors[0].contains("rank 1 at 127.0.0."), "{errors:?}");

    std::fs::remove_file(parts.path.join("part_1/edges/node__to__node/indices.npy")).expect("a file of the part");
    let errors = errors_of(ranks_of_srun(&parts.path, &metrics));
    assert!(errors.len() == 1 && errors[0].starts_with("error: rank 1 on "), "{errors:?}");
}

#[test]
fn a_pytorch_job_of_kubeflow_places_ranks() {
    let parts = parts(2, 32);
    let port = free_port().to_string();
    let pod = |rank: &'static str| {
        [
            ("MASTER_ADDR", "localhost"),
            ("MASTER_PORT", port.as_str()),
            ("WORLD_SIZE", "2"),
            ("RANK", rank),
            ("PET_MASTER_ADDR", "localhost"),
            ("PET_MASTER_PORT", port.as_str()),
            ("PET_NNODES", "2"),
            ("PET_NODE_RANK", rank),
            ("PET_NPROC_PER_NODE", "1"),
            ("PYTHONUNBUFFERED", "1"),
            ("EDGECUT_LISTEN_ADDR", "127.0.0.1"),
        ]
    };
    trains(&parts.path, &[&pod("1"), &pod("0")]);
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
        let output = run(&mut command);
        assert!(output.status.success(), "{}", stderr(&output));
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
    let port = free_port().to_string();
    for (program, flags) in
        [("mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe"][..]), ("mpiexec.mpich", &[])]
    {
        if Command::new(program).arg("--version").output().is_err() {
            skip(Need::Mpi, "mpirun_itself_places_ranks", format!("no {program}"));
            continue;
        }
        let train = node(&parts.path);
        let mut command = Command::new(program);
        unplace(&mut command);
        command.args(flags).args(["-n", "2"]).arg(train.get_program()).args(train.get_args());
        command.args(["--num-epochs", "1", "--master-port", &port, "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = run(&mut command);
        assert!(output.status.success(), "{program}: {}", stderr(&output));
        let results = String::from_utf8_lossy(&output.stdout).matches("test_acc").count();
        assert_eq!(results, 1, "{program}: one job of two, not two jobs: {}", stderr(&output));
    }
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
    let is_stored = || std::fs::read_dir(dir.path()).is_ok_and(|folders| folders.count() > 1);
    while !is_stored() {
        assert!(killed.try_wait().expect("wait for a child").is_none(), "rank 0 has ended");
        std::thread::park_timeout(Duration::from_millis(5));
    }
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
    let output = run(&mut command);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn torchruns_variables_do_not_go_with_several_processes() {
    let parts = parts(2, 27);
    for variables in [[("RANK", "1"), ("WORLD_SIZE", "2")], [("RANK", "0"), ("WORLD_SIZE", "1")]] {
        let error = usage_error(&parts.path, &["--nproc-per-node", "2"], &variables);
        assert!(error.contains("RANK") && error.contains("--nproc-per-node"), "{error}");
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
            let output = train_or_evaluate(command.env("MATMUL_NUM_THREADS", "many"));
            assert!(output.status.success(), "{}", stderr(&output));
            assert!(!stderr(&output).contains("MATMUL_NUM_THREADS"), "{}", stderr(&output));
        };
        train(&["--save-model"]);
        train(&["--load-model"]);
    }
}
