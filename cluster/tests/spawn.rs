//! Jobs that a program starts by itself. The program is this test binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use edgecut_cluster::{Cluster, ClusterError, ReduceOp, spawn};
use edgecut_testing::{Process, names, unplace};
use rustix::process::{Signal, getpid, kill_process};

/// The variable that selects the program below that this process runs.
const PROGRAM: &str = "SPAWN_TEST_PROGRAM";
/// The variable with a folder in which ranks may create files.
const FOLDER: &str = "SPAWN_TEST_FOLDER";
/// The longest time that a job may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// The process that the other tests start. As a test of its own it does nothing.
#[test]
fn program() {
    let Ok(name) = std::env::var(PROGRAM) else { return };
    let outcome = match name.as_str() {
        "sum" => spawn(3, sum),
        "alone" => spawn(1, sum),
        "error" => spawn(2, fail_on_rank_1),
        "panic" => spawn(2, panic_on_rank_1),
        "killed" => spawn(3, kill_rank_1),
        "stuck" => spawn(2, rank_0_is_stuck),
        "forever" => spawn(2, forever),
        "twice" => spawn(2, sum).and_then(|()| spawn(2, sum)),
        other => panic!("no program {other}"),
    };
    match outcome {
        Ok(()) => println!("after: done"),
        Err(error) => println!("after: {error:#}"),
    }
}

fn sum(cluster: Cluster) -> Result<(), ClusterError> {
    let mut sum = [cluster.rank() as u64 + 1];
    cluster.world()?.all_reduce(&mut sum, ReduceOp::Sum)?;
    let local = (cluster.local_rank(), cluster.local_world_size());
    println!("rank {} of {} {local:?}: {}", cluster.rank(), cluster.world_size(), sum[0]);
    Ok(())
}

fn fail_on_rank_1(cluster: Cluster) -> Result<(), String> {
    let mut world = cluster.world().map_err(|error| format!("{error:#}"))?;
    if cluster.rank() == 1 {
        return Err("x.npy is truncated".to_owned());
    }
    world.barrier().map_err(|error| format!("{error:#}"))
}

fn panic_on_rank_1(cluster: Cluster) -> Result<(), ClusterError> {
    let mut world = cluster.world()?;
    assert!(cluster.rank() != 1, "row 7 has no label");
    world.barrier()
}

fn kill_rank_1(cluster: Cluster) -> Result<(), ClusterError> {
    let mut world = cluster.world()?;
    if cluster.rank() == 1 {
        kill_process(getpid(), Signal::KILL).expect("kill this process");
    }
    world.barrier()
}

fn rank_0_is_stuck(cluster: Cluster) -> Result<(), String> {
    let mut world = cluster.world().map_err(|error| format!("{error:#}"))?;
    world.barrier().map_err(|error| format!("{error:#}"))?;
    if cluster.rank() == 1 {
        return Err("out of memory".to_owned());
    }
    loop {
        std::thread::park();
    }
}

fn forever(cluster: Cluster) -> Result<(), ClusterError> {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    std::fs::write(folder.join(std::process::id().to_string()), "").expect("write a file named by the process id");
    cluster.world()?.barrier()?;
    loop {
        std::thread::park();
    }
}

fn start(name: &str, folder: &Path) -> Process {
    start_by(Command::new(std::env::current_exe().expect("this test program")), name, folder)
}

