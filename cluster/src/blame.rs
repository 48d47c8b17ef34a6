//! The attribution of an error to this process or to another rank.

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::local_ranks::OTHER_RANK_FAILED;

/// The time that a process has to end by itself after a failure of the job. A process that is stuck is then ended.
const STUCK: Duration = Duration::from_secs(8);

/// The origin of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blame<E> {
    /// The error is this process's own. It has been reported to the other ranks.
    Own(E),
    /// The cause is another rank, or the connection between two ranks. The text names that failure and its effect on
    /// this process.
    Other(String),
}

/// Prints an error to standard error in a single write, so that lines of several processes do not mix.
pub(crate) fn say_error(error: &str) {
    // Without standard error, the exit status still shows the failure.
    let _ = std::io::stderr().write_all(format!("error: {error}\n").as_bytes());
}

impl Cluster {
    /// Finds the origin of the error that ends this process, and reports the error to the other ranks if it is this
    /// process's own. Keep the connections to other ranks open until this returns, so that ranks report the original
    /// failure and not the disconnect that it caused.
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

    /// Ends this process if the job fails and the process is still running eight seconds later. The exit status is
    /// [`OTHER_RANK_FAILED`], or 1 if this rank itself has failed.
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
