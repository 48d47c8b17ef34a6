//! The best model of a run so far.

use super::saved_task::SavedLoss;
use super::write::ModelView;
use crate::metrics::{Decision, Selection};
use edgecut_dist_sampler::DistEmbedding;
use std::collections::BTreeMap;

/// The best model of a run so far, with its settings and its embeddings.
pub struct BestModel<'a> {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The metric that selects the best epoch.
    pub selection: Selection,
    /// The value of this metric on the validation data; `None` without validation data.
    pub valid_metric: Option<f64>,
    /// The loss that the model was trained with, if the task has told it.
    pub loss: Option<SavedLoss>,
    /// The thresholds and the temperature that the validation data has chosen, if it chooses some.
    pub decision: Option<Decision>,
    /// The same for several targets, by the names of those that choose some.
    pub target_decisions: BTreeMap<String, Decision>,
    /// The model and its settings.
    pub model: ModelView<'a>,
    /// The embeddings that the model reads, for node types without features.
    pub embeddings: Vec<NamedTable<'a>>,
}

/// The distributed embeddings of one node type.
#[derive(Clone, Copy)]
pub struct NamedTable<'a> {
    /// The node type.
    pub node_type: &'a str,
    /// Its embeddings.
    pub table: &'a DistEmbedding,
}
