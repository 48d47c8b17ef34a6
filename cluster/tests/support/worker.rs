//! A rank as a process of its own that exchanges data with all others until it is told to end, and what starts it.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use edgecut_cluster::{Blame, Cluster, ClusterConfig, ReduceOp, Token};
use rustix::process::{Pid, Signal, kill_process};

const PLACE: &str = "EDGECUT_TEST_WORKER";
/// Rounds after which the connections are known to work.
const WARM_UP: usize = 20;
/// The test that is the worker, in each test binary that has one.
pub(crate) const TEST: &str = "worker_process";

/// The place of a worker in its job.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    pub(crate) world_size: usize,
    pub(crate) master_addr: String,
    pub(crate) master_port: u16,
    pub(crate) heartbeat_timeout_ms: u64,
}

/// Runs as a worker, in a process that [`Worker::start`] has started. In others it does nothing.
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

/// The harness of the tests may have begun a line.
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
        // Rank 0 alone is told to end, and tells the others.
        let mut data = vec![0.0_f32; 20_000];
        data[0] = if cluster.rank() == 0 && stop.load(Ordering::SeqCst) { 1.0 } else { 0.0 };
        world.all_reduce(&mut data, ReduceOp::Sum)?;
        if data[0] > 0.0 {
            return Ok(());
        }
        if round == WARM_UP {
            say("RUNNING");
        }
        // Leaves the machine to the other tests.
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

fn echo(stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut buffer = [0; 1024];
    loop {
        (&stream).read_exact(&mut buffer)?;
        (&stream).write_all(&buffer)?;
    }
}

fn call_echo(stream: TcpStream) {
    let call = move || -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        let mut buffer = [7; 1024];
        loop {
            (&stream).write_all(&buffer)?;
            (&stream).read_exact(&mut buffer)?;
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    std::thread::spawn(call);
}

/// A worker process; it ends with this value.
pub(crate) struct Worker {
    pub(crate) rank: usize,
    child: Child,
    lines: Receiver<String>,
}

impl Worker {
    /// Starts a worker by `command`, which runs the program and the arguments that follow.
    pub(crate) fn start(mut command: Command, place: &Place, token: Option<&str>) -> Self {
        let Place { rank, world_size, master_addr, master_port, heartbeat_timeout_ms } = place;
        command.arg(std::env::current_exe().unwrap()).args(["--exact", TEST, "--nocapture", "--test-threads=1"]);
        command.env(PLACE, format!("{rank} {world_size} {master_addr} {master_port} {heartbeat_timeout_ms}"));
        match token {
            Some(token) => command.env("EDGECUT_TOKEN", token),
            None => command.env_remove("EDGECUT_TOKEN"),
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { rank: *rank, child, lines }
    }

    /// Waits until the connections of the worker work.
    pub(crate) fn wait_until_running(&self, patience: Duration) {
        let line = self.line(patience, |line| line == "RUNNING");
        assert!(line.is_some(), "rank {} does not run", self.rank);
    }

    /// Waits for the line that the worker ends with: "DONE", or "OWN" or "OTHER" and an error.
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

    /// Tells a worker of rank 0 to end the job in good order.
    pub(crate) fn tell_to_end(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
