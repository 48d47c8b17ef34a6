//! The flags of a run, as a file that `--config` reads.

use crate::settings::given_flags::GivenFlags;
use anyhow::Context;
use edgecut_cli::message;
use edgecut_output::write_output;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Flags that are not repeated: the files that a run writes, the form of its output, and the place of one process.
const NOT_REPEATED: [&str; 19] = [
    "cache_dir",
    "checkpoint_dir",
    "checkpoint_every",
    "config",
    "json",
    "keep",
    "listen_addr",
    "listen_port",
    "located",
    "log_every",
    "metrics",
    "metrics_port",
    "node_rank",
    "quiet",
    "report",
    "resume",
    "save_model",
    "tensorboard",
    "verbose",
];

/// Files whose paths the serialised flags do not tell.
const FILES: [&str; 3] = ["init_from", "load_model", "negative_pairs"];

/// The first line of the file, by which later runs know that they may replace it.
const HEADER: &str = "# The flags of this run. Use them with --config.\n";

/// The line before the defaults. They are comments, because a flag that is given may conflict with others.
const DEFAULTS: &str = "# Defaults of the other flags\n";

/// Writes the flags of a run beside `output`, as `output` with the ending `.config.yaml`. `text` is the result of
/// [`config_text`].
///
/// Another file of that name stays, with a message.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write_config(text: &str, output: &Path) -> anyhow::Result<()> {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".config.yaml");
    let path: PathBuf = output.with_file_name(name);
    if !is_replaceable(&path).with_context(|| format!("read {}", path.display()))? {
        message!("note: {} is not a file of an earlier run, so it stays and the flags are not written", path.display());
        return Ok(());
    }
    write_output(&path, text.as_bytes()).with_context(|| format!("write {}", path.display()))
}

