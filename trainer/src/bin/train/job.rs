//! Joining the job, and leaving it in an orderly way or with one clear error.

use crate::args::JobArgs;
use crate::exit::OtherRankFailed;
use crate::place::{Rank, token};
use anyhow::{Context, bail};
use edgecut_cluster::{Blame, Cluster, ClusterConfig, ProcessGroup, end_with_parent, panic_text};
use edgecut_dist_sampler::SamplingNodeConfig;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// The membership of a process that has joined the job.
pub(crate) struct Job<'a> {
    pub(crate) cluster: &'a Cluster,
    /// The process group of all ranks.
    pub(crate) world: &'a mut ProcessGroup,
}

/// Joins the job, runs `work`, and leaves when all ranks are done. `fingerprint` identifies the data, and `parameters`
/// holds the flags by name; both must be equal on all ranks.
///
/// The caller must own everything that `work` connects to other ranks, so that it outlives this call. On an error the
/// connections then close only after the other ranks have heard of it, and these report the original failure, not the
/// disconnect that it caused.
pub(crate) fn run(
    args: &JobArgs,
    rank: &Rank,
    fingerprint: String,
    parameters: &Value,
    work: impl FnOnce(&mut Job<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    end_with_parent()?;
    let num_threads = args.num_threads.map_or(rank.cores(), |n| n as usize);
    rayon::ThreadPoolBuilder::new().num_threads(num_threads).build_global().context("start the compute threads")?;
    let cluster = Cluster::join(cluster_config(args, rank, fingerprint)?)?;
    cluster.exit_when_stuck();
    let mut world = None;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let world = world.insert(cluster.world()?);
        same_parameters(world, parameters)?;
        if let Some(line) = edgecut_trainer::sum_with_nccl(&cluster, world, rank.gpu)?.filter(|_| rank.local_rank == 0)
        {
            eprintln!("{line}");
        }
        work(&mut Job { cluster: &cluster, world })?;
        // Waits until all ranks are done: this process serves its part to the others until then.
        Ok(cluster.clone().shutdown()?)
    }));
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

/// Returns the error that this process ends with. If this process caused it, tells the other ranks.
fn explain(cluster: &Cluster, error: anyhow::Error) -> anyhow::Error {
    let rank = cluster.rank();
    match cluster.blame(format!("{error:#}")) {
        Blame::Own(_) => error.context(format!("rank {rank}")),
        Blame::Other(why) => OtherRankFailed(format!("rank {rank}: {why}")).into(),
    }
}

fn cluster_config(args: &JobArgs, rank: &Rank, fingerprint: String) -> anyhow::Result<ClusterConfig> {
    let mut config = ClusterConfig::new(rank.rank, rank.world_size, rank.master_addr.clone(), rank.master_port);
    config.local_rank = rank.local_rank;
    config.local_world_size = rank.local_world_size;
    config.listen_addr = rank.listen_addr;
    config.listen_port = args.listen_port;
    config.token = token(args)?;
    config.fingerprint = fingerprint;
    config.rendezvous_timeout_ms = args.rendezvous_timeout * 1000;
    config.collective_timeout_ms = args.collective_timeout * 1000;
    config.set_heartbeat_timeout(Duration::from_secs(args.heartbeat_timeout));
    config.attempt = rank.attempt;
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
    args.num_network_threads.map_or(SamplingNodeConfig::network_threads_of(rank.cores()), |n| n as usize)
}

/// Checks that all ranks were started with the same flags. Otherwise they would train different models.
fn same_parameters(world: &mut ProcessGroup, parameters: &Value) -> anyhow::Result<()> {
    let mine = serde_json::to_vec(parameters).context("write the parameters as JSON")?;
    let all = world.all_gather(&mine)?;
    for (rank, theirs) in all.iter().enumerate() {
        if *theirs == all[0] {
            continue;
        }
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let first = read(&all[0]);
        let other = read(theirs);
        let differs = first.as_object().into_iter().flatten().find(|(name, value)| other.get(name) != Some(value));
        match differs {
            Some((name, value)) => {
                let theirs = other.get(name).cloned().unwrap_or_default();
                bail!(
                    "--{} is {theirs} on rank {rank}, but {value} on rank 0: start all ranks with the same flags",
                    name.replace('_', "-")
                )
            }
            None => bail!("the flags of rank {rank} differ from those of rank 0: start all ranks with the same flags"),
        }
    }
    Ok(())
}
