//! Progress reports of graph classification.

use crate::improved::Improved;
use crate::metrics::Metric;
use crate::models::{GraphNet, GraphNetConfig};
use crate::parameter_count::ParameterCount;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use serde::Serialize;

/// The results of one epoch over all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct GraphEpochReport {
    /// The fold of a cross-validation, counted from 1.
    pub fold: Option<usize>,
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The mean training loss over the graphs of all ranks.
    pub loss: Option<f64>,
    /// The accuracy of the training batches, each measured before its update.
    pub train_acc: Option<f64>,
    /// The accuracy on the validation graphs; with [`Protocol::BestMeanEpoch`](super::Protocol), on the test graphs.
    pub valid_acc: Option<f64>,
    /// The metric that selects the best epoch.
    pub metric: Metric,
    /// The value of this metric on the same graphs.
    pub valid_metric: Option<f64>,
    /// The number of training graphs over all ranks.
    pub graphs: u64,
    /// Wall-clock seconds of training without validation. This and the following times are those of the slowest rank.
    pub seconds: f64,
    /// Seconds that the trainer waited for batches.
    pub wait_seconds: f64,
    /// Seconds of the forward pass, the backward pass and the optimizer.
    pub compute_seconds: f64,
    /// Seconds of exchanging gradients, including the wait for slower ranks.
    pub allreduce_seconds: f64,
    /// Seconds of validation.
    pub eval_seconds: f64,
}

/// An observer of a training run.
pub trait GraphObserver<B: Backend> {
    /// Called once when training starts, with the number of trained values. Does nothing by default.
    fn started(&mut self, _parameters: ParameterCount) {}

    /// Called after each step: `done` of `total` steps of `epoch` (counted from 1) are complete.
    fn step(&mut self, epoch: u64, done: usize, total: usize);

    /// Called at the end of each epoch.
    ///
    /// # Errors
    /// The report cannot be written. An error ends the run.
    fn epoch(&mut self, report: &GraphEpochReport) -> std::io::Result<()>;

    /// Called when a model is the best so far, on all ranks at the same time, so that it may use collectives.
    ///
    /// # Errors
    /// The model cannot be saved. An error ends the run.
    fn improved(
        &mut self,
        best: &Improved<'_, GraphNet<B>, GraphNetConfig>,
        world: &mut ProcessGroup,
    ) -> std::io::Result<()>;
}
