//! The end of a job: failures, their reports, and the shutdown.

use crate::timeouts::{STUCK_PROCESS_TIMEOUT, VERDICT_TIMEOUT};
use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::error::{ClusterError, Failure, seconds};
use crate::failure::blame::{Blame, OTHER_RANK_FAILED, say_error};
use crate::failure::job_state::Ending;
use crate::failure::panics::current_panic;
use crate::failure::verdict::Verdict;
use crate::join::registry::list;

/// The length at which the reason of a failure is cut.
const MAX_REASON_BYTES: usize = 4096;

impl Cluster {
    /// Returns the first failure of the job that this process has learned of. Once set, it does not change.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.job_state.failure()
    }

    /// Waits until a rank of the job fails. For async code that waits for other ranks.
    pub async fn failed(&self) -> Failure {
        self.inner.job_state.failed().await
    }

    /// Returns whether this process was suspended at some time after `since`, by itself or with its machine. Code that
    /// waits for other ranks with its own deadline should then restart its clock, as the waits of this crate do.
    pub fn was_suspended_since(&self, since: Instant) -> bool {
        self.inner.control.was_suspended_since(since)
    }

    /// Calls `watcher` once, on a separate thread, when a rank fails; immediately if one has failed already. A
    /// [`Cluster::abort`] of this process does not call it.
    ///
    /// A watcher that owns a clone of the handle keeps the membership alive until the job ends.
    pub fn on_failure(&self, watcher: impl FnOnce(Failure) + Send + 'static) {
        self.inner.job_state.watch(Box::new(watcher));
    }

    /// Combines an error of this process with the failure of the job that caused it, if any. Waits for up to two
    /// seconds for the control plane to name a failure. Use it for errors on connections to other ranks.
    pub fn verdict<E: Display>(&self, own: E) -> Verdict<E> {
        // A job of one process has no other ranks to wait for.
        let patience = if self.world_size() == 1 { Duration::ZERO } else { VERDICT_TIMEOUT };
        Verdict { failure: self.inner.job_state.wait_for_failure(patience), own }
    }

    /// Reports the failure of this rank and its reason to all other ranks, and prints it before if the configuration says
    /// so. Returns when the report has been sent, after at most two seconds. The process can then exit.
    pub fn abort(&self, reason: &str) {
        let failure = Failure { is_own: true, ..self.failure_of(self.rank(), reason) };
        self.inner.job_state.record_own(&failure);
        // Rank 0 may have decided on a failure of this rank before, such as its silence, and printed it.
        let known = self.failure().filter(|known| *known != failure);
        if known.is_none_or(|known| !reason.contains(&known.head())) {
            self.inner.printer.print_own(&format!("{}: {reason}", self.name()));
        }
        self.inner.control.report(failure, VERDICT_TIMEOUT);
    }

    /// Leaves the job. Waits until all ranks call this, then closes all connections, so that no rank mistakes a closed
    /// connection for a failure. Groups cannot be used afterwards.
    ///
    /// # Errors
    /// A rank failed, or did not call this within `collective_timeout_ms` after rank 0 did.
    pub fn shutdown(self) -> Result<(), ClusterError> {
        let inner = &self.inner;
        inner.control.leave();
        // Only rank 0 knows which ranks are not done. The others wait twice as long, so that its verdict comes first.
        let timeout = inner.config.collective_timeout() * if self.rank() == 0 { 1 } else { 2 };
        let ending = inner.job_state.wait(timeout);
        match ending {
            Ending::Finished => {
                inner.accept_thread.close();
                inner.control.stop();
                Ok(())
            }
            Ending::Failed(failure) => Err(ClusterError::RankFailed(failure)),
            Ending::Open => {
                let (rank, reason) = self.tardy(timeout);
                let failure = self.failure_of(rank, &reason);
                self.report(failure.clone());
                Err(ClusterError::RankFailed(inner.job_state.wait_for_failure(VERDICT_TIMEOUT).unwrap_or(failure)))
            }
        }
    }

    /// Returns the rank to blame, and the reason, when not all ranks are done in time.
    fn tardy(&self, timeout: Duration) -> (usize, String) {
        let unfinished = self.inner.control.unfinished();
        match (self.rank(), unfinished.first()) {
            (0, Some(&first)) => {
                let reason = format!("not done {} after rank 0 (waiting for: {})", seconds(timeout), list(&unfinished));
                (first, reason)
            }
            _ => (0, format!("did not end the job within {} after rank {} was done", seconds(timeout), self.rank())),
        }
    }

    pub(crate) fn failure_of(&self, rank: usize, reason: &str) -> Failure {
        // All callers pass ranks of the roster, so the fallback is never shown.
        let addr = self.inner.roster.get(rank).copied().unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        Failure { rank, addr, reason: shortened(reason).to_owned(), link_to: None, is_own: false }
    }

    /// Reports a failure to rank 0, which tells all ranks unless it knows of an earlier failure.
    pub(crate) fn report(&self, failure: Failure) {
        self.inner.control.report(failure, VERDICT_TIMEOUT);
    }

    /// Reports that the connection to a rank has failed although the processes at both ends work, for example because a
    /// message was modified on the way. The job then ends with an error that names both ranks.
    pub fn report_connection(&self, rank: usize, reason: &str) {
        self.report(Failure { link_to: Some(self.rank()), ..self.failure_of(rank, reason) });
    }

    /// Reports to rank 0 that this rank has waited too long for another. Rank 0 may find that a third rank is to blame.
    pub(crate) fn suspect(&self, failure: Failure) {
        self.inner.control.suspect(failure);
    }

    pub(crate) fn wait_for_failure(&self) -> Option<Failure> {
        self.inner.job_state.wait_for_failure(VERDICT_TIMEOUT)
    }

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

    /// Waits until the failure of the job is printed, by this rank or another one, if the configuration has
    /// `print_failure`. A process that ends because of the failure calls this before it drops its handles: if rank 0 is
    /// lost, the other ranks look for each other to find the one that prints. Waits for at most four seconds.
    pub fn wait_until_printed(&self) {
        self.inner.printer.wait();
    }

    /// Ends this process if the job fails and the process is still running eight seconds later. The exit status is
    /// [`OTHER_RANK_FAILED`], or 1 if this rank itself has failed.
    pub fn exit_when_stuck(&self) {
        let rank = self.rank();
        self.on_failure(move |failure| {
            std::thread::sleep(STUCK_PROCESS_TIMEOUT);
            say_error(&format!("rank {rank}: {failure}"));
            let is_own = failure.rank == rank && failure.link_to.is_none();
            std::process::exit(if is_own { 1 } else { i32::from(OTHER_RANK_FAILED) });
        });
    }
}

impl Drop for Cluster {
    /// Reports a panic that unwinds the calling thread to the other ranks.
    fn drop(&mut self) {
        if std::thread::panicking() && self.inner.config.report_panics && self.inner.job_state.is_open() {
            self.abort(&current_panic());
        }
    }
}

fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)]
}
