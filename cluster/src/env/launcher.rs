//! Programs that start the processes of a job.

use std::fmt;

/// A program that starts the processes of a job and assigns their ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Launcher {
    /// torchrun, or any program that sets `RANK` and `WORLD_SIZE`.
    Torchrun,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// The `mpiexec` (Hydra) of MPICH and its derivatives.
    Hydra,
    /// Slurm's `srun`.
    Slurm,
    /// A Kubernetes Job with indexed pods.
    Kubernetes,
}

impl Launcher {
    /// Returns the environment variable that holds the rank of a process.
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
