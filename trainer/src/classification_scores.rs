//! The scores of a classifier of nodes or graphs.

use crate::fit::SeedTotals;
use crate::metrics::{ConfusionMatrix, Metric, MetricState, predictions};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_cluster::{ClusterError, ProcessGroup};
use edgecut_graph::Split;
use serde::Serialize;

/// The evaluation of a classifier on one split.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassificationScores {
    /// The accuracy; `None` without seeds.
    pub accuracy: Option<f64>,
    /// The metric that selects the best epoch; `None` if it is not defined on the split.
    pub metric: Option<f64>,
    /// The predictions on test data by label; `None` for other data, and for more than
    /// [`ConfusionMatrix::MAX_CLASSES`] classes.
    #[serde(skip)]
    pub confusion: Option<ConfusionMatrix>,
}

/// The state of an evaluation: what the seeds of this rank have added so far.
pub(crate) struct ClassificationState {
    /// `None` for the accuracy, which the totals of the evaluation contain already.
    metric: Option<MetricState>,
    confusion: Option<ConfusionMatrix>,
}

impl ClassificationState {
    pub(crate) fn new(split: Split, metric: Metric, num_classes: usize) -> Self {
        let has_confusion = split == Split::Test;
        Self {
            metric: (metric != Metric::Accuracy).then(|| MetricState::new(metric, num_classes)),
            confusion: has_confusion.then(|| ConfusionMatrix::new(num_classes)).flatten(),
        }
    }

    /// Adds a batch.
    ///
    /// # Shapes
    /// - `logits`: `[seeds, classes]`
    /// - `labels`: `[seeds]`
    pub(crate) fn add<B: Backend>(&mut self, logits: &Tensor<B, 2>, labels: &[i64]) {
        if let Some(metric) = &mut self.metric {
            metric.add(logits, labels);
        }
        let [rows, classes] = logits.dims();
        if let Some(confusion) = self.confusion.as_mut().filter(|_| rows > 0 && classes > 0) {
            for (found, &label) in predictions(logits).into_iter().zip(labels) {
                found.into_iter().for_each(|found| confusion.add(label, found));
            }
        }
    }

    /// Returns the scores over the seeds of all ranks, which have these totals. Every rank must call this.
    pub(crate) fn scores(
        self,
        totals: &SeedTotals,
        world: &mut ProcessGroup,
    ) -> Result<ClassificationScores, ClusterError> {
        let metric = match self.metric {
            None => totals.accuracy(),
            Some(metric) => metric.over_all_ranks(world)?,
        };
        let mut confusion = self.confusion;
        if let Some(confusion) = &mut confusion {
            confusion.all_reduce(world)?;
        }
        Ok(ClassificationScores { accuracy: totals.accuracy(), metric, confusion })
    }
}
