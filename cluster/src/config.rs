//! The configuration with which a process joins a job.

use std::net::IpAddr;
use std::time::Duration;

use crate::env::EnvRanks;
use crate::error::ClusterError;
use crate::say::say;
use crate::secure::protection::Protection;
use crate::token::Token;

/// The default port of rank 0, the same as PyG's `--ddp_port`.
pub const DEFAULT_MASTER_PORT: u16 = 11111;
/// The largest world size. The roster of a larger job might not fit into one message.
pub(crate) const MAX_WORLD_SIZE: usize = 16_384;

/// The rank of a process, the addresses of its job, and every limit of this crate.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The rank of this process, from 0 to `world_size - 1`.
    pub rank: usize,
    /// The number of processes of the job.
    pub world_size: usize,
    /// The rank of this process among the processes of its node. The ranks of a node are contiguous.
    pub local_rank: usize,
    /// The number of processes on this node.
    pub local_world_size: usize,
    /// Host name or IP address (v4 or v6) of rank 0.
    pub master_addr: String,
    /// The port that rank 0 listens on. It is the only port of rank 0.
    pub master_port: u16,
    /// The address to listen on. Default: the local address of the connection to rank 0; on rank 0 itself, the master
    /// address.
    pub listen_addr: Option<IpAddr>,
    /// The port to listen on. 0, the default, lets the system choose. Rank 0 listens on the master port instead.
    pub listen_port: u16,
    /// The shared secret. Without one, only loopback addresses work.
    pub token: Option<Token>,
    /// The protection of the bytes on all connections, the same on all ranks. Default [`Protection::Unprotected`].
    pub protection: Protection,
    /// An opaque text that must be equal on all ranks, such as a hash of the partitioning and of the run's parameters.
    pub fingerprint: String,
    /// The longest wait for all ranks to join. Default 60,000.
    pub rendezvous_timeout_ms: u64,
    /// The longest silence of a peer inside a collective, and the longest wait for the other ranks at the end of the
    /// job. Default 120,000.
    pub collective_timeout_ms: u64,
    /// The interval between heartbeats. Default 1,000.
    pub heartbeat_interval_ms: u64,
    /// The silence after which a rank counts as failed, and a connection between two ranks as cut. The time in which
    /// this process itself is suspended does not count. Default 10,000: long enough for a machine that is short of CPU,
    /// short enough for a cut cable to end the job within seconds.
    pub heartbeat_timeout_ms: u64,
    /// The longest wait for a connection to another rank. Default 10,000.
    pub connect_timeout_ms: u64,
    /// The time that a connecting peer has to prove the secret and to state its purpose. Default 5,000.
    pub handshake_timeout_ms: u64,
    /// The time that a connecting peer has to send its first eight bytes. It is also the time to prove the secret while
    /// other connections wait for a free handshake. Default 1,000.
    pub first_bytes_timeout_ms: u64,
    /// The most concurrent handshakes. Beyond that, the oldest connection that has sent nothing is closed. Default 128.
    pub pending_handshakes: usize,
    /// The most concurrent handshakes with one address. Default 64.
    pub pending_handshakes_per_source: usize,
    /// The number of the application's connections with each other rank, in both directions together. The limit of open
    /// files must allow them. Default 4, as the sampling service needs.
    pub streams_per_peer: usize,
    /// The most authenticated RPC connections that wait for the application to take them. More are refused. Values
    /// above 1,048,576 are reduced to that. Default 1,024.
    pub rpc_backlog: usize,
    /// The name of the job, the same on all ranks. Rank 0 rejects processes of a job with another name, or with a name
    /// when it has none itself, and goes on with the rendezvous. Default: none.
    pub job: Option<String>,
    /// The number of restarts of the job before this process was started, the same on all ranks. Rank 0 rejects
    /// processes of another attempt and goes on with the rendezvous. Default 0.
    pub attempt: u64,
    /// True to report a panic that unwinds through a [`Cluster`](crate::Cluster) handle to the other ranks, as the
    /// failure of this rank. A program that catches panics sets it to `false` and calls
    /// [`Cluster::abort`](crate::Cluster::abort) with [`panic_text`](crate::panic_text). Default `true`.
    pub report_panics: bool,
    /// Receives a line for each peer that is rejected during the rendezvous, which may be the only hint at why the job
    /// does not start, and one if connections cannot be accepted. Default: prints to standard error.
    pub notice: fn(&str),
    /// Prints the failure of the job, in one line and on one rank, where all ranks print to the same terminal. A rank then has
    /// nothing to print itself when it ends, and calls
    /// [`Cluster::wait_until_printed`](crate::Cluster::wait_until_printed). Default: none, as each rank prints its error.
    pub print_failure: Option<fn(&str)>,
}

