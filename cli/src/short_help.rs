//! The help of `-h`: a line of at most 80 columns for each flag that most runs need.

use crate::description::first_sentence;
use clap::{Arg, ArgAction, Command};
use std::ffi::OsString;

/// The width of a terminal that nobody has widened.
const WIDTH: usize = 80;
/// The most columns of a flag and the name of its value.
const MAX_LABEL_WIDTH: usize = 30;
/// The most flags of a command of which all are shown.
const FEW_FLAGS: usize = 12;
/// Words with which a clause begins that may be left out.
const CLAUSES: [&str; 20] = [
    "and", "as", "at", "but", "by", "each", "for", "from", "if", "in", "instead", "not", "on", "one", "or", "so",
    "the", "which", "with", "without",
];
/// The line about the long help.
const MORE: &str = "--help shows all flags, with examples.";

/// Returns true if the words of a program ask for the short help.
pub(crate) fn is_asked_for(words: &[OsString]) -> bool {
    let mut own = words.iter().take_while(|word| *word != "--");
    own.find(|word| *word == "-h" || *word == "--help").is_some_and(|word| word == "-h")
}

/// Returns the command line whose help has a line for each of the `essential` flags, given by id, also in subcommands. The
/// help of a command with few flags shows all of them.
pub(crate) fn with_short_help(command: Command, essential: &[&str]) -> Command {
    let text = lines(&command, essential).join("\n");
    let command = command.help_template("{about-with-newline}\n{usage-heading} {usage}{after-help}");
    // The usage would have a long line of the flags that are required, which are marked below.
    let command = command.mut_args(|arg| {
        let is_required = arg.is_required_set() && arg.is_positional();
        arg.required(is_required)
    });
    command.term_width(WIDTH).after_help(text).mut_subcommands(|subcommand| with_short_help(subcommand, essential))
}

/// A line of the help.
struct Line {
    label: String,
    about: String,
    /// The default, which is left out if it does not fit.
    default: String,
    is_required: bool,
}

impl Line {
    fn of(arg: &Arg) -> Self {
        let whole = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let about = first_sentence(&whole).trim_end_matches('.').to_owned();
        let is_required = arg.is_required_set() && !arg.is_positional();
        Self { label: label(arg), about, default: default_of(arg), is_required }
    }

    /// Returns the text, with the label in a column of this width.
    fn text(&self, column: usize) -> String {
        let end = if self.is_required { " [required]" } else { "" };
        let room = WIDTH - column - 4 - end.len();
        let has_room = self.about.chars().count() + self.default.chars().count() <= room;
        let default = if has_room { &*self.default } else { "" };
        let about = shortened(&self.about, room);
        format!("  {:<column$}  {about}{default}{end}", self.label).trim_end().to_owned()
    }
}

/// Returns the lines about subcommands, arguments and flags, by their headings.
fn lines(command: &Command, essential: &[&str]) -> Vec<String> {
    let mut sections: Vec<(String, Vec<Line>)> = Vec::new();
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        let about = first_sentence(&about).trim_end_matches('.').to_owned();
        let label = subcommand.get_name().to_owned();
        add(&mut sections, "Commands", Line { label, about, default: String::new(), is_required: false });
    }
    let given: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set() && !is_of_parser(arg)).collect();
    let shows_all = given.len() <= FEW_FLAGS;
    for arg in given {
        if shows_all || arg.is_positional() || essential.contains(&arg.get_id().as_str()) {
            let heading = arg.get_help_heading().unwrap_or(if arg.is_positional() { "Arguments" } else { "Options" });
            add(&mut sections, heading, Line::of(arg));
        }
    }
    sections.sort_by_key(|(heading, _)| heading != "Commands" && heading != "Arguments");
    let rows = sections.iter().flat_map(|(_, rows)| rows);
    let column = rows.map(|row| row.label.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (heading, rows) in &sections {
        lines.push(format!("{heading}:"));
        lines.extend(rows.iter().map(|row| row.text(column)));
        lines.push(String::new());
    }
    lines.push(MORE.to_owned());
    lines
}

/// Adds a line to the section with a heading.
fn add(sections: &mut Vec<(String, Vec<Line>)>, heading: &str, line: Line) {
    match sections.iter_mut().find(|(other, _)| other == heading) {
        Some((_, lines)) => lines.push(line),
        None => sections.push((heading.to_owned(), vec![line])),
    }
}

/// Returns true for the flags that every program has.
fn is_of_parser(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version)
}

