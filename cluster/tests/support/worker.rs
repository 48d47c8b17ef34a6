//! A rank in a process of its own, which exchanges data with all other ranks until it is told to end.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

use edgecut_testing::Process;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use edgecut_cluster::{Blame, Cluster, ClusterConfig, ReduceOp, SecureStream, Token};
use rustix::process::Signal;

const PLACE: &str = "EDGECUT_TEST_WORKER";
/// The number of rounds after which all connections are known to work.
const WARM_UP: usize = 20;
/// The name of the test that runs the worker, in each test binary that has workers.
pub(crate) const TEST: &str = "worker_process";

/// The settings of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    pub(crate) master_addr: String,
    pub(crate) master_port: u16,
    pub(crate) heartbeat_timeout_ms: u64,
}

/// Runs a worker in a process that [`Worker::start`] has started. Does nothing in other processes.
pub(crate) fn run_if_started() {
    let Ok(text) = std::env::var(PLACE) else { return };
    let words: Vec<&str> = text.split(' ').collect();
    let [rank, world_size, addr, port, timeout] = words[..] else { panic!("{text}") };
    let mut config =
        ClusterConfig::new(rank.parse().unwrap(), world_size.parse().unwrap(), addr, port.parse().unwrap());
    config.token = Token::from_env().unwrap();
    config.set_heartbeat_timeout(Duration::from_millis(timeout.parse().unwrap()));
    let cluster = Cluster::join(config).unwrap();
    cluster.exit_when_stuck();
    match exchange(&cluster).and_then(|()| Ok(cluster.clone().shutdown()?)) {
        Ok(()) => say("DONE"),
        Err(error) => match cluster.blame(error) {
            Blame::Own(error) => say(&format!("OWN {error}")),
            Blame::Other(why) => say(&format!("OTHER {why}")),
        },
    }
}

/// Prints a line. The newline before it ends a line that the test harness may have begun.
fn say(line: &str) {
    println!("\n{line}");
}

/// Keeps all connections of a training job busy: the ring and streams between all pairs of ranks.
fn exchange(cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    serve_echo(cluster);
    for rank in (0..cluster.world_size()).filter(|&rank| rank != cluster.rank()) {
        call_echo(cluster.connect_rpc(rank)?);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::SeqCst);
    });
    let mut world = cluster.world()?;
    for round in 0.. {
        // Only rank 0 is told to end. It tells the others through the sum.
        let mut data = vec![0.0_f32; 20_000];
        data[0] = if cluster.rank() == 0 && stop.load(Ordering::SeqCst) { 1.0 } else { 0.0 };
        world.all_reduce(&mut data, ReduceOp::Sum)?;
        if data[0] > 0.0 {
            return Ok(());
        }
        if round == WARM_UP {
            say("RUNNING");
        }
        // Leave CPU time to other tests.
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn serve_echo(cluster: &Cluster) {
    let mut incoming = cluster.take_rpc_incoming().expect("nobody else takes it");
    std::thread::spawn(move || {
        while let Some((_, stream)) = incoming.blocking_recv() {
            std::thread::spawn(move || echo(stream));
        }
    });
}

fn echo(mut stream: SecureStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut buffer = [0; 1024];
    loop {
        stream.read_exact(&mut buffer)?;
        stream.write_all(&buffer)?;
    }
}

fn call_echo(mut stream: SecureStream) {
    let call = move || -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        let mut buffer = [7; 1024];
        loop {
            stream.write_all(&buffer)?;
            stream.read_exact(&mut buffer)?;
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    std::thread::spawn(call);
}

/// A worker process, killed on drop.
pub(crate) struct Worker {
    pub(crate) rank: usize,
    child: Process,
    lines: Receiver<String>,
}

impl Worker {
    /// Starts a worker by `command`, to which the program and its arguments are appended.
    pub(crate) fn start(mut command: Command, place: &Place, token: Option<&str>) -> Self {
        let Place { rank, world_size, master_addr, master_port, heartbeat_timeout_ms } = place;
        command.arg(std::env::current_exe().unwrap()).args(["--exact", TEST, "--nocapture", "--test-threads=1"]);
        command.env(PLACE, format!("{rank} {world_size} {master_addr} {master_port} {heartbeat_timeout_ms}"));
        match token {
            Some(token) => command.env("EDGECUT_TOKEN", token),
            None => command.env_remove("EDGECUT_TOKEN"),
        };
        let mut child = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { rank: *rank, child, lines }
    }

    /// Waits until all connections of the worker are known to work.
    pub(crate) fn wait_until_running(&self, patience: Duration) {
        let line = self.line(patience, |line| line == "RUNNING");
        assert!(line.is_some(), "rank {} does not run", self.rank);
    }

    /// Waits for the last line of the worker: "DONE", or "OWN" or "OTHER" with an error.
    pub(crate) fn end(&self, patience: Duration) -> String {
        let is_end = |line: &str| ["DONE", "OWN ", "OTHER "].iter().any(|start| line.starts_with(start));
        self.line(patience, is_end).unwrap_or_else(|| panic!("rank {} does not end within {patience:?}", self.rank))
    }

    fn line(&self, patience: Duration, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let deadline = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if wanted(&line) => return Some(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Tells the worker of rank 0 to end the job without an error.
    pub(crate) fn tell_to_end(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }
}
