//! The flags of the model's convolution, which come from the registry of convolutions.

use crate::distinct::distinct;
use crate::settings::model_settings::Setting;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use edgecut_gnn::nn::{ConvFlag, ConvKind, FlagKind, FlagValues, LayerForm, ModelName};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The id and the name of the flag that selects the model.
const MODEL: &str = "model";

/// The models of a command.
pub(crate) trait ModelChoice: Clone + std::fmt::Debug {
    /// The forms of layers that the command trains.
    const FORMS: &'static [LayerForm];
    /// The model without `--model`.
    const DEFAULT: &'static str;
    /// Names of models without a convolution.
    const WITHOUT_CONVOLUTION: &'static [ModelName];
}

/// The models of `train node` and `train link`.
#[derive(Clone, Debug)]
pub(crate) struct OnNodes;

impl ModelChoice for OnNodes {
    const FORMS: &'static [LayerForm] = &[LayerForm::Direct, LayerForm::Typed];
    const DEFAULT: &'static str = "sage";
    const WITHOUT_CONVOLUTION: &'static [ModelName] = &[ModelName {
        name: "embedding",
        help: "No convolution: node embeddings, or features after one dense layer. Ignores --num-neighbors",
        preset: &[],
    }];
}

/// The models of `train graph`.
#[derive(Clone, Debug)]
pub(crate) struct OnGraphs;

impl ModelChoice for OnGraphs {
    const FORMS: &'static [LayerForm] = &[LayerForm::Direct];
    const DEFAULT: &'static str = "gin";
    const WITHOUT_CONVOLUTION: &'static [ModelName] = &[];
}

/// The choice of a model, and the settings of its convolution.
#[derive(Clone, Debug)]
pub(crate) struct ConvArgs<M> {
    model: String,
    kind: ConvKind,
    choice: PhantomData<M>,
}

impl<M: ModelChoice> ConvArgs<M> {
    /// Returns the name of the model.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// Returns the convolution. A model without convolutions has the default one, in no layer.
    pub(crate) fn kind(&self) -> ConvKind {
        self.kind
    }

    /// Returns true if the model has no convolution.
    pub(crate) fn is_embedding(&self) -> bool {
        M::WITHOUT_CONVOLUTION.iter().any(|model| model.name == self.model)
    }

    /// Returns the settings of a saved model that the flags name as well. `num_layers` is the number of its
    /// convolutions.
    pub(crate) fn settings_of(&self, saved: ConvKind, num_layers: usize) -> Vec<Setting> {
        let without = M::WITHOUT_CONVOLUTION.first().filter(|_| num_layers == 0);
        let saved_model = without.map_or(saved.model_name(), |model| model.name);
        let mut settings = vec![Setting::new(MODEL, &self.model, saved_model)];
        if self.model == saved_model {
            let own = self.kind.to_flags();
            let saved = saved.to_flags();
            for flag in ConvKind::flags_of(saved_model) {
                settings.push(Setting::new(flag.name, text(own.get(flag.name)), text(saved.get(flag.name))));
            }
        }
        settings
    }

    /// Returns all names of models.
    fn names() -> Vec<&'static ModelName> {
        let mut names = distinct(M::FORMS.iter().flat_map(|form| ConvKind::model_names(*form)));
        names.extend(M::WITHOUT_CONVOLUTION);
        names
    }

    /// Returns the flags of all models by name. Models with a setting of the same name share the flag.
    fn flags() -> BTreeMap<&'static str, Vec<&'static ConvFlag>> {
        let mut flags: BTreeMap<&str, Vec<&ConvFlag>> = BTreeMap::new();
        for flag in Self::names().iter().flat_map(|model| ConvKind::flags_of(model.name)) {
            let same_name = flags.entry(flag.name).or_default();
            if !same_name.contains(&flag) {
                same_name.push(flag);
            }
        }
        flags
    }

    /// Makes the choice from the values of flags that the user gave.
    ///
    /// # Errors
    /// A flag that has no effect on the model, or a value out of range.
    fn new(model: String, given: FlagValues) -> Result<Self, String> {
        let own = ConvKind::flags_of(&model);
        for (flag, value) in &given {
            if is_flag_of(&model, flag) || is_default(&Self::flags()[flag.as_str()], value) {
                continue;
            }
            let models = Self::names().into_iter().map(|name| name.name);
            let models: Vec<&str> = models.filter(|model| is_flag_of(model, flag)).collect();
            return Err(format!(
                "--{} has no effect on --model {model}: leave it out, or choose --model {}",
                flag.replace('_', "-"),
                models.join(" or ")
            ));
        }
        let name = if M::WITHOUT_CONVOLUTION.iter().any(|other| other.name == model) { M::DEFAULT } else { &model };
        let given = given.into_iter().filter(|(name, _)| own.iter().any(|flag| flag.name == name)).collect();
        let kind = ConvKind::from_flags(name, given).map_err(|what| format!("--model {model}: {what}"))?;
        Ok(Self { model, kind, choice: PhantomData })
    }
}

