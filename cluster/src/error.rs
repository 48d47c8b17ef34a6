//! What can go wrong in a job, and which rank it is the fault of.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::descriptors::explain;

/// The first failure of a job: the rank or the connection that failed, and why.
///
/// All ranks learn the same one, whatever broke for themselves in consequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The rank that failed.
    pub rank: usize,
    /// The listening address of that rank.
    pub addr: SocketAddr,
    /// Why, in words for the user.
    pub reason: String,
    /// The rank at the other end, where the connection between the two failed rather than the process of `rank`.
    #[serde(default)]
    pub link_to: Option<usize>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.head(), self.reason)
    }
}

impl Failure {
    /// Who failed, without why.
    pub fn head(&self) -> String {
        let Self { rank, addr, .. } = self;
        match self.link_to {
            Some(other) => format!("the connection between rank {rank} at {addr} and rank {other} failed"),
            None => format!("rank {rank} at {addr} failed"),
        }
    }
}

/// An error of this crate.
///
/// A message carries its cause in full, since it may travel to other ranks as text; [`std::error::Error::source`] is
/// therefore empty.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A field of [`ClusterConfig`](crate::ClusterConfig), or an argument, makes no sense.
    #[error("cluster configuration: {0}")]
    Config(String),

    /// An environment variable has a value that cannot be used.
    #[error("environment variable {variable}: {reason}")]
    Env {
        /// The variable's name.
        variable: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The file with the shared secret cannot be read.
    #[error("read the shared secret from {}: {cause}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: io::Error,
    },

    /// A shared secret was given but is empty.
    #[error("the shared secret in {origin} is empty")]
    TokenEmpty {
        /// The variable or the file.
        origin: String,
    },

    /// A shared secret is too short to be safe from guessing.
    #[error(
        "the shared secret in {origin} has {bytes} bytes; it must have at least {least}: make one with \
         `openssl rand -hex 32`"
    )]
    TokenShort {
        /// The variable or the file.
        origin: String,
        /// The length of the secret.
        bytes: usize,
        /// The least length.
        least: usize,
    },

    /// Others than the owner may use the file with the shared secret.
    #[error(
        "the file with the shared secret, {0}, is open to other users (mode {mode:04o}): make it private with \
         `chmod 600 {0}`", path.display()
    )]
    TokenFileOpen {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },

    /// Another user runs the peer, and there is no shared secret that would show that it belongs to the job.
    #[error(
        "{peer} is a process of user {theirs}, this process is one of user {ours}: without a shared secret all processes \
         must belong to one user; set EDGECUT_TOKEN (or EDGECUT_TOKEN_FILE) to the same secret on every rank"
    )]
    OtherUser {
        /// The peer.
        peer: String,
        /// The user id of the peer's process.
        theirs: u32,
        /// The user id of this process.
        ours: u32,
    },

    /// The system does not tell which user runs the peer, and there is no shared secret.
    #[error(
        "find the user whose process is at {peer}: {cause}; set EDGECUT_TOKEN (or EDGECUT_TOKEN_FILE) to the same secret \
         on every rank"
    )]
    UnknownUser {
        /// The peer.
        peer: String,
        /// Why the user is not known.
        cause: io::Error,
    },

    /// This process may not open as many files as its connections need.
    #[error(
        "this rank needs {needed} open files ({parts}), but may have {limit}: raise the hard limit (ulimit -Hn, \
         LimitNOFILE=, docker run --ulimit nofile=) or start fewer ranks"
    )]
    FileLimit {
        /// The number that is needed.
        needed: usize,
        /// The limit.
        limit: u64,
        /// The parts of the number.
        parts: String,
    },

    /// Without a shared secret only loopback addresses are used.
    #[error(
        "{action} {addr} without a shared secret: only loopback addresses work without one; \
         set EDGECUT_TOKEN (or EDGECUT_TOKEN_FILE) to the same secret on every rank"
    )]
    TokenRequired {
        /// "listen on", "connect to".
        action: &'static str,
        /// The address that is not loopback.
        addr: SocketAddr,
    },

    /// A host name has no address.
    #[error("resolve {host}: {cause}")]
    Resolve {
        /// The name, with the port.
        host: String,
        /// Why not.
        cause: String,
    },

    /// The port to listen on belongs to another process.
    #[error("listen on {addr}: port in use; choose another with {flag} or end the process that holds it")]
    PortInUse {
        /// The address.
        addr: SocketAddr,
        /// The command-line flag that chooses the port.
        flag: &'static str,
    },

    /// Listening fails for another reason than a port in use.
    #[error("listen on {addr}: {cause}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why it fails.
        cause: io::Error,
    },

    /// A peer cannot be reached, or the connection ended during the handshake.
    #[error("connect to {peer}: {cause}")]
    Connect {
        /// The peer.
        peer: String,
        /// Why not.
        cause: io::Error,
    },

    /// A peer speaks another version of the protocol.
    #[error("peer {peer} speaks protocol {theirs}, this node speaks {ours}")]
    Version {
        /// The peer.
        peer: String,
        /// Its version.
        theirs: u32,
        /// This process's version.
        ours: u32,
    },

    /// What answers is not a process of this project.
    #[error("{peer} does not speak the cluster protocol; another program may listen there")]
    NotACluster {
        /// The peer.
        peer: String,
    },

    /// The peer found that this process's shared secret differs from its own.
    #[error("{peer} rejected this process's token (EDGECUT_TOKEN differs between the two, or only one of them has it)")]
    TokenRejected {
        /// The peer.
        peer: String,
    },

    /// This process found that the peer's shared secret differs from its own.
    #[error("the token of {peer} differs from this process's (EDGECUT_TOKEN)")]
    TokenDiffers {
        /// The peer.
        peer: String,
    },

    /// A peer that knows the secret declined the connection.
    #[error("{peer} refused the connection: {reason}")]
    Refused {
        /// The peer.
        peer: String,
        /// Its reason.
        reason: String,
    },

    /// The job did not come together. All ranks that were in touch with rank 0 get the same text.
    #[error("rendezvous: {0}")]
    Rendezvous(String),

    /// A rank of the job failed; this process must end too.
    #[error("{0}")]
    RankFailed(Failure),

    /// The connection to a neighbor in a ring broke, and nothing more is known.
    #[error("{operation}: lost rank {rank} at {addr}: {cause} ({progress})")]
    PeerLost {
        /// The collective, with its number and its group.
        operation: String,
        /// The neighbor.
        rank: usize,
        /// Its listening address.
        addr: SocketAddr,
        /// How it broke.
        cause: io::Error,
        /// How far the collective got.
        progress: String,
    },

    /// A neighbor in a ring was silent for longer than `collective_timeout_ms`.
    #[error("{operation}: rank {rank} at {addr} was silent for {silence} ({progress})")]
    PeerSilent {
        /// The collective, with its number and its group.
        operation: String,
        /// The neighbor.
        rank: usize,
        /// Its listening address.
        addr: SocketAddr,
        /// For how long.
        silence: String,
        /// How far the collective got.
        progress: String,
    },

    /// Two neighbors called different collectives, or the same with other lengths or types.
    #[error(
        "ranks disagree on collective #{sequence} of group {group:?}: {ours} on rank {rank}, {theirs} on rank {peer}"
    )]
    Mismatch {
        /// The group.
        group: String,
        /// The number of the collective in that group.
        sequence: u64,
        /// This rank.
        rank: usize,
        /// What this rank called.
        ours: String,
        /// The other rank.
        peer: usize,
        /// What the other rank called.
        theirs: String,
    },

    /// The group had an error before; its connections are in an unknown state.
    #[error("group {group:?} cannot be used after an error: {earlier}")]
    GroupBroken {
        /// The group.
        group: String,
        /// The earlier error.
        earlier: String,
    },

    /// A message of a collective is larger than its limit.
    #[error("{operation}: {bytes} bytes are more than the limit of {limit}")]
    TooLarge {
        /// The collective.
        operation: &'static str,
        /// The size asked for.
        bytes: u64,
        /// The limit.
        limit: u64,
    },

    /// A rank that [`spawn`](crate::spawn) started failed first. It has said why on standard error, if it could.
    #[error("rank {rank} {how}")]
    RankEnded {
        /// The rank.
        rank: usize,
        /// "failed with exit status 1", "was ended by signal 9".
        how: String,
    },

    /// An interrupt or a request to terminate ended the job.
    #[error("interrupted")]
    Interrupted,

    /// The operating system denied something that is needed (a thread, random bytes, a socket option).
    #[error("{operation}: {cause}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
}

/// Turns an I/O error of `operation` into a [`ClusterError::System`].
pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> ClusterError {
    move |cause| ClusterError::System { operation, cause: explain(cause) }
}

/// Writes a duration as a user would: "60 s", "0.5 s".
pub(crate) fn seconds(duration: std::time::Duration) -> String {
    format!("{} s", duration.as_millis() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn durations_read_well() {
        assert_eq!(super::seconds(Duration::from_secs(60)), "60 s");
        assert_eq!(super::seconds(Duration::from_millis(500)), "0.5 s");
    }
}
