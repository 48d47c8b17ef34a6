//! The scalars of a configuration as they are written.

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// A reader of a value that was read before, which returns its scalars as the texts in the file: `1.10` stays `1.10`, and `True`
/// stays `True`. The configuration is deserialized twice, since only the first reading tells texts from lists and mappings.
///
/// ```
/// use edgecut_settings::AsWritten;
/// use serde::de::DeserializeSeed;
///
/// let text = r#"{"version": "1.10"}"#;
/// let value: serde_json::Value = serde_json::from_str(text)?;
/// assert_eq!(AsWritten(&value).deserialize(&mut serde_json::Deserializer::from_str(text))?, value);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AsWritten<'a>(pub &'a Value);

impl<'de> DeserializeSeed<'de> for AsWritten<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0 {
            Value::Object(_) => deserializer.deserialize_map(self),
            Value::Array(_) => deserializer.deserialize_seq(self),
            Value::Null => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => deserializer.deserialize_string(self),
        }
    }
}

impl<'de> Visitor<'de> for AsWritten<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the same value again")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = entries.next_element_seed(AsWritten(&self.0[values.len()]))? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(AsWritten(&self.0[&key]))?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}
