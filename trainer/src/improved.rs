//! The best model so far.

use crate::embeddings::Embeddings;

/// The best model of a run so far, with its settings.
pub struct Improved<'a, M, C> {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The metric that selects the best epoch.
    pub metric: String,
    /// The value of this metric on the validation data; `None` without validation data.
    pub valid_metric: Option<f64>,
    /// The model.
    pub model: &'a M,
    /// Its settings.
    pub config: &'a C,
    /// The embeddings that the model reads, for node types without features.
    pub embeddings: &'a Embeddings,
}
