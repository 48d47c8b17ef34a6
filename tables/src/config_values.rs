//! Access to the values of a configuration, with the path of each value for errors.

use edgecut_settings::{listed, suggestion};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Keys of GSProcessing's configurations, and what this form has in their place.
const GSPROCESSING: &[(&str, &str)] = &[
    ("graph", "nodes and edges at the top"),
    ("data", "files and format"),
    ("column", "node_id_col, feature_col or label_col"),
    ("type", "node_type, relation or task_type"),
    ("source", "source_id_col"),
    ("dest", "dest_id_col"),
    ("transformation", "transform"),
    ("kwargs", "its entries beside the name of the transform"),
    ("split_rate", "split_pct"),
];

/// A value and its path in the configuration, such as `nodes[1].features[0].transform`.
pub(crate) struct Item<'a> {
    pub(crate) path: String,
    value: &'a Value,
    /// The value with its scalars as they are written; null if this is not known.
    source: &'a Value,
}

/// An object and its path in the configuration.
pub(crate) struct Object<'a> {
    pub(crate) path: String,
    fields: &'a Map<String, Value>,
    source: &'a Value,
}

impl<'a> Item<'a> {
    /// Creates the item of a whole configuration. `source` has its scalars as they are written, or is null.
    pub(crate) fn root(value: &'a Value, source: &'a Value) -> Self {
        Self { path: String::new(), value, source }
    }

    /// Returns the error `why` at this item.
    pub(crate) fn wrong<T>(&self, why: impl AsRef<str>) -> Result<T, String> {
        let path = if self.path.is_empty() { "the configuration" } else { &self.path };
        Err(format!("{path}: {}", why.as_ref()))
    }

    fn expected<T>(&self, what: &str) -> Result<T, String> {
        self.wrong(format!("expected {what}, found {}", kind(self.value)))
    }

    /// Returns true for an empty text and an empty list.
    pub(crate) fn is_empty(&self) -> bool {
        self.value.as_str().is_some_and(str::is_empty) || self.value.as_array().is_some_and(Vec::is_empty)
    }

    /// Returns true for an object.
    pub(crate) fn is_object(&self) -> bool {
        self.value.is_object()
    }

    /// Returns the texts of a list, and the decimal form of its numbers.
    pub(crate) fn texts_and_numbers(&self) -> Result<Vec<String>, String> {
        let mut texts = Vec::new();
        for item in self.list()? {
            match item.value {
                Value::String(text) => texts.push(text.clone()),
                Value::Number(number) => texts.push(number.to_string()),
                _ => return item.expected("a text or a number"),
            }
        }
        Ok(texts)
    }

