//! The scores of a model on the nodes or graphs of a split.

use crate::error::TrainError;
use crate::fit::{BatchResult, Outputs, SeedBatch, run_evaluation};
use crate::loss::OutputKind;
use crate::metrics::{ConfusionMatrix, Metric, MetricState, OutputRows, host_rows};
use crate::objective::Objective;
use burn::tensor::backend::Backend;
use edgecut_cluster::{ClusterError, ProcessGroup};
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::Split;
use serde::Serialize;

/// The evaluation of a model on the nodes or graphs of one split.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SeedScores {
    /// The accuracy; `None` without seeds, and for numbers.
    pub accuracy: Option<f64>,
    /// The metric that selects the best epoch; `None` if it is not defined on the split.
    pub metric: Option<f64>,
    /// The predictions on test data by label; `None` for other data, without classes, and for more than
    /// [`ConfusionMatrix::MAX_CLASSES`] classes.
    #[serde(skip)]
    pub confusion: Option<ConfusionMatrix>,
}

/// The state of an evaluation: what the seeds of this rank have added so far.
pub(crate) struct ScoreState {
    /// `None` if it is the metric, or not defined.
    accuracy: Option<Box<dyn MetricState>>,
    metric: Box<dyn MetricState>,
    is_accuracy: bool,
    confusion: Option<ConfusionMatrix>,
}

impl ScoreState {
    pub(crate) fn new(split: Split, objective: &Objective) -> Self {
        let Objective { metric, outputs, .. } = *objective;
        let accuracy = "accuracy".parse::<Metric>().ok().filter(|accuracy| accuracy.problem(outputs).is_none());
        let is_accuracy = accuracy == Some(metric);
        let confusion = match outputs {
            OutputKind::Classes(num_classes) if split == Split::Test => ConfusionMatrix::new(num_classes),
            _ => None,
        };
        let accuracy = accuracy.filter(|_| !is_accuracy).map(|accuracy| accuracy.start(outputs));
        Self { accuracy, metric: metric.start(outputs), is_accuracy, confusion }
    }

    /// Adds a batch; `None` has no seeds.
    pub(crate) fn add<B: Backend>(&mut self, outputs: Option<Outputs<B>>) {
        let Some(Outputs { values, target }) = outputs else { return };
        let [_, columns] = values.dims();
        let values = host_rows(&values);
        let rows = OutputRows::new(&values, columns);
        self.metric.add(&rows, &target);
        if let Some(accuracy) = &mut self.accuracy {
            accuracy.add(&rows, &target);
        }
        if let Some(confusion) = &mut self.confusion {
            for (found, &label) in rows.classes().zip(target.classes()) {
                found.into_iter().for_each(|found| confusion.add(label, found));
            }
        }
    }

    /// Returns the scores over the seeds of all ranks. Every rank must call this.
    pub(crate) fn scores(self, world: &mut ProcessGroup) -> Result<SeedScores, ClusterError> {
        let metric = self.metric.over_all_ranks(world)?;
        let accuracy = match self.accuracy {
            Some(accuracy) => accuracy.over_all_ranks(world)?,
            None if self.is_accuracy => metric,
            None => None,
        };
        let mut confusion = self.confusion;
        if let Some(confusion) = &mut confusion {
            confusion.all_reduce(world)?;
        }
        Ok(SeedScores { accuracy, metric, confusion })
    }
}

/// Computes the scores of a model on the batches of a split. Calls `fill` for each batch. Every rank must call this with as
/// many batches: ranks meet at each batch, which bounds the wait for a slow rank to the time of one batch.
pub(crate) fn scores_of_batches<B: GnnBackend, M, T: SeedBatch<B, M>>(
    model: &M,
    batches: impl IntoIterator<Item = BatchResult<T>>,
    fill: impl Fn(T) -> Result<T, TrainError>,
    mut state: ScoreState,
    world: &mut ProcessGroup,
) -> Result<SeedScores, TrainError> {
    run_evaluation(model, batches, fill, |outputs| {
        state.add(outputs);
        Ok(world.barrier()?)
    })?;
    Ok(state.scores(world)?)
}
