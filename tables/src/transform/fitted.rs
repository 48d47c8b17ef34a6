//! Transforms that have been fitted.

use super::{MAX_CATEGORIES, MAX_FEATURES, RankTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A fitted transform, in the form that `transforms.json` stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", deny_unknown_fields)]
pub(crate) enum Fitted {
    #[serde(rename = "no-op")]
    NoOp { separator: Option<String>, truncate_dim: Option<usize> },
    #[serde(rename = "max_min_norm")]
    MaxMin { max_val: Vec<f64>, min_val: Vec<f64> },
    #[serde(rename = "standard")]
    Standard { sum: Vec<f64> },
    #[serde(rename = "rank_gauss")]
    RankGauss { columns: Vec<RankTable> },
    #[serde(rename = "to_categorical")]
    Categorical { separator: Option<String>, mapping: BTreeMap<String, u32> },
    #[serde(rename = "bucket_numerical")]
    Bucket { bucket_cnt: usize, range: [f64; 2], slide_window_size: f64 },
}

impl Fitted {
    /// Returns the name of the transform.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NoOp { .. } => "no-op",
            Self::MaxMin { .. } => "max_min_norm",
            Self::Standard { .. } => "standard",
            Self::RankGauss { .. } => "rank_gauss",
            Self::Categorical { .. } => "to_categorical",
            Self::Bucket { .. } => "bucket_numerical",
        }
    }

    /// Returns the number of features that `width` numbers become.
    pub(crate) fn output_width(&self, width: usize) -> usize {
        match self {
            Self::NoOp { truncate_dim, .. } => truncate_dim.map_or(width, |dim| dim.min(width)),
            Self::MaxMin { .. } | Self::Standard { .. } | Self::RankGauss { .. } => width,
            Self::Categorical { mapping, .. } => mapping.values().max().map_or(0, |&last| last as usize + 1),
            Self::Bucket { bucket_cnt, .. } => bucket_cnt * width,
        }
    }

    /// Checks that the transform takes `width` numbers per row.
    pub(crate) fn check_width(&self, width: usize) -> Result<(), String> {
        let fitted = match self {
            Self::MaxMin { max_val, .. } => max_val.len(),
            Self::Standard { sum } => sum.len(),
            Self::RankGauss { columns } => columns.len(),
            Self::NoOp { .. } | Self::Categorical { .. } | Self::Bucket { .. } => return Ok(()),
        };
        if fitted != width {
            return Err(format!("it has {width} numbers per row, but the transform {} has {fitted}", self.name()));
        }
        Ok(())
    }

    /// Checks the values, so that numbers become finite features.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::MaxMin { max_val, min_val } => check_ranges(max_val, min_val),
            Self::Standard { sum } => check_sums(sum),
            Self::RankGauss { columns } => columns.iter().try_for_each(RankTable::check),
            Self::Categorical { mapping, .. } if mapping.is_empty() => Err("the mapping is empty".into()),
            Self::Categorical { mapping, .. } => {
                match mapping.iter().find(|&(_, &position)| position as usize >= mapping.len()) {
                    Some((key, position)) => Err(format!("{key:?} has position {position}, past the last category")),
                    None => Ok(()),
                }
            }
            Self::Bucket { bucket_cnt, range: [low, high], .. } => {
                if !(1..=MAX_CATEGORIES).contains(bucket_cnt) {
                    return Err(format!("it has {bucket_cnt} buckets, expected 1 to {MAX_CATEGORIES}"));
                }
                let size = (high - low) / *bucket_cnt as f64;
                if !size.is_normal() || size < 0.0 {
                    return Err(format!("the range {low}..={high} cannot be divided into {bucket_cnt} buckets"));
                }
                Ok(())
            }
            Self::NoOp { truncate_dim: Some(dim), .. } if !(1..=MAX_FEATURES).contains(dim) => {
                Err(format!("truncate_dim is {dim}, expected 1 to {MAX_FEATURES}"))
            }
            Self::NoOp { .. } => Ok(()),
        }
    }

    /// Returns the transform without what is too large for a file.
    pub(crate) fn reduced(&self) -> Self {
        match self {
            Self::RankGauss { columns } => {
                Self::RankGauss { columns: columns.iter().map(RankTable::reduced).collect() }
            }
            other => other.clone(),
        }
    }
}

/// Checks that no range is empty or infinite.
fn check_ranges(max: &[f64], min: &[f64]) -> Result<(), String> {
    if max.len() != min.len() {
        return Err(format!("max_val has {} numbers, but min_val has {}", max.len(), min.len()));
    }
    match max.iter().zip(min).position(|(max, min)| max <= min || !(max - min).is_finite()) {
        Some(at) => Err(format!(
            "number {at} of each row has the range {}..={}, which max_min_norm cannot scale: leave the feature out, or set \
             max_val and min_val",
            min[at], max[at]
        )),
        None => Ok(()),
    }
}

/// Checks that no sum is zero.
fn check_sums(sums: &[f64]) -> Result<(), String> {
    match sums.iter().position(|&sum| sum == 0.0 || !sum.is_finite()) {
        Some(at) => Err(format!(
            "the sum of number {at} of each row is {}, which standard cannot divide by: leave the feature out, or set sum",
            sums[at]
        )),
        None => Ok(()),
    }
}
