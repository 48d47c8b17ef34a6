//! Ranks with a limit of open files that is too low.

mod support;

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use edgecut_cluster::{Cluster, ClusterConfig};
use edgecut_testing::Process;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::on_each;

/// The variable that selects the scenario of a child process.
const PART: &str = "FILE_LIMITS_TEST_PART";
/// The longest time that a child process may take.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// The child process of the other tests, since a limit applies to a whole process. As a test of its own it does
/// nothing.
#[test]
fn child() {
    match std::env::var(PART).as_deref() {
        Ok("raise") => raise(),
        Ok("too many ranks") => start_too_large_a_job(),
        Ok("accept") => run_out_while_others_connect(),
        Ok("rendezvous") => run_out_during_the_rendezvous(),
        Ok("connect") => run_out_and_connect(),
        _ => {}
    }
}

fn limit_files(soft: u64, hard: u64) {
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: Some(hard) }).expect("lower the limit");
}

/// Opens files until the limit is reached, then closes `spare` of them.
fn use_up_files(spare: usize) -> Vec<std::fs::File> {
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    files.truncate(files.len() - spare);
    files
}

fn raise() {
    limit_files(100, 500);
    let clusters = Cluster::join_local(2, |_| {}).unwrap();
    println!("\nOUTCOME {:?}", getrlimit(Resource::Nofile).current);
    on_each(clusters, |cluster| cluster.shutdown().unwrap());
}

fn start_too_large_a_job() {
    limit_files(100, 500);
    let error = Cluster::join(ClusterConfig::new(0, 1_000, "127.0.0.1", 29_999)).unwrap_err();
    println!("\nOUTCOME {error:#}");
}

fn run_out_while_others_connect() {
    limit_files(300, 300);
    let clusters = Cluster::join_local(2, |config| {
        config.handshake_timeout_ms = 500;
        config.connect_timeout_ms = 20_000;
        config.notice = |line| println!("\nNOTICE {line}");
    })
    .unwrap();
    // One descriptor for this end of a connection, none for the accepted end.
    let files = use_up_files(1);
    let addr = clusters[1].addr_of(1).unwrap();
    let stranger = TcpStream::connect(addr).unwrap();
    let deadline = Instant::now() + ENDS_WITHIN / 2;
    while clusters.iter().any(|cluster| cluster.failure().is_none()) {
        assert!(Instant::now() < deadline, "nobody hears of it");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    drop((files, stranger));
    for cluster in &clusters {
        println!("\nOUTCOME {}", cluster.failure().unwrap());
    }
}

fn run_out_during_the_rendezvous() {
    limit_files(300, 300);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut config = ClusterConfig::new(0, 2, "127.0.0.1", addr.port());
    config.handshake_timeout_ms = 500;
    config.notice = |_| {};
    let master = std::thread::spawn(move || Cluster::join_on(listener, config));
    // When this connection is closed by rank 0, its accept thread is known to run.
    let mut first = TcpStream::connect(addr).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
    // One descriptor for this end of a connection, none for the accepted end.
    let files = use_up_files(1);
    let second = TcpStream::connect(addr).unwrap();
    let error = master.join().unwrap().unwrap_err();
    drop((files, second));
    println!("\nOUTCOME {error:#}");
}

fn run_out_and_connect() {
    limit_files(300, 300);
    let cluster = Cluster::join_local(1, |_| {}).unwrap().remove(0);
    let files = use_up_files(0);
    let error = cluster.connect_rpc(0).unwrap_err();
    drop(files);
    println!("\nOUTCOME {error:#}");
}

fn run(part: &str) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads", "1"]).env(PART, part);
    let mut child = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let Output { stdout, stderr, .. } = child.output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let outcomes: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("OUTCOME ")).map(str::to_owned).collect();
    assert!(!outcomes.is_empty(), "{text}{}", String::from_utf8_lossy(&stderr));
    outcomes
}

#[test]
fn the_limit_is_raised_as_far_as_it_may() {
    assert_eq!(run("raise"), ["Some(500)"]);
}

#[test]
fn a_job_that_needs_more_files_than_it_may_open_does_not_start() {
    let error = run("too many ranks").remove(0);
    assert!(
        error.contains("999 for control connections, 4 streams and 2 pulses for each of 999 other ranks"),
        "{error}"
    );
    assert!(error.contains("but the limit is 500") && error.contains("raise the hard limit"), "{error}");
    assert!(error.starts_with("this rank needs 7"), "{error}");
}

#[test]
fn a_rank_that_cannot_accept_connections_ends_the_job_and_names_the_limit() {
    let failures = run("accept");
    assert_eq!(failures.len(), 2, "both ranks hear of it");
    for failure in failures {
        assert!(failure.contains("rank 1 at 127.0.0.1:"), "{failure}");
        assert!(failure.contains("accept a connection: ") && failure.contains("Too many open files"), "{failure}");
        assert!(failure.contains("the limit of open files of this process is 300"), "{failure}");
    }
}

#[test]
fn a_rank_0_that_cannot_accept_connections_ends_the_rendezvous_and_names_the_limit() {
    let error = run("rendezvous").remove(0);
    assert!(error.starts_with("rendezvous: rank 0 cannot take in other ranks: accept a connection"), "{error}");
    assert!(error.contains("the limit of open files of this process is 300"), "{error}");
}

#[test]
fn a_connection_that_cannot_be_opened_names_the_limit() {
    let error = run("connect").remove(0);
    assert!(error.contains("connect to rank 0 at 127.0.0.1:"), "{error}");
    assert!(error.contains("the limit of open files of this process is 300"), "{error}");
}
