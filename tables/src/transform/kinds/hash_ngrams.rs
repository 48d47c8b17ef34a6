//! Texts by the hashes of their words or letters.

use super::hash_buckets::{bucket, check_buckets};
use crate::config_values::Object;
use crate::transform::MAX_CATEGORIES;
use crate::transform::kind::{Fit, FittedKind, Input, Kind, Row};
use serde::{Deserialize, Serialize};

/// The most neighboring words or letters that count together.
const MAX_NGRAM: usize = 16;

/// The number of n-grams of a text in each bucket, divided by the Euclidean length of all of them. Nothing is fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashNgrams {
    buckets: usize,
    /// The least and the greatest number of neighbors that count together.
    ngrams: [usize; 2],
    of: Unit,
}

/// The units of a text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// Runs of letters and digits, in lower case.
    Words,
    /// The characters of each word with a space around it, in lower case.
    Letters,
}

impl Kind for HashNgrams {
    const KEYS: &'static [&'static str] = &["buckets", "ngrams", "of"];
    type Statistics = ();
    type Fitted = Self;

    fn read(object: &Object) -> Result<Self, String> {
        let buckets = object.required("buckets")?.whole(1..=MAX_CATEGORIES)?;
        let of = match object.text("of")?.as_deref() {
            None | Some("words") => Unit::Words,
            Some("letters") => Unit::Letters,
            Some(other) => return object.required("of")?.not_one_of(other, &["words", "letters"]),
        };
        let ngrams = match (object.get("ngrams"), of) {
            (Some(item), _) => {
                match item.list()?.iter().map(|n| n.whole(1..=MAX_NGRAM)).collect::<Result<Vec<_>, _>>()?[..] {
                    [least, most] if least <= most => [least, most],
                    _ => return item.wrong("expected two ascending numbers, such as [1, 2]"),
                }
            }
            (None, Unit::Words) => [1, 1],
            (None, Unit::Letters) => [3, 5],
        };
        Ok(Self { buckets, ngrams, of })
    }

    fn input(&self) -> Input<'_> {
        Input::Texts
    }

    fn fit(&self, _fit: Fit<()>) -> Result<Self, String> {
        Ok(self.clone())
    }
}

impl HashNgrams {
    /// Counts the n-grams of a sequence of units, joined by `between`.
    fn count(&self, units: &[&str], between: &str, counts: &mut [f32]) {
        let [least, most] = self.ngrams;
        for length in least..=most.min(units.len()) {
            for ngram in units.windows(length) {
                counts[bucket(ngram.join(between).as_bytes(), self.buckets)] += 1.0;
            }
        }
    }
}

impl FittedKind for HashNgrams {
    fn output_width(&self, _width: usize) -> usize {
        self.buckets
    }

    fn check(&self) -> Result<(), String> {
        check_buckets(self.buckets)?;
        match self.ngrams {
            [least, most] if 1 <= least && least <= most && most <= MAX_NGRAM => Ok(()),
            ngrams => Err(format!("its ngrams are {ngrams:?}, expected ascending numbers from 1 to {MAX_NGRAM}")),
        }
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        let start = out.len();
        out.resize(start + self.buckets, 0.0);
        let counts = &mut out[start..];
        let text = row.text().unwrap_or_default().to_lowercase();
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        match self.of {
            Unit::Words => self.count(&words, " ", counts),
            Unit::Letters => {
                for word in words {
                    let padded = format!(" {word} ");
                    let letters: Vec<&str> = padded.split("").filter(|letter| !letter.is_empty()).collect();
                    self.count(&letters, "", counts);
                }
            }
        }
        // Sums of squares of whole numbers are exact in any order.
        let length = counts.iter().map(|&count| f64::from(count) * f64::from(count)).sum::<f64>().sqrt();
        if length > 0.0 {
            counts.iter_mut().for_each(|count| *count = (f64::from(*count) / length) as f32);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(hashed: &HashNgrams, text: &str) -> Vec<f32> {
        let mut out = Vec::new();
        hashed.apply(Row::Text(Some(text)), &mut out);
        out
    }

    #[test]
    fn words_count_without_case_and_signs() {
        let words = HashNgrams { buckets: 1000, ngrams: [1, 2], of: Unit::Words };
        let found = features(&words, "Red, red WINE!");
        let mut expected = vec![0.0; 1000];
        // red twice, wine, "red red" and "red wine".
        for (ngram, count) in [("red", 2.0), ("wine", 1.0), ("red red", 1.0), ("red wine", 1.0)] {
            expected[bucket(ngram.as_bytes(), 1000)] += count / 7.0_f32.sqrt();
        }
        found.iter().zip(&expected).for_each(|(found, expected)| assert!((found - expected).abs() < 1e-6));
        assert_eq!(found, features(&words, "red red wine"));
        assert_eq!(features(&words, " ?!"), [0.0; 1000]);
    }

    #[test]
    fn letters_are_those_of_words() {
        let letters = HashNgrams { buckets: 1000, ngrams: [2, 2], of: Unit::Letters };
        let found = features(&letters, "äb");
        for ngram in [" ä", "äb", "b "] {
            assert!((found[bucket(ngram.as_bytes(), 1000)] - 1.0 / 3.0_f32.sqrt()).abs() < 1e-6);
        }
    }
}
