//! Telling the others of an error, or who is to blame for it.

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::local_ranks::OTHER_RANK_FAILED;

/// When another rank has failed, a process ends by itself; if it is stuck it is ended after this time.
const STUCK: Duration = Duration::from_secs(8);

/// Whose fault an error is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blame<E> {
    /// This process's own; the other ranks have been told.
    Own(E),
    /// Another rank's, or that of the connection between two ranks: the failure, and how it was noticed here.
    Other(String),
}

/// Says an error on standard error, in one piece, so that what several processes say at once stays in lines.
pub(crate) fn say_error(error: &str) {
    // If nobody can hear it, the exit status still tells.
    let _ = std::io::stderr().write_all(format!("error: {error}\n").as_bytes());
}

impl Cluster {
    /// Finds out whose fault the error is that ends this process, and tells the others if it is its own. What connects this
    /// process to them should be dropped only after this, so that none takes the consequence for the cause.
    pub fn blame<E: Display>(&self, error: E) -> Blame<E> {
        let verdict = self.verdict(error);
        match &verdict.failure {
            Some(failure) if failure.rank != self.rank() || failure.link_to.is_some() => {
                Blame::Other(verdict.to_string())
            }
            _ => {
                self.abort(&format!("{:#}", verdict.own));
                Blame::Own(verdict.own)
            }
        }
    }

    /// Ends this process if another rank has failed and the work here does not notice within eight seconds.
    pub fn exit_when_stuck(&self) {
        let rank = self.rank();
        self.on_failure(move |failure| {
            std::thread::sleep(STUCK);
            say_error(&format!("rank {rank}: {failure}"));
            let is_own = failure.rank == rank && failure.link_to.is_none();
            std::process::exit(if is_own { 1 } else { i32::from(OTHER_RANK_FAILED) });
        });
    }
}
