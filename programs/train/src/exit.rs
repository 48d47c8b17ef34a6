//! Exit statuses, and the error types that map to them.

pub(crate) use edgecut_cluster::OTHER_RANK_FAILED;
use edgecut_cluster::{RanksEnd, STATE_STORED};
use edgecut_gpu::DeviceError;
use edgecut_trainer::TrainError;
use std::os::unix::process::ExitStatusExt;
use thiserror::Error;

/// The exit status of an error in this process.
pub(crate) const ERROR: u8 = 1;
/// The exit status of invalid or contradictory flags.
pub(crate) const USAGE: u8 = 2;
/// The exit status after an interrupt (Ctrl-C).
pub(crate) const INTERRUPTED: u8 = 130;

/// The error of invalid or contradictory flags.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// An error that another rank caused.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct OtherRankFailed(pub(crate) String);

/// The context of an error that is printed already, by this process or by another rank to the same terminal.
#[derive(Debug, Error)]
#[error("printed already")]
pub(crate) struct Printed;

/// The end of a run by SIGTERM after it has written a checkpoint. The reporter has already told the user.
#[derive(Debug, Error)]
#[error("stopped by SIGTERM, after a checkpoint")]
pub(crate) struct Stopped;

/// Returns the exit status for `error`.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    // These errors of a device are caused by --device and --nproc-per-node.
    let is_device_flag =
        matches!(error.downcast_ref(), Some(DeviceError::NotBuilt { .. } | DeviceError::SharedGpu { .. }));
    let is_of_server = error.downcast_ref().is_some_and(TrainError::is_of_server);
    if error.is::<OtherRankFailed>() || is_of_server {
        OTHER_RANK_FAILED
    } else if error.is::<Stopped>() {
        STATE_STORED
    } else if error.is::<UsageError>() || is_device_flag {
        USAGE
    } else {
        ERROR
    }
}

/// Returns the exit status of a parent process whose ranks ended with `end`.
pub(crate) fn code_of_ranks(end: RanksEnd) -> u8 {
    match end {
        RanksEnd::Done => 0,
        RanksEnd::Interrupted => INTERRUPTED,
        RanksEnd::Failed { status, .. } => {
            // A shell reports death by signal N as 128 + N.
            let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
            u8::try_from(code).unwrap_or(1)
        }
    }
}
