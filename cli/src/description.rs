//! Command lines as JSON, by which `edgecut` learns the flags of the programs that it starts.

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command, ValueHint};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

/// The only argument with which a program prints the description of its command line.
pub const DESCRIBE: &str = "--describe-command-line";

/// The description of a command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandDescription {
    /// The name of the program or the subcommand.
    pub name: String,
    about: String,
    long_about: String,
    after_help: String,
    arguments: Vec<ArgumentDescription>,
    /// The subcommands.
    pub subcommands: Vec<CommandDescription>,
}

/// The description of a flag, or of an argument without a flag.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ArgumentDescription {
    id: String,
    /// `None` for an argument without a flag.
    flag: Option<String>,
    /// `None` for a flag without a value.
    value_name: Option<String>,
    help: String,
    heading: Option<String>,
    defaults: Vec<String>,
    /// The possible values, each with its description.
    values: Vec<(String, String)>,
    is_required: bool,
    is_hidden: bool,
}

/// Returns the description of `command` as JSON if the program's arguments ask for it.
pub(crate) fn description_if_asked<'a>(
    command: &Command,
    arguments: impl IntoIterator<Item = &'a OsStr>,
) -> Option<String> {
    let mut arguments = arguments.into_iter().skip(1);
    let asks = arguments.next() == Some(OsStr::new(DESCRIBE)) && arguments.next().is_none();
    asks.then(|| serde_json::to_string(&CommandDescription::new(command)).unwrap_or_default())
}

fn text(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

impl CommandDescription {
    fn new(command: &Command) -> Self {
        Self {
            name: command.get_name().to_owned(),
            about: text(command.get_about()),
            long_about: text(command.get_long_about()),
            after_help: text(command.get_after_help()),
            arguments: command.get_arguments().map(ArgumentDescription::new).collect(),
            subcommands: command.get_subcommands().map(Self::new).collect(),
        }
    }

    /// Returns the command line with another name.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name.to_owned()).about(self.about.clone()).after_help(self.after_help.clone());
        if !self.long_about.is_empty() {
            command = command.long_about(self.long_about.clone());
        }
        command
            .args(self.arguments.iter().map(ArgumentDescription::argument))
            .subcommands(self.subcommands.iter().map(|subcommand| subcommand.command(&subcommand.name)))
    }
}

impl ArgumentDescription {
    fn new(argument: &Arg) -> Self {
        let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
        let value_name = argument.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
        let mut values = Vec::new();
        if takes_value {
            for value in argument.get_possible_values() {
                values.push((value.get_name().to_owned(), text(value.get_help())));
            }
        }
        Self {
            id: argument.get_id().to_string(),
            flag: argument.get_long().map(str::to_owned),
            value_name: takes_value.then(|| value_name.unwrap_or_else(|| "VALUE".to_owned())),
            help: text(argument.get_long_help().or_else(|| argument.get_help())),
            heading: argument.get_help_heading().map(str::to_owned),
            defaults: argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect(),
            values,
            is_required: argument.is_required_set(),
            is_hidden: argument.is_hide_set(),
        }
    }

    fn argument(&self) -> Arg {
        let mut argument = Arg::new(self.id.clone())
            .long_help(self.help.clone())
            .help(first_sentence(&self.help).to_owned())
            .required(self.is_required)
            .hide(self.is_hidden);
        if let Some(heading) = &self.heading {
            argument = argument.help_heading(heading.clone());
        }
        if let Some(flag) = &self.flag {
            argument = argument.long(flag.clone());
        }
        let Some(value_name) = &self.value_name else { return argument.action(ArgAction::SetTrue) };
        let hint = match value_name.as_str() {
            "DIR" => ValueHint::DirPath,
            "FILE" | "METRICS" => ValueHint::FilePath,
            _ => ValueHint::Unknown,
        };
        argument = argument.value_name(value_name.clone()).value_hint(hint).default_values(self.defaults.clone());
        if self.values.is_empty() {
            return argument;
        }
        let values = self.values.iter().map(|(name, about)| PossibleValue::new(name.clone()).help(about.clone()));
        argument.value_parser(values.collect::<Vec<_>>())
    }
}

/// Returns the first sentence of a flag's description, without its default.
pub(crate) fn first_sentence(help: &str) -> &str {
    let first = help.split_once(". ").map_or(help, |(first, _)| first);
    first.split_once(" [default:").map_or(first, |(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_the_same_after_its_description() {
        let kind = Arg::new("kind").long("kind").value_name("A|B").help("Kind. It matters").default_value("a");
        let command = Command::new("x").about("About x").after_help("Example: x").subcommand(
            Command::new("sub").about("About sub").args([
                kind.value_parser([PossibleValue::new("a").help("the first"), PossibleValue::new("b")]),
                Arg::new("quick").long("quick").action(ArgAction::SetTrue).help_heading("Speed"),
                Arg::new("file").value_name("FILE").required(true),
            ]),
        );
        assert!(description_if_asked(&command, ["x", "sub"].map(OsStr::new)).is_none());
        assert!(description_if_asked(&command, ["x", "sub", DESCRIBE].map(OsStr::new)).is_none());
        let json = description_if_asked(&command, ["x", DESCRIBE].map(OsStr::new)).unwrap();
        let read: CommandDescription = serde_json::from_str(&json).unwrap();
        assert_eq!(read.subcommands[0].name, "sub");
        let mut again = read.command("x");
        assert_eq!(serde_json::to_string(&CommandDescription::new(&again)).unwrap(), json);
        again.build();
        again.debug_assert();
    }
}
