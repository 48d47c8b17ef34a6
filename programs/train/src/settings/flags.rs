//! The flags of settings of the libraries.

use crate::settings::named::{Named, ParseError};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use edgecut_settings::{Field, Settings, Shape};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// The settings `S` of a command.
pub(crate) trait Profile<S>: Clone + std::fmt::Debug {
    /// The heading of the flags in `--help`.
    const HEADING: &'static str = "Training";
    /// Settings that the command has no flags for.
    const LEFT_OUT: &'static [&'static str] = &[];

    /// Changes the description of a flag for the command.
    fn describe(_field: &mut Field<'_>) {}

    /// Returns the settings without flags.
    fn defaults() -> S;
}

/// The flags of the settings `S` in a command with the profile `P`.
#[derive(Clone, Debug)]
pub(crate) struct Flags<S, P> {
    pub(crate) settings: S,
    /// The flags that the user gave.
    given: BTreeSet<&'static str>,
    profile: PhantomData<P>,
}

impl<S: Settings, P: Profile<S>> Flags<S, P> {
    /// Returns true if the user gave the flag of a setting.
    pub(crate) fn is_given(&self, setting: &str) -> bool {
        self.given.contains(setting)
    }
}

/// Returns the settings that a command has flags for.
fn fields<S: Settings, P: Profile<S>>(settings: &mut S) -> Vec<Field<'_>> {
    let mut fields = settings.fields();
    fields.retain(|field| !P::LEFT_OUT.contains(&field.name));
    fields.iter_mut().for_each(P::describe);
    fields
}

/// Checks the value of a flag.
fn checked<S: Settings>(mut settings: S, name: &str, text: &str) -> Result<String, String> {
    for field in settings.fields() {
        if field.name == name {
            (field.flag.check)(text)?;
            field.value.set(text)?;
        }
    }
    Ok(text.to_owned())
}

/// Returns the flag of a setting.
fn arg<S: Settings, P: Profile<S>>(field: &Field<'_>) -> Arg {
    let name = field.name;
    let arg = Arg::new(name).long(name.replace('_', "-")).help(field.help).aliases(field.flag.aliases);
    let mut arg = arg.help_heading(P::HEADING).conflicts_with_all(field.flag.conflicts_with);
    if let Some(required) = field.flag.requires {
        arg = arg.requires(required);
    }
    if field.flag.is_training_only {
        arg = arg.conflicts_with("load_model");
    }
    if field.value.shape() == Shape::Switch {
        return arg.action(ArgAction::SetTrue);
    }
    if field.value.shape() == Shape::List {
        arg = arg.value_delimiter(',').action(ArgAction::Append);
    }
    if let Some(default) = field.value.text().filter(|_| field.flag.shows_default) {
        arg = arg.default_value(default);
    }
    arg = arg.value_name(field.flag.value_name);
    let words = field.value.words();
    if field.value.shape() == Shape::Named {
        let all = words.iter().map(|word| (word.name, word.about)).collect();
        return arg.value_parser(Named {
            all,
            parse: move |text: String| checked(P::defaults(), name, &text).map_err(ParseError::from),
        });
    }
    if words.iter().any(|word| !word.about.is_empty()) {
        let values = words.iter().map(|word| PossibleValue::new(word.name).help(word.about));
        return arg.value_parser(PossibleValuesParser::new(values));
    }
    arg.value_parser(move |text: &str| checked(P::defaults(), name, text))
}

