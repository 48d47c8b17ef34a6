//! The commands of the program `edgecut`.

use clap::Command;
use std::ffi::OsStr;
use std::path::Path;

/// A command of `edgecut`, which is a program or a subcommand of one.
#[derive(Clone, Copy, Debug)]
pub struct EdgecutCommand {
    /// The name after `edgecut`.
    pub name: &'static str,
    /// The program that runs it.
    pub program: &'static str,
    /// True if the command is the program's subcommand of the same name, and false if it is the program.
    pub is_subcommand: bool,
    /// The heading in the help.
    pub group: &'static str,
    /// A description of a few words.
    pub about: &'static str,
}

const fn program(
    name: &'static str,
    program: &'static str,
    group: &'static str,
    about: &'static str,
) -> EdgecutCommand {
    EdgecutCommand { name, program, is_subcommand: false, group, about }
}

const fn subcommand(
    program: &'static str,
    name: &'static str,
    group: &'static str,
    about: &'static str,
) -> EdgecutCommand {
    EdgecutCommand { name, program, is_subcommand: true, group, about }
}

/// All commands that programs run, in the order of the help.
pub const COMMANDS: [EdgecutCommand; 13] = [
    program("partition", "partition-graph", "Data", "Split a dataset into parts"),
    subcommand("partition-graph", "info", "Data", "Describe parts"),
    subcommand("partition-graph", "verify", "Data", "Verify the checksums and the structure of parts"),
    subcommand("partition-graph", "update", "Data", "Apply the rows of new tables to parts"),
    subcommand("partition-graph", "features", "Data", "Build features from tables for a part"),
    subcommand("partition-graph", "upload", "Data", "Upload parts to an object store"),
    program("train", "train", "Models", "Train on nodes, links, edges or whole graphs"),
    subcommand("train", "predict", "Models", "Write the predictions of a saved model"),
    subcommand("train", "sweep", "Models", "Train with many combinations of flags or seeds"),
    subcommand("train", "report", "Models", "Write an HTML file about runs"),
    subcommand("train", "sample", "Models", "Write mini-batches for other programs"),
    program("launch", "launch", "Clusters", "Start a job on several machines over SSH"),
    program("serve-graph", "sampling-server", "Clusters", "Serve parts to trainers on other machines"),
];

impl EdgecutCommand {
    /// Returns the first word of the program's command line, by which it names itself in its usage.
    pub fn argument_zero(&self) -> String {
        if self.is_subcommand { EDGECUT.to_owned() } else { format!("{EDGECUT} {}", self.name) }
    }
}

/// The name of the program that runs all commands.
pub(crate) const EDGECUT: &str = "edgecut";

/// Returns true if `edgecut` has started the program whose command line begins with `argument_zero`.
fn is_of_edgecut(argument_zero: &OsStr) -> bool {
    let name = Path::new(argument_zero).file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.split(' ').next() == Some(EDGECUT)
}

/// Writes the examples in the help of a program as commands of `edgecut` if that has started it.
pub(crate) fn with_examples_of_edgecut(command: Command, argument_zero: &OsStr) -> Command {
    if !is_of_edgecut(argument_zero) {
        return command;
    }
    let text = command.get_after_help().map(|text| commands_in(&text.to_string()));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_subcommands(|subcommand| with_examples_of_edgecut(subcommand, argument_zero))
}

/// Replaces the programs at the beginning of lines.
fn commands_in(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let example = line.trim_start();
        let indent = &line[..line.len() - example.len()];
        let (program, rest) = example.split_once(' ').unwrap_or((example, ""));
        let found = COMMANDS.iter().find(|command| !command.is_subcommand && command.program == program);
        match found.filter(|_| !indent.is_empty()) {
            Some(command) => lines.push(format!("{indent}{EDGECUT} {} {rest}", command.name)),
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_name_the_commands_of_edgecut() {
        let command =
            Command::new("train").after_help("Examples:\n  train node --lr 1\n  launch -- train node\ntrain x");
        let of_edgecut = with_examples_of_edgecut(command.clone(), OsStr::new("edgecut train"));
        let text = of_edgecut.get_after_help().unwrap().to_string();
        assert_eq!(text, "Examples:\n  edgecut train node --lr 1\n  edgecut launch -- train node\ntrain x");
        for other in ["target/release/train", "train", ""] {
            let same = with_examples_of_edgecut(command.clone(), OsStr::new(other));
            assert_eq!(
                same.get_after_help().map(ToString::to_string),
                command.get_after_help().map(ToString::to_string)
            );
        }
    }
}