impl ClusterConfig {
    /// Creates a configuration with the documented defaults, and one process per node.
    pub fn new(rank: usize, world_size: usize, master_addr: impl Into<String>, master_port: u16) -> Self {
        Self {
            rank,
            world_size,
            local_rank: 0,
            local_world_size: 1,
            master_addr: master_addr.into(),
            master_port,
            listen_addr: None,
            listen_port: 0,
            token: None,
            protection: Protection::default(),
            fingerprint: String::new(),
            rendezvous_timeout_ms: 60_000,
            collective_timeout_ms: 120_000,
            heartbeat_interval_ms: 1_000,
            heartbeat_timeout_ms: 10_000,
            connect_timeout_ms: 10_000,
            handshake_timeout_ms: 5_000,
            first_bytes_timeout_ms: 1_000,
            pending_handshakes: 128,
            pending_handshakes_per_source: 64,
            streams_per_peer: 4,
            rpc_backlog: 1_024,
            job: None,
            attempt: 0,
            report_panics: true,
            notice: say,
            print_failure: None,
        }
    }

    /// Creates the configuration that a launcher has set in the environment, with the secret from the environment.
    /// Without a launcher, it is that of a job of one process.
    ///
    /// # Errors
    /// As [`EnvRanks::read`] and [`Token::from_env`]; a rank without a world size or the reverse; a job of several
    /// nodes without the address of rank 0.
    pub fn from_env() -> Result<Self, ClusterError> {
        let env = EnvRanks::read()?;
        let (rank, world_size) = match (env.rank, env.world_size) {
            (Some(rank), Some(world_size)) => (rank, world_size),
            (Some(_), None) => return Err(missing("WORLD_SIZE", "it is not set, but RANK is: set both or neither")),
            (None, Some(2..)) => return Err(missing("RANK", "it is not set, but WORLD_SIZE is: set both or neither")),
            (None, _) => (0, 1),
        };
        let local_world_size = env.local_world_size.unwrap_or(1);
        let addr = match env.master_addr {
            Some(addr) => addr,
            None if world_size <= local_world_size => "127.0.0.1".to_owned(),
            None => {
                return Err(missing("MASTER_ADDR", "it is not set: set it to the host name or IP address of rank 0"));
            }
        };
        let mut config = Self::new(rank, world_size, addr, env.master_port.unwrap_or(DEFAULT_MASTER_PORT));
        config.local_rank = env.local_rank.unwrap_or(0);
        config.local_world_size = local_world_size;
        config.listen_addr = env.listen_addr;
        config.job = env.job.or(env.launcher_job);
        config.attempt = env.attempt.unwrap_or(0);
        config.token = Token::from_env()?;
        Ok(config)
    }

    /// Returns the ranks on this node.
    pub fn local_ranks(&self) -> std::ops::Range<usize> {
        let first = self.rank.saturating_sub(self.local_rank);
        first..first.saturating_add(self.local_world_size)
    }

    /// Checks that the fields are valid and consistent.
    ///
    /// # Errors
    /// An invalid field; the error names it.
    pub(crate) fn validate(&self) -> Result<(), ClusterError> {
        let problem = self.rank_problem().or_else(|| self.timing_problem());
        problem.map_or(Ok(()), |reason| Err(ClusterError::Config(reason)))?;
        if self.world_size > 1 { check_secret(self.protection, self.token.as_ref()) } else { Ok(()) }
    }

    fn rank_problem(&self) -> Option<String> {
        let Self { rank, world_size, local_rank, local_world_size, .. } = *self;
        if world_size == 0 || world_size > MAX_WORLD_SIZE {
            return Some(format!("world size {world_size} is not between 1 and {MAX_WORLD_SIZE}"));
        }
        if rank >= world_size {
            return Some(format!("rank {rank} is not below the world size {world_size}"));
        }
        if local_rank >= local_world_size {
            return Some(format!("local rank {local_rank} is not below the local world size {local_world_size}"));
        }
        if rank < local_rank || self.local_ranks().end > world_size {
            return Some(format!(
                "rank {rank} of {world_size} cannot be local rank {local_rank} of {local_world_size}: the ranks of a \
                 node are contiguous"
            ));
        }
        None
    }

