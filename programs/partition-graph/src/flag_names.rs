//! The flags of `partition-graph` behind the settings that errors of the libraries name.

use crate::args::Cli;
use clap::CommandFactory;
use edgecut_cli::FlagNames;

/// Replaces the settings in a text by flags.
pub(crate) fn with_flags(text: &str) -> String {
    FlagNames::new(Cli::command(), &[]).written_into(text)
}
