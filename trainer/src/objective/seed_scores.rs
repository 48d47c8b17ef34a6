//! The scores of a model on the nodes or graphs of a split.

use crate::error::TrainError;
use crate::fit::{BatchResult, Evaluation, Outputs, SeedBatch, run_evaluation};
use crate::inference_progress::{InferenceProgress, InferenceStep};
use crate::loss::{OutputKind, Target};
use crate::metrics::{
    ClassCounts, ConfusionMatrix, Curve, CurveCounts, Decision, Metric, MetricState, MetricValues, OutputRows,
    host_rows,
};
use crate::objective::Objective;
use crate::objective::decision_rule::ValidationRows;
use burn::tensor::backend::Backend;
use edgecut_cluster::{ClusterError, ProcessGroup};
use edgecut_dist_sampler::DistRows;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::Split;
use serde::Serialize;

/// The evaluation of a model on the nodes or graphs of one split.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SeedScores {
    /// The accuracy; `None` without seeds, and for numbers.
    pub accuracy: Option<f64>,
    /// The metrics; the first selects the best epoch.
    pub metrics: MetricValues,
    /// The thresholds and the temperature of these scores; `None` for the greatest logit.
    #[serde(skip)]
    pub decision: Option<Decision>,
    /// The predictions on test data; empty for other data.
    #[serde(skip)]
    pub details: TestDetails,
}

/// The predictions on test data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestDetails {
    /// The predictions by label; `None` without classes, and for more than [`ConfusionMatrix::MAX_CLASSES`] classes.
    pub confusion: Option<ConfusionMatrix>,
    /// The counts of each class or label; `None` for numbers, and for more than [`ConfusionMatrix::MAX_CLASSES`].
    pub classes: Option<ClassCounts>,
    /// The curves of each class or label, if these are few.
    pub curves: Vec<Curve>,
}

/// The state of an evaluation: what the seeds of this rank have added so far.
pub(crate) struct ScoreState<'a> {
    pub(crate) split: Split,
    pub(crate) objective: &'a Objective,
    /// The outputs for all nodes, if they were computed.
    pub(crate) rows: Option<&'a DistRows>,
    progress: &'a dyn InferenceProgress,
    decision: Decision,
    /// The outputs of all batches, if they choose the decision.
    kept: Option<ValidationRows>,
    columns: usize,
    counts: Counts,
}

impl<'a> ScoreState<'a> {
    /// Starts the evaluation of a split by the decision that is chosen on it if it is the validation data. `chosen` is the
    /// decision of the validation data, for other data. `progress` is told of each batch.
    pub(crate) fn new(
        split: Split,
        chosen: Option<&Decision>,
        objective: &'a Objective,
        progress: &'a dyn InferenceProgress,
    ) -> Self {
        let Objective { rule, outputs, .. } = objective;
        let chooses = split == Split::Valid && rule.reads_data();
        Self {
            split,
            objective,
            rows: None,
            progress,
            decision: chosen.cloned().unwrap_or_else(|| rule.without_data(*outputs)),
            kept: chooses.then(ValidationRows::default),
            columns: objective.num_outputs(),
            counts: Counts::new(split, objective),
        }
    }

    /// Adds a batch; `None` has no seeds.
    pub(crate) fn add<B: Backend>(&mut self, outputs: Option<Outputs<B>>) {
        let Some(Outputs { values, target }) = outputs else { return };
        let [_, columns] = values.dims();
        self.columns = columns;
        let values = host_rows(&values);
        match &mut self.kept {
            Some(kept) => kept.add(&values, target),
            None => self.counts.add(&OutputRows::new(&values, columns).decided_by(&self.decision), &target),
        }
    }

    /// Returns the scores over the seeds of all ranks. Every rank must call this.
    pub(crate) fn scores(mut self, world: &mut ProcessGroup) -> Result<SeedScores, ClusterError> {
        let Objective { rule, outputs, .. } = self.objective;
        if let Some(kept) = &self.kept {
            self.decision = rule.choose(kept, *outputs, self.columns, world)?;
            if let Some(target) = &kept.target {
                let rows = OutputRows::new(&kept.outputs, self.columns).decided_by(&self.decision);
                self.counts.add(&rows, target);
            }
        }
        let mut scores = self.counts.scores(world)?;
        scores.decision = rule.decides().then_some(self.decision);
        Ok(scores)
    }
}

