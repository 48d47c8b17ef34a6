//! What can go wrong between the GPUs of a node.

use crate::device::DeviceError;

/// An error of [`NcclGroup`](crate::NcclGroup).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// NCCL is not installed, or cannot be loaded.
    #[error(
        "NCCL, which adds up gradients between GPUs, was not found ({cause}): install libnccl2, or name its folder in LD_LIBRARY_PATH"
    )]
    Missing {
        /// What the dynamic loader said.
        cause: String,
    },

    /// NCCL is there, but lacks a function, or does not answer.
    #[error("NCCL cannot be used: {cause}")]
    Unusable {
        /// What was tried, and why it failed.
        cause: String,
    },

    /// NCCL is older than what is needed.
    #[error("NCCL {found} is too old: {needed} or newer is needed")]
    TooOld {
        /// The version that is installed.
        found: String,
        /// The oldest that will do.
        needed: String,
    },

    /// A place that is none.
    #[error("local rank {local_rank} of {local_size} is no place in a group")]
    NoSuchRank {
        /// The rank on the node.
        local_rank: usize,
        /// The processes of the node.
        local_size: usize,
    },

    /// The caller could not hand over the group's id.
    #[error("pass on the id of the NCCL group: {cause}")]
    Exchange {
        /// What the caller said.
        cause: String,
    },

    /// The device, or its driver, failed.
    #[error("{operation}: {cause}")]
    Device {
        /// What was being done.
        operation: String,
        /// Why it failed.
        cause: DeviceError,
    },

    /// CubeCL failed to give the buffer, or to finish the work on it.
    #[error("{operation}: {cause}")]
    Runtime {
        /// What was being done.
        operation: String,
        /// What CubeCL said.
        cause: String,
    },

    /// The buffer is smaller than what was to be sent.
    #[error("{operation}: the buffer has only {bytes} bytes")]
    TooShort {
        /// What was asked for.
        operation: String,
        /// The buffer's size in bytes.
        bytes: u64,
    },

    /// NCCL failed: on this rank, or because another one did.
    #[error("{operation}: NCCL says: {cause}")]
    Failed {
        /// What was being done.
        operation: String,
        /// NCCL's result and last error.
        cause: String,
    },

    /// The other ranks did not come within the time allowed.
    #[error(
        "{operation}: local rank {local_rank} of {local_size} has waited {timeout_ms} ms: another process of the node has \
         failed or stands still"
    )]
    TimedOut {
        /// What was being done.
        operation: String,
        /// The rank on the node that waited.
        local_rank: usize,
        /// The processes of the node.
        local_size: usize,
        /// How long it waited, in milliseconds.
        timeout_ms: u64,
    },

    /// The group is unusable since an earlier error.
    #[error("the NCCL group is broken since: {earlier}")]
    Broken {
        /// The error that broke it.
        earlier: String,
    },
}
