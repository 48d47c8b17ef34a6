//! Jobs on one machine that a program starts by itself, as with PyTorch's `mp.spawn`.

use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, exit};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cluster::Cluster;
use crate::config::{ClusterConfig, MAX_WORLD_SIZE};
use crate::error::{ClusterError, with_causes};
use crate::failure::blame::{Blame, OTHER_RANK_FAILED, say_error};
use crate::processes::end_with_parent::{SPAWNED, end_with_parent};
use crate::processes::local_ranks::{LocalRanks, RanksEnd};

/// The collective timeout of a spawned job. It is long because one rank may read a large dataset for all others.
const COLLECTIVE_TIMEOUT_MS: u64 = 600_000;

/// Runs `work` in `world_size` processes on this machine, each as a rank of one job.
///
/// The calling process is the parent. It starts `world_size` copies of itself, with the same arguments and the same
/// standard input, and waits. A copy runs the program from the start until it reaches this call. There it joins the
/// job, runs `work`, leaves the job and exits. So **code before the call runs in every process** (only parse arguments
/// there), and code after the call runs once, in the parent, when all ranks are done. A program can start only one job.
///
/// When one process fails, is killed or hangs, the others report which one and end. They also end when the parent is
/// killed. A rank whose `work` returns an error prints it and exits with status 1, or with status 3 if the error is the
/// consequence of another rank's failure. Unless `RAYON_NUM_THREADS` is set already, each rank gets it set to its share
/// of the machine's cores.
///
/// The value that `work` returns is dropped only when all ranks are done. Return the objects that serve other ranks,
/// such as a part of a graph. A rank may keep the others waiting for up to 600 s.
///
/// With a `world_size` of 1, `work` runs in this process.
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
/// In the parent: an invalid `world_size`; a process that cannot be started; [`ClusterError::RankEnded`] with the rank
/// that failed first; [`ClusterError::Interrupted`].
pub fn spawn<T, E: Into<Box<dyn Error + Send + Sync>>>(
    world_size: usize,
    work: impl FnOnce(Cluster) -> Result<T, E>,
) -> Result<(), ClusterError> {
    let work = |cluster| work(cluster).map_err(|error| with_causes(&*error.into()));
    if std::env::var_os(SPAWNED).is_some() {
        exit(i32::from(be_rank(world_size, work)));
    }
    match world_size {
        n if n > MAX_WORLD_SIZE => {
            Err(ClusterError::Config(format!("spawn: {n} processes exceed the limit of {MAX_WORLD_SIZE} per job")))
        }
        0 => Err(ClusterError::Config("spawn: a job needs at least one process, not 0".to_owned())),
        1 => alone(work),
        _ => start(world_size),
    }
}

/// Starts the ranks and waits for them, in the parent.
fn start(world_size: usize) -> Result<(), ClusterError> {
    static CALLED: AtomicBool = AtomicBool::new(false);
    if CALLED.swap(true, Ordering::SeqCst) {
        // Copies started by a second call would run the work of the first call, which they reach first.
        return Err(ClusterError::Config("spawn: a program can start processes only once".to_owned()));
    }
    match LocalRanks::alone(world_size)?.run(|_| {})? {
        RanksEnd::Done => Ok(()),
        RanksEnd::Interrupted => Err(ClusterError::Interrupted),
        RanksEnd::Failed { rank, status } => Err(ClusterError::RankEnded { rank, how: in_words(status) }),
    }
}

/// Runs the work of a job of one rank in this process.
fn alone<T>(work: impl FnOnce(Cluster) -> Result<T, String>) -> Result<(), ClusterError> {
    let cluster = Cluster::join(ClusterConfig::new(0, 1, "127.0.0.1", 0))?;
    let _kept =
        work(cluster.clone()).map_err(|error| ClusterError::RankEnded { rank: 0, how: format!("failed: {error}") })?;
    cluster.shutdown()
}

/// Runs one rank, in a copy. Returns the exit status.
fn be_rank<T>(world_size: usize, work: impl FnOnce(Cluster) -> Result<T, String>) -> u8 {
    let cluster = match join(world_size) {
        Ok(cluster) => cluster,
        Err(error) => {
            say_error(&format!("{error:#}"));
            return 1;
        }
    };
    cluster.exit_when_stuck();
    let done = work(cluster.clone());
    // Other ranks may still need the objects that `work` returned, so they are dropped after the shutdown.
    let done = done.and_then(|kept| {
        let left = cluster.clone().shutdown().map_err(|error| format!("{error:#}"));
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
        let what =
            format!("spawn: this process was started as one of {started} ranks, but calls spawn for {world_size}");
        return Err(ClusterError::Config(what));
    }
    config.collective_timeout_ms = COLLECTIVE_TIMEOUT_MS;
    Cluster::join(config)
}

/// Describes an unsuccessful exit status: "was ended by signal 9", "failed with exit status 1".
fn in_words(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("failed with exit status {}", status.code().unwrap_or(1)),
    }
}
