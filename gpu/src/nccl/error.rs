//! The errors of collectives between the GPUs of a node.

use std::error::Error;
use std::sync::Arc;

use crate::device::DeviceError;

/// An error of [`NcclGroup`](crate::NcclGroup).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// NCCL is not installed, or cannot be loaded.
    #[error(
        "NCCL, which sums gradients between GPUs, was not found ({cause}): install libnccl2, or add its folder to \
         LD_LIBRARY_PATH"
    )]
    Missing {
        /// The message of the dynamic loader.
        cause: String,
    },

    /// NCCL exists, but lacks a function, or does not respond.
    #[error("NCCL cannot be used: {cause}")]
    Unusable {
        /// The failed operation, and the reason.
        cause: String,
    },

    /// NCCL is older than required.
    #[error("NCCL {found} is too old: {needed} or newer is needed")]
    TooOld {
        /// The installed version.
        found: String,
        /// The oldest sufficient version.
        needed: String,
    },

    /// The rank is outside of the group.
    #[error("local rank {local_rank} is out of range: the group has {local_size} ranks")]
    NoSuchRank {
        /// The rank on the node.
        local_rank: usize,
        /// The number of processes of the node.
        local_size: usize,
    },

    /// The caller could not distribute the group's id.
    #[error("distribute the id of the NCCL group")]
    Exchange(#[source] Arc<dyn Error + Send + Sync>),

    /// The device or its driver failed.
    #[error("{operation}: {cause}")]
    Device {
        /// The operation.
        operation: String,
        /// The cause.
        cause: DeviceError,
    },

    /// CubeCL failed to return the buffer, or to finish the work on it.
    #[error("{operation}: {cause}")]
    Runtime {
        /// The operation.
        operation: String,
        /// CubeCL's message.
        cause: String,
    },

    /// The buffer is shorter than the data to send.
    #[error("{operation}: the buffer has only {bytes} bytes")]
    TooShort {
        /// The operation.
        operation: String,
        /// The buffer's size in bytes.
        bytes: u64,
    },

    /// NCCL failed on this rank, or because another rank failed.
    #[error("{operation}: NCCL failed: {cause}")]
    Failed {
        /// The operation.
        operation: String,
        /// The result of NCCL, and its last error.
        cause: String,
    },

    /// The other ranks did not join the operation within the time limit.
    #[error(
        "{operation}: local rank {local_rank} of {local_size} has waited {timeout_ms} ms: another process of the node has \
         failed or hangs"
    )]
    TimedOut {
        /// The operation.
        operation: String,
        /// The rank on the node that waited.
        local_rank: usize,
        /// The number of processes of the node.
        local_size: usize,
        /// The time that it waited, in milliseconds.
        timeout_ms: u64,
    },

    /// The group is unusable because of an earlier error.
    #[error("the NCCL group is broken by an earlier error: {earlier}")]
    Broken {
        /// The error that broke it.
        earlier: String,
    },
}
