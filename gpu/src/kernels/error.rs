//! The errors of kernels.

use cubecl::server::ServerError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// An error of work on a device.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The given arrays contradict each other.
    #[error("{what}")]
    Invalid {
        /// The mismatch.
        what: String,
    },
    /// The device cannot run a kernel, or cannot hold an array.
    #[error("the device {what}")]
    Unsupported {
        /// The missing ability, as a predicate: "has no numbers of type f16".
        what: String,
    },
    /// The device, its driver or its compiler failed.
    #[error("{operation}: the device failed: {why}")]
    Failed {
        /// The operation.
        operation: &'static str,
        /// The runtime's message.
        why: String,
    },
}

impl KernelError {
    /// Wraps an error of the runtime.
    pub(crate) fn failed(operation: &'static str, error: &ServerError) -> Self {
        Self::Failed { operation, why: error.to_string() }
    }
}

/// Runs `work`, which uses a device, and turns panics into errors: the client of a device whose thread has died panics.
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
