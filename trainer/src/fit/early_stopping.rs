//! The end of a training whose validations get no better.

use crate::metrics::Selection;

/// The comparison of validations with the best one, which ends a training early.
pub(super) struct EarlyStopping {
    selection: Selection,
    /// The number of validations since the best one.
    pub(super) num_worse: u64,
}

impl EarlyStopping {
    pub(super) fn new(selection: Selection) -> Self {
        Self { selection, num_worse: 0 }
    }

    /// Returns true if `patience` validations in a row were not better than the best one. The metric is that of all ranks, so
    /// all of them stop at the same epoch.
    pub(super) fn is_due(&self, patience: Option<u64>) -> bool {
        patience.is_some_and(|patience| self.num_worse >= patience.max(1))
    }

    /// Returns a measure of which greater values are better.
    pub(super) fn measure(&self, metric: Option<f64>) -> Option<f64> {
        let sign = if self.selection.higher_is_better { 1.0 } else { -1.0 };
        metric.map(|metric| sign * metric)
    }

    /// Notes the metric of a validation. Returns true if it is better than `best`, or the only one: without any metric, the
    /// model of the last epoch is the best.
    pub(super) fn validated(&mut self, metric: Option<f64>, best: Option<f64>, is_last: bool) -> bool {
        let is_better = match metric {
            Some(metric) => best.is_none_or(|best| self.selection.is_better(metric, best)),
            // A run that was resumed with more epochs has such a model already.
            None => is_last && best.is_none(),
        };
        self.num_worse = if is_better { 0 } else { self.num_worse + u64::from(metric.is_some()) };
        is_better
    }
}