impl<S: Settings, P: Profile<S>> Args for Flags<S, P> {
    fn augment_args(mut command: Command) -> Command {
        for field in fields::<S, P>(&mut P::defaults()) {
            command = command.arg(arg::<S, P>(&field));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Settings, P: Profile<S>> FromArgMatches for Flags<S, P> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self { settings: P::defaults(), given: BTreeSet::new(), profile: PhantomData };
        for field in fields::<S, P>(&mut flags.settings) {
            if matches.value_source(field.name).is_none_or(|source| source == ValueSource::DefaultValue) {
                continue;
            }
            flags.given.insert(field.name);
            if field.value.shape() == Shape::Switch {
                field.value.set("true").map_err(conflict)?;
                continue;
            }
            for text in matches.get_many::<String>(field.name).into_iter().flatten() {
                field.value.set(text).map_err(conflict)?;
            }
        }
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn conflict(what: String) -> clap::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, what)
}

/// Writes the value of each flag. A default that is chosen later is written as null.
impl<S: Settings, P: Profile<S>> Serialize for Flags<S, P> {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in fields::<S, P>(&mut self.settings.clone()) {
            let is_open = !field.flag.shows_default && !self.given.contains(field.name);
            let value = if is_open { Value::Null } else { field.value.to_json() };
            map.serialize_entry(field.name, &value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::{Cli, Command};
    use crate::tasks::TaskCommand;
    use clap::{CommandFactory, Parser};
    use edgecut_trainer::LrSchedule;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("train").chain(line.split(' ')))
    }

    #[test]
    fn values_are_checked_when_they_are_parsed() {
        for (line, what) in [
            ("node --hidden-channels 0", "'--hidden-channels <N>': 0 is not in 1..=4294967295"),
            ("node --hidden-channels x", "'--hidden-channels <N>': \"x\" is not a whole number"),
            ("node --num-epochs 0", "'--num-epochs <N>': 0 is not in 1..18446744073709551615"),
            ("node --lr=-1", "'--lr <X>': -1 is not a finite number ≥ 0"),
            ("node --grad-clip 0", "'--grad-clip <NORM>': 0 is not above 0"),
            ("node --dropout 1", "'--dropout <P>': 1 is not in 0 ≤ p < 1"),
            ("node --freeze a,", "'--freeze <LIST>': a name is empty"),
            ("node --optimizer x", "[possible values: adam, adamw, sgd]"),
            ("link --num-negatives 1000001", "1000001 is not in 1..=1000000"),
            ("link --reverse-types a", "\"a\" is not a pair of edge types"),
            ("link --in-batch-negatives", "--shared-negatives"),
            ("link --exclude-positives --shared-negatives", "cannot be used with '--shared-negatives'"),
            (
                "link --load-model m --num-negatives 7",
                "'--load-model <FILE>' cannot be used with '--num-negatives <N>'",
            ),
            ("link --load-model m --n3-weight 1", "cannot be used with '--n3-weight <X>'"),
            ("node --load-model m --class-weights balanced", "cannot be used with"),
            ("graph --dataset a --load-model m --lr 1", "cannot be used with '--lr <LR>'"),
            ("graph --dataset a --patience 3", "unexpected argument '--patience'"),
        ] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(what), "{line}: {error}");
        }
    }

    /// A file of flags looks up the conflicts of its flags.
    #[test]
    fn conflicts_name_flags_of_the_same_command() {
        for command in Cli::command().get_subcommands() {
            let conflicts = command.get_arguments().map(|arg| command.get_arg_conflicts_with(arg).len()).sum::<usize>();
            assert!(conflicts > 0 || command.get_name() == "report" || command.get_name() == "sweep");
        }
    }

    #[test]
    fn commands_have_defaults_and_descriptions_of_their_own() {
        let Ok(Cli { command: Command::Task(TaskCommand::Node(node)) }) =
            parse("node --freeze a,b --lr-schedule cosine")
        else {
            panic!("a command line of train node")
        };
        let Ok(Cli { command: Command::Task(TaskCommand::Graph(graph)) }) = parse("graph --dataset a") else {
            panic!("a command line of train graph")
        };
        let of_nodes = &node.own.training.fit;
        let of_graphs = &graph.own.training.fit;
        assert_eq!((of_nodes.settings.lr, of_graphs.settings.lr), (0.003, 0.01));
        assert_eq!(of_nodes.settings.lr_schedule, LrSchedule::Cosine);
        assert_eq!(of_graphs.settings.lr_schedule, LrSchedule::Step);
        assert_eq!(of_nodes.settings.freeze, ["a", "b"]);
        assert!(of_nodes.is_given("freeze") && !of_nodes.is_given("lr"));
        let help = |command: &str| parse(&format!("{command} --help")).expect_err("help").to_string();
        assert!(help("graph").contains("Initial learning rate"));
        assert!(!help("node").contains("Initial learning rate"));
    }
}