fn is_flag_of(model: &str, flag: &str) -> bool {
    ConvKind::flags_of(model).iter().any(|own| own.name == flag)
}

/// Returns true if a value is the default of the flag for any model.
fn is_default(flags: &[&ConvFlag], value: &Value) -> bool {
    flags.iter().any(|flag| flag.default.is_some_and(|default| flag.kind.parse(default).as_ref() == Ok(value)))
}

/// Returns the description of a flag, for each model that has it.
fn help(flags: &[&ConvFlag]) -> String {
    let mut parts = Vec::new();
    for flag in flags {
        let default = flag.default.map_or(String::new(), |default| format!(" [default: {default}]"));
        parts.push(format!("{}{default}", flag.help));
    }
    parts.join("; ")
}

/// Returns a value as the user writes it.
fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "none".to_owned(),
    }
}

impl<M: ModelChoice> Args for ConvArgs<M> {
    fn augment_args(command: Command) -> Command {
        let mut values = Vec::new();
        for name in Self::names() {
            values.push(PossibleValue::new(name.name).help(name.help));
        }
        let model = Arg::new(MODEL).long(MODEL).value_name("MODEL").help("Model to train");
        let mut command = command.arg(model.default_value(M::DEFAULT).value_parser(PossibleValuesParser::new(values)));
        for (name, flags) in Self::flags() {
            let arg = Arg::new(name).long(name.replace('_', "-")).help(help(&flags));
            let kind = flags[0].kind;
            let arg = match kind {
                FlagKind::Switch => arg.action(ArgAction::SetTrue),
                FlagKind::Count => arg.value_name("N"),
                FlagKind::Probability => arg.value_name("P"),
                FlagKind::Word(words) => arg.value_name(words.join("|")),
            };
            command = command.arg(match kind {
                FlagKind::Switch => arg,
                _ => arg.value_parser(move |text: &str| kind.parse(text)),
            });
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<M: ModelChoice> FromArgMatches for ConvArgs<M> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let model = matches.get_one::<String>(MODEL).cloned().unwrap_or_else(|| M::DEFAULT.to_owned());
        let mut given = FlagValues::new();
        for (name, flags) in Self::flags() {
            if matches.value_source(name).is_none_or(|source| source == ValueSource::DefaultValue) {
                continue;
            }
            let value = match flags[0].kind {
                FlagKind::Switch => Some(Value::Bool(matches.get_flag(name))),
                _ => matches.get_one::<Value>(name).cloned(),
            };
            if let Some(value) = value {
                given.insert(name.to_owned(), value);
            }
        }
        Self::new(model, given).map_err(|what| clap::Error::raw(ErrorKind::ArgumentConflict, what))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Writes the name of the model and the values of its flags.
impl<M: ModelChoice> Serialize for ConvArgs<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut values = if self.is_embedding() { FlagValues::new() } else { self.kind.to_flags() };
        for flag in ConvKind::flags_of(&self.model) {
            values.entry(flag.name).or_insert(Value::Null);
        }
        values.insert(MODEL.to_owned(), self.model.as_str().into());
        values.serialize(serializer)
    }
}
