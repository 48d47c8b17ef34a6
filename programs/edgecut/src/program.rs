//! The programs that this one starts.

use crate::error::EdgecutError;
use edgecut_cli::{EdgecutCommand, Installation};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Returns the installation of this program.
pub(crate) fn installation() -> Installation {
    Installation::of(&env::current_exe().unwrap_or_default())
}

/// Replaces this process by the program of a command. Returns the error if that fails.
pub(crate) fn become_program(command: &EdgecutCommand, words: &[OsString]) -> EdgecutError {
    let installation = installation();
    let Some(program) = installation.find(command.program) else {
        return EdgecutError::NotFound { program: command.program, folder: installation.folder().to_owned() };
    };
    let mut process = Command::new(&program);
    process.arg0(command.argument_zero()).args(command.is_subcommand.then_some(command.name)).args(words);
    EdgecutError::Start { source: process.exec(), program }
}

/// Replaces this process by itself with other words. Returns the error if that fails.
pub(crate) fn run_again(words: &[OsString]) -> EdgecutError {
    let program = env::current_exe().unwrap_or_default();
    EdgecutError::Start { source: Command::new(&program).arg0("edgecut").args(words).exec(), program }
}
