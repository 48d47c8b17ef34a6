//! The values of settings with flags.

use crate::words::Word;
use serde_json::Value;

/// The use of a flag on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The flag has no value: it is given or not.
    Switch,
    /// The flag has a value.
    Value,
    /// The flag has several values, separated by commas.
    List,
    /// The flag has one of few names as its value, which settings may follow: `NAME:SETTING=VALUE`.
    Named,
}

/// A value that a flag sets.
pub trait FlagValue {
    /// Parses a value, and replaces this one by it. A list is extended by it.
    ///
    /// # Errors
    /// The fault of the text.
    fn set(&mut self, text: &str) -> Result<(), String>;

    /// Returns the value as the user writes it; `None` if there is none.
    fn text(&self) -> Option<String>;

    /// Returns the value as JSON.
    fn to_json(&self) -> Value;

    /// Returns the use of the flag.
    fn shape(&self) -> Shape {
        Shape::Value
    }

    /// Returns all values, if these are few words.
    fn words(&self) -> &'static [Word] {
        &[]
    }
}

macro_rules! numbers {
    ($($type:ty: $what:literal),+) => {
        $(impl FlagValue for $type {
            fn set(&mut self, text: &str) -> Result<(), String> {
                *self = text.parse().map_err(|_| format!(concat!("{:?} is not ", $what), text))?;
                Ok(())
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }

            fn to_json(&self) -> Value {
                Value::from(*self)
            }
        })+
    };
}
numbers!(u64: "a whole number", usize: "a whole number", f64: "a number");

impl FlagValue for bool {
    fn set(&mut self, text: &str) -> Result<(), String> {
        *self = text.parse().map_err(|error| format!("{error}"))?;
        Ok(())
    }

    fn text(&self) -> Option<String> {
        None
    }

    fn to_json(&self) -> Value {
        Value::from(*self)
    }

    fn shape(&self) -> Shape {
        Shape::Switch
    }
}

impl FlagValue for String {
    fn set(&mut self, text: &str) -> Result<(), String> {
        text.trim().clone_into(self);
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.clone())
    }

    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }
}

/// A pair is written as `ONE=OTHER`.
impl FlagValue for (String, String) {
    fn set(&mut self, text: &str) -> Result<(), String> {
        let (one, other) = text.split_once('=').ok_or_else(|| format!("{text:?} is not a pair: write ONE=OTHER"))?;
        *self = (one.to_owned(), other.to_owned());
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(format!("{}={}", self.0, self.1))
    }

    fn to_json(&self) -> Value {
        self.text().into()
    }
}

impl<T: FlagValue + Default> FlagValue for Option<T> {
    fn set(&mut self, text: &str) -> Result<(), String> {
        let mut value = T::default();
        value.set(text)?;
        *self = Some(value);
        Ok(())
    }

    fn text(&self) -> Option<String> {
        self.as_ref().and_then(T::text)
    }

    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_json)
    }

    fn words(&self) -> &'static [Word] {
        T::default().words()
    }
}

impl<T: FlagValue + Default> FlagValue for Vec<T> {
    fn set(&mut self, text: &str) -> Result<(), String> {
        let mut value = T::default();
        value.set(text)?;
        self.push(value);
        Ok(())
    }

    fn text(&self) -> Option<String> {
        None
    }

    fn to_json(&self) -> Value {
        self.iter().map(T::to_json).collect()
    }

    fn shape(&self) -> Shape {
        Shape::List
    }
}