/// Starts the program by a command that takes its arguments.
fn start_by(mut command: Command, name: &str, folder: &Path) -> Process {
    command.args(["program", "--exact", "--nocapture", "--test-threads", "1"]);
    unplace(&mut command);
    Process::start(command.env(PROGRAM, name).env(FOLDER, folder).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + ENDS_WITHIN;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Returns the lines of standard output from `start_of_line` on, sorted, and standard error.
fn run(name: &str, start_of_line: &str) -> (Vec<String>, String) {
    let output = start(name, Path::new(".")).end_within(ENDS_WITHIN);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The test harness may print text at the start of a line.
    let found = text.lines().filter_map(|line| line.find(start_of_line).map(|at| line[at..].to_owned()));
    let mut found: Vec<String> = found.collect();
    found.sort();
    (found, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the line that the program prints after its call of `spawn`, and standard error.
fn after(name: &str) -> (String, String) {
    let (lines, errors) = run(name, "after: ");
    assert_eq!(lines.len(), 1, "what follows the call runs once: {lines:?}, {errors}");
    (lines[0]["after: ".len()..].to_owned(), errors)
}

#[test]
fn every_rank_does_the_work_and_what_follows_runs_once() {
    let expected = ["rank 0 of 3 (0, 3): 6", "rank 1 of 3 (1, 3): 6", "rank 2 of 3 (2, 3): 6"];
    assert_eq!(run("sum", "rank ").0, expected);
    assert_eq!(after("sum").0, "done");
}

#[test]
fn a_job_of_one_runs_in_the_process_itself() {
    assert_eq!(run("alone", "rank ").0, ["rank 0 of 1 (0, 1): 1"]);
    assert_eq!(after("alone").0, "done");
}

#[test]
fn an_error_of_a_rank_ends_all_and_is_said_by_that_rank() {
    let (outcome, errors) = after("error");
    assert_eq!(outcome, "rank 1 failed with exit status 1");
    let own: Vec<&str> = errors.lines().filter(|line| line.starts_with("error: rank 1: ")).collect();
    assert_eq!(own, ["error: rank 1: x.npy is truncated"]);
    let other = errors.lines().find(|line| line.starts_with("error: rank 0: ")).expect("rank 0 ends as well");
    assert!(other.contains("rank 1 at 127.0.0.1") && other.contains("failed"), "{other}");
}

#[test]
fn the_text_of_a_panic_reaches_the_other_ranks() {
    let (outcome, errors) = after("panic");
    assert_eq!(outcome, "rank 1 failed with exit status 101");
    let other = errors.lines().find(|line| line.starts_with("error: rank 0: ")).expect("rank 0 ends as well");
    assert!(other.contains("rank 1 at 127.0.0.1"), "{other}");
    assert!(other.contains("panicked at ") && other.contains("row 7 has no label"), "{other}");
}

#[test]
fn a_rank_that_is_killed_ends_the_others_and_is_named() {
    let (outcome, errors) = after("killed");
    assert_eq!(outcome, "rank 1 was ended by signal 9");
    for rank in [0, 2] {
        let line = errors.lines().find(|line| line.starts_with(&format!("error: rank {rank}: "))).expect("it ends");
        assert!(line.contains("rank 1 at 127.0.0.1"), "{line}");
    }
}

#[test]
fn a_rank_that_is_stuck_ends_when_another_fails() {
    let (outcome, errors) = after("stuck");
    assert_eq!(outcome, "rank 1 failed with exit status 1");
    assert!(errors.contains("error: rank 0: rank 1 at 127.0.0.1"), "{errors}");
}

#[test]
fn a_program_starts_one_job() {
    let (outcome, _) = after("twice");
    assert_eq!(outcome, "cluster configuration: spawn: a program can start processes only once");
}

/// Waits until both ranks run. Returns their process ids.
fn ranks_of(folder: &Path) -> Vec<u32> {
    let mut ids = Vec::new();
    wait_until("the ranks do not start", || {
        ids = names(folder).iter().filter_map(|name| name.parse().ok()).collect();
        ids.len() == 2
    });
    ids
}

#[test]
fn a_background_job_is_ended_by_sigterm_and_ignores_what_its_shell_has_ignored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut shell = Command::new("sh");
    // A script ignores SIGINT in its background jobs, and nohup ignores SIGHUP.
    shell.args(["-c", "trap '' INT HUP; exec \"$0\" \"$@\""]).arg(std::env::current_exe().expect("this test program"));
    let mut parent = start_by(shell, "forever", folder.path());
    let ids = ranks_of(folder.path());
    for signal in [Signal::INT, Signal::HUP] {
        parent.signal(signal);
        std::thread::park_timeout(Duration::from_millis(200));
        assert!(parent.try_wait().expect("wait for the program").is_none() && !ids.iter().any(|&id| has_ended(id)));
    }
    parent.signal(Signal::TERM);
    let output = parent.end_within(ENDS_WITHIN);
    assert!(String::from_utf8_lossy(&output.stdout).contains("after: interrupted"), "{output:?}");
    for id in ids {
        wait_until("a rank is left behind", || has_ended(id));
    }
}

/// Returns whether a process has ended, even if its parent has not collected its exit status (a zombie).
fn has_ended(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[test]
fn ranks_end_with_their_parent() {
    for (signal, outcome) in [(Signal::KILL, None), (Signal::INT, Some("after: interrupted"))] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let parent = start("forever", folder.path());
        let ids = ranks_of(folder.path());
        parent.signal(signal);
        let output = parent.end_within(ENDS_WITHIN);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(outcome.is_none_or(|outcome| text.contains(outcome)), "{text}");
        for id in ids {
            wait_until("a rank is left behind", || has_ended(id));
        }
    }
}
