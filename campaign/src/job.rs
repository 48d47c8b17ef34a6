//! A training job of one process per host.

use crate::hosts::{Hosts, address};
use crate::programs::{Process, program, wait_until, write_parts};
use anyhow::{Context, bail};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The port of rank 0.
pub(crate) const MASTER_PORT: &str = "29500";
/// The time in which processes must have ended after a fault.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(15);
/// The time that a job has to start, on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// The graph, the folders and the hosts of jobs.
pub(crate) struct Site {
    pub(crate) hosts: Hosts,
    dir: tempfile::TempDir,
    parts: PathBuf,
    token: String,
}

/// A job whose processes are ranks in the order of their hosts. They are killed when the value is dropped.
pub(crate) struct Job {
    pub(crate) ranks: Vec<Process>,
    metrics: PathBuf,
}

impl Site {
    /// Makes hosts, and a graph with a part for each of them.
    pub(crate) fn new(num_hosts: usize) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("make a temporary folder")?;
        let parts = write_parts(dir.path(), "fake", num_hosts, &["--avg-num-nodes", "2000"])?;
        let token = format!("campaign of process {}", std::process::id());
        Ok(Self { hosts: Hosts::new(num_hosts)?, dir, parts, token })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn parts(&self) -> &PathBuf {
        &self.parts
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Starts a job that trains, validates, saves models and writes checkpoints, without an end. Continues from the
    /// checkpoints of earlier jobs. `flags` are added to the flags of each process.
    pub(crate) fn start(&self, flags: &[&str]) -> anyhow::Result<Job> {
        let metrics = self.path("metrics.jsonl");
        let start = |rank: usize| {
            let mut command = self.hosts.command(rank, &program("train")?);
            command.args(["node", "--num-nodes", &self.hosts.len().to_string(), "--node-rank", &rank.to_string()]);
            command.args(["--master-addr", &address(0), "--master-port", MASTER_PORT]);
            command.args(["--num-neighbors", "10,5", "--batch-size", "32", "--num-epochs", "1000000"]);
            command.args(["--num-threads", "1", "--num-workers", "1", "--rendezvous-timeout", "10", "--resume"]);
            command.args(["--checkpoint-every", "20steps", "--checkpoint-dir"]).arg(self.path("checkpoints"));
            command.arg("--save-model").arg(self.path("model")).arg("--metrics").arg(&metrics);
            command.arg("--dataset-root-dir").arg(&self.parts).args(flags);
            command.env("EDGECUT_TOKEN", &self.token);
            Process::start(&mut command, self.path(&format!("rank-{rank}.log")))
        };
        let ranks = (0..self.hosts.len()).map(start).collect::<anyhow::Result<_>>()?;
        Ok(Job { ranks, metrics })
    }
}

impl Job {
    /// Waits until the job has finished an epoch.
    pub(crate) fn wait_until_training(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + STARTS_WITHIN;
        // The metrics of an earlier job are kept, and the output is new.
        let trains = |job: &mut Self| job.ranks[0].output().contains("epoch ") || job.has_ended(0);
        let started = wait_until(deadline, || trains(self));
        if !started || self.has_ended(0) {
            bail!("the job has not finished an epoch: {}", self.ranks[0].output());
        }
        Ok(())
    }

    pub(crate) fn has_ended(&mut self, rank: usize) -> bool {
        self.ranks[rank].status().is_some()
    }

    /// Waits until some ranks have ended. Returns the time that this took.
    ///
    /// # Errors
    /// Ranks still run after [`ENDS_WITHIN`].
    pub(crate) fn ended(&mut self, ranks: &[usize]) -> anyhow::Result<Duration> {
        let start = Instant::now();
        wait_until(start + ENDS_WITHIN, || ranks.iter().all(|&rank| self.has_ended(rank)));
        let left: Vec<usize> = ranks.iter().copied().filter(|&rank| !self.has_ended(rank)).collect();
        if left.is_empty() {
            return Ok(start.elapsed());
        }
        bail!("ranks {left:?} still run after {} s: {}", ENDS_WITHIN.as_secs(), self.outputs(&left))
    }

    /// Waits until the job has finished another epoch, or all ranks have ended.
    pub(crate) fn makes_progress(&mut self, within: Duration) -> bool {
        let epochs = |job: &Self| std::fs::metadata(&job.metrics).map_or(0, |file| file.len());
        let before = epochs(self);
        wait_until(Instant::now() + within, || epochs(self) > before)
    }

    /// Returns the last lines of some ranks.
    pub(crate) fn outputs(&self, ranks: &[usize]) -> String {
        let last = |&rank: &usize| {
            let output = self.ranks[rank].output();
            format!("rank {rank}: {}", output.lines().next_back().unwrap_or("no output"))
        };
        ranks.iter().map(last).collect::<Vec<_>>().join("; ")
    }

    /// Returns the errors that a rank has reported.
    pub(crate) fn errors(&self, rank: usize) -> String {
        self.ranks[rank].output().lines().filter(|line| line.starts_with("error")).collect()
    }

    pub(crate) fn all(&self) -> Range<usize> {
        0..self.ranks.len()
    }
}

/// Returns true if a text names a rank, or its address.
pub(crate) fn names(text: &str, rank: usize) -> bool {
    let is_alone = |at: usize, name: &str| !text[at + name.len()..].starts_with(|next: char| next.is_ascii_digit());
    [format!("rank {rank}"), address(rank), format!("ranks {rank}"), format!(", {rank}")]
        .iter()
        .any(|name| text.match_indices(name.as_str()).any(|(at, _)| is_alone(at, name)))
}