    /// Returns the object.
    pub(crate) fn object(&self) -> Result<Object<'a>, String> {
        match self.value {
            Value::Object(fields) => Ok(Object { path: self.path.clone(), fields, source: self.source }),
            _ => self.expected("an object"),
        }
    }

    /// Returns the items of the list.
    pub(crate) fn list(&self) -> Result<Vec<Item<'a>>, String> {
        match self.value {
            Value::Array(values) => Ok(values.iter().enumerate().map(|(at, value)| self.entry(at, value)).collect()),
            _ => self.expected("a list"),
        }
    }

    fn entry(&self, at: usize, value: &'a Value) -> Item<'a> {
        Item { path: format!("{}[{at}]", self.path), value, source: &self.source[at] }
    }

    /// Returns the text, which is not empty. A number or a truth value is the text that is written, so that `label_col: 1.10`
    /// needs no quotes.
    pub(crate) fn text(&self) -> Result<String, String> {
        match (self.value, self.source) {
            (Value::String(text), _) if text.is_empty() => self.wrong("it is empty"),
            (Value::String(text), _) | (Value::Number(_) | Value::Bool(_), Value::String(text)) => Ok(text.clone()),
            // Other spellings of a fraction are other texts.
            (Value::Number(number), _) if number.is_f64() => {
                self.wrong(format!("expected a text, found the number {number}: write it in quotes"))
            }
            (Value::Number(_) | Value::Bool(_), _) => Ok(self.value.to_string()),
            _ => self.expected("a text"),
        }
    }

    /// Returns the error of a text that is none of the known words, with the word that is probably meant.
    pub(crate) fn not_one_of<T>(&self, text: &str, known: &[&str]) -> Result<T, String> {
        let hint = suggestion(text, known.iter().copied());
        self.wrong(format!("{text:?} is not one of {}{hint}", listed(known, "and")))
    }

    /// Returns the texts of a list, or a text as the only one.
    pub(crate) fn texts(&self) -> Result<Vec<String>, String> {
        if !self.value.is_array() {
            return Ok(vec![self.text()?]);
        }
        let texts = self.list()?.iter().map(Item::text).collect::<Result<Vec<_>, _>>()?;
        if texts.is_empty() { self.wrong("the list is empty") } else { Ok(texts) }
    }

    /// Returns the finite number.
    pub(crate) fn number(&self) -> Result<f64, String> {
        match self.value.as_f64() {
            Some(number) if number.is_finite() => Ok(number),
            _ => self.expected("a number"),
        }
    }

    /// Returns the numbers of a list, or a number as the only one.
    pub(crate) fn numbers(&self) -> Result<Vec<f64>, String> {
        if self.value.is_array() { self.list()?.iter().map(Item::number).collect() } else { Ok(vec![self.number()?]) }
    }

    /// Returns the whole number, which is in `range`.
    pub(crate) fn whole(&self, range: RangeInclusive<usize>) -> Result<usize, String> {
        let Some(number) = self.value.as_u64() else { return self.expected("a whole number") };
        match usize::try_from(number) {
            Ok(number) if range.contains(&number) => Ok(number),
            Ok(number) if number < *range.start() => self.wrong(format!("{number} is less than {}", range.start())),
            _ => self.wrong(format!("{number} is more than {}", range.end())),
        }
    }

    /// Returns the truth value.
    pub(crate) fn flag(&self) -> Result<bool, String> {
        self.value.as_bool().map_or_else(|| self.expected("true or false"), Ok)
    }
}

impl<'a> Object<'a> {
    /// Returns the value of `key`, unless it is absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<Item<'a>> {
        let value = self.fields.get(key).filter(|value| !value.is_null())?;
        Some(self.item(key, value))
    }

    /// Returns the value of `key`.
    pub(crate) fn required(&self, key: &str) -> Result<Item<'a>, String> {
        match self.get(key) {
            Some(item) => Ok(item),
            None => Err(format!("{}: it is missing", self.path_of(key))),
        }
    }

    /// Returns the keys and values.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a String, Item<'a>)> {
        self.fields.iter().map(|(key, value)| (key, self.item(key, value)))
    }

    /// Returns the keys that have a value other than null.
    pub(crate) fn given_keys(&self) -> Vec<String> {
        self.fields.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.clone()).collect()
    }

    fn item(&self, key: &str, value: &'a Value) -> Item<'a> {
        Item { path: self.path_of(key), value, source: &self.source[key] }
    }

    /// Returns the text of `key`, unless it is absent or null.
    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.get(key).map(|item| item.text()).transpose()
    }

    /// Returns the number of `key`, unless it is absent or null.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, String> {
        self.get(key).map(|item| item.number()).transpose()
    }

    /// Returns the numbers of `key`, unless it is absent or null.
    pub(crate) fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, String> {
        self.get(key).map(|item| item.numbers()).transpose()
    }

    /// Returns the truth value of `key`, or false if it is absent or null.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, String> {
        self.get(key).map_or(Ok(false), |item| item.flag())
    }

    /// Returns the error `why` at this object.
    pub(crate) fn wrong<T>(&self, why: impl AsRef<str>) -> Result<T, String> {
        Err(format!("{}: {}", self.path, why.as_ref()))
    }

    /// Checks that there are no other keys than `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), String> {
        let Some(key) = self.fields.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        let path = self.path_of(key);
        let known_here = known.join(", ");
        if let Some((_, ours)) = GSPROCESSING.iter().find(|(theirs, _)| theirs == key) {
            return Err(format!("{path}: it is a key of GSProcessing: write {ours}. Known keys here: {known_here}"));
        }
        let hint = suggestion(key, known.iter().copied());
        Err(format!("{path}: unknown key{hint}. Known keys here: {known_here}"))
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
