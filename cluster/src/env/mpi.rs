//! The variables of MPI launchers. Only the ranks come from them; no MPI library is needed.

use super::env_ranks::EnvRanks;
use super::launcher::Launcher;
use super::variables::Variables;
use crate::error::ClusterError;

pub(super) fn ranks(variables: &Variables<'_>) -> Result<Option<EnvRanks>, ClusterError> {
    let [open_mpi, hydra] = [&OPEN_MPI, &HYDRA].map(|names| names.ranks(variables));
    Ok(open_mpi?.or(hydra?))
}

struct Names {
    launcher: Launcher,
    world_size: &'static str,
    local_rank: &'static str,
    local_world_size: &'static str,
}

const OPEN_MPI: Names = Names {
    launcher: Launcher::OpenMpi,
    world_size: "OMPI_COMM_WORLD_SIZE",
    local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
    local_world_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
};

const HYDRA: Names = Names {
    launcher: Launcher::Hydra,
    world_size: "PMI_SIZE",
    local_rank: "MPI_LOCALRANKID",
    local_world_size: "MPI_LOCALNRANKS",
};

impl Names {
    /// Reads the variables if rank and local rank are both set. Slurm's `srun --mpi=pmi2` sets `PMI_RANK` too, but not
    /// Hydra's variables for local ranks.
    fn ranks(&self, variables: &Variables<'_>) -> Result<Option<EnvRanks>, ClusterError> {
        let name = self.launcher.rank_variable();
        let (Some(rank), Some(local_rank)) = (variables.number(name)?, variables.number(self.local_rank)?) else {
            return Ok(None);
        };
        let world_size = variables.number_beside(self.world_size, name)?;
        let local_world_size = variables.number_beside(self.local_world_size, name)?;
        if world_size == 1 {
            return Ok(None);
        }
        Ok(Some(EnvRanks {
            launcher: Some(self.launcher),
            rank: Some(rank),
            world_size: Some(world_size),
            local_rank: Some(local_rank),
            local_world_size: Some(local_world_size),
            launcher_job: variables.text("PMIX_NAMESPACE")?,
            // On several nodes the launcher does not tell where rank 0 runs, so the user must set MASTER_ADDR.
            master_addr: (world_size == local_world_size).then(|| "127.0.0.1".to_owned()),
            ..EnvRanks::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::env::Launcher;
    use crate::env::tests::{error, read};

    const OPEN_MPI: [(&str, &str); 4] = [
        ("OMPI_COMM_WORLD_RANK", "5"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ("OMPI_COMM_WORLD_SIZE", "8"),
    ];

    #[test]
    fn reads_what_open_mpi_sets() {
        let ranks = read(&OPEN_MPI).unwrap();
        assert_eq!((ranks.launcher, ranks.rank, ranks.world_size), (Some(Launcher::OpenMpi), Some(5), Some(8)));
        assert_eq!((ranks.local_rank, ranks.local_world_size, ranks.master_addr), (Some(1), Some(4), None));
    }

    #[test]
    fn reads_what_hydra_sets() {
        let mut set = vec![("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "2")];
        let ranks = read(&set).unwrap();
        assert_eq!((ranks.launcher, ranks.rank, ranks.world_size), (Some(Launcher::Hydra), Some(1), Some(2)));
        assert_eq!(ranks.master_addr.as_deref(), Some("127.0.0.1"), "all on one node");
        set.truncate(2);
        assert_eq!(read(&set).unwrap().rank, None, "only Slurm's PMI");
    }

    #[test]
    fn what_is_wrong_is_named() {
        error(&OPEN_MPI[..3], "OMPI_COMM_WORLD_SIZE", "not set, but OMPI_COMM_WORLD_RANK is");
        let mut set = OPEN_MPI;
        set[0].1 = "first";
        error(&set, "OMPI_COMM_WORLD_RANK", "first");
    }

    #[test]
    fn a_job_of_one_process_is_no_place() {
        let names = OPEN_MPI.map(|(name, _)| name);
        let set = [(names[0], "0"), (names[1], "0"), (names[2], "1"), (names[3], "1")];
        assert_eq!(read(&set).unwrap(), crate::EnvRanks::default());
    }
}
