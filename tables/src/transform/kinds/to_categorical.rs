//! One-hot encoding of categories.

use crate::config_values::{Item, Object};
use crate::transform::MAX_FEATURES;
use crate::transform::kind::{Fit, FittedKind, Input, Kind, Row};
use crate::transform::statistics::{Categories, of_category, split};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One-hot encoding of a text, or multi-hot encoding of the texts between separators.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ToCategorical {
    separator: Option<String>,
    mapping: Option<BTreeMap<String, u32>>,
}

/// The position of each category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    separator: Option<String>,
    mapping: BTreeMap<String, u32>,
}

impl Kind for ToCategorical {
    const KEYS: &'static [&'static str] = &["separator", "mapping"];
    type Statistics = Categories;
    type Fitted = Fitted;

    fn read(object: &Object) -> Result<Self, String> {
        let mapping = object.get("mapping").map(|item| mapping(&item)).transpose()?;
        Ok(Self { separator: object.text("separator")?, mapping })
    }

    fn input(&self) -> Input<'_> {
        Input::Texts
    }

    fn statistics(&self) -> Option<Categories> {
        self.mapping.is_none().then(|| Categories::new(self.separator.clone()))
    }

    fn fit(&self, fit: Fit<Categories>) -> Result<Fitted, String> {
        let mapping = match &self.mapping {
            Some(mapping) => mapping.clone(),
            None => fit.needed().found.iter().cloned().zip(0..).collect(),
        };
        Ok(Fitted { separator: self.separator.clone(), mapping })
    }
}

fn mapping(item: &Item) -> Result<BTreeMap<String, u32>, String> {
    let object = item.object()?;
    let mut mapping = BTreeMap::new();
    let num_entries = object.entries().count();
    if num_entries == 0 || num_entries > MAX_FEATURES {
        return item.wrong(format!("it has {num_entries} entries, expected 1 to {MAX_FEATURES}"));
    }
    for (key, position) in object.entries() {
        mapping.insert(key.clone(), position.whole(0..=num_entries - 1)? as u32);
    }
    Ok(mapping)
}

impl Fitted {
    /// Returns the categories, ascending.
    pub(crate) fn categories(&self) -> impl Iterator<Item = &str> {
        self.mapping.keys().map(String::as_str)
    }

    /// Returns the categories with their positions.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (&str, usize)> {
        self.mapping.iter().map(|(category, &position)| (category.as_str(), position as usize))
    }
}

impl FittedKind for Fitted {
    fn output_width(&self, _width: usize) -> usize {
        self.mapping.values().max().map_or(0, |&last| last as usize + 1)
    }

    fn check(&self) -> Result<(), String> {
        if self.mapping.is_empty() {
            return Err("it has no categories, because all its values are missing: leave the feature out".into());
        }
        match self.mapping.iter().find(|&(_, &position)| position as usize >= self.mapping.len()) {
            Some((key, position)) => Err(format!("{key:?} has position {position}, past the last category")),
            None => Ok(()),
        }
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        let start = out.len();
        out.resize(start + self.output_width(1), 0.0);
        let mut num_unknown = 0;
        for category in split(row.text(), self.separator.as_deref()) {
            match of_category(&self.mapping, category) {
                Some(&position) => out[start + position as usize] = 1.0,
                None => num_unknown += 1,
            }
        }
        num_unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_one_hot_or_multi_hot() {
        let features = |separator: Option<&str>, text: Option<&str>| {
            let mut out = Vec::new();
            let mapping = ["a", "b", "c"].map(str::to_owned).into_iter().zip(0..).collect();
            let fitted = Fitted { separator: separator.map(str::to_owned), mapping };
            let num_unknown = fitted.apply(Row::Text(text), &mut out);
            (out, num_unknown)
        };
        assert_eq!(features(None, Some("b")), (vec![0.0, 1.0, 0.0], 0));
        assert_eq!(features(None, Some("a,c")), (vec![0.0; 3], 1));
        assert_eq!(features(Some(","), Some("a,c,d")), (vec![1.0, 0.0, 1.0], 1));
        assert_eq!(features(Some(","), None), (vec![0.0; 3], 0));
    }

    #[test]
    fn whole_numbers_find_their_categories_of_floats() {
        let mapping = ["10.0", "20", "20.0", "x"].map(str::to_owned).into_iter().zip(0..).collect();
        let fitted = Fitted { separator: None, mapping };
        for (text, position) in [("10", Some(0)), ("10.0", Some(0)), ("20", Some(1)), ("20.0", Some(2)), ("010", None)]
        {
            let mut out = Vec::new();
            let num_unknown = fitted.apply(Row::Text(Some(text)), &mut out);
            assert_eq!(out.iter().position(|&value| value == 1.0), position, "{text}");
            assert_eq!(num_unknown, u64::from(position.is_none()), "{text}");
        }
    }
}
