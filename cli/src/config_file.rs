//! Flags from a YAML file.

use crate::spelling::{flag_named, with_dashes};
use crate::suggestions::near_flag;
use clap::{ArgAction, Command};
use edgecut_settings::AsWritten;
use serde::de::DeserializeSeed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A name that a file may use in place of a flag's: `("hidden-size", "hidden-channels")`.
pub type Alias = (&'static str, &'static str);

/// Reads flags from the YAML file `path`: a mapping from names of flags, without leading dashes, to values. Mappings inside
/// of it only group the names. `true` gives a flag without a value, and `false` leaves it out. `null` leaves out any flag. Other
/// values are the texts in the file, as on a command line: `1.10`, `no` and `007` stay as they are. A list is written with
/// commas. Names may have underscores, and be one of `aliases`. Errors name the line.
///
/// # Errors
/// [`ConfigFileError`] for an unreadable file, invalid YAML, names that `command` has no flag for, flags that are given twice, and
/// `false` for a flag with a value.
pub fn flags_of_file(path: &Path, command: &Command, aliases: &[Alias]) -> Result<Vec<FileFlag>, ConfigFileError> {
    let path = || path.to_owned();
    let text = std::fs::read_to_string(path()).map_err(|source| ConfigFileError::Read { path: path(), source })?;
    let [value, source] = parse(&text).map_err(|error| ConfigFileError::Yaml {
        path: path(),
        line: error.location().map(|location| location.line()),
        why: reason_of(&error),
    })?;
    let mut context = Context { command, aliases, text: &text, flags: Vec::new(), given: BTreeMap::new() };
    let added = match value {
        Value::Object(_) => context.add_all(&value, &source),
        _ => {
            Err(Problem { line: None, why: "it is not a mapping of flags to values, such as `num-epochs: 20`".into() })
        }
    };
    added.map_err(|Problem { line, why }| ConfigFileError::Flags { path: path(), line, why })?;
    Ok(context.flags)
}

/// Parses YAML. Returns the value, and the same with its scalars as they are written.
fn parse(text: &str) -> Result<[Value; 2], serde_saphyr::Error> {
    // Names such as y, no and 007 stay texts.
    let options = serde_saphyr::options! { strict_booleans: true, leading_zero_numbers_as_strings: true };
    let value: Value = serde_saphyr::from_str_with_options(text, options.clone())?;
    let source =
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |d| AsWritten(&value).deserialize(d));
    // Only tags, such as !!float, give values that are not texts as well.
    Ok([value, source.unwrap_or_default()])
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
    /// The names by which the file gives flags, by their ids.
    given: BTreeMap<String, String>,
}

impl Context<'_> {
    /// Adds the flags of a mapping. `source` has its scalars as they are written.
    fn add_all(&mut self, mapping: &Value, source: &Value) -> Result<(), Problem> {
        for (name, value) in mapping.as_object().into_iter().flatten() {
            if value.is_object() {
                self.add_all(value, &source[name])?;
                continue;
            }
            let line = line_of_key(self.text, name);
            let word = self.word(name, value, &source[name]).map_err(|why| Problem { line, why })?;
            self.flags.extend(word.map(|word| FileFlag { word: word.into(), line }));
        }
        Ok(())
    }

    /// Returns a flag as on a command line; `None` for one that is left out.
    fn word(&mut self, name: &str, value: &Value, source: &Value) -> Result<Option<String>, String> {
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
        if flag_name == "config" {
            return Err("config: this file can name no other file of flags: merge both".to_owned());
        }
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        let word = match value {
            Value::Null => return Ok(None),
            Value::Bool(true) if is_switch => format!("--{flag_name}"),
            Value::Bool(false) if is_switch => return Ok(None),
            _ if is_switch => return Err(format!("{spelled}: expected true or false")),
            // A class or a column may have this name.
            Value::Bool(false) => {
                return Err(format!(
                    "{spelled}: write \"{}\" in quotes for this text, or null to leave the flag out",
                    plain(value, source).unwrap_or_default()
                ));
            }
            _ => {
                let text = if value.is_array() { joined(value, source) } else { plain(value, source) };
                let text = text
                    .ok_or_else(|| format!("{spelled}: expected a text, a number, true, false, or a list of these"))?;
                format!("--{flag_name}={text}")
            }
        };
        // The parser would take the last one, or both as one list.
        if let Some(other) = self.given.insert(arg.get_id().to_string(), spelled.to_owned()) {
            let names = if other == spelled { other } else { format!("{other} and {spelled}") };
            return Err(format!("{names}: the flag --{flag_name} is given twice: leave one out"));
        }
        Ok(Some(word))
    }
}

/// Returns the items of a list with commas in between; `None` for other items than texts, numbers, true and false.
fn joined(list: &Value, source: &Value) -> Option<String> {
    let mut texts = Vec::new();
    for (number, item) in list.as_array()?.iter().enumerate() {
        texts.push(plain(item, &source[number])?);
    }
    Some(texts.join(","))
}

/// Returns a text, a number, true or false as it is written; `None` for other values.
fn plain(value: &Value, source: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(source.as_str().map_or_else(|| value.to_string(), str::to_owned)),
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
        let valued = ["lr", "class", "config"].map(|name| Arg::new(name).long(name));
        let command = Command::new("x").args(valued).args([Arg::new("hops").long("num-neighbors"), switch]);
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
    fn values_are_the_texts_in_the_file() {
        for text in ["no", "n", "y", "off", "1.10", "007", "True", "1e-3", "0x10", "1_000", "2020-01-01", "-1"] {
            assert_eq!(flags(&format!("class: {text}\n")).unwrap(), [format!("--class={text}")]);
            assert_eq!(flags(&format!("group: {{class: {text}}}\n")).unwrap(), [format!("--class={text}")]);
            let list = flags(&format!("class: [{text}, '{text}']\n")).unwrap();
            assert_eq!(list, [format!("--class={text},{text}")]);
        }
        assert_eq!(flags("class: \"false\"\n").unwrap(), ["--class=false"]);
        assert_eq!(flags("lr: &rate 0.10\nclass: *rate\n").unwrap(), ["--class=0.10", "--lr=0.10"]);
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
            ("a: {lr: 1}\nb: {lr: 2}", ", line 1: lr: the flag --lr is given twice"),
            (
                "fanout: 5\nnum_neighbors: 9",
                ", line 2: fanout and num-neighbors: the flag --num-neighbors is given twice",
            ),
            ("json: true\nlr: False", ", line 2: lr: write \"False\" in quotes for this text, or null to leave"),
            ("json: yes", ", line 1: json: expected true or false"),
            ("lr: 1\nconfig: a.yaml", ", line 2: config: this file can name no other file of flags"),
        ] {
            let error = flags(text).unwrap_err().to_string();
            assert!(error.starts_with("--config /") && error.contains(why), "{error}");
        }
        let absent = flags_of_file(Path::new("/nowhere/x.yaml"), &Command::new("x"), &[]).unwrap_err().to_string();
        assert!(absent.starts_with("--config /nowhere/x.yaml: No such file"), "{absent}");
    }
}
