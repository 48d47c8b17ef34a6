//! Programs that start the processes of a job.

use std::fmt;

/// Who started this process as one of a job, and told it its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Launcher {
    /// torchrun, or whoever sets `RANK` and `WORLD_SIZE`.
    Torchrun,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// The `mpiexec` of MPICH and its kin.
    Hydra,
    /// Slurm's `srun`.
    Slurm,
    /// A Kubernetes Job whose pods are indexed.
    Kubernetes,
}

impl Launcher {
    /// The environment variable that holds a process's rank.
    pub fn rank_variable(self) -> &'static str {
        match self {
            Self::Torchrun => "RANK",
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK",
            Self::Hydra => "PMI_RANK",
            Self::Slurm => "SLURM_PROCID",
            Self::Kubernetes => "JOB_COMPLETION_INDEX",
        }
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Torchrun => "torchrun",
            Self::OpenMpi => "Open MPI's mpirun",
            Self::Hydra => "MPICH's mpiexec",
            Self::Slurm => "Slurm's srun",
            Self::Kubernetes => "Kubernetes",
        })
    }
}
