//! Suggestions for commands that do not exist.

use crate::Own;
use crate::error::EdgecutError;
use crate::tree::descriptions;
use clap::CommandFactory;
use edgecut_cli::COMMANDS;
use edgecut_settings::near_name;

/// Returns the error for a command that does not exist, with the command that is probably meant.
pub(crate) fn unknown(name: &str) -> EdgecutError {
    let hint = match meant(name).or_else(|| subcommand_of_program(name)) {
        Some(command) => format!("; did you mean `edgecut {command}`?"),
        None => String::new(),
    };
    EdgecutError::UnknownCommand { name: name.to_owned(), hint }
}

/// Returns the command whose name or program is most similar to `name`.
fn meant(name: &str) -> Option<String> {
    if let Some(command) = COMMANDS.iter().find(|command| command.program == name) {
        return Some(command.name.to_owned());
    }
    let own = Own::command();
    let own = own.get_subcommands().map(clap::Command::get_name);
    near_name(name, COMMANDS.iter().map(|command| command.name).chain(own)).map(str::to_owned)
}

/// Returns the command with its subcommand `name`: `train node` for `node`.
fn subcommand_of_program(name: &str) -> Option<String> {
    let found = descriptions().into_iter().filter_map(Result::ok);
    found
        .filter(|(command, _)| !command.is_subcommand)
        .find(|(_, description)| description.subcommands.iter().any(|subcommand| subcommand.name == name))
        .map(|(command, _)| format!("{} {name}", command.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_and_programs_are_suggested() {
        for (name, expected) in [
            ("tarin", Some("train")),
            ("partiton", Some("partition")),
            ("partition-graph", Some("partition")),
            ("sampling-server", Some("serve-graph")),
            ("completion", Some("completions")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(meant(name).as_deref(), expected, "{name}");
        }
    }
}
