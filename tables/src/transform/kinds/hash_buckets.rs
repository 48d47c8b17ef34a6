//! One-hot encoding of categories by their hash, for columns of many values.

use crate::config_values::Object;
use crate::transform::MAX_CATEGORIES;
use crate::transform::kind::{Fit, FittedKind, Input, Kind, Row};
use crate::transform::statistics::split;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// One-hot encoding of the hash of a text, or multi-hot encoding of the texts between separators. Nothing is fitted, so a
/// category of new data is never unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashBuckets {
    buckets: usize,
    separator: Option<String>,
}

impl Kind for HashBuckets {
    const KEYS: &'static [&'static str] = &["buckets", "separator"];
    type Statistics = ();
    type Fitted = Self;

    fn read(object: &Object) -> Result<Self, String> {
        let buckets = object.required("buckets")?.whole(1..=MAX_CATEGORIES)?;
        Ok(Self { buckets, separator: object.text("separator")? })
    }

    fn input(&self) -> Input<'_> {
        Input::Texts
    }

    fn fit(&self, _fit: Fit<()>) -> Result<Self, String> {
        Ok(self.clone())
    }
}

impl FittedKind for HashBuckets {
    fn output_width(&self, _width: usize) -> usize {
        self.buckets
    }

    fn check(&self) -> Result<(), String> {
        check_buckets(self.buckets)
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        let start = out.len();
        out.resize(start + self.buckets, 0.0);
        for category in split(row.text(), self.separator.as_deref()) {
            out[start + bucket(category.as_bytes(), self.buckets)] = 1.0;
        }
        0
    }
}

/// Returns the bucket of a text. It is the same on all machines and in all versions, since models depend on it.
pub(super) fn bucket(text: &[u8], buckets: usize) -> usize {
    (xxh3_64(text) % buckets as u64) as usize
}

/// Checks the number of buckets of a file.
pub(super) fn check_buckets(buckets: usize) -> Result<(), String> {
    if (1..=MAX_CATEGORIES).contains(&buckets) {
        return Ok(());
    }
    Err(format!("it has {buckets} buckets, expected 1 to {MAX_CATEGORIES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_of_a_text_never_changes() {
        // The hash of an empty text is 0x2d06800538d394c2 by the specification.
        assert_eq!(["", "a", "London", "日本"].map(|text| bucket(text.as_bytes(), 1000)), [138, 719, 746, 296]);
    }

    #[test]
    fn texts_between_separators_have_a_bucket_each() {
        let hashed = HashBuckets { buckets: 1000, separator: Some("|".into()) };
        let mut out = Vec::new();
        hashed.apply(Row::Text(Some("a|London")), &mut out);
        let ones: Vec<usize> = (0..1000).filter(|&at| out[at] == 1.0).collect();
        assert_eq!(ones.len(), 2);
        assert_eq!(out.iter().sum::<f32>(), 2.0);
    }
}
