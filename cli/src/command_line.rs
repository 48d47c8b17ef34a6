//! Parsing of a command line as users of PyG and DGL write it.

use crate::commands::{EDGECUT, with_examples_of_edgecut};
use crate::config_file::{Alias, FileFlag, flags_of_file};
use crate::description::{description_if_asked, first_sentence};
use crate::print_result;
use crate::requirements::{missing, without_conflicts};
use crate::short_help;
use crate::spelling::{flag_named, names_of, with_dashes};
use crate::store_args::{GivenUrl, find_urls, with_paths};
use crate::suggestions::with_suggestion;
use crate::version::version;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, ArgMatches, Command, Parser};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A flag of PyG's or DGL's programs that has no meaning here. It is accepted, so that a tutorial's command works as
/// written.
#[derive(Clone, Copy, Debug)]
pub struct MeaninglessFlag {
    /// The flag without leading dashes, as `async-sampling`.
    pub name: &'static str,
    /// True if the flag is followed by a value.
    pub has_value: bool,
    /// The reason, as the end of a sentence.
    pub why: &'static str,
}

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct CommandLine<P> {
    /// The flags of the program.
    pub args: P,
    /// A line about each flag that was left out or translated.
    pub notes: Vec<String>,
    /// The URLs of object stores, which the program replaces by local paths.
    pub urls: Vec<GivenUrl>,
    /// The words, with the flags of a file, and the number of them that name the program and its subcommand.
    words: Vec<OsString>,
    num_names: usize,
}

impl<P: Parser> CommandLine<P> {
    /// Parses the command line with local paths in place of its URLs. Returns the words without the program as well, for
    /// processes that do the same.
    ///
    /// # Errors
    /// A path that the parser rejects.
    pub fn with_paths(&self, paths: &[(GivenUrl, PathBuf)]) -> Result<(P, Vec<OsString>), clap::Error> {
        let mut words = with_paths(&self.words, self.num_names, paths);
        let args = parse_from(words.clone(), &[])?;
        words.remove(0);
        Ok((args, words))
    }
}

/// The differences of a program's command line from a plain one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dialect {
    /// Flags that are left out, each with a note.
    pub meaningless: &'static [MeaninglessFlag],
    /// The ids of the flags that `-h` shows.
    pub essential: &'static [&'static str],
    /// True if `--config FILE` reads flags from a file.
    pub has_config: bool,
    /// Names of flags in such files.
    pub aliases: &'static [Alias],
    /// The ids of the flags and arguments that take URLs of object stores.
    pub urls: &'static [&'static str],
}

/// Parses the command line of this process. Ends the process with status 2 if it is invalid, and with status 0 after
/// `--help` and `--version`.
///
/// Flags may be spelled with underscores. Of a flag that is given several times the last counts, unless it is a list. A
/// negative number after a flag is its value. Flags on the command line take precedence over flags in a file, and replace the
/// flags in the file that conflict with them.
pub fn parse_command_line<P: Parser>(dialect: &Dialect) -> CommandLine<P> {
    print_description_if_asked(P::command);
    parse_words(std::env::args_os(), dialect).unwrap_or_else(|error| error.exit())
}

/// Prints the description of a program's command line and ends the process, if that is what its arguments ask for.
pub fn print_description_if_asked(command: fn() -> Command) {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let command = with_examples_of_edgecut(command(), EDGECUT.as_ref());
    if let Some(description) = description_if_asked(&command, arguments.iter().map(OsString::as_os_str)) {
        let printed = print_result(format_args!("{description}"));
        std::process::exit(i32::from(printed.is_err()));
    }
}

