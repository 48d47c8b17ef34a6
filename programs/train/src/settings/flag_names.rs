//! The flags of `train` behind the settings that errors of the libraries name.

use clap::Command;
use edgecut_cli::FlagNames;
use std::sync::OnceLock;

/// Settings whose flags have other names, with the ids of these flags.
const RENAMED: &[(&str, &str)] = &[
    ("cache_bytes", "gpu_cache_bytes"),
    ("kind", "model"),
    ("precision", "mixed_precision"),
    ("temporal", "time_attr"),
];

/// Builds the command line of the program.
static COMMAND_LINE: OnceLock<fn() -> Command> = OnceLock::new();

/// Sets the function that builds the command line, whose flags [`with_flags`] writes.
pub(crate) fn set_command_line(command_line: fn() -> Command) {
    // The program sets it once.
    let _ = COMMAND_LINE.set(command_line);
}

/// Replaces the settings in a text by flags.
pub(crate) fn with_flags(text: &str) -> String {
    match COMMAND_LINE.get() {
        Some(command_line) => FlagNames::new(command_line(), RENAMED).written_into(text),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_renamed_setting_has_a_flag() {
        assert_eq!(FlagNames::new(Cli::command(), RENAMED).unknown(), [""; 0]);
    }
}