/// Returns a flag with the name of its value, or the name of an argument without a flag.
fn label(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
    let value = value.unwrap_or_else(|| arg.get_id().to_string().to_uppercase());
    let Some(long) = arg.get_long() else {
        return if arg.is_required_set() { format!("<{value}>") } else { format!("[{value}]") };
    };
    if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        return format!("--{long}");
    }
    let whole = format!("--{long} {value}");
    if whole.chars().count() <= MAX_LABEL_WIDTH {
        return whole;
    }
    // --help has the whole form, such as TARGET=LOSS[:SETTINGS].
    let without_option =
        value.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(&*value, |(_, rest)| rest);
    let shorter = format!("--{long} {without_option}");
    if shorter.chars().count() <= MAX_LABEL_WIDTH {
        return shorter;
    }
    if let Some((first, _)) = without_option.split_once('|') {
        return format!("--{long} {first}|…");
    }
    let name: String = without_option.chars().take_while(|c| c.is_alphanumeric()).collect();
    format!("--{long} {name}")
}

/// Returns the end of the line about a flag with a default.
fn default_of(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_shown = !values.is_empty() && matches!(arg.get_action(), ArgAction::Set);
    if is_shown { format!(" [default: {}]", values.join(",")) } else { String::new() }
}

/// Cuts a text to `room` characters, at the end of a clause if possible.
fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut end_of_clause = None;
    for (end, _) in text.char_indices().take(room + 1) {
        if is_end_of_clause(&text[end..]) {
            end_of_clause = Some(end);
        }
    }
    if let Some(end) = end_of_clause.filter(|&end| end >= room / 3) {
        return text[..end].to_owned();
    }
    let word: String = text.chars().take(room - 1).collect();
    let end = word.rfind(' ').unwrap_or(word.len());
    format!("{}…", &word[..end])
}

/// Returns true if a text may end before `rest`.
fn is_end_of_clause(rest: &str) -> bool {
    if [" [", " (", "; ", ": "].iter().any(|start| rest.starts_with(start)) {
        return true;
    }
    // A comma may also be in a list.
    let word = rest.strip_prefix(", ").and_then(|rest| rest.split(' ').next());
    word.is_some_and(|word| CLAUSES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_essential_flag_has_a_line_of_80_columns() {
        let mut command = Command::new("x")
            .about("About x. ".repeat(20))
            .arg(Arg::new("lr").long("lr").value_name("X").help("Learning rate. It is small").default_value("0.01"));
        for number in 0..FEW_FLAGS {
            let long = format!("a-flag-with-a-long-name-{number}");
            command = command.arg(
                Arg::new(long.clone())
                    .long(long)
                    .value_name("TARGET=LOSS[:SETTINGS]")
                    .help("The loss of each target; other targets have the loss of the training".to_owned()),
            );
        }
        let shown = ["lr", "a-flag-with-a-long-name-3"];
        let help = with_short_help(command, &shown).render_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= WIDTH), "{help}");
        let mut lines = help.lines();
        assert!(
            lines.any(|line| line.starts_with("  --lr X ") && line.ends_with("  Learning rate [default: 0.01]")),
            "{help}"
        );
        assert!(help.contains("  --a-flag-with-a-long-name-3 TARGET  The loss of each target\n"), "{help}");
        let lines: Vec<&str> = help.lines().collect();
        assert!(lines.iter().all(|line| line.matches('[').count() == line.matches(']').count()), "{help}");
        assert!(!help.contains("name-4") && help.trim_end().ends_with(MORE), "{help}");
    }

    #[test]
    fn texts_are_cut_at_clauses_or_words() {
        assert_eq!(shortened("Number of steps, or 0", 30), "Number of steps, or 0");
        assert_eq!(shortened("Number of steps, or 0", 18), "Number of steps");
        assert_eq!(shortened("Number of steps, or 0", 15), "Number of steps");
        assert_eq!(shortened("Number of many long steps", 16), "Number of many…");
        assert_eq!(shortened("Copies of what s3://, gs:// and az:// name", 24), "Copies of what s3://,…");
        assert_eq!(shortened("The file: one of several", 10), "The file");
    }

    #[test]
    fn the_first_of_both_flags_decides() {
        for (line, is_short) in [("x -h", true), ("x sub --help -h", false), ("x -- -h", false), ("x", false)] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(is_asked_for(&words), is_short, "{line}");
        }
    }
}
