//! Fitting of transforms in one pass over a table.

use super::{ExactSum, Fitted, MAX_CATEGORIES, RankTable};
use crate::conf::Transform;
use std::collections::{BTreeMap, BTreeSet};

/// The statistics of some rows of a feature.
#[derive(Clone, Debug)]
pub(crate) enum Partial {
    /// Only the number of values per row.
    Width(Option<usize>),
    /// The range of each number of a row.
    Ranges { max: Vec<f64>, min: Vec<f64> },
    /// The sum of each number of a row.
    Sums(Vec<ExactSum>),
    /// All values of each number of a row.
    Columns(Vec<Vec<f64>>),
    /// The categories.
    Categories(BTreeSet<String>),
}

impl Partial {
    /// Creates the statistics that a transform needs, of no rows. Returns `None` if the configuration determines it.
    pub(crate) fn new(transform: &Transform) -> Option<Self> {
        match transform {
            Transform::NoOp { .. } | Transform::Bucket { .. } | Transform::Categorical { mapping: Some(_), .. } => None,
            Transform::MaxMin { max: Some(_), min: Some(_), .. } | Transform::Standard { sum: Some(_) } => {
                Some(Self::Width(None))
            }
            Transform::MaxMin { .. } => Some(Self::Ranges { max: Vec::new(), min: Vec::new() }),
            Transform::Standard { sum: None } => Some(Self::Sums(Vec::new())),
            Transform::RankGauss { .. } => Some(Self::Columns(Vec::new())),
            Transform::Categorical { mapping: None, .. } => Some(Self::Categories(BTreeSet::new())),
        }
    }

    /// Adds a row of numbers.
    pub(crate) fn add_row(&mut self, row: &[f64]) {
        match self {
            Self::Width(width) => *width = Some(row.len()),
            Self::Ranges { max, min } => {
                max.resize(row.len(), f64::NEG_INFINITY);
                min.resize(row.len(), f64::INFINITY);
                max.iter_mut().zip(row).for_each(|(max, &number)| *max = max.max(number));
                min.iter_mut().zip(row).for_each(|(min, &number)| *min = min.min(number));
            }
            Self::Sums(sums) => {
                sums.resize_with(row.len(), ExactSum::default);
                sums.iter_mut().zip(row).for_each(|(sum, &number)| sum.add(number));
            }
            Self::Columns(columns) => {
                columns.resize_with(row.len(), Vec::new);
                columns.iter_mut().zip(row).for_each(|(column, &number)| column.push(number));
            }
            Self::Categories(_) => {}
        }
    }

    /// Adds a category, or the categories between separators.
    pub(crate) fn add_text(&mut self, text: &str, separator: Option<&str>) -> Result<(), String> {
        let Self::Categories(categories) = self else { return Ok(()) };
        let mut add = |category: &str| {
            if !categories.contains(category) {
                categories.insert(category.to_owned());
            }
        };
        match separator {
            None => add(text),
            Some(separator) => text.split(separator).for_each(add),
        }
        check_categories(categories)
    }

    /// Adds the statistics of later rows.
    pub(crate) fn merge(&mut self, later: Self) -> Result<(), String> {
        let widths = [self.width(), later.width()];
        if let [Some(ours), Some(theirs)] = widths
            && ours != theirs
        {
            return Err(format!("it has {theirs} numbers per row, but {ours} in earlier files"));
        }
        match (self, later) {
            (Self::Width(width), Self::Width(other)) => *width = width.or(other),
            (Self::Ranges { max, min }, Self::Ranges { max: later_max, min: later_min }) => {
                max.resize(later_max.len().max(max.len()), f64::NEG_INFINITY);
                min.resize(later_min.len().max(min.len()), f64::INFINITY);
                max.iter_mut().zip(later_max).for_each(|(max, other)| *max = max.max(other));
                min.iter_mut().zip(later_min).for_each(|(min, other)| *min = min.min(other));
            }
            (Self::Sums(sums), Self::Sums(others)) => {
                sums.resize_with(others.len().max(sums.len()), ExactSum::default);
                sums.iter_mut().zip(&others).for_each(|(sum, other)| sum.merge(other));
            }
            (Self::Columns(columns), Self::Columns(others)) => {
                columns.resize_with(others.len().max(columns.len()), Vec::new);
                columns.iter_mut().zip(others).for_each(|(column, other)| column.extend(other));
            }
            (Self::Categories(categories), Self::Categories(others)) => {
                categories.extend(others);
                return check_categories(categories);
            }
            _ => unreachable!("both are statistics of one feature"),
        }
        Ok(())
    }