/// Parses the command line of a program, whose name comes first, like [`parse_command_line`].
///
/// # Errors
/// An invalid command line or file of flags. `--help` and `--version` are errors too.
pub fn parse_words<P: Parser>(
    words: impl IntoIterator<Item = OsString>,
    dialect: &Dialect,
) -> Result<CommandLine<P>, clap::Error> {
    let (args, notes) = translate(words, dialect.meaningless);
    let (mut words, file) =
        if dialect.has_config { with_file::<P>(args, dialect.aliases)? } else { (args, FileFlags::default()) };
    let (command, num_names) = command_of::<P>(&words);
    let urls = find_urls(&mut words, &command, num_names, dialect.urls);
    let urls = urls.map_err(|why| command.clone().error(ErrorKind::InvalidValue, why))?;
    let args = parse_from(words.clone(), dialect.essential).map_err(|error| file.named_in(error))?;
    Ok(CommandLine { args, notes, urls, words, num_names })
}

/// Returns the subcommand that the words name, or the program, and the number of words that name it.
fn command_of<P: Parser>(words: &[OsString]) -> (Command, usize) {
    let mut command = P::command();
    if let Some(name) = words.first().map(Path::new).and_then(Path::file_name) {
        command.set_bin_name(name.to_string_lossy());
    }
    // Errors show the usage of the subcommand.
    command.build();
    let subcommand = words.get(1).and_then(|name| command.find_subcommand(name)).cloned();
    match subcommand {
        Some(subcommand) => (subcommand, 2),
        None => (command, 1),
    }
}

/// The flags of a file that the command line does not replace.
#[derive(Default)]
struct FileFlags {
    path: String,
    flags: Vec<FileFlag>,
}

impl FileFlags {
    /// Adds the lines of the flags that an error names.
    fn named_in(&self, mut error: clap::Error) -> clap::Error {
        let mut tips = match error.get(ContextKind::Suggested) {
            Some(ContextValue::StyledStrs(tips)) => tips.clone(),
            _ => Vec::new(),
        };
        for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
            let arguments = match error.get(kind) {
                Some(ContextValue::String(argument)) => vec![argument.clone()],
                Some(ContextValue::Strings(arguments)) => arguments.clone(),
                _ => continue,
            };
            // An argument is written with its value: `--lr <X>`.
            for name in arguments.iter().filter_map(|argument| name_of(argument.split(' ').next()?)) {
                let flag = self.flags.iter().find(|flag| flag.word.to_str().and_then(name_of) == Some(name));
                if let Some(line) = flag.and_then(|flag| flag.line) {
                    tips.push(StyledStr::from(format!("--{name} is in {}, line {line}", self.path)));
                }
            }
        }
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
        error
    }
}

/// Puts the flags of the file that `--config` names before the flags of the command line. Returns the flags of the file too.
fn with_file<P: Parser>(mut args: Vec<OsString>, aliases: &[Alias]) -> Result<(Vec<OsString>, FileFlags), clap::Error> {
    let texts: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    // Words after `--` are for another program.
    let own = texts.iter().position(|arg| arg == "--").unwrap_or(texts.len());
    let is_config = |arg: &String| arg == "--config" || arg.starts_with("--config=");
    let Some(at) = texts[..own].iter().rposition(is_config) else { return Ok((args, FileFlags::default())) };
    if texts[..at].iter().any(is_config) {
        let why = "--config is given twice: merge the files, since one of them would be ignored";
        return Err(command_of::<P>(&args).0.error(ErrorKind::ArgumentConflict, why));
    }
    let path = match texts[at].split_once('=') {
        Some((_, path)) => Some(path.to_owned()),
        None => texts.get(at + 1).cloned(),
    };
    // Without a value, the parser reports the error.
    let Some(path) = path else { return Ok((args, FileFlags::default())) };
    let (command, first) = command_of::<P>(&args);
    let of_flags = &command;
    let flags = flags_of_file(Path::new(&path), of_flags, aliases);
    let mut flags = flags.map_err(|why| of_flags.clone().error(ErrorKind::InvalidValue, why))?;
    let lenient = without_conflicts(forgiving(command.clone()));
    let missing_before = missing(&lenient, &flags, &args[first..]);
    // A list on the command line replaces that of the file: the parser would join them.
    flags.retain(|flag| !is_replaced(&flag.word, &texts[..own], of_flags));
    // Flags that require a replaced one are left out with it.
    let lost = &missing(&lenient, &flags, &args[first..]) - &missing_before;
    if !lost.is_empty() {
        flags.retain(|flag| missing(&lenient, std::slice::from_ref(flag), &[]).is_disjoint(&lost));
    }
    args.splice(first..first, flags.iter().map(|flag| flag.word.clone()));
    Ok((args, FileFlags { path, flags }))
}

