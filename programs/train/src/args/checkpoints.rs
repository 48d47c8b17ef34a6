//! The flags of checkpoints.

use crate::args::{Cli, JobArgs, OutputArgs, PartArgs};
use crate::exit::Stopped;
use crate::job::device::{DeviceArgs, DeviceMemoryArgs};
use crate::progress::reporter::Reporter;
use crate::settings::given_flags::GivenFlags;
use crate::settings::shared_flags::{as_text, is_given};
use anyhow::Context;
use clap::{Args, CommandFactory};
use edgecut_cluster::{ProcessGroup, Termination};
use edgecut_dist_sampler::DistGraph;
use edgecut_settings::Settings;
use edgecut_trainer::checkpoint::{Cadence, CheckpointConfig, Checkpoints, DataIdentity};
use edgecut_trainer::{FitConfig, TrainError};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Flags outside of the [groups that may change](flags_that_may_change) that may change as well when a run continues.
const MAY_CHANGE: [&str; 8] = [
    // The data itself is compared by its fingerprint.
    "dataset_root_dir",
    "init_from",
    "stats",
    // The place of data in memory, and the batches made ahead. Batches stay the same.
    "cache_bytes",
    "cache_ranking",
    "cache_ratio",
    "concurrency",
    "prefetch_bytes",
];

/// Flags in these groups that may not change.
const MAY_NOT_CHANGE: [&str; 4] = ["feature_dtype", "feature_precision", "load_model", "mixed_precision"];

/// Returns the groups of flags of a command that may change when a run continues: files and output, processes, addresses,
/// threads and time limits, and the place of data. What partition-graph has applied to existing parts is compared by the
/// fingerprint of the data.
fn flags_that_may_change(command: &str) -> clap::Command {
    let flags = OutputArgs::augment_args(JobArgs::augment_args(clap::Command::new("")));
    let flags = DeviceMemoryArgs::augment_args(DeviceArgs::augment_args(CheckpointArgs::augment_args(flags)));
    if command == "graph" { flags } else { PartArgs::augment_args(flags) }
}

/// Returns true if a flag of a command may change when a run continues. All others are part of the identity of the run.
fn may_change(command: &str, id: &str) -> bool {
    if MAY_NOT_CHANGE.contains(&id) {
        return false;
    }
    // The number of layers is that of the fan-outs, which may not change.
    let is_derived = id == "num_layers" && command != "graph";
    let mut fit = FitConfig::default();
    is_derived
        || MAY_CHANGE.contains(&id)
        || fit.fields().iter().any(|field| field.name == id && field.flag.may_change)
        || flags_that_may_change(command).get_arguments().any(|flag| flag.get_id() == id)
}

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

