//! Application of fitted transforms to rows.

use super::Fitted;

/// Appends the features of a row of numbers to `out`.
pub(super) fn apply(fitted: &Fitted, row: &[f64], out: &mut Vec<f32>) {
    match fitted {
        Fitted::NoOp { truncate_dim, .. } => {
            let dim = truncate_dim.map_or(row.len(), |dim| dim.min(row.len()));
            out.extend(row[..dim].iter().map(|&number| number as f32));
        }
        Fitted::MaxMin { max_val, min_val } => {
            let scaled = row.iter().zip(max_val.iter().zip(min_val));
            out.extend(scaled.map(|(number, (max, min))| ((number - min) / (max - min)).clamp(0.0, 1.0) as f32));
        }
        Fitted::Standard { sum } => out.extend(row.iter().zip(sum).map(|(number, sum)| (number / sum) as f32)),
        Fitted::RankGauss { columns } => {
            out.extend(row.iter().zip(columns).map(|(&number, table)| table.apply(number) as f32));
        }
        Fitted::Bucket { bucket_cnt, range, slide_window_size } => {
            row.iter().for_each(|&number| buckets(number, *bucket_cnt, *range, *slide_window_size, out));
        }
        Fitted::Categorical { .. } => unreachable!("categories are texts"),
    }
}

/// Appends 1 for each bucket that the window around a number touches, and 0 for the others. Buckets contain their lower
/// end. Numbers outside the range are in the first or last bucket.
fn buckets(number: f64, count: usize, [min, max]: [f64; 2], window: f64, out: &mut Vec<f32>) {
    let size = (max - min) / count as f64;
    let low = (number - window / 2.0).max(min) - min;
    let high = (number + window / 2.0).min(max) - min;
    let first = (low / size).floor().max(0.0) as usize;
    let end = ((high / size).floor() + 1.0).clamp(0.0, count as f64) as usize;
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

impl Fitted {
    /// Appends the features of a text to `out`. Unknown categories and a missing text are zeros. Returns the number of
    /// unknown categories.
    pub(super) fn apply_text(&self, text: Option<&str>, out: &mut Vec<f32>) -> u64 {
        let Self::Categorical { separator, mapping } = self else { unreachable!("only categories are texts") };
        let start = out.len();
        out.resize(start + self.output_width(1), 0.0);
        let categories = match (text, separator) {
            (None, _) => Vec::new(),
            (Some(text), None) => vec![text],
            (Some(text), Some(separator)) => text.split(separator.as_str()).collect(),
        };
        let mut num_unknown = 0;
        for category in categories {
            match mapping.get(category) {
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

    fn features(fitted: &Fitted, row: &[f64]) -> Vec<f32> {
        let mut out = Vec::new();
        apply(fitted, row, &mut out);
        out
    }

    #[test]
    fn numbers_are_scaled() {
        // scikit-learn's MinMaxScaler of [1, 3], [2, 5] and [5, 4], with clip.
        let scaled = Fitted::MaxMin { max_val: vec![5.0, 5.0], min_val: vec![1.0, 3.0] };
        assert_eq!(features(&scaled, &[2.0, 5.0]), [0.25, 1.0]);
        assert_eq!(features(&scaled, &[-1.0, 4.0]), [0.0, 0.5]);
        assert_eq!(features(&Fitted::Standard { sum: vec![8.0] }, &[2.0]), [0.25]);
        let cut = Fitted::NoOp { separator: None, truncate_dim: Some(2) };
        assert_eq!(features(&cut, &[1.0, 2.0, 3.0]), [1.0, 2.0]);
        assert_eq!(features(&cut, &[1.0]), [1.0]);
    }

    #[test]
    fn buckets_are_those_of_graphstorm() {
        // The examples in GraphStorm's documentation and its loop, evaluated with NumPy.
        let plain = Fitted::Bucket { bucket_cnt: 2, range: [10.0, 30.0], slide_window_size: 0.0 };
        for (number, expected) in [(1.0, [1.0, 0.0]), (11.0, [1.0, 0.0]), (20.0, [0.0, 1.0]), (31.0, [0.0, 1.0])] {
            assert_eq!(features(&plain, &[number]), expected, "{number}");
        }
        let window = Fitted::Bucket { bucket_cnt: 4, range: [0.0, 40.0], slide_window_size: 10.0 };
        for (number, expected) in [
            (4.0, [1.0, 0.0, 0.0, 0.0]),
            (5.0, [1.0, 1.0, 0.0, 0.0]),
            (14.0, [1.0, 1.0, 0.0, 0.0]),
            (38.0, [0.0, 0.0, 0.0, 1.0]),
            (-50.0, [1.0, 0.0, 0.0, 0.0]),
            (99.0, [0.0, 0.0, 0.0, 1.0]),
        ] {
            assert_eq!(features(&window, &[number]), expected, "{number}");
        }
    }

    #[test]
    fn categories_are_one_hot_or_multi_hot() {
        let mapping = [("a".to_owned(), 0), ("b".to_owned(), 1), ("c".to_owned(), 2)];
        let text = |separator: Option<&str>, text: Option<&str>| {
            let mut out = Vec::new();
            let mapping = mapping.clone().into_iter().collect();
            let fitted = Fitted::Categorical { separator: separator.map(str::to_owned), mapping };
            let num_unknown = fitted.apply_text(text, &mut out);
            (out, num_unknown)
        };
        assert_eq!(text(None, Some("b")), (vec![0.0, 1.0, 0.0], 0));
        assert_eq!(text(None, Some("a,c")), (vec![0.0; 3], 1));
        assert_eq!(text(Some(","), Some("a,c,d")), (vec![1.0, 0.0, 1.0], 1));
        assert_eq!(text(Some(","), None), (vec![0.0; 3], 0));
    }
}