/// Returns true if the arguments contain a flag of a file, or a flag that the flag of the file conflicts with. The flag is
/// `--name` or `--name=value`.
fn is_replaced(flag: &OsString, arguments: &[String], command: &Command) -> bool {
    let Some(wanted) = flag.to_str().and_then(name_of) else { return false };
    let Some(arg) = flag_named(command, wanted) else { return false };
    let conflicts = command.get_arg_conflicts_with(arg);
    let replacing: Vec<&str> = std::iter::once(arg).chain(conflicts).flat_map(names_of).collect();
    arguments.iter().filter_map(|argument| name_of(argument)).any(|given| replacing.contains(&given))
}

/// Returns the name of a flag, `--name` or `--name=value`.
fn name_of(flag: &str) -> Option<&str> {
    flag.strip_prefix("--")?.split('=').next()
}

/// Parses the arguments of a program, the first of which is its name.
fn parse_from<P: Parser>(args: Vec<OsString>, essential: &[&str]) -> Result<P, clap::Error> {
    let mut command = prepared(P::command(), args.first().map_or(OsStr::new(""), |name| name));
    let matches = matches_of(&mut command, args, essential)?;
    P::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Parses the words of a program, the first of which is its name. The short help shows the `essential` flags, given by
/// id.
///
/// # Errors
/// Words that the command line does not have, with a suggestion for misspelled ones. `--help` and `--version` are errors
/// too.
pub fn matches_of(command: &mut Command, words: Vec<OsString>, essential: &[&str]) -> Result<ArgMatches, clap::Error> {
    if short_help::is_asked_for(&words) {
        *command = short_help::with_short_help(std::mem::take(command), essential);
    }
    let lenient = without_conflicts(command.clone());
    let matches = command.try_get_matches_from_mut(&words);
    let matches = matches.and_then(|matches| lenient.try_get_matches_from(&words).map(|_| matches));
    matches.map_err(|error| {
        let error = error.format(command);
        let command: &Command = command;
        let called = words.get(1).and_then(|name| command.find_subcommand(name)).unwrap_or(command);
        with_suggestion(error, command, called, &words)
    })
}

/// Returns a program's command line with flags that may be repeated and take negative numbers, and with the commit in
/// `--version`. `argument_zero` is the first word of the process: `edgecut` starts programs with names of its own, which the
/// usage and the examples then show.
pub fn prepared(command: Command, argument_zero: &OsStr) -> Command {
    let command = with_examples_of_edgecut(command, argument_zero).long_version(version());
    with_long_help(forgiving(command))
}

/// Returns the command line with flags that may be repeated and take negative numbers, also in subcommands.
fn forgiving(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let id = arg.get_id().clone();
        match arg.get_action() {
            ArgAction::SetTrue => arg.overrides_with(id),
            ArgAction::Set if arg.is_positional() => arg,
            ArgAction::Set => arg.overrides_with(id).allow_negative_numbers(true),
            _ => arg,
        }
    });
    command.mut_subcommands(forgiving)
}

/// Returns the command line whose `--help` shows the whole descriptions, also in subcommands.
fn with_long_help(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let whole = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let first = first_sentence(&whole).to_owned();
        arg.long_help(whole).help(first)
    });
    command.mut_subcommands(with_long_help)
}

