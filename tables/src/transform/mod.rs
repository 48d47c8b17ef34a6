//! Transforms of columns to features: fitting, applying and saving.

mod apply;
mod erfinv;
mod exact_sum;
mod fit;
mod fitted;
mod rank;
mod saved;

pub(crate) use apply::apply;
pub(crate) use erfinv::erfinv;
pub(crate) use exact_sum::ExactSum;
pub(crate) use fit::Partial;
pub(crate) use fitted::Fitted;
pub(crate) use rank::RankTable;
pub use saved::Transforms;
pub(crate) use saved::{SavedFeature, SavedType};

/// The numbers that a range is limited to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clip {
    /// The least number.
    pub(crate) min: f64,
    /// The greatest number.
    pub(crate) max: f64,
}
