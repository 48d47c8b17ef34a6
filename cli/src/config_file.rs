//! Flags from a YAML file.

use crate::spelling::{flag_named, with_dashes};
use crate::suggestions::near_flag;
use clap::{ArgAction, Command};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A name that a file may use in place of a flag's: `("hidden-size", "hidden-channels")`.
pub type Alias = (&'static str, &'static str);

/// Reads flags from the YAML file `path`: a mapping from names of flags, without leading dashes, to values. Mappings inside
/// of it only group the names. `true` gives a flag without a value, `false` and `null` leave it out, and a list is
/// written with commas. Names may have underscores, and be one of `aliases`. Errors name the line.
///
/// # Errors
/// [`ConfigFileError`] for an unreadable file, invalid YAML, and names that `command` has no flag for.
pub fn flags_of_file(path: &Path, command: &Command, aliases: &[Alias]) -> Result<Vec<FileFlag>, ConfigFileError> {
    let path = || path.to_owned();
    let text = std::fs::read_to_string(path()).map_err(|source| ConfigFileError::Read { path: path(), source })?;
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| ConfigFileError::Yaml {
        path: path(),
        line: error.location().map(|location| location.line()),
        why: reason_of(&error),
    })?;
    let mut context = Context { command, aliases, text: &text, flags: Vec::new() };
    let added = match value {
        Value::Object(_) => context.add_all(&value),
        _ => {
            Err(Problem { line: None, why: "it is not a mapping of flags to values, such as `num-epochs: 20`".into() })
        }
    };
    added.map_err(|Problem { line, why }| ConfigFileError::Flags { path: path(), line, why })?;
    Ok(context.flags)
}

/// A flag of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFlag {
    /// The flag as on a command line: `--name` or `--name=value`.
    pub word: OsString,
    /// The line, counted from 1.
    pub line: Option<u64>,
}

/// Returns the reason of an error, without the place and without the advice for programmers.
fn reason_of(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let reason =
        first.strip_prefix("error: line ").and_then(|rest| rest.split_once(": ")).map_or(first, |(_, why)| why);
    reason.split(", set DuplicateKeyPolicy").next().unwrap_or(reason).to_owned()
}

/// Returns the number of the line with the key `name`, counted from 1.
fn line_of_key(text: &str, name: &str) -> Option<u64> {
    (1..).zip(text.lines()).find(|(_, line)| has_key(line, name)).map(|(number, _)| number)
}

/// Returns true if a line of YAML has the key `name`.
fn has_key(line: &str, name: &str) -> bool {
    let line = line.split(" #").next().unwrap_or_default();
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].trim_start_matches(['"', '\'']).trim_start();
        let is_comment = line.trim_start().starts_with('#');
        !is_comment && before.is_none_or(|c| !c.is_alphanumeric() && !"-_".contains(c)) && after.starts_with(':')
    })
}

/// Writes `--config FILE, line N`.
fn place(path: &Path, line: Option<u64>) -> String {
    let line = line.map_or_else(String::new, |line| format!(", line {line}"));
    format!("--config {}{line}", path.display())
}

/// The problem of a flag.
struct Problem {
    line: Option<u64>,
    why: String,
}

/// A file of flags that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("--config {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not YAML.
    #[error("{}: {why}", place(.path, *.line))]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: Option<u64>,
        /// The reason of the parser.
        why: String,
    },
    /// A name or a value that is not one of a flag.
    #[error("{}: {why}", place(.path, *.line))]
    Flags {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: Option<u64>,
        /// The reason.
        why: String,
    },
}

/// The flags that were read so far.
struct Context<'a> {
    command: &'a Command,
    aliases: &'a [Alias],
    text: &'a str,
    flags: Vec<FileFlag>,
}

impl Context<'_> {
    fn add_all(&mut self, mapping: &Value) -> Result<(), Problem> {
        for (name, value) in mapping.as_object().into_iter().flatten() {
            if value.is_object() {
                self.add_all(value)?;
                continue;
            }
            let line = line_of_key(self.text, name);
            let word = self.word(name, value).map_err(|why| Problem { line, why })?;
            self.flags.extend(word.map(|word| FileFlag { word: word.into(), line }));
        }
        Ok(())
    }

    /// Returns a flag as on a command line; `None` for one that is left out.
    fn word(&self, name: &str, value: &Value) -> Result<Option<String>, String> {
        let spelled = with_dashes(format!("--{name}").into()).to_string_lossy().into_owned();
        let spelled = spelled.trim_start_matches('-');
        let alias = self.aliases.iter().find(|(other, _)| *other == spelled);
        let flag_name = alias.map_or(spelled, |(_, flag)| flag);
        let Some(arg) = flag_named(self.command, flag_name) else {
            return Err(match near_flag(spelled, self.command) {
                Some(flag) => format!("there is no flag --{spelled} (did you mean {flag}?)"),
                None => format!("there is no flag --{spelled}; see --help"),
            });
        };
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        let text = match value {
            Value::Null | Value::Bool(false) => return Ok(None),
            Value::Bool(true) if is_switch => return Ok(Some(format!("--{flag_name}"))),
            Value::Array(items) => items.iter().map(plain).collect::<Option<Vec<_>>>().map(|items| items.join(",")),
            other => plain(other),
        };
        match text {
            Some(text) if !is_switch => Ok(Some(format!("--{flag_name}={text}"))),
            Some(_) => Err(format!("{spelled}: expected true or false")),
            None => Err(format!("{spelled}: expected a text, a number, true, false, or a list of these")),
        }
    }
}

/// Returns a value as it is written on the command line.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn flags(text: &str) -> Result<Vec<String>, ConfigFileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let switch = Arg::new("json").long("json").action(ArgAction::SetTrue);
        let command =
            Command::new("x").args([Arg::new("lr").long("lr"), Arg::new("hops").long("num-neighbors"), switch]);
        let flags = flags_of_file(file.path(), &command, &[("fanout", "num-neighbors")])?;
        Ok(flags.into_iter().map(|flag| flag.word.into_string().unwrap()).collect())
    }

    #[test]
    fn values_become_flags() {
        let found = flags("lr: 0.01\nnum_neighbors: [15, 10]\njson: true\n").unwrap();
        assert_eq!(found, ["--json", "--lr=0.01", "--num-neighbors=15,10"]);
        // Groups, names of other programs, and settings that are left out.
        let found = flags("training:\n  fanout: \"15,10\"\n  lr: null\noutput: {json: false}\n").unwrap();
        assert_eq!(found, ["--num-neighbors=15,10"]);
    }

    #[test]
    fn wrong_files_are_errors_that_name_them() {
        for (text, why) in [
            ("# learning: 2\n\nlearning: 3", ", line 3: there is no flag --learning"),
            ("num_neighbours: 3", ", line 1: there is no flag --num-neighbours (did you mean num-neighbors?)"),
            ("lr: 1\ngroup: {\"json\": 3}", ", line 2: json: expected true or false"),
            ("lr: [[1]]", ", line 1: lr: expected a text"),
            ("- lr", ": it is not a mapping"),
            ("json: true\nlr: [", ", line 2: unclosed bracket '['"),
            ("lr: 1\nlr: 2", ", line 2: duplicate mapping key: lr"),
        ] {
            let error = flags(text).unwrap_err().to_string();
            assert!(error.starts_with("--config /") && error.contains(why), "{error}");
        }
        let absent = flags_of_file(Path::new("/nowhere/x.yaml"), &Command::new("x"), &[]).unwrap_err().to_string();
        assert!(absent.starts_with("--config /nowhere/x.yaml: No such file"), "{absent}");
    }
}
