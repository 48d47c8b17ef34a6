//! Transforms of columns to features: fitting, applying and saving.

mod apply;
mod erfinv;
mod exact_sum;
mod fit;
mod fitted;
mod rank;
mod rows;
mod saved;

pub(crate) use erfinv::erfinv;
pub(crate) use exact_sum::ExactSum;
pub(crate) use fit::Partial;
pub(crate) use fitted::Fitted;
pub(crate) use rank::RankTable;
pub(crate) use rows::{FeatureRows, RowInput};
pub use saved::Transforms;
pub(crate) use saved::{SavedFeature, SavedType};

/// The most features of a node or an edge.
pub(crate) const MAX_FEATURES: usize = 1 << 20;
/// The most categories that are found in a column, and the most buckets. Each is a feature, and a larger number of
/// categories is usually a column of ids.
pub(crate) const MAX_CATEGORIES: usize = 10_000;
/// The smallest `epsilon` of `rank_gauss`.
pub(crate) const MIN_EPSILON: f64 = 1e-15;

/// The numbers that a range is limited to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clip {
    /// The least number.
    pub(crate) min: f64,
    /// The greatest number.
    pub(crate) max: f64,
}
