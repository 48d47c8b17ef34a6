//! Suggestions for commands that do not exist.

use crate::Own;
use crate::error::EdgecutError;
use crate::tree::descriptions;
use clap::CommandFactory;
use edgecut_cli::COMMANDS;

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
    let own = own.get_subcommands().map(|command| command.get_name().to_owned());
    let names = COMMANDS.iter().map(|command| command.name.to_owned()).chain(own);
    // Two edits make any short word from any other.
    let most = if name.chars().count() < 5 { 1 } else { 2 };
    names.filter(|command| distance(name, command) <= most).min_by_key(|command| distance(name, command))
}

/// Returns the command with its subcommand `name`: `train node` for `node`.
fn subcommand_of_program(name: &str) -> Option<String> {
    let found = descriptions().into_iter().filter_map(Result::ok);
    found
        .filter(|(command, _)| !command.is_subcommand)
        .find(|(_, description)| description.subcommands.iter().any(|subcommand| subcommand.name == name))
        .map(|(command, _)| format!("{} {name}", command.name))
}

/// Returns the number of characters to insert, to remove, to replace or to exchange with their neighbors.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for row in 0..=a.len() {
        for column in 0..=b.len() {
            if row == 0 || column == 0 {
                rows[row][column] = row + column;
                continue;
            }
            let replaced = rows[row - 1][column - 1] + usize::from(a[row - 1] != b[column - 1]);
            let mut least = replaced.min(rows[row - 1][column] + 1).min(rows[row][column - 1] + 1);
            if row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1] {
                least = least.min(rows[row - 2][column - 2] + 1);
            }
            rows[row][column] = least;
        }
    }
    rows[a.len()][b.len()]
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
