//! The flags of a command line as text.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;

/// The flags of a subcommand as the user wrote them, or their defaults. As the first field of the flags of a subcommand, it
/// sees all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenFlags {
    /// By id. Flags that are not given and have no default are absent.
    flags: BTreeMap<String, GivenFlag>,
}

#[derive(Clone, Debug)]
struct GivenFlag {
    text: String,
    is_given: bool,
}

/// The flag by which [`StoreArgs`](edgecut_cli::StoreArgs) knows URLs.
const LOCATED: &str = "located";

impl GivenFlags {
    /// Returns the value of a flag, separated by commas if there are several.
    pub(crate) fn text(&self, id: &str) -> Option<&str> {
        self.flags.get(id).map(|flag| flag.text.as_str())
    }

    /// Returns true if the user gave the flag.
    pub(crate) fn is_given(&self, id: &str) -> bool {
        self.flags.get(id).is_some_and(|flag| flag.is_given)
    }

    /// Returns the flags that the user gave, by id, with their values.
    pub(crate) fn all_given(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.flags.iter().filter(|(_, flag)| flag.is_given);
        given.map(|(id, flag)| (id.as_str(), flag.text.as_str()))
    }

    #[cfg(test)]
    pub(crate) fn of(given: &[(&str, &str)]) -> Self {
        let mut flags = BTreeMap::new();
        for (id, text) in given {
            flags.insert((*id).to_owned(), GivenFlag { text: (*text).to_owned(), is_given: true });
        }
        Self { flags }
    }
}

impl FromArgMatches for GivenFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for id in matches.ids() {
            // Groups of flags have the names of their types.
            if id.as_str().starts_with(|first: char| first.is_uppercase()) {
                continue;
            }
            let Ok(Some(values)) = matches.try_get_raw(id.as_str()) else { continue };
            let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
            let is_given = matches.value_source(id.as_str()) != Some(ValueSource::DefaultValue);
            self.flags.insert(id.to_string(), GivenFlag { text: values.join(","), is_given });
        }
        // The user gave URLs in place of these paths.
        if let Ok(Some(located)) = matches.try_get_many::<String>(LOCATED) {
            for (id, url) in located.filter_map(|pair| pair.split_once('=')) {
                self.flags.insert(id.to_owned(), GivenFlag { text: url.to_owned(), is_given: true });
            }
        }
        self.flags.remove(LOCATED);
        Ok(())
    }
}

impl Args for GivenFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
