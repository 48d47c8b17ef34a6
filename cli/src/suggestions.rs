//! Suggestions for flags, values and subcommands that do not exist.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use edgecut_settings::{listed, near_name};
use std::error::Error as _;
use std::ffi::OsString;

/// Adds the name that is probably meant to the error about an unknown flag, value or subcommand of `command`, which is
/// the subcommand `called` of `program`, or `program` itself.
pub(crate) fn with_suggestion(
    mut error: clap::Error,
    program: &Command,
    command: &Command,
    words: &[OsString],
) -> clap::Error {
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => text_of(&error, ContextKind::InvalidArg)
            .and_then(|argument| tip_for_argument(argument, program, command, words)),
        ErrorKind::InvalidSubcommand => {
            text_of(&error, ContextKind::InvalidSubcommand).and_then(|name| tip_for_subcommand(name, command))
        }
        ErrorKind::InvalidValue => tip_for_value(&error),
        ErrorKind::ValueValidation => tip_for_number(&error),
        _ => None,
    };
    // In place of the parser's tip to pass a misspelled flag as a value.
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// Returns the flag of a command that is nearest to a misspelled one, which is given without leading dashes.
pub(crate) fn near_flag<'a>(name: &str, command: &'a Command) -> Option<&'a str> {
    let shown: Vec<&Arg> = command.get_arguments().filter(|flag| !flag.is_hide_set()).collect();
    if let Some(flag) = near_name(name, shown.iter().filter_map(|flag| flag.get_long())) {
        return Some(flag);
    }
    // Another name of the flag is shown by the name in the help.
    let aliases = shown.iter().flat_map(|flag| flag.get_all_aliases().unwrap_or_default());
    let alias = near_name(name, aliases)?;
    let flag = shown.iter().find(|flag| flag.get_all_aliases().unwrap_or_default().contains(&alias))?;
    flag.get_long()
}

fn has_flag(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|flag| flag.get_long() == Some(name))
}

fn tip_for_argument(argument: &str, program: &Command, command: &Command, words: &[OsString]) -> Option<String> {
    let Some(name) = argument.strip_prefix("--") else {
        return match argument.strip_prefix('-') {
            Some(letters) => tip_for_one_dash(letters, command, words),
            None => tip_for_subcommand(argument, command),
        };
    };
    let others: Vec<&str> =
        program.get_subcommands().filter(|other| has_flag(other, name)).map(Command::get_name).collect();
    if others.is_empty() {
        return near_flag(name, command).map(|flag| format!("did you mean --{flag}?"));
    }
    Some(format!("--{name} is a flag of {}", listed(&others, "and")))
}

/// Returns the flag that a word with one dash means. The parser takes the word for several flags of one letter.
fn tip_for_one_dash(letters: &str, command: &Command, words: &[OsString]) -> Option<String> {
    let mut words = words.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    let word = words.find_map(|word| word.strip_prefix('-').filter(|word| word.starts_with(letters)))?;
    let name = word.split('=').next()?.replace('_', "-");
    let flag = if has_flag(command, &name) { Some(name.as_str()) } else { near_flag(&name, command) };
    flag.map(|flag| format!("did you mean --{flag}?"))
}

fn tip_for_subcommand(name: &str, command: &Command) -> Option<String> {
    let subcommand = near_name(name, command.get_subcommands().map(Command::get_name))?;
    Some(format!("did you mean {subcommand}?"))
}

fn tip_for_value(error: &clap::Error) -> Option<String> {
    let value = text_of(error, ContextKind::InvalidValue)?;
    let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else { return None };
    near_name(value, known.iter().map(String::as_str)).map(|known| format!("did you mean {known}?"))
}

/// Returns what to give in place of a text that the standard library cannot read as a number.
fn tip_for_number(error: &clap::Error) -> Option<String> {
    let tip = match error.source()?.to_string().as_str() {
        "invalid digit found in string" | "cannot parse integer from empty string" => "give a whole number",
        "invalid float literal" | "cannot parse float from empty string" => "give a number",
        _ => return None,
    };
    Some(tip.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn error_of(line: &str) -> String {
        let node = Command::new("node").args([
            Arg::new("num_neighbors").long("num-neighbors").alias("fanout"),
            Arg::new("model").long("model").value_parser(["sage", "gat"]),
            Arg::new("max_steps").long("max-steps").value_parser(clap::value_parser!(u32).range(1..)),
            Arg::new("secret").long("secret").hide(true),
        ]);
        let link = Command::new("link").arg(Arg::new("decoder").long("decoder"));
        let info = Command::new("info").arg(Arg::new("json").long("json").action(ArgAction::SetTrue));
        let mut program = Command::new("train").subcommands([node, link, info]).subcommand_required(true);
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = program.try_get_matches_from_mut(&words).expect_err(line);
        let command = words.get(1).and_then(|name| program.find_subcommand(name)).unwrap_or(&program).clone();
        with_suggestion(error, &program, &command, &words).to_string()
    }

    #[test]
    fn the_nearest_flag_value_or_subcommand_is_suggested() {
        for (line, tip) in [
            ("train node --num-neighbours 5", "tip: did you mean --num-neighbors?\n"),
            ("train node --num-neighbours=5", "tip: did you mean --num-neighbors?\n"),
            ("train node --fanuot 5", "tip: did you mean --num-neighbors?\n"),
            ("train node -num_neighbors 5", "tip: did you mean --num-neighbors?\n"),
            ("train node --model sagee", "tip: did you mean sage?\n"),
            ("train node --max-steps many", "tip: give a whole number\n"),
            ("train nod", "tip: did you mean node?\n"),
            ("train node --decoder dot", "tip: --decoder is a flag of link\n"),
        ] {
            let error = error_of(line);
            assert!(error.contains(tip), "{line}: {error}");
        }
    }

    #[test]
    fn opposites_hidden_flags_and_far_names_are_not_suggested() {
        for line in
            ["train node --min-steps 5", "train node --secrets 1", "train node --xyz", "train node --model gcn3"]
        {
            let error = error_of(line);
            assert!(!error.contains("did you mean"), "{line}: {error}");
        }
    }
}
