//! The identity of a run: the settings that a run must have to continue from a checkpoint.

use crate::args::PartArgs;
use crate::args::run::RunArgs;
use crate::tasks::{TaskArgs, TaskFlags, TaskProgram};
use anyhow::Context;
use clap::Args;
use edgecut_settings::Settings;
use edgecut_trainer::FitConfig;
use serde_json::Value;
use std::collections::BTreeMap;

/// Flags outside of the [groups that may change](flags_that_may_change) that may change as well when a run continues.
const MAY_CHANGE: [&str; 10] = [
    // The data itself is compared by its fingerprint.
    "dataset_root_dir",
    // They choose the initial values, which a run that continues does not read.
    "init_from",
    "new_embeddings",
    "stats",
    // The place of data in memory, and the batches made ahead. Batches stay the same.
    "cache_bytes",
    "cache_ranking",
    "cache_ratio",
    "concurrency",
    "look_ahead",
    "prefetch_bytes",
];

/// Flags in these groups that may not change.
const MAY_NOT_CHANGE: [&str; 4] = ["feature_dtype", "feature_precision", "load_model", "mixed_precision"];

/// Returns the groups of flags of a task that may change when a run continues: files and output, processes, addresses,
/// threads and time limits, and the place of data. What partition-graph has applied to existing parts is compared by the
/// fingerprint of the data.
fn flags_that_may_change<F: TaskFlags>() -> clap::Command {
    let flags = F::Memory::augment_args(RunArgs::augment_args(clap::Command::new("")));
    if F::READS_PARTS { PartArgs::augment_args(flags) } else { flags }
}

/// Returns true if a flag of a task may change when a run continues. All others are part of the identity of the run.
fn may_change<F: TaskFlags>(id: &str) -> bool {
    if MAY_NOT_CHANGE.contains(&id) {
        return false;
    }
    // There are as many layers as fan-outs, which may not change.
    let is_derived = id == "num_layers" && F::READS_PARTS;
    let mut fit = FitConfig::default();
    is_derived
        || MAY_CHANGE.contains(&id)
        || fit.fields().iter().any(|field| field.name == id && field.flag.may_change)
        || flags_that_may_change::<F>().get_arguments().any(|flag| flag.get_id() == id)
}

/// Returns the values of all flags that may not change, by their ids, and the settings that were `chosen` later.
pub(super) fn settings_of<T: TaskProgram>(
    args: &TaskArgs<T>,
    chosen: &[(&str, String)],
) -> anyhow::Result<BTreeMap<String, String>> {
    let parsed = serde_json::to_value(args).context("write the flags as JSON")?;
    let mut settings = BTreeMap::new();
    for flag in TaskArgs::<T>::augment_args(clap::Command::new(T::NAME)).get_arguments() {
        let id = flag.get_id().as_str();
        // The number of epochs is the length of a cosine.
        let is_length = id == "num_epochs" && parsed.get("lr_schedule").and_then(Value::as_str) == Some("cosine");
        if may_change::<T::Flags>(id) && !is_length {
            continue;
        }
        // Different texts may have the same parsed value.
        let value = match parsed.get(id) {
            Some(value) => value.clone(),
            None => args.given.text(id).map_or(Value::Null, Value::from),
        };
        settings.insert(id.to_owned(), value.to_string());
    }
    for (name, value) in chosen {
        settings.insert((*name).to_owned(), value.clone());
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::shortest_line;
    use crate::cli::{Cli, Command};
    use crate::tasks::TASKS;
    use clap::{CommandFactory, Parser};
    use std::collections::BTreeSet;

    fn identity(line: &str) -> BTreeMap<String, String> {
        let words = std::iter::once("train").chain(line.split(' '));
        let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Command::Task(task) = cli.command else { panic!("{line} trains nothing") };
        task.identity()
    }

    /// The flags that may change when a run continues, each with the tasks that have it.
    const CHANGEABLE: &str = include_str!("../../tests/data/changeable_flags.txt");

    /// A new flag is in the identity, unless this list has it too.
    #[test]
    fn every_flag_is_either_part_of_the_identity_or_may_change() {
        let cli = Cli::command();
        let mut known = BTreeSet::new();
        let mut changeable: BTreeMap<String, String> = BTreeMap::new();
        for entry in TASKS {
            let identity = identity(&shortest_line(entry.name));
            let flags = cli.find_subcommand(entry.name).expect("a command").get_arguments();
            let flags: BTreeSet<String> = flags.map(|flag| flag.get_id().to_string()).collect();
            assert!(identity.keys().all(|id| flags.contains(id)), "{}: {identity:?}", entry.name);
            for id in flags.iter().filter(|id| !identity.contains_key(*id)) {
                let tasks = changeable.entry(id.clone()).or_insert_with(|| format!("{id}:"));
                *tasks += &format!(" {}", entry.name);
            }
            known.extend(flags);
        }
        assert_eq!(changeable.values().map(|line| format!("{line}\n")).collect::<String>(), CHANGEABLE);
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
            assert!(
                later.iter().all(|(_, value)| ["null", "false", "[]"].contains(&value.as_str())),
                "{line}: {later:?}"
            );
        }
    }
}