    fn timing_problem(&self) -> Option<String> {
        if self.heartbeat_interval_ms == 0 || self.heartbeat_timeout_ms < self.heartbeat_interval_ms.saturating_mul(2) {
            return Some(format!(
                "a heartbeat timeout of {} ms is not at least twice the interval of {} ms",
                self.heartbeat_timeout_ms, self.heartbeat_interval_ms
            ));
        }
        let waits = [
            ("rendezvous_timeout_ms", self.rendezvous_timeout_ms),
            ("collective_timeout_ms", self.collective_timeout_ms),
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("handshake_timeout_ms", self.handshake_timeout_ms),
            ("first_bytes_timeout_ms", self.first_bytes_timeout_ms),
            ("pending_handshakes", self.pending_handshakes as u64),
            ("pending_handshakes_per_source", self.pending_handshakes_per_source as u64),
            ("rpc_backlog", self.rpc_backlog as u64),
        ];
        waits.iter().find(|(_, value)| *value == 0).map(|(name, _)| format!("{name} must not be 0"))
    }

    pub(crate) fn rendezvous_timeout(&self) -> Duration {
        Duration::from_millis(self.rendezvous_timeout_ms)
    }

    pub(crate) fn collective_timeout(&self) -> Duration {
        Duration::from_millis(self.collective_timeout_ms)
    }

    /// Sets the heartbeat timeout, and the interval to a quarter of it, at most one second. So a single delayed
    /// heartbeat does not exceed the timeout.
    pub fn set_heartbeat_timeout(&mut self, timeout: Duration) {
        self.heartbeat_timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.heartbeat_interval_ms = (self.heartbeat_timeout_ms / 4).clamp(1, 1_000);
    }

    pub(crate) fn heartbeat_timeout(&self) -> Duration {
        Duration::from_millis(self.heartbeat_timeout_ms)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }

    pub(crate) fn first_bytes_timeout(&self) -> Duration {
        Duration::from_millis(self.first_bytes_timeout_ms)
    }
}

/// Checks that there is a secret if connections are encrypted. Without one, anybody could decrypt them.
///
/// # Errors
/// [`ClusterError::Secret`].
pub(crate) fn check_secret(protection: Protection, token: Option<&Token>) -> Result<(), ClusterError> {
    if protection == Protection::Encrypted && token.is_none() {
        let what = "encryption needs a shared secret: set EDGECUT_TOKEN (or EDGECUT_TOKEN_FILE) to the same secret on every \
                    rank";
        return Err(ClusterError::Secret(what.to_owned()));
    }
    Ok(())
}

fn missing(variable: &str, reason: &str) -> ClusterError {
    ClusterError::Env { variable: variable.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_needs_a_secret_in_jobs_of_several_ranks() {
        let mut config = ClusterConfig::new(0, 2, "localhost", 29500);
        config.protection = Protection::Encrypted;
        assert!(matches!(config.validate(), Err(ClusterError::Secret(_))));
        config.token = Some(Token::random().unwrap());
        config.validate().unwrap();
        config.token = None;
        config.world_size = 1;
        config.validate().unwrap();
    }

    fn problem(change: impl FnOnce(&mut ClusterConfig)) -> String {
        let mut config = ClusterConfig::new(1, 4, "localhost", 29500);
        config.validate().unwrap();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn rejects_ranks_that_cannot_be() {
        assert!(problem(|c| c.rank = 4).contains("rank 4"));
        assert!(problem(|c| c.world_size = 0).contains("world size 0"));
        assert!(problem(|c| c.local_rank = 1).contains("local rank 1"));
        assert!(problem(|c| (c.local_rank, c.local_world_size) = (2, 4)).contains("contiguous"));
        assert!(problem(|c| c.local_world_size = usize::MAX).contains("contiguous"));
    }

    #[test]
    fn rejects_waits_that_cannot_work() {
        assert!(problem(|c| c.heartbeat_timeout_ms = 1).contains("heartbeat"));
        assert!(problem(|c| c.collective_timeout_ms = 0).contains("collective_timeout_ms"));
    }
}
