//! The result of training.

use crate::embeddings::Embeddings;

/// A trained model, from the best validation epoch.
pub struct Fitted<M, C, R> {
    /// The model.
    pub model: M,
    /// The model's settings.
    pub settings: C,
    /// The embeddings that the model reads; empty if all nodes have features.
    pub embeddings: Embeddings,
    /// The model's validation and test results.
    pub result: R,
    /// The metric on the validation data, for each epoch that was evaluated.
    pub history: Vec<Option<f64>>,
}
