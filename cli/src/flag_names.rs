//! The flags behind the settings that errors of the libraries name.

use clap::Command;

/// The flags of a program, by the settings of the libraries.
///
/// The libraries write the name of a setting in backticks, because their users set fields. A program replaces it by the
/// flag: `` `num_neighbors` `` becomes `--num-neighbors`, and `` `metric=accuracy` `` becomes `--metric accuracy`.
#[derive(Clone, Debug)]
pub struct FlagNames {
    command: Command,
    renamed: &'static [(&'static str, &'static str)],
}

impl FlagNames {
    /// Takes the program's command line, and the settings whose flags have other names, with the ids of these flags.
    pub fn new(command: Command, renamed: &'static [(&'static str, &'static str)]) -> Self {
        Self { command, renamed }
    }

    /// Returns `text` with the flags in place of the settings. Other words in backticks stay.
    pub fn written_into(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('`') {
            out.push_str(before);
            let quoted = after.split_once('`');
            if let Some((flag, tail)) = quoted.and_then(|(setting, tail)| Some((self.of(setting)?, tail))) {
                out.push_str(&flag);
                rest = tail;
            } else {
                out.push('`');
                rest = after;
            }
        }
        out + rest
    }

    /// Returns the flag for `name` or `name=value`, if the program or one of its subcommands has it.
    pub fn of(&self, setting: &str) -> Option<String> {
        let (name, value) = setting.split_once('=').map_or((setting, None), |(name, value)| (name, Some(value)));
        let id = self.renamed.iter().find(|(setting, _)| *setting == name).map_or(name, |(_, id)| id);
        let subcommands = self.command.get_subcommands().flat_map(Command::get_arguments);
        let flag = self.command.get_arguments().chain(subcommands).find(|flag| flag.get_id() == id)?;
        let long = flag.get_long()?;
        Some(value.map_or_else(|| format!("--{long}"), |value| format!("--{long} {value}")))
    }

    /// Returns the settings whose flags have other names, but that no flag sets. For a test of the program.
    pub fn unknown(&self) -> Vec<&'static str> {
        self.renamed.iter().map(|(setting, _)| *setting).filter(|setting| self.of(setting).is_none()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn flags() -> FlagNames {
        let flag = |id: &'static str, long: &'static str| Arg::new(id).long(long);
        let sub = Command::new("link").arg(flag("gpu_cache_bytes", "gpu-cache-bytes")).arg(flag("metric", "metric"));
        let command = Command::new("program").arg(flag("lr", "lr")).arg(Arg::new("command")).subcommand(sub);
        FlagNames::new(command, &[("cache_bytes", "gpu_cache_bytes"), ("missing", "nothing")])
    }

    #[test]
    fn settings_become_flags_and_other_words_stay() {
        for (text, expected) in [
            ("the limit is `lr`", "the limit is --lr"),
            ("use `metric=accuracy`", "use --metric accuracy"),
            ("use `metric=latest:VALID,TEST`.", "use --metric latest:VALID,TEST."),
            ("increase `cache_bytes`: `lr`", "increase --gpu-cache-bytes: --lr"),
            ("use it with `train link`, `command` or `all`", "use it with `train link`, `command` or `all`"),
            ("open a`b: lower `lr`", "open a`b: lower --lr"),
            ("`", "`"),
            ("", ""),
        ] {
            assert_eq!(flags().written_into(text), expected);
        }
    }

    #[test]
    fn settings_without_a_flag_are_listed() {
        assert_eq!(flags().unknown(), ["missing"]);
    }
}
