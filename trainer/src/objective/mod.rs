//! The objective of a training: its loss, and the metric that selects the best epoch.

pub(crate) mod decision_rule;
pub(crate) mod scoring_config;
pub(crate) mod seed_evaluator;
pub(crate) mod seed_result;
pub(crate) mod seed_scores;

use crate::error::TrainError;
use crate::fit::Selection;
use crate::loss::{AnyLoss, OutputKind};
use crate::metrics::{Metric, MetricList};
use crate::objective::decision_rule::DecisionRule;
use crate::objective::scoring_config::ScoringConfig;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;

/// A loss and metrics that fit the targets of a dataset.
#[derive(Clone, Debug)]
pub(crate) struct Objective {
    pub(crate) loss: AnyLoss,
    /// The metrics of an evaluation. The first selects the best epoch.
    pub(crate) metrics: MetricList<Metric>,
    /// The choice of thresholds and temperature.
    pub(crate) rule: DecisionRule,
    /// The meaning of the model's outputs.
    pub(crate) outputs: OutputKind,
}

impl Objective {
    /// Checks a loss and metrics against the targets. `None` selects the default loss of the targets, and the default
    /// metric of the loss.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the loss does not fit the targets, or a metric, a threshold or a calibration the outputs.
    pub(crate) fn new(
        loss: Option<&AnyLoss>,
        scoring: &ScoringConfig,
        targets: OutputKind,
        dataset: &str,
    ) -> Result<Self, TrainError> {
        let fail = |what: String| TrainError::Config { what: format!("dataset {dataset}: {what}") };
        let Some(loss) = loss.cloned().or_else(|| AnyLoss::all_for(targets).next()) else {
            return Err(fail(format!("no loss applies to its targets: {targets}")));
        };
        let outputs = loss.outputs(targets).map_err(fail)?;
        let metrics = match &scoring.metrics {
            Some(metrics) => metrics.clone(),
            None => loss.default_metric().parse().map_err(fail)?,
        };
        let ScoringConfig { threshold, calibrate, positive_class, decision, .. } = scoring.clone();
        let start = match positive_class {
            Some(class) => decision.with_positive_class(class),
            None => decision,
        };
        let rule = DecisionRule { threshold, calibrate, positive_class, start };
        let problem = metrics.iter().find_map(|metric| metric.problem(outputs)).or_else(|| rule.problem(outputs));
        match problem {
            Some(what) => Err(fail(what)),
            None => Ok(Self { loss, metrics, rule, outputs }),
        }
    }

    /// Checks that there is validation data, if it chooses thresholds or a temperature.
    ///
    /// # Errors
    /// [`TrainError::Config`] without validation data.
    pub(crate) fn check_validation(&self, num_seeds: usize) -> Result<(), TrainError> {
        if num_seeds > 0 || !self.rule.reads_data() {
            return Ok(());
        }
        let what = "`calibrate` and `threshold=best-f1` choose on the validation data, and there is none: give it a split, or \
                    leave them out";
        Err(TrainError::config(what))
    }

    /// Returns the metric that selects the best epoch.
    pub(crate) fn selection(&self) -> Selection {
        let metric = self.metrics.first();
        Selection { metric: metric.to_string(), higher_is_better: metric.higher_is_better() }
    }

    /// Returns the number of outputs of the model for a seed.
    pub(crate) fn num_outputs(&self) -> usize {
        self.loss.num_outputs(self.outputs)
    }
}

/// Counts the labels of training seeds by class over all parts. `count` adds the labels of this process's part. Every rank
/// must call this.
pub(crate) fn count_train_labels(
    graph: &DistGraph,
    num_classes: usize,
    world: &mut ProcessGroup,
    count: impl FnOnce(&mut [u64]),
) -> Result<Vec<u64>, TrainError> {
    if graph.is_client() {
        return Err(TrainError::config("servers do not count labels: give a number per class (`class_weights`)"));
    }
    let part = graph.part();
    // Several ranks may hold a part. The last of them counts.
    let own = part.id().0 as usize;
    let mut holders = vec![0; part.meta().num_parts as usize];
    holders[own] = world.rank() as u64;
    world.all_reduce(&mut holders, ReduceOp::Max)?;
    let mut counts = vec![0; num_classes];
    if holders[own] == world.rank() as u64 {
        count(&mut counts);
    }
    world.all_reduce(&mut counts, ReduceOp::Sum)?;
    Ok(counts)
}
