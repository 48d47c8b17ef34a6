//! The flags of checkpoints.

use crate::exit::Stopped;
use crate::reporter::Reporter;
use crate::shared_flags::{as_text, is_given};
use anyhow::Context;
use clap::Args;
use edgecut_cluster::{ProcessGroup, Termination};
use edgecut_dist_sampler::DistGraph;
use edgecut_trainer::TrainError;
use edgecut_trainer::checkpoint::{Cadence, CheckpointConfig, Checkpoints, DataIdentity};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Flags that may change when a run continues. They choose files, or the end of the training.
const MAY_CHANGE: [&str; 15] = [
    "cache_bytes",
    "cache_ranking",
    "cache_ratio",
    "checkpoint_dir",
    "checkpoint_every",
    "dataset_root_dir",
    "folds",
    "init_from",
    "keep",
    "load_model",
    "num_epochs",
    "patience",
    "resume",
    "save_model",
    "stats",
];

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
    /// Distance between two checkpoints, for example 1epoch, 50steps, 10min or 90s
    #[arg(long, value_name = "N(epochs|steps|min|s)", default_value = "1epoch", requires = "checkpoint_dir")]
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

/// The data and settings that a run must have to continue from a checkpoint, besides its flags.
pub(crate) struct RunIdentity<'a, F> {
    /// The flags that are equal on all ranks.
    pub(crate) flags: &'a F,
    pub(crate) num_epochs: u64,
    /// Settings that are not among these.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) data: DataIdentity,
}

impl CheckpointArgs {
    /// Finds the checkpoint to continue from; `None` without `--checkpoint-dir`. Every rank must call this.
    ///
    /// # Errors
    /// A checkpoint of another run, a damaged file, or a failure of the job.
    pub(crate) fn open<F: Serialize>(
        &self,
        run: &RunIdentity<'_, F>,
        termination: Option<&Termination>,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<Checkpoints>> {
        let Some(dir) = &self.checkpoint_dir else { return Ok(None) };
        let config = CheckpointConfig {
            dir: dir.clone(),
            every: self.checkpoint_every,
            keep: self.keep as usize,
            resume: self.resume,
            num_epochs: run.num_epochs,
            settings: run.settings()?,
            data: run.data.clone(),
            termination: termination.cloned(),
        };
        Ok(Some(Checkpoints::open(config, world)?))
    }

    /// Returns the identity of a graph, which is only computed with `--checkpoint-dir`. Every rank must call this.
    pub(crate) fn data_of(&self, node: &DistGraph, world: &mut ProcessGroup) -> anyhow::Result<DataIdentity> {
        match self.checkpoint_dir {
            Some(_) => Ok(DataIdentity::of_graph(node, world)?),
            None => Ok(DataIdentity::default()),
        }
    }

    /// Returns the number of finished epochs whose lines a metrics file keeps; `None` if the run does not resume.
    pub(crate) fn kept_epochs(&self, checkpoints: Option<&Checkpoints>) -> Option<u64> {
        let resumed = checkpoints.and_then(Checkpoints::resumed);
        self.resume.then(|| resumed.map_or(0, |position| position.epoch))
    }
}

impl<F: Serialize> RunIdentity<'_, F> {
    fn settings(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let flags = serde_json::to_value(self.flags).context("write the flags as JSON")?;
        // The number of epochs is the length of a cosine.
        let is_cosine = flags.get("lr_schedule").and_then(Value::as_str) == Some("cosine");
        let matters = |name: &str| !MAY_CHANGE.contains(&name) || (is_cosine && name == "num_epochs");
        let flags = flags.as_object().into_iter().flatten().filter(|(name, _)| matters(name));
        let flags = flags.map(|(name, value)| (name.clone(), value.to_string()));
        Ok(flags.chain(self.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()))).collect())
    }
}

/// Tells the user where the run continues.
pub(crate) fn say_resumed(reporter: &Reporter, checkpoints: Option<&Checkpoints>) {
    let Some(checkpoints) = checkpoints else { return };
    if let (Some(position), Some(folder)) = (checkpoints.resumed(), checkpoints.resumed_folder()) {
        let others = checkpoints.resumed_from_others();
        let others = others.map(|num_old| format!(", which {num_old} processes wrote")).unwrap_or_default();
        reporter.say(&format!(
            "resuming after {} epochs and {} steps from {}{others}",
            position.epoch,
            position.step,
            folder.display()
        ));
    }
}

/// Returns the result of a training, or `None` and tells the user if SIGTERM has ended it with a checkpoint.
pub(crate) fn unless_stopped<T>(
    reporter: &Reporter,
    trained: Result<T, TrainError>,
    stopped: &mut Option<Stopped>,
) -> anyhow::Result<Option<T>> {
    match trained {
        Ok(trained) => Ok(Some(trained)),
        Err(TrainError::Stopped { checkpoint, position }) => {
            reporter.say_last(&format!(
                "SIGTERM: stopped after {} epochs and {} steps; continue from {} with --resume",
                position.epoch,
                position.step,
                checkpoint.display()
            ));
            *stopped = Some(Stopped);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
