//! One-hot encoding of ranges.

use crate::config_values::Object;
use crate::transform::MAX_CATEGORIES;
use crate::transform::kind::{Fit, FittedKind, Kind, Row};
use serde::{Deserialize, Serialize};

/// One-hot encoding of ranges, or multi-hot with a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BucketNumerical {
    bucket_cnt: usize,
    range: [f64; 2],
    slide_window_size: f64,
}

impl Kind for BucketNumerical {
    const KEYS: &'static [&'static str] = &["range", "bucket_cnt", "slide_window_size"];
    type Statistics = ();
    type Fitted = Self;

    fn read(object: &Object) -> Result<Self, String> {
        let range = object.required("range")?;
        let ends = match range.numbers()?[..] {
            [a, b] if a != b => [a.min(b), a.max(b)],
            _ => return range.wrong("expected two different numbers"),
        };
        let bucket_cnt = object.required("bucket_cnt")?.whole(1..=MAX_CATEGORIES)?;
        let slide_window_size = object.number("slide_window_size")?.unwrap_or(0.0);
        if slide_window_size < 0.0 {
            return object.required("slide_window_size")?.wrong("it is negative");
        }
        Ok(Self { bucket_cnt, range: ends, slide_window_size })
    }

    fn fit(&self, _fit: Fit<()>) -> Result<Self, String> {
        Ok(self.clone())
    }
}

impl BucketNumerical {
    /// Appends 1 for each bucket that the window around a number touches, and 0 for the others. Buckets contain their lower
    /// end. Numbers outside the range are in the first or last bucket.
    fn push(&self, number: f64, out: &mut Vec<f32>) {
        let Self { bucket_cnt: count, range: [min, max], slide_window_size: window } = *self;
        let size = (max - min) / count as f64;
        let low = (number - window / 2.0).max(min) - min;
        let high = (number + window / 2.0).min(max) - min;
        let first = floor_divided(low, size).max(0.0) as usize;
        let end = (floor_divided(high, size) + 1.0).clamp(0.0, count as f64) as usize;
        let start = out.len();
        out.resize(start + count, 0.0);
        if first < end {
            out[start + first..start + end].fill(1.0);
        }
        if number >= max {
            out[start + count - 1] = 1.0;
        }
        if number <= min {
            out[start] = 1.0;
        }
    }
}

/// Returns a quotient rounded down, like Python's `//`, which GraphStorm divides by: from the exact remainder. In binary, 0.1
/// is above a tenth, so that it is 4 times in 0.5, while the rounded quotient is 5.
fn floor_divided(number: f64, size: f64) -> f64 {
    ((number - number.rem_euclid(size)) / size).round()
}

impl FittedKind for BucketNumerical {
    fn output_width(&self, width: usize) -> usize {
        self.bucket_cnt * width
    }

    fn check(&self) -> Result<(), String> {
        let Self { bucket_cnt, range: [low, high], .. } = self;
        if !(1..=MAX_CATEGORIES).contains(bucket_cnt) {
            return Err(format!("it has {bucket_cnt} buckets, expected 1 to {MAX_CATEGORIES}"));
        }
        let size = (high - low) / *bucket_cnt as f64;
        if !size.is_normal() || size < 0.0 {
            return Err(format!("the range {low}..={high} cannot be divided into {bucket_cnt} buckets"));
        }
        Ok(())
    }

    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        row.numbers().iter().for_each(|&number| self.push(number, out));
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_graphstorm() {
        let features = |buckets: &BucketNumerical, number: f64| {
            let mut out = Vec::new();
            buckets.apply(Row::Numbers(&[number]), &mut out);
            out
        };
        // The examples in GraphStorm's documentation and its loop, evaluated with NumPy.
        let plain = BucketNumerical { bucket_cnt: 2, range: [10.0, 30.0], slide_window_size: 0.0 };
        for (number, expected) in [(1.0, [1.0, 0.0]), (11.0, [1.0, 0.0]), (20.0, [0.0, 1.0]), (31.0, [0.0, 1.0])] {
            assert_eq!(features(&plain, number), expected, "{number}");
        }
        let tenths = BucketNumerical { bucket_cnt: 10, range: [0.0, 1.0], slide_window_size: 0.0 };
        // The buckets of GraphStorm: `number // 0.1`.
        for (number, bucket) in
            [(0.1, 1), (0.2, 2), (0.3, 2), (0.5, 4), (0.6, 5), (0.7, 6), (0.8, 8), (0.9, 8), (1.0, 9)]
        {
            let found = features(&tenths, number);
            let at: Vec<usize> = (0..10).filter(|&at| found[at] == 1.0).collect();
            assert_eq!(at, [bucket], "{number}");
        }
        let window = BucketNumerical { bucket_cnt: 4, range: [0.0, 40.0], slide_window_size: 10.0 };
        for (number, expected) in [
            (4.0, [1.0, 0.0, 0.0, 0.0]),
            (5.0, [1.0, 1.0, 0.0, 0.0]),
            (14.0, [1.0, 1.0, 0.0, 0.0]),
            (38.0, [0.0, 0.0, 0.0, 1.0]),
            (-50.0, [1.0, 0.0, 0.0, 0.0]),
            (99.0, [0.0, 0.0, 0.0, 1.0]),
        ] {
            assert_eq!(features(&window, number), expected, "{number}");
        }
    }
}
