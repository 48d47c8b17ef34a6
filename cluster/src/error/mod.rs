//! The errors of this crate, and the failure of a rank.

mod failure;
mod messages;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::io_error::explain;
pub use failure::Failure;
pub use messages::with_causes;

/// An error of this crate.
///
/// The alternate form (`{:#}`) also shows the causes, as with `anyhow`. Use it where the error ends as text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A field of [`ClusterConfig`](crate::ClusterConfig), or an argument, is invalid.
    #[error("cluster configuration: {0}")]
    Config(String),

    /// An environment variable is missing or has an invalid value.
    #[error("environment variable {variable}: {reason}")]
    Env {
        /// The name of the variable.
        variable: String,
        /// The problem.
        reason: String,
    },

    /// The file with the shared secret cannot be read.
    #[error(fmt = messages::token_file)]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },

    /// The shared secret is missing, too short, or open to other users.
    #[error("{0}")]
    Secret(String),

    /// The peer is a process of another user, or has another version, secret or [`Protection`](crate::Protection).
    #[error("{0}")]
    OtherPeer(String),

    /// The user of the peer's process cannot be determined, and there is no shared secret.
    #[error(fmt = messages::unknown_user)]
    UnknownUser {
        /// The peer.
        peer: String,
        /// The cause.
        #[source]
        cause: io::Error,
    },

    /// The limit of open files is too low for the connections of this process.
    #[error(
        "this rank needs {needed} open files ({parts}), but the limit is {limit}: raise the hard limit (ulimit -Hn, \
         LimitNOFILE=, docker run --ulimit nofile=) or start fewer ranks"
    )]
    FileLimit {
        /// The number of open files that this rank needs.
        needed: usize,
        /// The limit.
        limit: u64,
        /// The parts of that number, as text.
        parts: String,
    },

    /// A host name cannot be resolved.
    #[error(fmt = messages::resolve)]
    Resolve {
        /// The name, with the port.
        host: String,
        /// The cause.
        #[source]
        cause: io::Error,
    },

    /// Another process uses the port to listen on.
    #[error("listen on {addr}: port in use; choose another `{setting}` or end the process that holds it")]
    PortInUse {
        /// The address.
        addr: SocketAddr,
        /// The field of [`ClusterConfig`](crate::ClusterConfig) that chooses the port.
        setting: &'static str,
    },

    /// Listening failed for a reason other than a port in use.
    #[error(fmt = messages::listen)]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The cause.
        #[source]
        cause: io::Error,
    },

    /// A peer cannot be reached, or the connection ended during the handshake.
    #[error(fmt = messages::connect)]
    Connect {
        /// The peer.
        peer: String,
        /// The cause.
        #[source]
        cause: io::Error,
    },

    /// The peer is not a process of this project.
    #[error("{peer} does not speak the cluster protocol; another program may listen there")]
    NotACluster {
        /// The peer.
        peer: String,
    },

    /// A connection has reached another process than the one that it is for. Both ends refuse it.
    #[error(
        "the connection from {from} to {to} has reached {found}: check the addresses of both, the list of \
         servers, and proxies and port forwarding between them"
    )]
    Misdirected {
        /// The process that has opened the connection.
        from: String,
        /// The process that it is for.
        to: String,
        /// The process that it has reached.
        found: String,
    },

    /// A peer that knows the secret declined the connection.
    #[error("{peer} refused the connection: {reason}")]
    Refused {
        /// The peer.
        peer: String,
        /// The reason that it gave.
        reason: String,
    },

    /// The rendezvous failed. All ranks that were connected to rank 0 get the same text.
    #[error("rendezvous: {0}")]
    Rendezvous(String),

    /// Rank 0 could not be reached before the deadline of the rendezvous.
    #[error(fmt = messages::master_unreachable)]
    MasterUnreachable {
        /// This rank.
        rank: usize,
        /// The time of the attempts: "60 s".
        waited: String,
        /// The error of the last attempt.
        #[source]
        cause: Box<ClusterError>,
    },

    /// The connection to rank 0 failed before the roster came.
    #[error(fmt = messages::no_roster)]
    NoRoster {
        /// The address of rank 0.
        master: SocketAddr,
        /// The cause.
        #[source]
        cause: io::Error,
    },

    /// The address of a rank in the roster is not allowed.
    #[error(fmt = messages::roster_address)]
    RosterAddress {
        /// The address of rank 0, which sent the roster.
        master: SocketAddr,
        /// The rank.
        rank: usize,
        /// The address of that rank.
        addr: SocketAddr,
        /// The cause.
        #[source]
        cause: Box<ClusterError>,
    },

    /// An address without a port, or one that stands for all addresses of a machine, was given to connect to.
    #[error("{addr} is not an address to connect to")]
    NoDestination {
        /// The address.
        addr: SocketAddr,
    },

    /// A rank of the job failed, so this process must end too.
    #[error("{0}")]
    RankFailed(Failure),

    /// The connection to a peer in a collective broke, and the control plane named no cause.
    #[error(fmt = messages::peer_lost)]
    PeerLost {
        /// The collective, with its number and its group.
        operation: String,
        /// The rank of the peer.
        rank: usize,
        /// The listening address of the peer.
        addr: SocketAddr,
        /// The progress of the collective.
        progress: String,
        /// The error of the connection.
        #[source]
        cause: io::Error,
    },

    /// Bytes of a collective were modified on the way.
    #[error("{operation}: {cause}")]
    Modified {
        /// The collective, with its number and its group.
        operation: String,
        /// The error of the connection, which names the rank that sent the bytes.
        #[source]
        cause: io::Error,
    },

    /// A peer in a collective was silent for `collective_timeout_ms`, or two ranks called different collectives, or the same
    /// one with different lengths or types.
    #[error("{0}")]
    Collective(String),

    /// An earlier collective of the group failed, so its connections are in an unknown state.
    #[error("group {group:?} cannot be used after an error: {earlier}")]
    GroupBroken {
        /// The group.
        group: String,
        /// The earlier error.
        earlier: String,
    },

    /// The data of a collective exceeds its limit.
    #[error("{operation}: {bytes} bytes are more than the limit of {limit}")]
    TooLarge {
        /// The collective.
        operation: &'static str,
        /// The requested size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },

    /// A rank that [`spawn`](crate::spawn) started failed first. Unless it was killed, it has printed the reason to
    /// standard error.
    #[error("rank {rank} {how}")]
    RankEnded {
        /// The rank.
        rank: usize,
        /// The end of its process: "failed with exit status 1", "was ended by signal 9".
        how: String,
    },

    /// An interrupt or a request to terminate ended the job.
    #[error("interrupted")]
    Interrupted,

    /// A call to the operating system failed (to start a thread, get random bytes, set a socket option).
    #[error(fmt = messages::system)]
    System {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        cause: io::Error,
    },
}

/// Returns a function that turns an I/O error of `operation` into a [`ClusterError::System`].
pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> ClusterError {
    move |cause| ClusterError::System { operation, cause: explain(cause) }
}

/// Formats a duration in seconds: "60 s", "0.5 s".
pub(crate) fn seconds(duration: std::time::Duration) -> String {
    format!("{} s", duration.as_millis() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::time::Duration;

    use super::*;

    #[test]
    fn causes_are_sources_and_part_of_the_alternate_form() {
        let cause = ClusterError::Connect { peer: "rank 0".to_owned(), cause: io::Error::other("unplugged") };
        let error = ClusterError::MasterUnreachable { rank: 1, waited: "5 s".to_owned(), cause: Box::new(cause) };
        let head = "rendezvous: rank 1 has not reached the master within 5 s";
        assert_eq!(error.to_string(), head);
        assert_eq!(format!("{error:#}"), format!("{head}: connect to rank 0: unplugged"));
        assert!(error.source().unwrap().source().unwrap().is::<io::Error>());
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(seconds(Duration::from_secs(60)), "60 s");
        assert_eq!(seconds(Duration::from_millis(500)), "0.5 s");
    }
}