/// Spells flags with dashes, leaves out meaningless ones, and translates DGL's order of fan-outs. Returns a note about
/// each change except of spelling.
fn translate(
    args: impl IntoIterator<Item = OsString>,
    meaningless: &[MeaninglessFlag],
) -> (Vec<OsString>, Vec<String>) {
    let mut kept = Vec::new();
    let mut notes = Vec::new();
    let mut args = args.into_iter().map(with_dashes).peekable();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy().into_owned();
        let Some(flag) = text.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
            kept.push(arg);
            continue;
        };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value.to_owned())));
        if name == FAN_OUT {
            let next = |next: &OsString| !next.to_string_lossy().starts_with("--");
            let value = value.or_else(|| args.next_if(next).map(|value| value.to_string_lossy().into_owned()));
            let hops = value.unwrap_or_default().split(',').rev().map(str::trim).collect::<Vec<_>>().join(",");
            notes.push(format!(
                "--{FAN_OUT} lists the layers from the features on, as in DGL: the same as --num-neighbors {hops}"
            ));
            kept.push(format!("--num-neighbors={hops}").into());
        } else if let Some(found) = meaningless.iter().find(|flag| flag.name == name) {
            let is_next_value = |next: &OsString| !next.to_string_lossy().starts_with("--");
            if found.has_value && value.is_none() && args.peek().is_some_and(is_next_value) {
                args.next();
            }
            notes.push(format!("--{name} has no effect: {}", found.why));
        } else {
            kept.push(arg);
        }
    }
    (kept, notes)
}

/// DGL's flag of the fan-outs, which are listed in the opposite order of `--num-neighbors`.
const FAN_OUT: &str = "fan-out";

#[cfg(test)]
mod tests {
    use super::*;

    const ASYNC: MeaninglessFlag = MeaninglessFlag { name: "async-sampling", has_value: true, why: "it always is" };
    const LOGGING: MeaninglessFlag = MeaninglessFlag { name: "logging", has_value: false, why: "lines are printed" };

