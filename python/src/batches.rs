//! The batches of an epoch, which a thread takes from a loader.

use crate::errors::{EdgecutError, failed_in};
use crate::fork_guard::ForkGuard;
use crate::signals::SIGNALS;
use edgecut_cluster::Cluster;
use edgecut_dist_loader::{BatchIter, LoaderError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};

/// A batch whose arrays become NumPy's without a copy.
pub(crate) trait PreparedBatch: Send {
    /// Returns a dictionary of arrays.
    fn into_python(self: Box<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyDict>>;
}

/// An iterator over the batches of an epoch, as dictionaries of arrays.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct Batches(ForkGuard<Epoch>);

/// The epoch of [`Batches`].
struct Epoch {
    cluster: Cluster,
    pending: Mutex<Pending>,
}

/// The batches of an epoch that are still to come.
struct Pending {
    receiver: Receiver<Result<Box<dyn PreparedBatch>, LoaderError>>,
    /// Their number, 0 after an error.
    left: usize,
}

impl Batches {
    /// Starts to take the `num_steps` batches of an epoch on a thread. The thread ends with the epoch, or when the
    /// iterator is dropped.
    pub(crate) fn start<T: PreparedBatch + 'static>(
        cluster: Cluster,
        num_steps: usize,
        epoch: impl FnOnce() -> BatchIter<T> + Send + 'static,
    ) -> PyResult<Self> {
        let (sender, receiver) = sync_channel(0);
        let run = move || {
            for batch in epoch().take(num_steps) {
                if sender.send(batch.map(|batch| Box::new(batch) as Box<dyn PreparedBatch>)).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("edgecut batches".into()).spawn(run)?;
        let pending = Mutex::new(Pending { receiver, left: num_steps });
        Ok(Self(ForkGuard::new(Epoch { cluster, pending })))
    }
}

impl Pending {
    /// Waits for the next batch, at most the time between two checks for signals. An epoch that ends too early, because
    /// its thread has panicked, is an error.
    fn next(&mut self) -> Result<Result<Box<dyn PreparedBatch>, LoaderError>, RecvTimeoutError> {
        let received = match self.receiver.recv_timeout(SIGNALS) {
            Err(RecvTimeoutError::Disconnected) if self.left > 0 => Ok(Err(LoaderError::Stopped)),
            received => received,
        };
        match &received {
            Ok(Ok(_)) => self.left = self.left.saturating_sub(1),
            Ok(Err(_)) => self.left = 0,
            Err(_) => {}
        }
        received
    }
}

#[pymethods]
impl Batches {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Epoch { cluster, pending } = &**self.0.get()?;
        loop {
            let received = py.detach(|| pending.lock().unwrap_or_else(PoisonError::into_inner).next());
            match received {
                Ok(Ok(batch)) => match cluster.failure() {
                    // A loader of whole graphs sends no requests that would fail.
                    Some(failure) => return Err(EdgecutError::new_err(format!("another rank failed: {failure}"))),
                    None => return batch.into_python(py).map(Some),
                },
                Ok(Err(error)) => return Err(failed_in(cluster, &error)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }
}
