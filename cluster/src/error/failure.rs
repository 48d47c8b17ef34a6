//! The failure of a rank, or of the connection between two ranks.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The first failure of a job: the rank or the connection that failed, and the reason.
///
/// All ranks learn the same failure, whichever consequence they notice first.
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
    /// True if the process of `rank` has reported the failure itself.
    #[serde(default)]
    pub is_own: bool,
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

    /// Returns the ranks that may print the failure if rank 0 cannot be heard, the first one first. `roster` has the
    /// addresses of all ranks.
    ///
    /// The ends of a failed connection come first, since their processes work. Otherwise the ranks of the lost rank's machine
    /// come last, as the whole machine may be lost.
    pub(crate) fn printers(&self, roster: &[SocketAddr]) -> Vec<usize> {
        let mut ranks: Vec<usize> = (0..roster.len()).collect();
        match self.link_to {
            Some(other) => ranks.sort_by_key(|&rank| rank != self.rank && rank != other),
            None => {
                ranks.retain(|&rank| rank != self.rank);
                ranks.sort_by_key(|&rank| roster[rank].ip() == self.addr.ip());
            }
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROSTER: [&str; 3] = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"];

    fn roster() -> Vec<SocketAddr> {
        ROSTER.map(|addr| addr.parse().expect("an address")).to_vec()
    }

    fn killed(rank: usize) -> Failure {
        Failure { rank, addr: roster()[rank], reason: String::new(), link_to: None, is_own: false }
    }

    #[test]
    fn ranks_of_other_machines_print_first() {
        let roster = roster();
        assert_eq!([0, 1, 2].map(|rank| killed(rank).printers(&roster)), [[2, 1], [2, 0], [0, 1]]);
        assert_eq!(Failure { link_to: Some(2), ..killed(1) }.printers(&roster), [1, 2, 0]);
    }
}
