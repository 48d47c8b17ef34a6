//! The other ranks of a job, in their own processes: copies of this program with the hidden command `peer`.

use crate::args::{Common, PeerArgs};
use anyhow::{Context, bail, ensure};
use edgecut_cluster::{Cluster, ClusterConfig, ProcessGroup};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig};
use edgecut_graph::Meta;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

/// The timeout of collectives, longer than any benchmark lets a rank wait.
const COLLECTIVE_TIMEOUT_MS: u64 = 600_000;
const HOST: &str = "127.0.0.1";

/// The processes of all ranks except rank 0, which is this process. Dropping them early kills them.
pub(crate) struct Peers(Vec<Peer>);

/// The use of the cores by a process or several.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_s: f64,
    /// The number of times that a thread has stopped to wait.
    pub(crate) waits: f64,
}

impl Usage {
    /// Returns the usage of this process so far.
    pub(crate) fn own() -> anyhow::Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).context("ask for the CPU time of this process")?;
        let cpu = usage.user_time() + usage.system_time();
        Ok(Self { cpu_s: cpu.num_microseconds() as f64 / 1e6, waits: usage.voluntary_context_switches() as f64 })
    }
}

impl std::ops::Sub for Usage {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        Self { cpu_s: self.cpu_s - before.cpu_s, waits: self.waits - before.waits }
    }
}

struct Peer {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peers {
    /// Starts the other ranks with `args` and joins them as rank 0. All ranks must have the same `fingerprint`.
    pub(crate) fn join(world_size: usize, fingerprint: &str, args: &[String]) -> anyhow::Result<(Cluster, Self)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen on a free loopback port")?;
        let port = listener.local_addr().context("ask for the port")?.port();
        let mut peers = Self(Vec::new());
        for rank in 1..world_size {
            peers.0.push(Peer::start(rank, world_size, port, args)?);
        }
        let cluster = Cluster::join_on(listener, cluster_config(0, world_size, port, fingerprint))?;
        Ok((cluster, peers))
    }

    /// Returns the usage of all peers so far.
    pub(crate) fn usage(&mut self) -> anyhow::Result<Usage> {
        let mut all = Usage::default();
        for peer in &mut self.0 {
            let usage = peer.usage()?;
            all.cpu_s += usage.cpu_s;
            all.waits += usage.waits;
        }
        Ok(all)
    }

    /// Tells all peers to end, leaves the job together with them, and waits for their processes.
    pub(crate) fn end(mut self, cluster: Cluster) -> anyhow::Result<()> {
        // Closing a peer's standard input tells it to end.
        self.0.iter_mut().for_each(|peer| peer.questions = None);
        cluster.shutdown()?;
        for peer in &mut self.0 {
            let status = peer.process.wait().context("wait for a peer")?;
            ensure!(status.success(), "a peer ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        for peer in &mut self.0 {
            // Killing fails if the process has already ended, which is fine.
            let _ = peer.process.kill();
            let _ = peer.process.wait();
        }
    }
}

impl Peer {
    fn start(rank: usize, world_size: usize, port: u16, args: &[String]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("find this program's file")?;
        let place = [format!("--rank={rank}"), format!("--world-size={world_size}"), format!("--port={port}")];
        let mut process = Command::new(program)
            .arg("peer")
            .args(place)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a peer")?;
        let questions = process.stdin.take();
        let answers = process.stdout.take();
        let answers = BufReader::new(answers.context("a peer's standard output is not a pipe")?);
        Ok(Self { process, questions, answers })
    }

    fn usage(&mut self) -> anyhow::Result<Usage> {
        let questions = self.questions.as_mut().context("the peer was already told to end")?;
        questions.write_all(b"\n").context("ask a peer for its usage")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("read a peer's usage")?;
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [cpu_s, waits] => Ok(Usage { cpu_s, waits }),
            _ => bail!("a peer sent {line:?} instead of its usage"),
        }
    }
}

/// Joins the job of rank 0 as a peer.
pub(crate) fn join(args: &PeerArgs, fingerprint: &str) -> anyhow::Result<Cluster> {
    Ok(Cluster::join(cluster_config(args.rank, args.world_size, args.port, fingerprint))?)
}

fn cluster_config(rank: usize, world_size: usize, port: u16, fingerprint: &str) -> ClusterConfig {
    let mut config = ClusterConfig::new(rank, world_size, HOST, port);
    config.local_rank = rank;
    config.local_world_size = world_size;
    config.fingerprint = fingerprint.to_owned();
    config.collective_timeout_ms = COLLECTIVE_TIMEOUT_MS;
    config
}

/// Runs as a peer: serves a part until rank 0 is done.
pub(crate) fn serve_part(dir: &Path, args: &PeerArgs, common: &Common) -> anyhow::Result<()> {
    let meta = Meta::read(dir)?;
    let cluster = join(args, &meta.fingerprint())?;
    let (graph, world) = serving_node(dir, &cluster, common.threads())?;
    answer_until_the_end()?;
    drop(world);
    // The node answers the other ranks until all are done, so it is dropped after the shutdown.
    let outcome = cluster.shutdown();
    drop(graph);
    Ok(outcome?)
}

/// Opens this rank's part, serves it, and waits for the other ranks to serve theirs.
pub(crate) fn serving_node(
    dir: &Path,
    cluster: &Cluster,
    threads: usize,
) -> anyhow::Result<(Arc<DistGraph>, ProcessGroup)> {
    let part = DistGraph::open_part(dir, cluster.rank(), cluster.world_size(), false)?;
    let part = Arc::new(part.with_edges_in_memory());
    let config = DistGraphConfig { num_workers: threads, ..DistGraphConfig::default() };
    let graph = DistGraph::start(part, cluster.clone(), config)?;
    let mut world = cluster.world()?;
    world.barrier()?;
    Ok((graph, world))
}

/// Answers each line with this process's usage, until the input ends.
fn answer_until_the_end() -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lines() {
        if !line.context("read a question")?.is_empty() {
            bail!("rank 0 sent a line that is not empty");
        }
        let usage = Usage::own()?;
        writeln!(stdout, "{} {}", usage.cpu_s, usage.waits).context("answer a question")?;
    }
    Ok(())
}
