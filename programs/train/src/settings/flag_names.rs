//! The flags of `train` behind the settings that errors of the libraries name.

use crate::args::Cli;
use clap::CommandFactory;
use edgecut_cli::FlagNames;

/// Replaces the settings in a text by flags.
pub(crate) fn with_flags(text: &str) -> String {
    flag_names().written_into(text)
}

fn flag_names() -> FlagNames {
    FlagNames::new(
        Cli::command(),
        &[
            ("cache_bytes", "gpu_cache_bytes"),
            ("kind", "model"),
            ("precision", "mixed_precision"),
            ("temporal", "time_attr"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_flags() {
        for (text, expected) in [
            ("the model has 2 layers, but `num_neighbors` has 1", "the model has 2 layers, but --num-neighbors has 1"),
            ("use `metric=accuracy`", "use --metric accuracy"),
            ("increase `cache_bytes`: `temporal`", "increase --gpu-cache-bytes: --time-attr"),
        ] {
            assert_eq!(with_flags(text), expected);
        }
    }

    #[test]
    fn every_renamed_setting_has_a_flag() {
        assert_eq!(flag_names().unknown(), [""; 0]);
    }
}
