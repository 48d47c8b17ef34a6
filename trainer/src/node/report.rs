//! Progress reports of node classification.

use crate::epoch_clock::EpochCost;
use crate::improved::Improved;
use crate::metrics::Metric;
use crate::models::{ModelConfig, NodeModel};
use crate::parameter_count::ParameterCount;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use serde::Serialize;

/// One epoch over all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Mean training loss over all seeds of all ranks.
    pub loss: Option<f64>,
    /// Accuracy on the training seeds while they were trained on.
    pub train_acc: Option<f64>,
    /// Accuracy on the validation nodes, in epochs that validate.
    pub valid_acc: Option<f64>,
    /// What chooses the epoch.
    pub metric: Metric,
    /// This metric on the validation nodes, in epochs that validate.
    pub valid_metric: Option<f64>,
    /// What the epoch cost.
    #[serde(flatten)]
    pub cost: EpochCost,
}

/// Watches a run.
pub trait Observer<B: Backend> {
    /// Training begins, of so many values. Does nothing unless implemented.
    fn started(&mut self, _parameters: ParameterCount) {}

    /// `done` of `total` steps of `epoch` (counted from 1) are done.
    fn step(&mut self, epoch: u64, done: usize, total: usize);
    /// An epoch has ended.
    ///
    /// # Errors
    /// The report cannot be written; the run then ends.
    fn epoch(&mut self, report: &EpochReport) -> std::io::Result<()>;

    /// A model is the best so far. All ranks call it at the same time, so that it may use collectives.
    ///
    /// # Errors
    /// The model cannot be saved; the run then ends.
    fn improved(
        &mut self,
        best: &Improved<'_, NodeModel<B>, ModelConfig>,
        world: &mut ProcessGroup,
    ) -> std::io::Result<()>;
}
