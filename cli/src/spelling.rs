//! PyG's spelling of flags.

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
