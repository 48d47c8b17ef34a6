//! PyG's spelling of flags, and their other names.

use clap::{Arg, Command};
use std::ffi::OsString;

/// Converts PyG's spelling of a flag to ours: `--num_neighbors` to `--num-neighbors`. Values keep their underscores.
pub fn with_dashes(arg: OsString) -> OsString {
    match arg.to_str().filter(|text| text.starts_with("--")) {
        Some(text) => {
            let (flag, value) = text.split_at(text.find('=').unwrap_or(text.len()));
            format!("{}{value}", flag.replace('_', "-")).into()
        }
        None => arg,
    }
}

/// Returns the flag of a command with a name.
pub(crate) fn flag_named<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| names_of(arg).any(|other| other == name))
}

/// Returns all names of a flag.
pub(crate) fn names_of(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_spelled_either_way_and_values_are_left_alone() {
        for (given, meant) in [
            ("--num_neighbors", "--num-neighbors"),
            ("--dataset_root_dir=/a_b/c_d", "--dataset-root-dir=/a_b/c_d"),
            ("my_file", "my_file"),
            ("-x_y", "-x_y"),
        ] {
            assert_eq!(with_dashes(given.into()), OsString::from(meant));
        }
    }
}
