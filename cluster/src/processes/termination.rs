//! SIGTERM as a request that a process can finish its work for.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal};

use crate::error::{ClusterError, system};

/// The exit status of a rank that has stored its state because it was asked to end. It is `EX_TEMPFAIL` of `sysexits.h`.
pub const STATE_STORED: u8 = 75;

/// SIGTERM, caught by this process.
///
/// The signal ends the process as always, except while a [`DeferredTermination`] exists: then it only sets a flag.
///
/// ```
/// use edgecut_cluster::Termination;
/// // Called before the process starts other threads.
/// let termination = Termination::catch()?;
/// let deferred = termination.defer();
/// // A signal that arrives now does not end the process.
/// assert!(!termination.is_requested());
/// drop(deferred);
/// # Ok::<(), edgecut_cluster::ClusterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Termination(Arc<State>);

#[derive(Debug, Default)]
struct State {
    requested: AtomicBool,
    /// The number of guards. The lock is held while a signal decides whether to end the process.
    deferred: Mutex<usize>,
}

/// A guard that keeps SIGTERM from ending the process.
#[derive(Debug)]
pub struct DeferredTermination(Arc<State>);

impl Termination {
    /// Catches SIGTERM in this process. Call this before the process starts other threads: those that exist already
    /// would still be ended by the signal.
    ///
    /// # Errors
    /// The system refuses to block the signal, or to start a thread.
    pub fn catch() -> Result<Self, ClusterError> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTERM);
        signals.thread_block().map_err(|errno| system("catch SIGTERM")(errno.into()))?;
        let state = Arc::new(State::default());
        let of_thread = state.clone();
        let wait = move || wait_for(signals, &of_thread);
        std::thread::Builder::new().name("sigterm".into()).spawn(wait).map_err(system("start a thread"))?;
        Ok(Self(state))
    }

    /// Returns true once the signal has arrived.
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Acquire)
    }

    /// Keeps the signal from ending the process until the guard is dropped.
    pub fn defer(&self) -> DeferredTermination {
        *self.0.deferred.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        DeferredTermination(self.0.clone())
    }
}

impl DeferredTermination {
    /// Keeps the signal from ending the process for the rest of its life, which is about to end anyway.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for DeferredTermination {
    fn drop(&mut self) {
        *self.0.deferred.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

fn wait_for(signals: SigSet, state: &State) {
    while signals.wait().is_ok() {
        state.requested.store(true, Ordering::Release);
        let deferred = state.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        if *deferred == 0 {
            end_by_signal(signals);
        }
    }
}

/// Ends the process as the signal does by default.
fn end_by_signal(signals: SigSet) {
    let unblocked: io::Result<()> = signals.thread_unblock().map_err(Into::into);
    if unblocked.is_ok() {
        let _ = nix::sys::signal::raise(Signal::SIGTERM);
    }
    // Not reached unless the process ignores the signal.
    std::process::exit(128 + Signal::SIGTERM as i32);
}
