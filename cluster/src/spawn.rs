//! A job on one machine that a program starts by itself, as PyTorch's `mp.spawn` does.

use std::fmt::Display;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, exit};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::blame::{Blame, say_error};
use crate::cluster::Cluster;
use crate::config::{ClusterConfig, MAX_WORLD_SIZE};
use crate::error::ClusterError;
use crate::local_ranks::{LocalRanks, OTHER_RANK_FAILED, RanksEnd, SPAWNED, end_with_parent};

/// The longest that a rank may keep the others waiting, for one of them may read a large dataset for all.
const COLLECTIVE_TIMEOUT_MS: u64 = 600_000;

/// Runs `work` in `world_size` processes of this machine, each as a rank of one job.
///
/// The process that calls it first is the parent: it starts `world_size` copies of itself, with the same arguments and the
/// same standard input, and waits. A copy comes to this call again, and there becomes a rank: it joins the job, runs `work`,
/// leaves, and ends. So **what comes before the call runs in every process** (parse arguments there, and no more), and what
/// comes after it once, in the parent, when all are done. A program can call it for one job only.
///
/// When one process fails, is killed or gets stuck, the others hear which one and end with it, also when the parent is
/// killed. A rank whose `work` returns an error prints it and ends with status 1, or with status 3 if the error is the
/// consequence of another rank's failure. Each rank has a share of the machine's cores: `RAYON_NUM_THREADS` is set to it,
/// unless it is set.
///
/// What `work` returns is kept until all ranks are done: what serves the others, such as a part of a graph, belongs there. A rank
/// may keep the others waiting for 600 s.
///
/// A `world_size` of 1 starts nothing: `work` runs in this process.
///
/// ```no_run
/// use edgecut_cluster::{Cluster, ClusterError, ReduceOp, spawn};
///
/// fn run(cluster: Cluster) -> Result<(), ClusterError> {
///     let mut world = cluster.world()?;
///     let mut sum = [cluster.rank() as u64 + 1];
///     world.all_reduce(&mut sum, ReduceOp::Sum)?;
///     println!("rank {} of {}: the sum is {}", cluster.rank(), cluster.world_size(), sum[0]);
///     Ok(())
/// }
///
/// fn main() -> Result<(), ClusterError> {
///     spawn(2, run)?;
///     println!("once");
///     Ok(())
/// }
/// ```
///
/// # Errors
/// In the parent: a process that cannot be started; [`ClusterError::RankEnded`] naming the rank that failed first;
/// [`ClusterError::Interrupted`].
pub fn spawn<T, E: Display>(world_size: usize, work: impl FnOnce(Cluster) -> Result<T, E>) -> Result<(), ClusterError> {
    if std::env::var_os(SPAWNED).is_some() {
        exit(i32::from(be_rank(world_size, work)));
    }
    match world_size {
        n if n > MAX_WORLD_SIZE => {
            Err(ClusterError::Config(format!("spawn: {n} processes are more than a job may have, {MAX_WORLD_SIZE}")))
        }
        0 => Err(ClusterError::Config("spawn: a job has at least one process, not 0".to_owned())),
        1 => alone(work),
        _ => start(world_size),
    }
}

/// The parent's side.
fn start(world_size: usize) -> Result<(), ClusterError> {
    static CALLED: AtomicBool = AtomicBool::new(false);
    if CALLED.swap(true, Ordering::SeqCst) {
        // Copies of this program would take the first call for theirs.
        return Err(ClusterError::Config("spawn: a program can start processes only once".to_owned()));
    }
    match LocalRanks::alone(world_size)?.run(|_| {})? {
        RanksEnd::Done => Ok(()),
        RanksEnd::Interrupted => Err(ClusterError::Interrupted),
        RanksEnd::Failed { rank, status } => Err(ClusterError::RankEnded { rank, how: in_words(status) }),
    }
}

fn alone<T, E: Display>(work: impl FnOnce(Cluster) -> Result<T, E>) -> Result<(), ClusterError> {
    let cluster = Cluster::join(ClusterConfig::new(0, 1, "127.0.0.1", 0))?;
    let _kept = work(cluster.clone())
        .map_err(|error| ClusterError::RankEnded { rank: 0, how: format!("failed: {error:#}") })?;
    cluster.shutdown()
}

/// A copy's side: the exit status of a rank.
fn be_rank<T, E: Display>(world_size: usize, work: impl FnOnce(Cluster) -> Result<T, E>) -> u8 {
    let cluster = match join(world_size) {
        Ok(cluster) => cluster,
        Err(error) => {
            say_error(&error.to_string());
            return 1;
        }
    };
    cluster.exit_when_stuck();
    let done = work(cluster.clone()).map_err(|error| format!("{error:#}"));
    // The others need not be done yet; this process connects them.
    let done = done.and_then(|kept| {
        let left = cluster.clone().shutdown().map_err(|error| error.to_string());
        drop(kept);
        left
    });
    let Err(error) = done else { return 0 };
    let rank = cluster.rank();
    match cluster.blame(error) {
        Blame::Own(error) => {
            say_error(&format!("rank {rank}: {error}"));
            1
        }
        Blame::Other(why) => {
            say_error(&format!("rank {rank}: {why}"));
            OTHER_RANK_FAILED
        }
    }
}

fn join(world_size: usize) -> Result<Cluster, ClusterError> {
    end_with_parent()?;
    let mut config = ClusterConfig::from_env()?;
    if config.world_size != world_size {
        let started = config.world_size;
        let what = format!("spawn: this process is one of {started}, but comes to a call for {world_size}");
        return Err(ClusterError::Config(what));
    }
    config.collective_timeout_ms = COLLECTIVE_TIMEOUT_MS;
    Cluster::join(config)
}

fn in_words(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("failed with exit status {}", status.code().unwrap_or(1)),
    }
}
