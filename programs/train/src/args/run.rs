//! The flags that all commands that train have.

use crate::args::checkpoints::CheckpointArgs;
use crate::args::device::DeviceArgs;
use crate::args::{JobArgs, OutputArgs};
use clap::Args;
use serde::Serialize;

/// Flags of the output, the checkpoints, the device and the job of a training.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) checkpoints: CheckpointArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) device: DeviceArgs,
    // Each process has its own rank, addresses, threads and timeouts.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) job: JobArgs,
}
