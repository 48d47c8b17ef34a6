//! The flags that must be equal on all ranks.
//!
//! They are the serialised arguments. A field takes part unless `#[serde(skip)]` marks it as local to a rank, so a new
//! flag is compared by default.

use anyhow::{Context, bail};
use edgecut_cli::source_version;
use edgecut_cluster::ProcessGroup;
use edgecut_graph::{HoldOut, HoldOutChoice, checksum};
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt::Display;
use std::path::PathBuf;

/// Checks that all ranks run the same version of the program and were started with the same flags. Otherwise they would train
/// different models.
pub(crate) fn check_equal(flags: &impl Serialize, world: &mut ProcessGroup) -> anyhow::Result<()> {
    // The names of an object are in alphabetical order, so that equal flags have equal bytes.
    let value = serde_json::to_value(flags).context("write the flags as JSON")?;
    let mine = serde_json::to_vec(&value).context("write the flags as JSON")?;
    // Other defaults of another version would look like other flags.
    if let Some(what) = other_version(&world.all_gather(source_version().as_bytes())?) {
        bail!("{what}: install the same version and commit on all nodes");
    }
    match difference(&world.all_gather(&mine)?) {
        Some(what) => bail!("{what}: start all ranks with the same flags"),
        None => Ok(()),
    }
}

/// Describes a rank whose version differs from the version of rank 0. `all` holds the versions by rank.
fn other_version(all: &[Vec<u8>]) -> Option<String> {
    let (rank, theirs) = all.iter().enumerate().find(|(_, theirs)| **theirs != all[0])?;
    let [theirs, first] = [theirs, &all[0]].map(|version| String::from_utf8_lossy(version));
    Some(format!("rank {rank} runs train {theirs}, and rank 0 runs {first}"))
}

/// Describes a flag whose value on rank 0 differs from its value on another rank. `all` holds the flags by rank.
fn difference(all: &[Vec<u8>]) -> Option<String> {
    let (rank, theirs) = all.iter().enumerate().find(|(_, theirs)| **theirs != all[0])?;
    let first: Value = serde_json::from_slice(&all[0]).unwrap_or_default();
    let other: Value = serde_json::from_slice(theirs).unwrap_or_default();
    let differences = first.as_object().into_iter().flatten().filter(|(name, value)| other.get(name) != Some(value));
    // Each model has flags of its own. Another model is named before the flags that one of the two lacks.
    let differs =
        differences.clone().find(|(name, _)| other.get(name).is_some()).or_else(|| differences.clone().next());
    Some(match differs {
        Some((name, value)) => {
            let theirs = other.get(name).cloned().unwrap_or_default();
            format!("--{} is {theirs} on rank {rank}, but {value} on rank 0", name.replace('_', "-"))
        }
        None => format!("the flags of rank {rank} differ from those of rank 0"),
    })
}

/// Serialises only whether a file is given.
pub(crate) fn is_given<S: Serializer>(file: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(file.is_some())
}

/// Serialises the checksum of the bytes of a file, which must be equal on all ranks.
pub(crate) fn content<S: Serializer>(file: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(path) = file else { return serializer.serialize_none() };
    let bytes = std::fs::read(path).map_err(|error| S::Error::custom(format!("read {}: {error}", path.display())))?;
    serializer.serialize_str(&checksum(&bytes))
}

/// Serialises a flag as it is written on the command line.
pub(crate) fn as_text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Serialises a flag that may be absent as it is written on the command line.
pub(crate) fn as_text_if_given<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(serializer)
}

/// Serialises a flag that has not its default value as it is written on the command line. Runs of versions without the flag
/// then have the same flags.
pub(crate) fn as_text_if_changed<T: Default + Display + PartialEq, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let changed = (*value != T::default()).then(|| value.to_string());
    changed.serialize(serializer)
}

/// Serialises the default for a flag that is not given.
pub(crate) fn or_default<T: Copy + Default + Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&value.unwrap_or_default())
}

/// Serialises `--hold-out-edges` as text.
pub(crate) fn hold_out_text<S: Serializer>(hold_out: &Option<HoldOut>, serializer: S) -> Result<S::Ok, S::Error> {
    hold_out.map(text_of_choice).serialize(serializer)
}

fn text_of_choice(given: HoldOut) -> String {
    match given.if_any() {
        Some(given) => text_of_hold_out(given.choice, [given.valid_fraction, given.test_fraction]),
        None => "0".to_owned(),
    }
}

