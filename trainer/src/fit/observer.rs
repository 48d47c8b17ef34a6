//! Progress reports of training.

use super::epoch_clock::EpochCost;
use crate::cluster_plan::BatchProfile;
use crate::inference_progress::{InferenceProgress, InferenceStep};
use crate::memory::parameter_count::ParameterCount;
use crate::model_file::{BestModel, WarmStartReport};
use edgecut_cluster::ProcessGroup;
use edgecut_graph::Split;
use serde::Serialize;
use std::cell::RefCell;
use std::time::Duration;

/// The results of one epoch over all ranks. `S` are the scores of the task: [`SeedScores`] or
/// [`LinkScores`](crate::link::LinkScores).
///
/// [`SeedScores`]: crate::SeedScores
#[derive(Clone, Debug, Serialize)]
pub struct EpochReport<S> {
    /// The fold of a cross-validation, counted from 1.
    pub fold: Option<usize>,
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The mean training loss over the seeds of all ranks.
    pub loss: Option<f64>,
    /// The accuracy of the training batches, each measured before its update; `None` if the loss does not count correct
    /// predictions. For links, the fraction of training edges that scored above all of their negatives.
    pub train_acc: Option<f64>,
    /// The number of training seeds over all ranks: nodes, edges or graphs.
    pub num_seeds: u64,
    /// The number of training seeds that batches have left out: edges whose sources are connected to so many nodes that
    /// they have too few negatives.
    pub left_out: u64,
    /// The metric that selects the best epoch.
    pub metric: String,
    /// The scores on the validation data; `None` in epochs without validation.
    pub valid: Option<S>,
    /// The value of the metric on the validation data; `None` in epochs without validation.
    pub valid_metric: Option<f64>,
    /// The time and network traffic of the epoch.
    #[serde(flatten)]
    pub cost: EpochCost,
}

/// The results of one training step over all ranks.
///
/// ```
/// use edgecut_trainer::{Observer, StepReport};
/// struct Losses(Vec<f64>);
/// impl<S> Observer<S> for Losses {
///     fn step(&mut self, report: &StepReport) {
///         self.0.extend(report.loss);
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The fold of a cross-validation, counted from 1. Each fold begins with the first epoch.
    pub fold: Option<usize>,
    /// The step, counted from 1.
    pub step: usize,
    /// The number of steps of the epoch.
    pub num_steps: usize,
    /// The mean loss over the seeds of the step.
    pub loss: Option<f64>,
    /// The number of seeds of the step.
    pub num_seeds: u64,
    /// The time for which this rank waited for its batch.
    pub waited: Duration,
}

/// An observer of a training run. `()` is an observer that ignores everything.
pub trait Observer<S> {
    /// Called before training starts if the model has taken over weights of a saved model.
    fn warm_started(&mut self, _report: &WarmStartReport) {}

    /// Called once when training starts, with the number of trained values.
    fn started(&mut self, _parameters: ParameterCount) {}

    /// Called with the measured costs if [`FitConfig::profiled_steps`](crate::FitConfig::profiled_steps) asks for them.
    fn profiled(&mut self, _profile: &BatchProfile) {}

    /// Called after each step.
    fn step(&mut self, _report: &StepReport) {}

    /// Called after each step of an evaluation on the validation or test data. An evaluation layer by layer computes
    /// the rows of all nodes before, and counts the steps of each of its parts anew.
    fn evaluation_step(&mut self, _split: Split, _step: InferenceStep) {}

    /// Called at the end of each epoch.
    ///
    /// # Errors
    /// The report cannot be written. An error ends the run.
    fn epoch(&mut self, _report: &EpochReport<S>) -> std::io::Result<()> {
        Ok(())
    }

    /// Called when a model is the best so far, on all ranks at the same time, so that it may use collectives.
    ///
    /// # Errors
    /// The model cannot be saved. An error ends the run.
    fn improved(&mut self, _best: &BestModel<'_>, _world: &mut ProcessGroup) -> std::io::Result<()> {
        Ok(())
    }
}

impl<S> Observer<S> for () {}

/// A receiver of the steps of an evaluation that tells an observer of them.
pub(super) struct EvaluationSteps<'a, S> {
    split: Split,
    observer: RefCell<&'a mut dyn Observer<S>>,
}

impl<'a, S> EvaluationSteps<'a, S> {
    pub(super) fn new(split: Split, observer: &'a mut dyn Observer<S>) -> Self {
        Self { split, observer: RefCell::new(observer) }
    }
}

impl<S> InferenceProgress for EvaluationSteps<'_, S> {
    fn step(&self, step: InferenceStep) {
        self.observer.borrow_mut().evaluation_step(self.split, step);
    }
}