/// The data and settings that a run must have to continue from a checkpoint.
pub(crate) struct RunIdentity<'a, F> {
    /// The name of the command.
    pub(crate) command: &'static str,
    /// All flags as text.
    pub(crate) given: &'a GivenFlags,
    /// The flags that are equal on all ranks, parsed.
    pub(crate) flags: &'a F,
    pub(crate) num_epochs: u64,
    /// Settings that are not among the flags.
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
    pub(crate) fn data_of(&self, graph: &DistGraph, world: &mut ProcessGroup) -> anyhow::Result<DataIdentity> {
        match self.checkpoint_dir {
            Some(_) => Ok(DataIdentity::of_graph(graph, world)?),
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
    /// Returns the values of all flags that may not change, by their ids, and the other settings.
    fn settings(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let parsed = serde_json::to_value(self.flags).context("write the flags as JSON")?;
        let cli = Cli::command();
        let command = cli.find_subcommand(self.command).context("the command is missing")?;
        let mut settings = BTreeMap::new();
        for flag in command.get_arguments() {
            let id = flag.get_id().as_str();
            // The number of epochs is the length of a cosine.
            let is_length = id == "num_epochs" && parsed.get("lr_schedule").and_then(Value::as_str) == Some("cosine");
            if may_change(self.command, id) && !is_length {
                continue;
            }
            // Different texts may have the same parsed value.
            let text = || self.given.text(id).map_or(Value::Null, Value::from);
            let value = parsed.get(id).cloned().unwrap_or_else(text);
            settings.insert(id.to_owned(), value.to_string());
        }
        settings.extend(self.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Ok(settings)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;
    use clap::Parser;
    use std::collections::BTreeSet;

    fn identity(line: &str) -> BTreeMap<String, String> {
        let words = std::iter::once("train").chain(line.split(' '));
        let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        fn settings(command: &'static str, given: &GivenFlags, flags: &impl Serialize) -> BTreeMap<String, String> {
            let (settings, data) = Default::default();
            let run = RunIdentity { command, given, flags, num_epochs: 1, settings, data };
            run.settings().expect("settings")
        }
        match &cli.command {
            Command::Node(args) => settings("node", &args.given, &**args),
            Command::Link(args) => settings("link", &args.given, &**args),
            Command::Edge(args) => settings("edge", &args.given, &**args),
            Command::Graph(args) => settings("graph", &args.given, &**args),
            _ => panic!("{line} trains nothing"),
        }
    }

    /// A new flag is in the identity, unless a list says that it may change.
    #[test]
    fn every_flag_is_either_part_of_the_identity_or_may_change() {
        let cli = Cli::command();
        let mut known = BTreeSet::new();
        for (command, line) in [
            ("node", "node --dataset-root-dir a"),
            ("link", "link --dataset-root-dir a"),
            ("edge", "edge --dataset-root-dir a"),
            ("graph", "graph --dataset a"),
        ] {
            let identity = identity(line);
            let flags = cli.find_subcommand(command).expect("a command").get_arguments();
            for id in flags.map(|flag| flag.get_id().to_string()) {
                assert_ne!(identity.contains_key(&id), may_change(command, &id), "{command}: {id}");
                known.insert(id);
            }
            assert!(identity.keys().all(|id| known.contains(id)), "{command}: {identity:?}");
        }
        assert_eq!(MAY_CHANGE.iter().filter(|id| !known.contains(**id)).collect::<Vec<_>>(), [&""; 0]);
    }

    #[test]
    fn only_flags_that_change_the_training_change_the_identity() {
        let base = "node --dataset-root-dir a";
        for (flags, changed) in [
            ("--feature-dtype int8", Some("feature_dtype")),
            ("--feature-precision f16", Some("feature_precision")),
            ("--mixed-precision bf16", Some("mixed_precision")),
            ("--hidden-channels 8", Some("hidden_channels")),
            ("--lr 0.0030", None),
            ("--model sage", None),
            ("--num-epochs 7", None),
            ("--nproc-per-node 2 --num-workers 3 --map-edges --verify", None),
        ] {
            let [before, after] = [base.to_owned(), format!("{base} {flags}")].map(|line| identity(&line));
            let differing: Vec<&str> =
                before.keys().filter(|id| before.get(*id) != after.get(*id)).map(String::as_str).collect();
            assert_eq!(differing, changed.into_iter().collect::<Vec<_>>(), "{flags}");
        }
        let cosine = ["7", "8"].map(|epochs| identity(&format!("{base} --lr-schedule cosine --num-epochs {epochs}")));
        assert_ne!(cosine[0], cosine[1]);
    }

    /// Command lines, and their identities as the first version that has them stored them.
    const IDENTITIES: &str = include_str!("../../tests/data/identities.json");

    #[test]
    fn checkpoints_of_earlier_versions_have_the_same_identity() {
        let expected: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(IDENTITIES).expect("JSON");
        for (line, expected) in expected {
            let found = identity(&line);
            let differing: Vec<_> = expected.iter().filter(|(id, value)| found.get(*id) != Some(*value)).collect();
            assert_eq!(differing, Vec::new(), "{line}");
            // Later flags must be off by default.
            let later: Vec<_> = found.iter().filter(|(id, _)| !expected.contains_key(*id)).collect();
            assert!(later.iter().all(|(_, value)| ["null", "false"].contains(&value.as_str())), "{line}: {later:?}");
        }
    }
}
