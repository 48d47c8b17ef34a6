//! Choices with a name and settings, such as `margin:margin=2`.

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt::{self, Write as _};

/// The settings of a choice, a struct with a field for each. [`named!`](crate::named!) declares an enum of choices.
pub trait Named: Default + Serialize + DeserializeOwned {
    /// The name, for example `margin`.
    const NAME: &'static str;
    /// A description in one line.
    const ABOUT: &'static str;

    /// Checks the values of the settings.
    ///
    /// # Errors
    /// A value that is out of range.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Returns the name and the settings of a text, `NAME` or `NAME:SETTING=VALUE,SETTING=VALUE`.
///
/// # Errors
/// A setting without a value.
pub fn split_named(text: &str) -> Result<(&str, Map<String, Value>), String> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let mut given = Map::new();
    for piece in settings.split(',').filter(|piece| !piece.is_empty()) {
        let Some((setting, value)) = piece.split_once('=') else {
            return Err(format!("{piece:?} is not a setting of {name}: write SETTING=VALUE"));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        if given.insert(setting.to_owned(), value).is_some() {
            return Err(format!("{setting} of {name} is given twice"));
        }
    }
    Ok((name, given))
}

/// Makes settings of the given values, and of defaults for the others.
///
/// # Errors
/// An unknown setting, or a value that is out of range.
pub fn with_defaults<S: Named>(given: Map<String, Value>) -> Result<S, String> {
    let name = S::NAME;
    let mut values = fields(&S::default());
    for (setting, value) in given {
        let Some(default) = values.get_mut(&setting) else {
            let known: Vec<&str> = values.keys().map(String::as_str).collect();
            let remedy = if known.is_empty() { "leave it out".to_owned() } else { format!("use {}", known.join(", ")) };
            let hint = crate::suggestion(&setting, known);
            return Err(format!("{name} has no setting {setting:?}{hint}: {remedy}"));
        };
        *default = value;
    }
    let settings: S = serde_json::from_value(Value::Object(values)).map_err(|error| format!("{name}: {error}"))?;
    settings.check().map_err(|why| format!("{name}: {why}"))?;
    Ok(settings)
}

fn fields<S: Named>(settings: &S) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Writes the name, and the settings that do not have their default.
pub fn write_named<S: Named>(settings: &S, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = S::NAME.to_owned();
    let defaults = fields(&S::default());
    let changed = fields(settings).into_iter().filter(|(setting, value)| defaults.get(setting) != Some(value));
    for (number, (setting, value)) in changed.enumerate() {
        let separator = if number == 0 { ':' } else { ',' };
        match value {
            Value::String(value) => write!(text, "{separator}{setting}={value}")?,
            value => write!(text, "{separator}{setting}={value}")?,
        }
    }
    f.pad(&text)
}

/// Serializes the name if there are no settings, and otherwise an object with the name and the settings.
pub fn serialize_named<S: Named, T: Serializer>(settings: &S, serializer: T) -> Result<T::Ok, T::Error> {
    let fields = fields(settings);
    if fields.is_empty() {
        return serializer.serialize_str(S::NAME);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(S::NAME, &fields)?;
    map.end()
}

/// Deserializes a name, or an object with the name and the settings.
pub fn deserialize_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(String, Map<String, Value>), D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(name) => Ok((name, Map::new())),
        Value::Object(entries) if entries.len() == 1 => match entries.into_iter().next() {
            Some((name, Value::Object(settings))) => Ok((name, settings)),
            _ => Err(serde::de::Error::custom("the settings are not an object")),
        },
        other => Err(serde::de::Error::custom(format!("{other} is neither a name nor an object with one name"))),
    }
}

/// Declares an enum of choices that are named and have settings. Texts, JSON and flags of the choices follow, and
/// `WORDS` has the names and descriptions of all.
///
/// ```
/// use edgecut_settings::{Named, named};
///
/// #[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
/// pub struct Plain {}
/// impl Named for Plain {
///     const NAME: &'static str = "plain";
///     const ABOUT: &'static str = "constant steps";
/// }
///
/// #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// pub struct Decay {
///     pub rate: f64,
/// }
/// impl Default for Decay {
///     fn default() -> Self {
///         Self { rate: 0.5 }
///     }
/// }
/// impl Named for Decay {
///     const NAME: &'static str = "decay";
///     const ABOUT: &'static str = "shorter steps";
/// }
///
/// named! {
///     /// The length of steps.
///     pub enum Steps("step") { Plain(Plain), Decay(Decay) }
/// }
/// assert_eq!("decay:rate=0.25".parse(), Ok(Steps::Decay(Decay { rate: 0.25 })));
/// assert_eq!("decay:rates=1".parse::<Steps>(), Err("decay has no setting \"rates\" (did you mean rate?): use rate".into()));
/// assert_eq!(Steps::Decay(Decay { rate: 0.25 }).to_string(), "decay:rate=0.25");
/// assert_eq!(Steps::Decay(Decay::default()).to_string(), "decay");
/// assert_eq!("fast".parse::<Steps>(), Err("unknown step \"fast\": expected plain or decay".into()));
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $type:ident($what:literal) { $($(#[$doc:meta])* $variant:ident($settings:ty)),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum $type {
            $($(#[$doc])* $variant($settings),)+
        }

        impl $type {
            /// The names and descriptions of all choices.
            pub const WORDS: &'static [$crate::Word] = &[$($crate::Word {
                name: <$settings as $crate::Named>::NAME,
                about: <$settings as $crate::Named>::ABOUT,
            }),+];

            /// Returns all choices with their default settings.
            pub fn all() -> ::std::vec::Vec<Self> {
                ::std::vec![$(Self::$variant(<$settings>::default())),+]
            }

            fn of_name(
                name: &str,
                given: $crate::Map<::std::string::String, $crate::Value>,
            ) -> ::std::result::Result<Self, ::std::string::String> {
                $(if name == <$settings as $crate::Named>::NAME {
                    return $crate::named::with_defaults(given).map(Self::$variant);
                })+
                Err($crate::unknown_word($what, name, Self::WORDS))
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $(Self::$variant(settings) => $crate::named::write_named(settings, f),)+
                }
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = ::std::string::String;

            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                let (name, given) = $crate::named::split_named(text)?;
                Self::of_name(name, given)
            }
        }

        impl ::serde::Serialize for $type {
            fn serialize<T: ::serde::Serializer>(&self, serializer: T) -> ::std::result::Result<T::Ok, T::Error> {
                match self {
                    $(Self::$variant(settings) => $crate::named::serialize_named(settings, serializer),)+
                }
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> ::std::result::Result<Self, D::Error> {
                let (name, given) = $crate::named::deserialize_named(deserializer)?;
                Self::of_name(&name, given).map_err(::serde::de::Error::custom)
            }
        }

        $crate::text_value!($type, Self::WORDS, $crate::Shape::Named);
    };
}
