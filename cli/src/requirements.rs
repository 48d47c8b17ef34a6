//! Flags that other flags require.

use crate::config_file::FileFlag;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Id};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// Returns the command line without conflicts and without arguments that are always required.
///
/// The parser waives a flag that is required by another one if it conflicts with any given flag. The dependent flag would then
/// have no effect without a word, so that valid words are parsed a second time without conflicts.
pub(crate) fn without_conflicts(command: Command) -> Command {
    let command = command.mut_args(|arg| arg.conflicts_with(Resettable::<Id>::Reset).required(false));
    command.mut_subcommands(without_conflicts)
}

/// Returns the required flags that the flags of a file and the words after the command's name lack, as errors write them. The
/// command is [`without_conflicts`].
pub(crate) fn missing(command: &Command, flags: &[FileFlag], words: &[OsString]) -> BTreeSet<String> {
    let name = OsString::from(command.get_name());
    let flags = flags.iter().map(|flag| flag.word.clone());
    let words = std::iter::once(name).chain(flags).chain(words.iter().cloned());
    let Err(error) = command.clone().try_get_matches_from(words) else { return BTreeSet::new() };
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) if error.kind() == ErrorKind::MissingRequiredArgument => {
            names.iter().cloned().collect()
        }
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{CommandLine, Dialect, parse_words};
    use clap::Parser;
    use clap::error::ErrorKind;
    use std::ffi::OsString;

    #[derive(Debug, Parser)]
    struct Run {
        #[arg(long, conflicts_with_all = ["load", "random"])]
        folds: Option<u32>,
        #[arg(long, group = "source")]
        random: bool,
        #[arg(long, group = "source")]
        graphs: Option<u32>,
        #[arg(long, requires = "folds")]
        protocol: Option<String>,
        #[arg(long, requires = "protocol")]
        strict: bool,
        #[arg(long, requires = "source")]
        seed: Option<u32>,
        #[arg(long)]
        load: Option<String>,
        #[arg(long, required = true, conflicts_with = "load")]
        epochs: Option<u32>,
        #[arg(long)]
        config: Option<String>,
    }

    fn parsed(line: &[&str]) -> Result<CommandLine<Run>, clap::Error> {
        let dialect = Dialect { has_config: true, ..Dialect::default() };
        parse_words(std::iter::once(&"x").chain(line).map(OsString::from), &dialect)
    }

    #[test]
    fn a_required_flag_is_required_beside_flags_that_it_conflicts_with() {
        for (line, missing) in [
            (&["--protocol=a", "--load=m"][..], "--folds <FOLDS>"),
            (&["--protocol=a", "--random", "--epochs=1"], "--folds <FOLDS>"),
            (&["--strict", "--protocol=a", "--load=m"], "--folds <FOLDS>"),
            (&["--seed=1", "--load=m"], "--random"),
        ] {
            let error = parsed(line).expect_err("a required flag is missing");
            assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument, "{line:?}: {error}");
            assert!(error.to_string().contains(missing), "{line:?}: {error}");
        }
        // A flag that is always required is waived by a conflict.
        for line in [
            &["--load=m"][..],
            &["--random", "--seed=1", "--load=m"],
            &["--folds=2", "--strict", "--protocol=a", "--epochs=1"],
        ] {
            parsed(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        }
    }

    #[test]
    fn flags_of_a_file_give_way_with_the_flags_that_they_require() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "folds: 7\nprotocol: a\nstrict: true\n").unwrap();
        let config = format!("--config={}", file.path().display());
        let run = parsed(&[&config, "--epochs=1"]).unwrap().args;
        assert_eq!((run.folds, run.protocol.as_deref(), run.strict), (Some(7), Some("a"), true));
        let run = parsed(&[&config, "--random", "--epochs=1"]).unwrap().args;
        assert_eq!((run.folds, run.protocol, run.strict), (None, None, false));
        let run = parsed(&[&config, "--load=m"]).unwrap().args;
        assert_eq!((run.folds, run.protocol, run.strict), (None, None, false));
        // A flag on the command line stays, and needs the flag that it replaced in the file.
        assert!(parsed(&[&config, "--load=m", "--protocol=b"]).is_err());
        std::fs::write(file.path(), "protocol: a\n").unwrap();
        let error = parsed(&[&config, "--load=m"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument);
    }
}