/// The state of all scores.
struct Counts {
    /// `None` if it is among the metrics, or not defined.
    accuracy: Option<Box<dyn MetricState>>,
    metrics: Vec<(Metric, Box<dyn MetricState>)>,
    details: TestDetails,
    curves: Option<CurveCounts>,
}

impl Counts {
    fn new(split: Split, objective: &Objective) -> Self {
        let Objective { metrics, outputs, .. } = objective;
        let outputs = *outputs;
        let accuracy = "accuracy".parse::<Metric>().ok().filter(|accuracy| accuracy.problem(outputs).is_none());
        let accuracy = accuracy.filter(|accuracy| !metrics.contains(*accuracy));
        let mut details = TestDetails::default();
        let mut curves = None;
        if split == Split::Test {
            if let OutputKind::Classes(num_classes) = outputs {
                details.confusion = ConfusionMatrix::new(num_classes);
            }
            let is_small = outputs.width() <= ConfusionMatrix::MAX_CLASSES;
            if is_small && !matches!(outputs, OutputKind::Numbers(_)) {
                details.classes = Some(ClassCounts::new(outputs.width()));
            }
            curves = CurveCounts::new(outputs, &objective.rule.start);
        }
        Self {
            accuracy: accuracy.map(|accuracy| accuracy.start(outputs)),
            metrics: metrics.iter().map(|metric| (metric, metric.start(outputs))).collect(),
            details,
            curves,
        }
    }

    fn add(&mut self, rows: &OutputRows<'_>, target: &Target) {
        for (_, metric) in &mut self.metrics {
            metric.add(rows, target);
        }
        if let Some(accuracy) = &mut self.accuracy {
            accuracy.add(rows, target);
        }
        if let Some(confusion) = &mut self.details.confusion {
            for (found, &label) in rows.classes().zip(target.classes()) {
                found.into_iter().for_each(|found| confusion.add(label, found));
            }
        }
        if let Some(classes) = &mut self.details.classes {
            classes.add_batch(rows, target);
        }
        if let Some(curves) = &mut self.curves {
            curves.add(rows, target);
        }
    }

    fn scores(self, world: &mut ProcessGroup) -> Result<SeedScores, ClusterError> {
        let mut values = Vec::with_capacity(self.metrics.len());
        for (metric, state) in self.metrics {
            values.push((metric, state.over_all_ranks(world)?));
        }
        let accuracy = match self.accuracy {
            Some(accuracy) => accuracy.over_all_ranks(world)?,
            None => values.iter().find(|(metric, _)| metric.name() == "accuracy").and_then(|(_, value)| *value),
        };
        let mut details = self.details;
        if let Some(confusion) = &mut details.confusion {
            confusion.all_reduce(world)?;
        }
        if let Some(classes) = &mut details.classes {
            classes.all_reduce(world)?;
        }
        if let Some(curves) = self.curves {
            details.curves = curves.curves(world)?;
        }
        Ok(SeedScores { accuracy, metrics: values.into_iter().collect(), decision: None, details })
    }
}

/// Computes the scores of a model on the batches of a split. Calls `fill` for each batch. Every rank must call this with as
/// many batches: ranks meet at each batch, which bounds the wait for a slow rank to the time of one batch.
pub(crate) fn scores_of_batches<B: GnnBackend, M, T: SeedBatch<B, M>>(
    run: &mut Evaluation<'_, M>,
    batches: impl IntoIterator<Item = BatchResult<T>>,
    fill: impl Fn(T) -> Result<T, TrainError>,
    mut state: ScoreState<'_>,
) -> Result<SeedScores, TrainError> {
    let batches = batches.into_iter();
    let world = &mut *run.world;
    let mut step = InferenceStep::before_first(&batches);
    run_evaluation(run.model, batches, fill, |outputs| {
        state.add(outputs);
        world.barrier()?;
        step.step += 1;
        state.progress.step(step);
        Ok(())
    })?;
    Ok(state.scores(world)?)
}
