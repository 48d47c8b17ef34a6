//! Command lines as users of PyG's and DGL's launchers write them.

use crate::args::Args;
use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory};
use edgecut_cli::{MeaninglessFlag, matches_of, message, prepared, print_description_if_asked};
use std::ffi::{OsStr, OsString};

/// Flags of the training program that PyG's `launch.py` takes and passes on.
const PASSED_ON: [&str; 10] = [
    "dataset",
    "dataset-root-dir",
    "num-neighbors",
    "num-epochs",
    "batch-size",
    "num-workers",
    "concurrency",
    "learning-rate",
    "lr",
    "hidden-channels",
];

const MEANINGLESS: [MeaninglessFlag; 4] = [
    MeaninglessFlag {
        name: "part-config",
        has_value: true,
        why: "--dataset-root-dir names the folder of the parts, which has a META.json",
    },
    MeaninglessFlag { name: "node-rank", has_value: true, why: "nodes have the numbers of their lines in --ip-config" },
    MeaninglessFlag { name: "num-samplers", has_value: true, why: "each process samples on its own threads" },
    MeaninglessFlag { name: "num-servers", has_value: true, why: "each process serves its own part" },
];

/// The flags that `-h` shows.
const ESSENTIAL: &[&str] = &[
    "ip_config",
    "workspace",
    "num_nodes",
    "num_training_procs",
    "copy_parts",
    "sync_binary",
    "max_restarts",
    "log_dir",
    "dry_run",
];

/// A command line, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// The flags of this program.
    pub(crate) own: Vec<String>,
    /// Flags for the command, each with its value: `--batch-size=1024`.
    pub(crate) passed_on: Vec<String>,
    /// The command, as one quoted string or word by word.
    pub(crate) command: Vec<String>,
    /// Lines about flags without effect.
    pub(crate) notes: Vec<String>,
}

/// Parses the command line of this process. Ends the process with status 2 if it is invalid.
pub(crate) fn parse() -> Args {
    print_description_if_asked(Args::command);
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let words = Words::new(words.map(|word| word.into_string().unwrap_or_else(|word| not_utf8(&word))));
    words.notes.iter().for_each(|note| message!("note: {note}"));
    words.parse(program).unwrap_or_else(|error| error.exit())
}

/// Ends the process because an argument is not valid UTF-8.
fn not_utf8(word: &OsStr) -> ! {
    let text = format!("the argument {word:?} is not valid UTF-8: rename the file or folder that it names");
    Args::command().error(ErrorKind::InvalidUtf8, text).exit()
}

impl Words {
    /// Takes the words after the program's name apart. Flags may come before and after a quoted command. After a command
    /// that is given word by word, or after `--`, all words belong to the command.
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        let flags = Args::command();
        let mut found = Self::default();
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                found.command.extend(words);
                break;
            }
            if !word.starts_with('-') {
                let is_quoted = word.contains(char::is_whitespace);
                found.command.push(word);
                if is_quoted {
                    continue;
                }
                found.command.extend(words);
                break;
            }
            let flag = word.trim_start_matches('-');
            let (name, inline) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let name = name.replace('_', "-");
            let mut value = || inline.map(str::to_owned).or_else(|| words.next_if(|next| !next.starts_with("--")));
            if name == "extra-envs" {
                // PyG's flag takes several variables.
                let first = value();
                let more = std::iter::from_fn(|| words.next_if(|next| is_variable(next)));
                found.own.extend(first.into_iter().chain(more).map(|variable| format!("--extra-envs={variable}")));
            } else if PASSED_ON.contains(&name.as_str()) {
                found.passed_on.push(format!("--{name}={}", value().unwrap_or_default()));
            } else if let Some(flag) = MEANINGLESS.iter().find(|flag| flag.name == name) {
                value();
                found.notes.push(format!("--{name} has no effect: {}", flag.why));
            } else {
                let arg = flags.get_arguments().find(|arg| {
                    let aliases = arg.get_all_aliases().unwrap_or_default();
                    arg.get_long() == Some(name.as_str()) || aliases.contains(&name.as_str())
                });
                let takes_value = arg.is_some_and(|arg| {
                    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && !arg.is_require_equals_set()
                });
                found.own.push(word.clone());
                found.own.extend(words.next_if(|_| takes_value && inline.is_none()));
            }
        }
        found
    }

    /// Parses the flags of this program, which was started as `program`.
    fn parse(self, program: OsString) -> Result<Args, clap::Error> {
        use clap::FromArgMatches;
        let mut command = prepared(Args::command(), &program);
        let words = self.own.into_iter().chain(["--".to_owned()]).chain(self.command);
        let line = std::iter::once(program).chain(words.map(OsString::from));
        let matches = matches_of(&mut command, line.collect(), ESSENTIAL)?;
        Ok(Args { passed_on: self.passed_on, ..Args::from_arg_matches(&matches)? })
    }

    #[cfg(test)]
    pub(crate) fn args(line: &str) -> Result<Args, clap::Error> {
        Self::new(shell_words::split(line).expect("words").into_iter().skip(1)).parse("launch".into())
    }
}

/// Returns true if the word has the form `NAME=VALUE` and is no command.
fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !word.contains(char::is_whitespace)
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    #[test]
    fn the_commands_of_the_tutorials_are_understood() {
        let line = "launch.py --workspace /home/me/pyg --num_nodes 2 --dataset_root_dir /data/mag/2-parts --dataset ogbn-mag \
             --batch_size 1024 --learning_rate 0.0004 --part_config /data/META.json --ip_config ip_config.yaml \
             'cd /home/me; train node --logging --ddp_port=11111'";
        let words = Words::new(shell_words::split(line).unwrap().into_iter().skip(1));
        assert_eq!(words.notes.len(), 1);
        assert_eq!(words.passed_on.last().unwrap(), "--learning-rate=0.0004");
        let args = Words::args(line).unwrap();
        assert_eq!((args.num_nodes, args.workspace.as_deref()), (Some(2), Some("/home/me/pyg")));
        assert_eq!(args.command, ["cd /home/me; train node --logging --ddp_port=11111"]);
        assert_eq!(args.passed_on.len(), 4);
    }

    #[test]
    fn flags_may_follow_a_quoted_command_and_belong_to_a_plain_one() {
        let args = Words::args("launch 'train node --lr 1' --ip_config f --num-nodes 3").unwrap();
        assert_eq!((args.num_nodes, args.command.len()), (Some(3), 1));
        let args = Words::args("launch --ip-config f train node --num-nodes 3 --batch_size 7").unwrap();
        assert_eq!((args.num_nodes, args.command.len()), (None, 6));
        assert!(args.passed_on.is_empty());
        let args = Words::args("launch --ip-config f --extra_envs A=1 B=2 --dry-run 'x y'").unwrap();
        assert_eq!((args.extra_envs, args.dry_run), (vec!["A=1".to_owned(), "B=2".to_owned()], true));
    }

    #[test]
    fn a_missing_flag_is_named() {
        assert_has(Words::args("launch 'train node'").unwrap_err().to_string(), &["--ip-config"]);
        assert!(Words::args("launch --ip-config f").unwrap_err().to_string().contains("COMMAND"));
        for line in ["launch --ip-confg f train node", "launch --ip-config f --dry-rum 'train node'"] {
            assert_has(Words::args(line).unwrap_err().to_string(), &["unexpected argument '--"]);
        }
    }
}
