//! The flags of checkpoints.

use crate::settings::shared_flags::{as_text, is_given};
use clap::Args;
use edgecut_trainer::checkpoint::{Cadence, Checkpoints};
use serde::Serialize;
use std::path::PathBuf;

/// Flags of checkpoints; equal on all ranks, except the path.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Checkpoints")]
pub(crate) struct CheckpointArgs {
    /// Write the complete state of the training to this folder, from which --resume continues with the same result as
    /// without an interruption. Each node keeps the files of its own processes. SIGTERM then also writes a checkpoint,
    /// and the run ends with status 75
    // Ranks may have different paths, but all of them take part in checkpoints.
    #[arg(long, value_name = "DIR", conflicts_with = "load_model")]
    #[serde(serialize_with = "is_given")]
    pub(crate) checkpoint_dir: Option<PathBuf>,
    /// Distance between two checkpoints, for example 1epoch, 50steps, 2h, 10min or 90s
    #[arg(long, value_name = "N(epochs|steps|h|min|s)", default_value = "1epoch", requires = "checkpoint_dir")]
    #[serde(serialize_with = "as_text")]
    pub(crate) checkpoint_every: Cadence,
    /// Number of checkpoints to keep
    #[arg(long, value_name = "K", default_value_t = 2, requires = "checkpoint_dir",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) keep: u32,
    /// Continue from the newest complete checkpoint in --checkpoint-dir, or start if there is none
    #[arg(long, requires = "checkpoint_dir")]
    pub(crate) resume: bool,
}

/// The lines of a metrics file that a run with `--resume` keeps.
#[derive(Debug, Default)]
pub(crate) struct KeptLines {
    /// The number of finished epochs.
    pub(crate) epochs: u64,
    /// The name of the process group that wrote the checkpoint, if the run continues from one.
    pub(crate) group: Option<String>,
}

impl CheckpointArgs {
    /// Returns the lines that a metrics file keeps; `None` if the run does not resume.
    pub(crate) fn kept_lines(&self, checkpoints: Option<&Checkpoints>) -> Option<KeptLines> {
        if !self.resume {
            return None;
        }
        let Some(checkpoints) = checkpoints else { return Some(KeptLines::default()) };
        Some(KeptLines {
            epochs: checkpoints.resumed().map_or(0, |position| position.epoch),
            group: checkpoints.resumed_group().map(str::to_owned),
        })
    }
}