    fn translated(line: &str) -> (String, Vec<String>) {
        let (kept, notes) = translate(line.split(' ').map(OsString::from), &[ASYNC, LOGGING]);
        (kept.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" "), notes)
    }

    #[test]
    fn meaningless_flags_are_left_out_with_their_values() {
        for line in [
            "train node --async_sampling True --logging --lr 1",
            "train node --async-sampling=True --lr 1 --logging",
            "train node --logging --async_sampling --lr 1",
        ] {
            let (kept, notes) = translated(line);
            assert_eq!((kept.as_str(), notes.len()), ("train node --lr 1", 2));
        }
        assert_eq!(translated("train --logging").1, ["--logging has no effect: lines are printed"]);
    }

    #[test]
    fn fan_outs_of_dgl_are_listed_in_the_other_order() {
        for line in ["train node --fan_out 5,10,15", "train node --fan-out=5,10,15"] {
            let (kept, notes) = translated(line);
            assert_eq!(kept, "train node --num-neighbors=15,10,5");
            assert!(notes[0].contains("--num-neighbors 15,10,5"));
        }
    }

    #[derive(Debug, Parser)]
    struct Program {
        #[arg(long)]
        lr: Option<f64>,
        #[arg(long, action = ArgAction::Append)]
        list: Vec<String>,
        #[arg(long)]
        quick: bool,
    }

    #[test]
    fn the_long_help_shows_everything() {
        #[derive(Debug, Parser)]
        #[command(after_help = "Example: x --lr 2")]
        struct Helped {
            /// Learning rate. It is small [default: 1]
            #[arg(long)]
            lr: Option<f64>,
        }
        let given: CommandLine<Helped> = parse_words(["x", "--lr=2"].map(OsString::from), &Dialect::default()).unwrap();
        assert_eq!(given.args.lr, Some(2.0));
        for (flag, expected) in [("--help", true), ("-h", false)] {
            let words = ["x", flag].map(OsString::from);
            let error = parse_words::<Helped>(words, &Dialect::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DisplayHelp);
            let help = error.to_string();
            assert!(help.contains("Learning rate"), "{help}");
            assert!(help.contains("It is small [default: 1]") == expected, "{help}");
            assert!(help.contains("Example: x --lr 2") == expected, "{help}");
        }
    }

    #[test]
    fn a_list_on_the_command_line_replaces_that_of_the_file() {
        #[derive(Debug, Parser)]
        struct Lists {
            #[arg(long, alias = "fanout", value_delimiter = ',')]
            num_neighbors: Vec<u32>,
            #[arg(long, value_delimiter = ',')]
            edge_types: Vec<String>,
            #[arg(long)]
            config: String,
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "num_neighbors: [15, 10]\nedge_types: [a, b]\n").unwrap();
        let config = format!("--config={}", file.path().display());
        for given in [&["--num-neighbors", "5"][..], &["--num-neighbors=5"], &["--fanout", "5"]] {
            let words = ["x", &config].into_iter().chain(given.iter().copied()).map(OsString::from);
            let lists: Lists = parse_from(with_file::<Lists>(words.collect(), &[]).unwrap().0, &[]).unwrap();
            assert_eq!((lists.num_neighbors, lists.edge_types), (vec![5], vec!["a".to_owned(), "b".to_owned()]));
            assert!(lists.config.ends_with(&*file.path().to_string_lossy()));
        }
    }

    #[test]
    fn flags_of_the_file_give_way_to_flags_of_the_command_line_that_they_conflict_with() {
        #[derive(Debug, Parser)]
        struct Run {
            #[arg(long, conflicts_with = "load_model")]
            num_epochs: Option<u32>,
            #[arg(long)]
            seed: Option<u32>,
            #[arg(long)]
            load_model: Option<String>,
            #[arg(long)]
            config: String,
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "num_epochs: 7\nseed: 3\n").unwrap();
        let config = format!("--config={}", file.path().display());
        let parse = |line: &[&str]| {
            let words = ["x", &config].into_iter().chain(line.iter().copied()).map(OsString::from).collect();
            parse_from::<Run>(with_file::<Run>(words, &[]).unwrap().0, &[])
        };
        let run = parse(&[]).unwrap();
        assert_eq!((run.num_epochs, run.seed), (Some(7), Some(3)));
        let run = parse(&["--load-model", "m"]).unwrap();
        assert_eq!((run.num_epochs, run.seed, run.load_model.as_deref()), (None, Some(3), Some("m")));
        assert!(run.config.ends_with(&*file.path().to_string_lossy()));
        // Both on the command line remain an error.
        assert!(parse(&["--load-model", "m", "--num-epochs", "2"]).is_err());
        let words = ["x", &config, &config].map(OsString::from).to_vec();
        let error = with_file::<Run>(words, &[]).map(drop).unwrap_err().to_string();
        assert!(error.contains("--config is given twice"), "{error}");
    }

    #[test]
    fn errors_name_the_lines_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "quick: true\n\nlr: fast\n").unwrap();
        let dialect = Dialect { has_config: true, ..Dialect::default() };
        let config = format!("--config={}", file.path().display());
        #[derive(Debug, Parser)]
        struct Run {
            #[arg(long)]
            lr: Option<f64>,
            #[arg(long)]
            quick: bool,
            #[arg(long)]
            config: String,
        }
        let error = parse_words::<Run>(["x", &config].map(OsString::from), &dialect).unwrap_err().to_string();
        let tip = format!("tip: --lr is in {}, line 3", file.path().display());
        assert!(error.contains("invalid value 'fast' for '--lr <LR>'") && error.contains(&tip), "{error}");
        // A value on the command line is not in the file.
        let words = ["x", &config, "--lr", "slow"].map(OsString::from);
        let error = parse_words::<Run>(words, &dialect).unwrap_err().to_string();
        assert!(error.contains("'slow'") && !error.contains("tip: --lr is in"), "{error}");
        let run: CommandLine<Run> = parse_words(["x", &config, "--lr", "1"].map(OsString::from), &dialect).unwrap();
        assert_eq!((run.args.lr, run.args.quick, run.args.config.is_empty()), (Some(1.0), true, false));
    }

    #[test]
    fn the_last_of_repeated_flags_counts_and_numbers_may_be_negative() {
        let line = "x --lr 1 --quick --lr -2.5 --list a --quick --list b";
        let program: Program = parse_from(line.split(' ').map(OsString::from).collect(), &[]).unwrap();
        assert_eq!((program.lr, program.quick), (Some(-2.5), true));
        assert_eq!(program.list, ["a", "b"]);
    }
}
