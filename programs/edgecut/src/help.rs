//! The help of the program, which fits a screen of 24 lines and 80 columns.

use crate::Own;
use clap::CommandFactory;
use edgecut_cli::COMMANDS;

/// The heading of the commands of this program itself.
const OWN_GROUP: &str = "Shell";

/// Returns the help.
pub(crate) fn text() -> String {
    let mut lines = vec![
        "Trains graph neural networks on graphs and clusters that outgrow one machine.".to_owned(),
        String::new(),
        "Usage: edgecut COMMAND [FLAGS]".to_owned(),
        String::new(),
    ];
    let mut last_group = "";
    for command in &COMMANDS {
        let heading = if command.group == last_group { "" } else { command.group };
        lines.push(line(heading, command.name, command.about));
        last_group = command.group;
    }
    for (at, command) in Own::command().get_subcommands().enumerate() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        lines.push(line(if at == 0 { OWN_GROUP } else { "" }, command.get_name(), &about));
    }
    lines.extend([
        String::new(),
        "-h after a command shows the flags that most runs need, --help all flags with".to_owned(),
        "examples, as `edgecut train node --help` does. --version shows the commit.".to_owned(),
    ]);
    lines.join("\n")
}

fn line(heading: &str, name: &str, about: &str) -> String {
    format!("{heading:<10}{name:<13}{about}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_screen() {
        let text = text();
        assert!(text.lines().count() < 24, "the prompt needs a line:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    }
}
