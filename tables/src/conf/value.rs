//! Access to the values of a configuration, with the path of each value for errors.

use crate::table::NaValues;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// A value and its path in the configuration, such as `nodes[1].features[0].transform`.
pub(super) struct Item<'a> {
    pub(super) path: String,
    value: &'a Value,
}

/// An object and its path in the configuration.
pub(super) struct Object<'a> {
    pub(super) path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Item<'a> {
    /// Creates the item of a whole configuration.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    /// Returns the error `why` at this item.
    pub(super) fn wrong<T>(&self, why: impl AsRef<str>) -> Result<T, String> {
        let path = if self.path.is_empty() { "the configuration" } else { &self.path };
        Err(format!("{path}: {}", why.as_ref()))
    }

    fn expected<T>(&self, what: &str) -> Result<T, String> {
        self.wrong(format!("expected {what}, found {}", kind(self.value)))
    }

    /// Returns true for an empty text and an empty list.
    pub(super) fn is_empty(&self) -> bool {
        self.value.as_str().is_some_and(str::is_empty) || self.value.as_array().is_some_and(Vec::is_empty)
    }

    /// Returns true for an object.
    pub(super) fn is_object(&self) -> bool {
        self.value.is_object()
    }

    /// Returns the values that are missing: a list of texts and numbers.
    pub(super) fn na_values(&self) -> Result<NaValues, String> {
        let mut texts = Vec::new();
        for item in self.list()? {
            match item.value {
                Value::String(text) => texts.push(text.clone()),
                Value::Number(number) => texts.push(number.to_string()),
                _ => return item.expected("a text or a number"),
            }
        }
        Ok(NaValues::new(texts))
    }

    /// Returns the object.
    pub(super) fn object(&self) -> Result<Object<'a>, String> {
        match self.value {
            Value::Object(fields) => Ok(Object { path: self.path.clone(), fields }),
            _ => self.expected("an object"),
        }
    }

    /// Returns the items of the list.
    pub(super) fn list(&self) -> Result<Vec<Item<'a>>, String> {
        match self.value {
            Value::Array(values) => Ok(values.iter().enumerate().map(|(at, value)| self.entry(at, value)).collect()),
            _ => self.expected("a list"),
        }
    }

    fn entry(&self, at: usize, value: &'a Value) -> Item<'a> {
        Item { path: format!("{}[{at}]", self.path), value }
    }

    /// Returns the text, which is not empty.
    pub(super) fn text(&self) -> Result<String, String> {
        match self.value {
            Value::String(text) if text.is_empty() => self.wrong("it is empty"),
            Value::String(text) => Ok(text.clone()),
            _ => self.expected("a text"),
        }
    }

    /// Returns the texts of a list, or a text as the only one.
    pub(super) fn texts(&self) -> Result<Vec<String>, String> {
        if !self.value.is_array() {
            return Ok(vec![self.text()?]);
        }
        let texts = self.list()?.iter().map(Item::text).collect::<Result<Vec<_>, _>>()?;
        if texts.is_empty() { self.wrong("the list is empty") } else { Ok(texts) }
    }

    /// Returns the finite number.
    pub(super) fn number(&self) -> Result<f64, String> {
        match self.value.as_f64() {
            Some(number) if number.is_finite() => Ok(number),
            _ => self.expected("a number"),
        }
    }

    /// Returns the numbers of a list, or a number as the only one.
    pub(super) fn numbers(&self) -> Result<Vec<f64>, String> {
        if self.value.is_array() { self.list()?.iter().map(Item::number).collect() } else { Ok(vec![self.number()?]) }
    }

    /// Returns the whole number, which is in `range`.
    pub(super) fn whole(&self, range: RangeInclusive<usize>) -> Result<usize, String> {
        let Some(number) = self.value.as_u64() else { return self.expected("a whole number") };
        match usize::try_from(number) {
            Ok(number) if range.contains(&number) => Ok(number),
            Ok(number) if number < *range.start() => self.wrong(format!("{number} is less than {}", range.start())),
            _ => self.wrong(format!("{number} is more than {}", range.end())),
        }
    }

    /// Returns the truth value.
    pub(super) fn flag(&self) -> Result<bool, String> {
        self.value.as_bool().map_or_else(|| self.expected("true or false"), Ok)
    }
}

impl<'a> Object<'a> {
    /// Returns the value of `key`, unless it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<Item<'a>> {
        let value = self.fields.get(key).filter(|value| !value.is_null())?;
        Some(Item { path: self.path_of(key), value })
    }

    /// Returns the value of `key`.
    pub(super) fn required(&self, key: &str) -> Result<Item<'a>, String> {
        match self.get(key) {
            Some(item) => Ok(item),
            None => Err(format!("{}: it is missing", self.path_of(key))),
        }
    }

    /// Returns the keys and values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a String, Item<'a>)> {
        self.fields.iter().map(|(key, value)| (key, Item { path: self.path_of(key), value }))
    }

    /// Checks that there are no other keys than `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), String> {
        match self.fields.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(format!("{}: unknown key. Known keys here: {}", self.path_of(key), known.join(", "))),
            None => Ok(()),
        }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// Returns the kind of a value for errors.
fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => format!("the number {value}"),
        Value::String(value) => format!("the text {value:?}"),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}
