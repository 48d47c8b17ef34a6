//! Progress reports of graph classification.

use crate::improved::Improved;
use crate::metrics::Metric;
use crate::models::{GraphNet, GraphNetConfig};
use crate::parameter_count::ParameterCount;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use serde::Serialize;

/// One epoch over all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct GraphEpochReport {
    /// The fold, counted from 1, in a cross-validation.
    pub fold: Option<usize>,
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Mean training loss over all graphs of all ranks.
    pub loss: Option<f64>,
    /// Accuracy on the training graphs while they were trained on.
    pub train_acc: Option<f64>,
    /// Accuracy on the validation graphs; in a cross-validation by the best mean epoch on the test graphs.
    pub valid_acc: Option<f64>,
    /// What chooses the epoch.
    pub metric: Metric,
    /// This metric on the same graphs.
    pub valid_metric: Option<f64>,
    /// Training graphs over all ranks.
    pub graphs: u64,
    /// Wall-clock seconds of training, validation excluded; the slowest rank's, as the times below.
    pub seconds: f64,
    /// Seconds that the trainer waited for batches.
    pub wait_seconds: f64,
    /// Seconds of forward, backward and optimizer.
    pub compute_seconds: f64,
    /// Seconds of exchanging gradients, waiting for slower ranks included.
    pub allreduce_seconds: f64,
    /// Seconds of validation.
    pub eval_seconds: f64,
}

/// Watches a run.
pub trait GraphObserver<B: Backend> {
    /// Training begins, of so many values. Does nothing unless implemented.
    fn started(&mut self, _parameters: ParameterCount) {}

    /// `done` of `total` steps of `epoch` (counted from 1) are done.
    fn step(&mut self, epoch: u64, done: usize, total: usize);

    /// An epoch has ended.
    ///
    /// # Errors
    /// The report cannot be written; the run then ends.
    fn epoch(&mut self, report: &GraphEpochReport) -> std::io::Result<()>;

    /// A model is the best so far. All ranks call it at the same time, so that it may use collectives.
    ///
    /// # Errors
    /// The model cannot be saved; the run then ends.
    fn improved(
        &mut self,
        best: &Improved<'_, GraphNet<B>, GraphNetConfig>,
        world: &mut ProcessGroup,
    ) -> std::io::Result<()>;
}
