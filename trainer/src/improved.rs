//! The best model so far.

use crate::embeddings::Embeddings;

/// The best model so far of a run, with its settings.
pub struct Improved<'a, M, C> {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The metric that chooses the epoch.
    pub metric: String,
    /// This metric on the validation data; `None` without any.
    pub valid_metric: Option<f64>,
    /// The model.
    pub model: &'a M,
    /// Its settings.
    pub config: &'a C,
    /// The embeddings of node types without features that it reads.
    pub embeddings: &'a Embeddings,
}