/// Formats the value of `--hold-out-edges`.
pub(crate) fn text_of_hold_out(choice: HoldOutChoice, [valid, test]: [f64; 2]) -> String {
    let latest = if choice == HoldOutChoice::Latest { "latest:" } else { "" };
    format!("{latest}{valid},{test}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{JobArgs, PartArgs};
    use crate::cli::{Cli, Command};
    use crate::job::source::{DatasetFlags, SharedFlags};
    use crate::tasks::TASKS;
    use clap::{Args, CommandFactory, Parser};
    use std::collections::{BTreeMap, BTreeSet};

    /// The flags of a command line by name, with their values. A flag without a value has an empty one.
    type Line = BTreeMap<String, String>;

    fn shared(flags: Value, part: Option<&PartArgs>) -> Value {
        let dataset =
            part.map(|part| DatasetFlags { dataset_root_dir: part.dataset_root_dir.clone(), whole: &part.whole });
        let feature_dtype = part.and_then(|part| part.feature_dtype.as_ref());
        serde_json::to_value(SharedFlags { flags: &flags, dataset: dataset.as_ref(), feature_dtype }).expect("JSON")
    }

    /// Returns the flags to compare, or `None` if the command line is invalid.
    fn parsed(subcommand: &str, line: &Line) -> Option<Value> {
        let flags = line.iter().map(|(name, value)| match value.as_str() {
            "" => format!("--{name}"),
            value => format!("--{name}={value}"),
        });
        let words = ["train".to_owned(), subcommand.to_owned()];
        let json = |flags: serde_json::Result<Value>| flags.expect("JSON");
        Some(match Cli::try_parse_from(words.into_iter().chain(flags)).ok()?.command {
            Command::Task(task) => shared(json(serde_json::to_value(&task)), task.args().flags().part),
            Command::Sample(args) => shared(json(serde_json::to_value(&args)), Some(&args.part)),
            Command::Predict(args) => shared(json(serde_json::to_value(&args)), Some(&args.part)),
            Command::Report(_) | Command::Sweep(_) => unreachable!("these have no ranks"),
        })
    }

    fn keys(flags: Option<Value>) -> BTreeSet<String> {
        flags.expect("flags").as_object().expect("an object").keys().cloned().collect()
    }

    fn ids(command: &clap::Command) -> BTreeSet<String> {
        command.get_arguments().map(|flag| flag.get_id().to_string()).collect()
    }

    #[test]
    fn every_flag_is_compared_unless_it_is_local_to_a_rank() {
        let job = ids(&JobArgs::augment_args(clap::Command::new("")));
        let device: BTreeSet<String> = ["device", "gpu_cache_bytes", "graph_on_device"].map(str::to_owned).into();
        // The lists of servers are part of the fingerprint, and the name is compared with the name of the parts.
        let of_part = ["map_edges", "copy_edges", "verify", "rpc_timeout", "servers", "dataset"];
        let of_process = ["concurrency", "prefetch_bytes"];
        let of_output = ["metrics", "metrics_port", "report", "json", "tensorboard"];
        let of_training = [&of_part[..], &of_process, &of_output, &["num_layers"]].concat();
        let of_graphs = [&of_process[..], &of_output, &["dataset_root_dir", "folds_dir"]].concat();
        // The contents of the files with seeds are compared, see `SampleFlags`.
        let of_sample = [&of_part[..], &of_process, &["seeds", "seed_times", "out", "overwrite"]].concat();
        // The contents of the file with pairs are compared, see `PredictFlags`.
        let of_predict =
            [&of_part[..], &["load_model", "pairs", "memory_bytes", "scratch_dir", "out", "overwrite", "json"]]
                .concat();
        let mut commands = vec![("sample", &of_sample), ("predict", &of_predict)];
        commands.extend(TASKS.iter().map(|task| (task.name, if task.reads_parts { &of_training } else { &of_graphs })));
        for (subcommand, local) in commands {
            let cli = Cli::command();
            let command = cli.find_subcommand(subcommand).expect("a subcommand");
            let required = command.get_arguments().filter(|flag| flag.is_required_set());
            let mut line: Line =
                required.map(|flag| (flag.get_long().expect("a flag").to_owned(), "a".to_owned())).collect();
            let model = command.get_arguments().find(|flag| flag.get_id() == "model");
            let models = model.map(clap::Arg::get_possible_values).unwrap_or_default();
            let mut compared = keys(parsed(subcommand, &line));
            // Each model has flags of its own.
            for model in models {
                line.insert("model".into(), model.get_name().into());
                compared.append(&mut keys(parsed(subcommand, &line)));
            }
            let not_compared: BTreeSet<String> = &ids(command) - &compared;
            let mut expected: BTreeSet<String> = local.iter().map(|&id| id.to_owned()).collect();
            expected.extend(ids(command).intersection(&(&job | &device)).cloned());
            assert_eq!(not_compared, expected, "{subcommand}");
        }
    }

    #[test]
    fn a_rank_of_another_version_is_named() {
        let all =
            ["0.1.0 (commit a)", "0.1.0 (commit a)", "0.1.0 (commit b)"].map(|version| version.as_bytes().to_vec());
        assert_eq!(other_version(&all[..2]), None);
        let expected = "rank 2 runs train 0.1.0 (commit b), and rank 0 runs 0.1.0 (commit a)";
        assert_eq!(other_version(&all).as_deref(), Some(expected));
    }

    #[test]
    fn a_flag_that_is_given_as_its_default_is_equal() {
        let base = Line::from([("dataset-root-dir".to_owned(), "a".to_owned())]);
        let mut explicit = base.clone();
        explicit.extend([("overlap", "error"), ("model", "sage")].map(|(name, value)| (name.into(), value.into())));
        assert_eq!(parsed("node", &explicit), parsed("node", &base));
    }

    #[test]
    fn values_are_written_as_the_user_knows_them() {
        let flags =
            ["--hold-out-edges=latest:0.1,0.2", "--num-neighbors=5,3", "--save-model=file", "--eval-negatives=7"];
        let line = flags.map(|flag| {
            let (name, value) = flag[2..].split_once('=').expect("a value");
            (name.to_owned(), value.to_owned())
        });
        let line = Line::from_iter(line.into_iter().chain([("dataset-root-dir".to_owned(), "a".to_owned())]));
        let value = parsed("link", &line).expect("a valid command line");
        assert_eq!(value["hold_out_edges"], "latest:0.1,0.2");
        assert_eq!(value["num_neighbors"], "5,3");
        assert_eq!(value["save_model"], true);
        assert_eq!(value["load_model"], false);
        assert_eq!(value["eval_negatives"], "7");
        assert_eq!(value["lr"], 0.003);
    }
}
