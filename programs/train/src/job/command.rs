//! The commands that the ranks of a job run together.

use crate::args::device::DeviceArgs;
use crate::args::run::RunArgs;
use crate::args::{JobArgs, PartArgs};
use crate::exit::UsageError;
use crate::job::process_role::Rank;
use anyhow::bail;
use edgecut_cluster::Termination;

/// A command that the ranks of a job run together.
pub(crate) trait JobCommand {
    fn job(&self) -> &JobArgs;

    /// Returns the flags of the graph if the command reads one in parts.
    fn part(&self) -> Option<&PartArgs>;

    /// Returns the flags of the device if the command computes on one.
    fn device(&self) -> Option<&DeviceArgs>;

    /// Returns the flags of the training if the command trains.
    fn training(&self) -> Option<&RunArgs> {
        None
    }

    /// Checks flags that contradict each other. The parent checks them too, so that an error is printed once.
    fn check(&self) -> anyhow::Result<()>;

    /// Runs a rank of the job.
    fn run(&self, rank: Rank, termination: Option<&Termination>) -> anyhow::Result<()>;
}

/// Rejects `--verbose` for commands without epochs, on which it has no effect.
///
/// # Errors
/// [`UsageError`].
pub(crate) fn refuse_verbose(job: &JobArgs) -> anyhow::Result<()> {
    if job.verbose {
        bail!(UsageError("--verbose prints details of epochs, which this command does not have: leave it out".into()));
    }
    Ok(())
}
