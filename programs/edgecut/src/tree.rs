//! The command line of all commands, which the programs describe.

use crate::Own;
use crate::error::EdgecutError;
use crate::program::find;
use clap::{Command, CommandFactory};
use edgecut_cli::{COMMANDS, CommandDescription, DESCRIBE, EdgecutCommand};
use std::process;

/// A command, and the description of its program.
type Described = (&'static EdgecutCommand, CommandDescription);

/// Returns the description of each command's command line. Each program runs once.
pub(crate) fn descriptions() -> Vec<Result<Described, EdgecutError>> {
    let mut found: Vec<Result<Described, EdgecutError>> = Vec::new();
    for command in &COMMANDS {
        let known = found.iter().flatten().find(|(other, _)| !other.is_subcommand && other.program == command.program);
        let description = match known {
            Some((_, description)) => Ok(description.clone()),
            None => describe(command.program),
        };
        found.push(description.map(|of_program| (command, of_program)));
    }
    found
}

fn describe(program: &'static str) -> Result<CommandDescription, EdgecutError> {
    let program = find(program)?;
    let output = process::Command::new(&program).arg(DESCRIBE).output();
    let output = output.map_err(|source| EdgecutError::Start { program: program.clone(), source })?;
    serde_json::from_slice(&output.stdout).map_err(|error| EdgecutError::NotDescribed {
        program,
        status: output.status.to_string(),
        reason: error.to_string(),
    })
}

/// Returns the command line of `edgecut` with all commands and their flags.
///
/// # Errors
/// A program that is missing or has another version.
pub(crate) fn whole_command_line() -> Result<Command, EdgecutError> {
    let mut whole = Command::new("edgecut")
        .bin_name("edgecut")
        .about("Trains graph neural networks on graphs and clusters that outgrow one machine")
        .version(env!("CARGO_PKG_VERSION"));
    for described in descriptions() {
        let (command, description) = described?;
        let subcommand =
            description.subcommands.iter().find(|other| command.is_subcommand && other.name == command.name);
        whole = whole.subcommand(subcommand.unwrap_or(&description).command(command.name));
    }
    Ok(whole.subcommands(Own::command().get_subcommands().cloned()))
}