    /// Returns the number of values per row, if a row is known.
    fn width(&self) -> Option<usize> {
        match self {
            Self::Width(width) => *width,
            Self::Ranges { max, .. } => Some(max.len()).filter(|&width| width > 0),
            Self::Sums(sums) => Some(sums.len()).filter(|&width| width > 0),
            Self::Columns(columns) => Some(columns.len()).filter(|&width| width > 0),
            Self::Categories(_) => None,
        }
    }
}

fn check_categories(categories: &BTreeSet<String>) -> Result<(), String> {
    if categories.len() > MAX_CATEGORIES {
        return Err(format!(
            "it has more than {MAX_CATEGORIES} categories, each of which would be a feature: give the mapping of those \
             that matter, or leave the feature out"
        ));
    }
    Ok(())
}

impl Fitted {
    /// Fits a transform to the statistics of all rows.
    ///
    /// # Errors
    /// Fails for an empty range, a sum of zero, a column without categories, and parameters that do not fit the columns.
    pub(crate) fn new(transform: &Transform, partial: Option<Partial>) -> Result<Self, String> {
        let width = partial.as_ref().and_then(Partial::width).unwrap_or(1);
        let fitted = match (transform.clone(), partial) {
            (Transform::NoOp { separator, truncate_dim }, _) => Self::NoOp { separator, truncate_dim },
            (Transform::Bucket { count, range, window }, _) => {
                Self::Bucket { bucket_cnt: count, range, slide_window_size: window }
            }
            (Transform::Categorical { separator, mapping: Some(mapping) }, _) => {
                Self::Categorical { separator, mapping }
            }
            (Transform::Categorical { separator, .. }, Some(Partial::Categories(categories))) => {
                if categories.is_empty() {
                    return Err("it has no categories, because all its values are missing".into());
                }
                let mapping: BTreeMap<String, u32> = categories.into_iter().zip(0..).collect();
                Self::Categorical { separator, mapping }
            }
            (Transform::MaxMin { bounds, max, min }, partial) => {
                let (found_max, found_min) = match partial {
                    Some(Partial::Ranges { max, min }) => (max, min),
                    _ => (Vec::new(), Vec::new()),
                };
                let clip_max = || found_max.iter().map(|max| max.min(bounds.max)).collect();
                let clip_min = || found_min.iter().map(|min| min.max(bounds.min)).collect();
                let max_val = max.map_or_else(|| Ok(clip_max()), |max| spread(max, width, "max_val"))?;
                let min_val = min.map_or_else(|| Ok(clip_min()), |min| spread(min, width, "min_val"))?;
                Self::MaxMin { max_val, min_val }
            }
            (Transform::Standard { sum: Some(sum) }, _) => Self::Standard { sum: spread(sum, width, "sum")? },
            (Transform::Standard { sum: None }, Some(Partial::Sums(sums))) => {
                Self::Standard { sum: sums.iter().map(ExactSum::value).collect() }
            }
            (Transform::RankGauss { epsilon, uniquify }, Some(Partial::Columns(columns))) => {
                let fit = |column| RankTable::fit(column, epsilon, uniquify);
                Self::RankGauss { columns: columns.into_iter().map(fit).collect() }
            }
            _ => unreachable!("the statistics are those of the transform"),
        };
        fitted.check()?;
        Ok(fitted)
    }
}

/// Returns a number for each of `width` columns: the given ones, or one for all.
fn spread(numbers: Vec<f64>, width: usize, key: &str) -> Result<Vec<f64>, String> {
    match numbers[..] {
        [number] => Ok(vec![number; width]),
        _ if numbers.len() == width => Ok(numbers),
        _ => Err(format!("{key} has {} numbers, but the columns have {width} per row", numbers.len())),
    }
}
