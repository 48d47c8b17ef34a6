//! The failure of a rank, or of the connection between two ranks.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The first failure of a job: the rank or the connection that failed, and the reason.
///
/// All ranks learn the same failure, whichever consequence they notice first.
///
/// ```
/// use edgecut_cluster::Failure;
///
/// let addr = "10.0.0.1:29500".parse().expect("an address");
/// let failure = Failure { rank: 1, addr, reason: "disk full".to_owned(), link_to: None };
/// assert_eq!(failure.head(), "rank 1 at 10.0.0.1:29500 failed");
/// assert_eq!(failure.to_string(), "rank 1 at 10.0.0.1:29500 failed: disk full");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The rank that failed.
    pub rank: usize,
    /// The listening address of that rank.
    pub addr: SocketAddr,
    /// The reason, as text for the user.
    pub reason: String,
    /// The rank at the other end, if the connection between the two failed rather than the process of `rank`.
    #[serde(default)]
    pub link_to: Option<usize>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.head(), self.reason)
    }
}

impl Failure {
    /// Returns the subject of the failure without the reason: "rank 1 at 10.0.0.1:5 failed".
    pub fn head(&self) -> String {
        let Self { rank, addr, .. } = self;
        match self.link_to {
            Some(other) => format!("the connection between rank {rank} at {addr} and rank {other} failed"),
            None => format!("rank {rank} at {addr} failed"),
        }
    }
}
