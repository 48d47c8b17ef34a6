//! The settings that a launcher passes to a process in environment variables.

use std::net::IpAddr;

use crate::env::launcher::Launcher;

/// The settings of this process in its job, from the environment; `None` for each one that is not set.
///
/// Rank and world size always come from the same launcher. `RANK` (torchrun, or set by hand) takes precedence over
/// `mpirun`, which takes precedence over Slurm's `srun`, which takes precedence over the index of a Kubernetes Job. So
/// the inner of two launchers wins: `mpirun` starts its daemons with `srun`, and both may run in a pod. The variables
/// of the latter three are ignored in a job of one process, which may be a shell from which the user starts other
/// programs.
///
/// Variables of different launchers are never mixed, except that `MASTER_ADDR` and `MASTER_PORT` take precedence over
/// the address that any of them gives.
///
/// Command-line flags take precedence over the environment, so callers use `flag.or(env.rank)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvRanks {
    /// The launcher that has set `rank` and `world_size`.
    pub launcher: Option<Launcher>,
    /// Host name or IP address of rank 0: `MASTER_ADDR`, or derived from the variables of the launcher.
    pub master_addr: Option<String>,
    /// The port of rank 0: `MASTER_PORT`, or derived from the number of the Slurm job.
    pub master_port: Option<u16>,
    /// A description of the rank that a launcher gives this process, if its variables do not tell the processes of a node. The
    /// launcher is none of [`Launcher`], so `rank` is not set.
    pub unread: Option<String>,
    /// The rank of this process in the job, from 0.
    pub rank: Option<usize>,
    /// The number of processes of the job.
    pub world_size: Option<usize>,
    /// The rank of this process among the processes of its node, from 0.
    pub local_rank: Option<usize>,
    /// The number of processes on this node.
    pub local_world_size: Option<usize>,
    /// The number of cores per process, if the launcher sets it (Slurm's `--cpus-per-task`).
    pub cores: Option<usize>,
    /// The address that this process listens on: `EDGECUT_LISTEN_ADDR`.
    pub listen_addr: Option<IpAddr>,
    /// The name that `launch` or the user has given the job: `EDGECUT_RUN_ID`.
    pub job: Option<String>,
    /// The name of the job of `launcher`: `TORCHELASTIC_RUN_ID`, `PMIX_NAMESPACE` or the step of Slurm. Meaningful only
    /// if rank and world size are taken from the launcher.
    pub launcher_job: Option<String>,
    /// The number of restarts of the job before this process was started: `EDGECUT_RESTART_COUNT` (set by `launch`), or
    /// `SLURM_RESTART_COUNT`. The count of torchrun is not used, since it may differ between the nodes of a job.
    pub attempt: Option<u64>,
}
