//! The flags of convolutions.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The values of flags by name.
pub type FlagValues = Map<String, Value>;

/// A name of `--model`, with the settings that it implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelName {
    /// The name.
    pub name: &'static str,
    /// Description for `--help`.
    pub help: &'static str,
    /// Settings that the name implies: names and values.
    pub preset: &'static [(&'static str, &'static str)],
}

/// A flag that sets a [`ConvSettings`](super::ConvSettings).
///
/// Convolutions with a setting of the same name share the flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvFlag {
    /// Name of the flag and of the field, in snake case.
    pub name: &'static str,
    /// Description for `--help`, with the models in it.
    pub help: &'static str,
    /// Type of the value.
    pub kind: FlagKind,
    /// Value without the flag; `None` if the setting is optional. A switch is off.
    pub default: Option<&'static str>,
}

/// The type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagKind {
    /// No value: the flag is given or not.
    Switch,
    /// An integer of at least 1.
    Count,
    /// A number in `[0, 1)`.
    Probability,
    /// One of several words.
    Word(&'static [&'static str]),
}

impl FlagKind {
    /// Parses a value.
    ///
    /// # Errors
    /// A value that the flag does not have.
    ///
    /// ```
    /// use edgecut_gnn::nn::FlagKind;
    /// assert_eq!(FlagKind::Count.parse("4"), Ok(4.into()));
    /// assert_eq!(FlagKind::Count.parse("0"), Err("expected an integer of at least 1".into()));
    /// assert!(FlagKind::Word(&["mean", "sum"]).parse("median").is_err());
    /// ```
    pub fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Switch => match text {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err("expected true or false".into()),
            },
            Self::Count => match text.parse::<u32>() {
                Ok(count) if count > 0 => Ok(count.into()),
                _ => Err("expected an integer of at least 1".into()),
            },
            Self::Probability => match text.parse::<f64>() {
                Ok(number) if (0.0..1.0).contains(&number) => Ok(number.into()),
                _ => Err("expected a number of at least 0 and below 1".into()),
            },
            Self::Word(words) if words.contains(&text) => Ok(text.into()),
            Self::Word(words) => Err(format!("expected {}", words.join(", "))),
        }
    }
}

/// Makes settings from values by the names of their fields. Settings without fields ignore an empty list.
pub(super) fn settings_of<S: DeserializeOwned>(values: FlagValues) -> Result<S, String> {
    let value = if values.is_empty() { Value::Null } else { Value::Object(values) };
    serde_json::from_value(value).map_err(|error| format!("settings of the model: {error}"))
}

/// Returns the fields of settings that are flags.
pub(super) fn values_of(settings: &impl Serialize, flags: &[ConvFlag]) -> FlagValues {
    let mut values = FlagValues::new();
    if let Ok(Value::Object(fields)) = serde_json::to_value(settings) {
        values = fields.into_iter().filter(|(name, _)| flags.iter().any(|flag| flag.name == name)).collect();
    }
    values
}
