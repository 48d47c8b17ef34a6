//! Helpers that the command-line programs share.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod allocator;
mod byte_count;
mod command_line;
mod commands;
mod config_file;
mod description;
mod flag_names;
mod installation;
mod near_argument;
mod printing;
mod requirements;
mod short_help;
mod spelling;
mod store_args;
mod suggestions;
mod version;

pub use byte_count::parse_bytes;
pub use command_line::{
    CommandLine, Dialect, MeaninglessFlag, matches_of, parse_command_line, parse_words, prepared,
    print_description_if_asked,
};
pub use commands::{COMMANDS, EdgecutCommand};
pub use config_file::{Alias, ConfigFileError, FileFlag, flags_of_file};
pub use description::{CommandDescription, DESCRIBE};
pub use edgecut_settings::counted;
pub use flag_names::FlagNames;
pub use installation::{Installation, find_on_path, is_executable};
pub use near_argument::with_near_argument;
pub use printing::{PrintError, print_message, print_result};
pub use spelling::with_dashes;
pub use store_args::{GivenUrl, StoreArgs, is_url, path_of_file_url};
pub use version::{source_version, version};
