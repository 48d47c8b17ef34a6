//! Progress reports of node classification.

use crate::epoch_clock::EpochCost;
use crate::improved::Improved;
use crate::metrics::Metric;
use crate::models::{ModelConfig, NodeModel};
use crate::parameter_count::ParameterCount;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use serde::Serialize;

/// The results of one epoch over all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct EpochReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The mean training loss over the seeds of all ranks.
    pub loss: Option<f64>,
    /// The accuracy of the training batches, each measured before its update.
    pub train_acc: Option<f64>,
    /// The accuracy on the validation nodes; `None` in epochs without validation.
    pub valid_acc: Option<f64>,
    /// The metric that selects the best epoch.
    pub metric: Metric,
    /// The value of this metric on the validation nodes; `None` in epochs without validation.
    pub valid_metric: Option<f64>,
    /// The time and network traffic of the epoch.
    #[serde(flatten)]
    pub cost: EpochCost,
}

/// An observer of a training run.
pub trait Observer<B: Backend> {
    /// Called once when training starts, with the number of trained values. Does nothing by default.
    fn started(&mut self, _parameters: ParameterCount) {}

    /// Called after each step: `done` of `total` steps of `epoch` (counted from 1) are complete.
    fn step(&mut self, epoch: u64, done: usize, total: usize);

    /// Called at the end of each epoch.
    ///
    /// # Errors
    /// The report cannot be written. An error ends the run.
    fn epoch(&mut self, report: &EpochReport) -> std::io::Result<()>;

    /// Called when a model is the best so far, on all ranks at the same time, so that it may use collectives.
    ///
    /// # Errors
    /// The model cannot be saved. An error ends the run.
    fn improved(
        &mut self,
        best: &Improved<'_, NodeModel<B>, ModelConfig>,
        world: &mut ProcessGroup,
    ) -> std::io::Result<()>;
}
