//! What can go wrong on a device.

use cubecl::server::ServerError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// A device did not do what it was asked for.
#[derive(Debug, Error)]
pub enum KernelError {
    /// Given arrays contradict each other.
    #[error("{what}")]
    Invalid {
        /// What does not fit.
        what: String,
    },
    /// The device cannot run a kernel, or not hold an array.
    #[error("the device {what}")]
    Unsupported {
        /// What it lacks.
        what: String,
    },
    /// The device, its driver or its compiler failed.
    #[error("{operation}: the device failed: {why}")]
    Failed {
        /// What was being done.
        operation: &'static str,
        /// What the runtime said.
        why: String,
    },
}

impl KernelError {
    pub(crate) fn failed(operation: &'static str, error: &ServerError) -> Self {
        Self::Failed { operation, why: error.to_string() }
    }
}

/// Runs `work`, which speaks with a device: the client of a device whose thread has died panics.
pub(crate) fn guarded<T>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T, KernelError>,
) -> Result<T, KernelError> {
    let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or_else(|| "no message".into(), |text| (*text).into()),
    };
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(KernelError::Failed { operation, why: text(panic) }))
}
