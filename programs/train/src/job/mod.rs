//! Joining the job, and leaving it in an orderly way or with one clear error.

pub(crate) mod command;
pub(crate) mod device;
pub(crate) mod graph_session;
pub(crate) mod labels;
mod late_notice;
pub(crate) mod process_role;
pub(crate) mod source;
mod table_ids;

use crate::args::JobArgs;
use crate::exit::{OtherRankFailed, Printed, UsageError};
use crate::job::process_role::{Rank, token};
use crate::settings::flag_names::with_flags;
use crate::settings::shared_flags::check_equal;
use anyhow::Context;
use edgecut_cli::message;
use edgecut_cluster::{Blame, Cluster, ClusterConfig, ProcessGroup, end_with_parent, panic_text, with_causes};
use edgecut_dist_sampler::DistGraphConfig;
use edgecut_trainer::GradientSum;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// The membership of a process that has joined the job.
pub(crate) struct Job<'a> {
    pub(crate) cluster: &'a Cluster,
    /// The process group of all ranks.
    pub(crate) world: &'a mut ProcessGroup,
    /// The sum of gradients over all ranks.
    pub(crate) gradient_sum: &'a GradientSum,
}

/// Starts the compute threads of this rank. Reading arrays uses them, so this precedes the checks of all other flags.
///
/// # Errors
/// Threads that cannot be started.
pub(crate) fn start_compute_threads(args: &JobArgs, rank: &Rank) -> anyhow::Result<()> {
    let num_threads = args.num_threads.map_or(rank.cores(), |n| n as usize);
    rayon::ThreadPoolBuilder::new().num_threads(num_threads).build_global().context("start the compute threads")
}

/// Joins the job, runs `work`, and leaves when all ranks are done. `fingerprint` identifies the data; it and the
/// serialised `flags` must be equal on all ranks.
///
/// The caller must own everything that `work` connects to other ranks, so that it outlives this call. On an error the
/// connections then close only after the other ranks have heard of it, and these report the original failure, not the
/// disconnect that it caused.
pub(crate) fn run(
    args: &JobArgs,
    rank: &Rank,
    fingerprint: String,
    flags: &impl Serialize,
    work: impl FnOnce(&mut Job<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    end_with_parent()?;
    if let (Some(path), 0, false) = (&args.config, rank.rank, args.quiet) {
        message!("with the flags in {}", path.display());
    }
    let cluster = Cluster::join(cluster_config(args, rank, fingerprint)?)?;
    cluster.exit_when_stuck();
    // Declared outside of the closure, because their connections to other ranks must outlive it.
    let mut world = None;
    let mut gradient_sum = None;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let world = world.insert(cluster.world()?);
        check_equal(flags, world)?;
        let gradient_sum = gradient_sum.insert(GradientSum::join(&cluster, world, rank.gpu)?);
        if let Some(line) = gradient_sum.notice().filter(|_| rank.local_rank == 0) {
            message!("{line}");
        }
        work(&mut Job { cluster: &cluster, world, gradient_sum })?;
        // Waits until all ranks are done: this process serves its part to the others until then.
        Ok(cluster.clone().shutdown()?)
    }));
    if !matches!(result, Ok(Ok(()))) {
        // NCCL may hang when it leaves a group whose other ranks have failed. The end of the process closes everything.
        std::mem::forget(gradient_sum);
    }
    // A failed device makes operations that read from it panic or return unusable values. Its noted failure therefore
    // takes precedence over any result.
    let result = match (edgecut_gpu::noted_failure(), result) {
        (Some(failure), _) => Err(failure.into()),
        (None, Err(panic)) => {
            cluster.abort(&panic_text(&*panic));
            resume_unwind(panic)
        }
        (None, Ok(result)) => result,
    };
    result.map_err(|error| explain(&cluster, error))
}

/// Returns the result of a check that has the same result on all ranks. Rank 0 reports an error, and the other ranks of its
/// machine are silent. Every rank must call this.
pub(crate) fn reported_once<T>(
    checked: anyhow::Result<T>,
    cluster: &Cluster,
    world: &mut ProcessGroup,
) -> anyhow::Result<T> {
    match checked {
        Err(error) if world.rank() > 0 => {
            // The failure of rank 0 ends this wait.
            let failed = world.barrier();
            if cluster.rank() == cluster.local_rank() {
                return Err(anyhow::Error::from(OtherRankFailed(format!("{error:#}"))).context(Printed));
            }
            failed?;
            Err(error)
        }
        checked => checked,
    }
}

/// Returns the error that this process ends with. If this process caused it, tells the other ranks.
fn explain(cluster: &Cluster, error: anyhow::Error) -> anyhow::Error {
    let rank = cluster.rank();
    let blame = cluster.blame(with_causes(error.as_ref()));
    cluster.wait_until_printed();
    let error = match blame {
        // The only process of a job needs no number.
        Blame::Own(_) if cluster.world_size() == 1 => error,
        Blame::Own(_) => error.context(cluster.name()),
        Blame::Other(_) if error.is::<Printed>() => error,
        Blame::Other(why) => OtherRankFailed(format!("rank {rank}: {why}")).into(),
    };
    if cluster.config().print_failure.is_some() { error.context(Printed) } else { error }
}

/// Prints the failure of the job, which one rank does where all ranks print to the same terminal.
fn print_failure(failure: &str) {
    message!("error: {}", with_flags(failure));
}

fn cluster_config(args: &JobArgs, rank: &Rank, fingerprint: String) -> anyhow::Result<ClusterConfig> {
    let mut config = ClusterConfig::new(rank.rank, rank.world_size, rank.master_addr.clone(), rank.master_port);
    config.local_rank = rank.local_rank;
    config.local_world_size = rank.local_world_size;
    config.listen_addr = rank.listen_addr;
    config.listen_port = match args.listen_port {
        0 => 0,
        base => {
            let port = u16::try_from(rank.local_rank).ok().and_then(|number| base.checked_add(number));
            port.with_context(|| {
                let what = format!("--listen-port {base}: process {} of this node has no port", rank.local_rank);
                UsageError(what)
            })?
        }
    };
    config.token = token(args)?;
    config.protection = args.protection();
    config.fingerprint = fingerprint;
    config.rendezvous_timeout_ms = args.rendezvous_timeout * 1000;
    config.collective_timeout_ms = args.collective_timeout * 1000;
    config.set_heartbeat_timeout(Duration::from_secs(args.heartbeat_timeout));
    config.job.clone_from(&rank.job);
    config.attempt = rank.attempt;
    if rank.shares_output && rank.world_size > 1 {
        config.print_failure = Some(print_failure);
    }
    // `run` reports panics itself: it first finds out whether a device failure is behind the panic.
    config.report_panics = false;
    Ok(config)
}

/// Returns the number of threads that sample in this process.
pub(crate) fn num_workers(args: &JobArgs, rank: &Rank) -> usize {
    args.num_workers.map_or(rank.cores(), |n| n as usize)
}

/// Returns the number of network threads of this process.
pub(crate) fn num_network_threads(args: &JobArgs, rank: &Rank) -> usize {
    args.num_network_threads.map_or(DistGraphConfig::network_threads_of(rank.cores()), |n| n as usize)
}