/// Returns true if `path` does not exist, or is a file that [`write_config`] wrote.
fn is_replaceable(path: &Path) -> std::io::Result<bool> {
    match std::fs::read(path) {
        Ok(content) => Ok(content.starts_with(HEADER.as_bytes())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the flags that the user has `given` as YAML, a line per flag, and the defaults of the other `flags` as comments.
/// `whole` are the flags of a dataset that is not partitioned.
pub(crate) fn config_text(
    flags: &impl Serialize,
    whole: Option<&impl Serialize>,
    given: &GivenFlags,
) -> anyhow::Result<String> {
    let flags = serde_json::to_value(flags)?;
    let whole = serde_json::to_value(whole)?;
    let mut lines = BTreeMap::new();
    let mut defaults = BTreeMap::new();
    for (name, value) in [&flags, &whole].into_iter().filter_map(Value::as_object).flatten() {
        let is_unset = matches!(value, Value::Null | Value::Bool(false)) || *value == Value::Array(Vec::new());
        if is_unset || FILES.contains(&name.as_str()) {
            continue;
        }
        let of_kind = if given.is_given(name) { &mut lines } else { &mut defaults };
        of_kind.insert(name.as_str(), value.to_string());
    }
    for (name, value) in given.all_given() {
        // A flag without a value has the text `true`.
        let value = if value == "true" { value.to_owned() } else { Value::from(value).to_string() };
        lines.entry(name).or_insert(value);
    }
    // A saved model has settings of its own in place of these defaults.
    if given.is_given("load_model") {
        defaults.clear();
    }
    Ok([HEADER.to_owned(), yaml(&lines, ""), DEFAULTS.to_owned(), yaml(&defaults, "# ")].concat())
}

/// Returns a line per flag that is repeated, each after `prefix`.
fn yaml(lines: &BTreeMap<&str, String>, prefix: &str) -> String {
    let mut text = String::new();
    for (name, value) in lines.iter().filter(|(name, _)| !NOT_REPEATED.contains(name)) {
        let _ = writeln!(text, "{prefix}{}: {value}", name.replace('_', "-"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::tasks::TASKS;
    use clap::{CommandFactory, FromArgMatches, Parser};
    use edgecut_cli::flags_of_file;
    use std::collections::BTreeSet;

    fn flags_of(cli: &Cli) -> Value {
        let flags = match &cli.command {
            Command::Task(task) => serde_json::to_value(task),
            Command::Sample(args) => serde_json::to_value(args),
            Command::Predict(args) => serde_json::to_value(args),
            Command::Report(_) | Command::Sweep(_) => Ok(Value::Null),
        };
        flags.expect("JSON")
    }

    #[test]
    fn a_file_of_the_user_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("model");
        let path = folder.path().join("model.config.yaml");
        let given = GivenFlags::of(&[("lr", "0.5")]);
        let write = |flags: Value| write_config(&config_text(&flags, None::<&Value>, &given)?, &output);
        write(serde_json::json!({"lr": 0.1})).expect("a new file");
        write(serde_json::json!({"lr": 0.2})).expect("the file of an earlier run");
        assert!(std::fs::read_to_string(&path).expect("the file").contains("lr: 0.2"));
        std::fs::write(&path, "# ours\nlr: 0.3\n").expect("a file of the user");
        write(serde_json::json!({"lr": 0.4})).expect("a note");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "# ours\nlr: 0.3\n");
    }

    /// Returns the flags of a command line that count as given, with their texts.
    fn given_of(words: &[&str]) -> GivenFlags {
        let matches = Cli::command().try_get_matches_from(words).expect("flags");
        let (_, of_command) = matches.subcommand().expect("a subcommand");
        GivenFlags::from_arg_matches(of_command).expect("flags")
    }

    /// Checks tell a given flag from a default, so that defaults must not be given to the run that repeats another one.
    #[test]
    fn the_file_gives_the_same_flags_again() {
        for line in [
            "node --num-neighbors e0=15,10;5,5 --model gat --heads 8 --lr-schedule cosine --optimizer sgd --momentum 0.5",
            "node --eval-num-neighbors 5,5,5 --class-weights balanced",
            "node --eval layer-wise --class-weights 1,2.5",
            "node --loss huber:delta=2.5 --metric rmse",
            "node --freeze layers.0,encoders",
            "node --cache-ratio 0.2 --time-attr edge_time --temporal-strategy last --hold-out-edges latest:0.1,0.2",
            "link --eval-negatives all --edge-types a,b --reverse-types a=b,c=d --decoder distmult --n3-weight 0.1",
            "link --eval-negatives 7 --loss softmax --metric hits@10 --shared-negatives --in-batch-negatives",
            "link --decoder transe:norm=2,margin=3 --loss self-adversarial:temperature=0.5 --hold-out-edges 0 --num-epochs 4",
            "link --loss softmax --shared-negatives --in-batch-negatives --log-q-correction --weighted-loss",
            "edge --edge-type a__b__c --decoder bilinear --no-edge-features --target-edges include --reverse-types a=b",
            "graph --dataset x --split 0.5,0.25,0.25 --readout last --no-batch-norm --max-nodes 9 --lr-step 3",
            "graph --dataset x --folds 3 --protocol best-mean-epoch --pooling max",
        ] {
            let words: Vec<&str> = std::iter::once("train").chain(line.split(' ')).collect();
            let given = Cli::try_parse_from(&words).expect("flags");
            let file = tempfile::NamedTempFile::new().expect("a file");
            let given_flags = given_of(&words);
            let text = config_text(&flags_of(&given), None::<&Value>, &given_flags).expect("the text");
            std::fs::write(file.path(), &text).expect("write the file");
            let subcommand = Cli::command().find_subcommand(words[1]).expect("a subcommand").clone();
            let read = flags_of_file(file.path(), &subcommand, &[]).expect("flags of the file");
            let read: Vec<String> = read.iter().map(|flag| flag.word.to_string_lossy().into_owned()).collect();
            let words: Vec<&str> = words[..2].iter().copied().chain(read.iter().map(String::as_str)).collect();
            let again = Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{text}\n{error}"));
            assert_eq!(flags_of(&again), flags_of(&given), "{text}");
            let given_again = given_of(&words);
            let names: BTreeSet<&str> = given_again.all_given().map(|(id, _)| id).collect();
            assert_eq!(names, given_flags.all_given().map(|(id, _)| id).collect(), "{text}");
        }
    }

    /// A flag that is not repeated has to be in the list.
    #[test]
    fn every_given_flag_is_repeated_unless_it_is_in_the_list() {
        let cli = Cli::command();
        let mut unknown: Vec<&str> = NOT_REPEATED.to_vec();
        for task in TASKS {
            let subcommand = cli.find_subcommand(task.name).expect("a subcommand");
            let mut given = Vec::new();
            let mut expected = Vec::new();
            for flag in subcommand.get_arguments() {
                let id = flag.get_id().as_str();
                let is_switch = matches!(flag.get_action(), clap::ArgAction::SetTrue);
                given.push((id, if is_switch { "true" } else { "7" }));
                if NOT_REPEATED.contains(&id) {
                    unknown.retain(|name| *name != id);
                } else {
                    let long = flag.get_long().expect("a flag");
                    expected.push(if is_switch { format!("--{long}") } else { format!("--{long}=7") });
                }
            }
            let text = config_text(&Value::Null, None::<&Value>, &GivenFlags::of(&given)).expect("the text");
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), &text).expect("write the file");
            let read = flags_of_file(file.path(), subcommand, &[]).expect("flags of the file");
            let mut read: Vec<String> = read.iter().map(|flag| flag.word.to_string_lossy().into_owned()).collect();
            read.sort();
            expected.sort();
            assert_eq!(read, expected, "{}", task.name);
        }
        assert_eq!(unknown, [""; 0], "no task has these flags");
    }
}
