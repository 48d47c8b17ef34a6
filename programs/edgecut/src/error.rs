//! The errors of the program.

use edgecut_cli::PrintError;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use thiserror::Error;

/// The exit status of an invalid command line, as of all programs.
pub(crate) const USAGE: u8 = 2;

/// An error of `edgecut` itself.
#[derive(Debug, Error)]
pub(crate) enum EdgecutError {
    /// There is no such command.
    #[error("there is no command '{name}'{hint}; `edgecut --help` lists all commands")]
    UnknownCommand {
        name: String,
        /// A suggestion after a semicolon, or nothing.
        hint: String,
    },
    /// A program is neither in the folder of the installation nor on PATH.
    #[error("the program `{program}` is neither in {} nor on PATH: install all programs together", folder.display())]
    NotFound { program: &'static str, folder: PathBuf },
    /// A program is not in the folder of the installation. Programs of others are not asked to describe themselves.
    #[error("the program `{program}` is not in {}: install all programs together", folder.display())]
    NotInstalled { program: &'static str, folder: PathBuf },
    /// A program cannot be started.
    #[error("start {}: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    /// A program of another version.
    #[error(
        "{} did not describe its command line: install the same version of all programs ({status}, {reason})",
        program.display()
    )]
    NotDescribed { program: PathBuf, status: String, reason: String },
    /// A file cannot be written.
    #[error("write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{0}: {source}", source = std::error::Error::source(.0).map(ToString::to_string).unwrap_or_default())]
    Print(#[from] PrintError),
}

impl EdgecutError {
    /// Returns the conversion of the error of a file.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if matches!(self, Self::UnknownCommand { .. }) { USAGE } else { 1 })
    }
}
