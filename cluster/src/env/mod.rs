//! The rank of a process in its job, from the environment variables of the launcher that started it.

mod attempt;
mod env_ranks;
mod interfaces;
mod kubernetes;
mod launcher;
mod mpi;
pub(crate) mod node_list;
mod slurm;
mod unread;
mod variables;

use std::ffi::OsString;
use std::net::IpAddr;

use crate::error::ClusterError;
pub use attempt::Attempt;
pub use env_ranks::EnvRanks;
pub use interfaces::{address_of_interface, node_addresses};
pub use launcher::Launcher;
use variables::Variables;

/// The variable that names the network interface for PyTorch's Gloo.
const INTERFACE: &str = "GLOO_SOCKET_IFNAME";
/// The variables that count restarts, the innermost launcher first.
const RESTARTS: [&str; 2] = ["EDGECUT_RESTART_COUNT", "SLURM_RESTART_COUNT"];

impl EnvRanks {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// * a variable with an invalid value;
    /// * a variable that is missing although its launcher has set others;
    /// * ranks that Slurm has not assigned node by node.
    ///
    /// The error names the variable.
    pub fn read() -> Result<Self, ClusterError> {
        Self::read_from(|name| std::env::var_os(name))
    }

    /// Reads variables from `lookup` instead of the environment.
    ///
    /// # Errors
    /// As [`EnvRanks::read`].
    pub fn read_from(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ClusterError> {
        let variables = Variables(&lookup);
        let mut ranks = of_launcher(&variables)?;
        if let Some(addr) = variables.parse("MASTER_ADDR", "a host name or an IP address")? {
            ranks.master_addr = Some(addr);
        }
        if let Some(port) = variables.parse("MASTER_PORT", "a port from 0 to 65535")? {
            ranks.master_port = Some(port);
        }
        ranks.job = variables.text("EDGECUT_RUN_ID")?;
        ranks.listen_addr = variables.parse("EDGECUT_LISTEN_ADDR", "an IP address")?;
        for name in RESTARTS {
            ranks.attempt = ranks.attempt.or(variables.parse(name, "a number of restarts")?);
        }
        Ok(ranks)
    }
}

/// Returns the address of the network interface that `GLOO_SOCKET_IFNAME` names, as PyTorch's Gloo reads it. It is meant
/// for jobs on several nodes: other processes of one machine listen on loopback.
///
/// # Errors
/// An interface that does not exist or has no address.
pub fn gloo_listen_addr() -> Result<Option<IpAddr>, ClusterError> {
    of_gloo(&Variables(&|name| std::env::var_os(name)))
}

fn of_gloo(variables: &Variables<'_>) -> Result<Option<IpAddr>, ClusterError> {
    let named = variables.text(INTERFACE)?;
    named.map(|name| interfaces::of_variable(INTERFACE, &name)).transpose()
}

/// Returns the settings of the first launcher whose variables are complete, in the order of precedence.
fn of_launcher(variables: &Variables<'_>) -> Result<EnvRanks, ClusterError> {
    let plain = EnvRanks {
        launcher: None,
        rank: variables.number("RANK")?,
        world_size: variables.number("WORLD_SIZE")?,
        local_rank: variables.number("LOCAL_RANK")?,
        local_world_size: variables.number("LOCAL_WORLD_SIZE")?,
        ..EnvRanks::default()
    };
    if plain.rank.is_some() {
        let launcher_job = attempt::torchrun_name(variables)?;
        return Ok(EnvRanks { launcher: Some(Launcher::Torchrun), launcher_job, ..plain });
    }
    for read in [mpi::ranks, slurm::ranks, kubernetes::ranks] {
        if let Some(ranks) = read(variables)? {
            return Ok(ranks);
        }
    }
    Ok(EnvRanks { unread: unread::rank(variables), ..plain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    /// Reads an environment of only these variables.
    pub(super) fn read(set: &[(&str, &str)]) -> Result<EnvRanks, ClusterError> {
        EnvRanks::read_from(|name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into()))
    }

    /// Returns the error of an environment. It must name the variable and show its value.
    pub(super) fn error(set: &[(&str, &str)], variable: &str, value: &str) -> String {
        let error = read(set).unwrap_err().to_string();
        assert!(error.contains(variable) && error.contains(value), "{error}");
        error
    }

    #[test]
    fn reads_what_torchrun_sets() {
        assert_eq!(read(&[("MASTER_ADDR", "node-1")]).unwrap().master_addr.as_deref(), Some("node-1"));
        assert_eq!(read(&[("MASTER_PORT", "29500")]).unwrap().master_port, Some(29500));
        assert_eq!(read(&[("LOCAL_WORLD_SIZE", "4")]).unwrap().local_world_size, Some(4));
        assert_eq!(read(&[("UNRELATED", "x")]).unwrap(), EnvRanks::default());
        assert_eq!(read(&[("SLURM_RESTART_COUNT", "2")]).unwrap().attempt, Some(2));
        let nested = read(&[("SLURM_RESTART_COUNT", "3"), ("EDGECUT_RESTART_COUNT", "1")]).unwrap();
        assert_eq!(nested.attempt, Some(1));
        let ranks = read(&[("RANK", "2"), ("WORLD_SIZE", "4")]).unwrap();
        assert_eq!((ranks.launcher, ranks.rank, ranks.world_size), (Some(Launcher::Torchrun), Some(2), Some(4)));
    }

    /// Returns the names that the environment gives to the job of a process of torchrun.
    fn job_names(more: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let ranks = [("RANK", "2"), ("WORLD_SIZE", "4"), ("SLURM_JOB_ID", "7")];
        let env = read(&[&ranks[..], more].concat()).unwrap();
        (env.job, env.launcher_job)
    }

    #[test]
    fn the_launcher_of_the_ranks_names_the_job() {
        assert_eq!(job_names(&[]), (None, None));
        assert_eq!(job_names(&[("TORCHELASTIC_RUN_ID", "none")]), (None, None));
        assert_eq!(job_names(&[("TORCHELASTIC_RUN_ID", "r")]), (None, Some("r".to_owned())));
        assert_eq!(job_names(&[("EDGECUT_RUN_ID", "mine")]), (Some("mine".to_owned()), None));
    }

    #[test]
    fn a_bad_value_names_its_variable() {
        for (variable, value) in [
            ("RANK", "-1"),
            ("WORLD_SIZE", "four"),
            ("MASTER_PORT", "70000"),
            ("MASTER_ADDR", ""),
            ("EDGECUT_LISTEN_ADDR", "eth0"),
        ] {
            error(&[(variable, value)], variable, value);
        }
    }

    #[test]
    fn the_address_to_listen_on_is_read_beside_any_launcher() {
        let set = [("EDGECUT_LISTEN_ADDR", "10.0.0.7"), ("RANK", "0")];
        assert_eq!(read(&set).unwrap().listen_addr, Some("10.0.0.7".parse().unwrap()));
        assert_eq!(read(&set[..1]).unwrap().listen_addr, Some("10.0.0.7".parse().unwrap()));
    }

    #[test]
    fn the_interface_to_listen_on_is_read_as_gloo_reads_it() {
        let found = |value: &'static str| of_gloo(&Variables(&|name| (name == INTERFACE).then(|| value.into())));
        assert!(found("lo,eth9").unwrap().is_some_and(|addr| addr.is_loopback()));
        assert_has(found("none").unwrap_err().to_string(), &["GLOO_SOCKET_IFNAME", "\"none\""]);
        assert_eq!(of_gloo(&Variables(&|_| None)).unwrap(), None);
    }

    /// The variables of all launchers at once, each with another rank.
    const ALL: [(&str, &str); 16] = [
        ("JOB_COMPLETION_INDEX", "1"),
        ("SLURM_PROCID", "2"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NODEID", "1"),
        ("SLURM_STEP_NODELIST", "n[1-2]"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
        ("SLURM_JOB_ID", "77"),
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "5"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "5"),
        ("RANK", "4"),
        ("WORLD_SIZE", "6"),
        ("LOCAL_RANK", "0"),
        ("LOCAL_WORLD_SIZE", "2"),
    ];

    fn all_but(unset: &[&str]) -> EnvRanks {
        let set: Vec<_> = ALL.into_iter().filter(|(name, _)| !unset.iter().any(|u| name.starts_with(u))).collect();
        read(&set).unwrap()
    }

    #[test]
    fn one_launcher_gives_rank_and_size_together() {
        let of = |env: EnvRanks| (env.launcher.unwrap(), env.rank.unwrap(), env.world_size.unwrap(), env.local_rank);
        assert_eq!(of(all_but(&[])), (Launcher::Torchrun, 4, 6, Some(0)));
        // `WORLD_SIZE` without `RANK`, as scripts for torchrun often export it, is not mixed with another launcher's
        // rank.
        assert_eq!(of(all_but(&["RANK"])), (Launcher::OpenMpi, 3, 5, Some(3)));
        assert_eq!(of(all_but(&["RANK", "OMPI"])), (Launcher::Slurm, 2, 4, Some(0)));
        assert_eq!(of(all_but(&["RANK", "OMPI", "SLURM"])), (Launcher::Kubernetes, 1, 6, None));
        let plain = all_but(&["RANK", "OMPI", "SLURM", "JOB"]);
        assert_eq!((plain.launcher, plain.rank, plain.world_size), (None, None, Some(6)));
    }

    #[test]
    fn a_master_that_is_named_wins_over_the_launchers() {
        let mut set: Vec<_> = ALL.into_iter().filter(|(name, _)| name.starts_with("SLURM")).collect();
        let master = |set: &[(&str, &str)]| {
            let env = read(set).unwrap();
            (env.master_addr.unwrap(), env.master_port.unwrap())
        };
        assert_eq!(master(&set), ("n1".to_owned(), 10_077));
        set.push(("MASTER_PORT", "4000"));
        assert_eq!(master(&set), ("n1".to_owned(), 4000));
        set.push(("MASTER_ADDR", "10.0.0.1"));
        assert_eq!(master(&set), ("10.0.0.1".to_owned(), 4000));
    }
}
