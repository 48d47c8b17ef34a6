//! Helpers that the command-line programs share.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod allocator;
mod byte_count;
mod command_line;
mod config_file;
mod flag_names;
mod printing;
mod spelling;

pub use byte_count::parse_bytes;
pub use command_line::{
    CommandLine, Dialect, MeaninglessFlag, forgiving, parse_command_line, parse_words, translate, with_short_help,
};
pub use config_file::{Alias, ConfigFileError, flags_of_file};
pub use flag_names::FlagNames;
pub use printing::{PrintError, print_message, print_result};
pub use spelling::with_dashes;
