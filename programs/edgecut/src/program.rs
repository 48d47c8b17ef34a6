//! The programs that this one starts.

use crate::error::EdgecutError;
use edgecut_cli::EdgecutCommand;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds a program beside this one, in `../lib/edgecut`, or on PATH. An installation has the others in that folder, because
/// their names are common. Links to this program are followed.
pub(crate) fn find(program: &'static str) -> Result<PathBuf, EdgecutError> {
    let own = env::current_exe().and_then(|own| own.canonicalize()).unwrap_or_default();
    let folder = own.parent().unwrap_or(Path::new("/"));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = vec![folder.to_owned(), folder.join("../lib/edgecut")];
    folders.extend(env::split_paths(&path));
    let found = folders.into_iter().map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| EdgecutError::NotFound { program, folder: folder.to_owned() })
}

/// Replaces this process by the program of a command. Returns the error if that fails.
pub(crate) fn become_program(command: &EdgecutCommand, words: &[OsString]) -> EdgecutError {
    let program = match find(command.program) {
        Ok(program) => program,
        Err(error) => return error,
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
