//! The commands that the ranks of a job run together.

use crate::args::device::DeviceArgs;
use crate::args::run::RunArgs;
use crate::args::{JobArgs, PartArgs};
use crate::exit::UsageError;
use crate::job::process_role::Rank;
use anyhow::bail;
use edgecut_cluster::Termination;
use std::path::PathBuf;

/// The flags that a command of a job shares with others.
pub(crate) struct JobFlags<'a> {
    pub(crate) job: &'a JobArgs,
    /// The flags of the graph if the command reads one in parts.
    pub(crate) part: Option<&'a PartArgs>,
    /// The flags of the device if the command computes on one.
    pub(crate) device: Option<&'a DeviceArgs>,
    /// The flags of the training if the command trains.
    pub(crate) training: Option<&'a RunArgs>,
}

/// A command that the ranks of a job run together.
pub(crate) trait JobCommand {
    fn flags(&self) -> JobFlags<'_>;

    /// Checks flags that contradict each other. The parent checks them too, so that an error is printed once.
    fn check(&self) -> anyhow::Result<()>;

    /// Returns the reason if the command has no score that a sweep could compare, with the remedy.
    fn why_no_score(&self) -> Option<&'static str> {
        None
    }

    /// Returns the files and folders that determine the result of a run, beside its flags. The default is none.
    fn inputs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns true if the data comes from servers, whose contents [`JobCommand::inputs`] do not tell.
    fn reads_servers(&self) -> bool {
        false
    }

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
