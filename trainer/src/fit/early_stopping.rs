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

    /// Returns true if `patience` validations in a row were not better than the best one, and always false if `patience` is 0. The
    /// metric covers the data of all ranks, so all of them stop at the same epoch.
    pub(super) fn is_due(&self, patience: Option<u64>) -> bool {
        patience.is_some_and(|patience| patience > 0 && self.num_worse >= patience)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validations_in_a_row_without_a_better_metric_end_the_training() {
        let mut stopping = EarlyStopping::new(Selection { metric: "loss".into(), higher_is_better: false });
        let mut best = None;
        // Equal metrics are not better.
        for (metric, num_worse) in [(2.0, 0), (2.0, 1), (3.0, 2), (1.0, 0), (1.5, 1), (1.5, 2)] {
            let is_better = stopping.validated(Some(metric), best, false);
            assert_eq!((is_better, stopping.num_worse), (num_worse == 0, num_worse), "{metric}");
            best = if is_better { Some(metric) } else { best };
        }
        for (patience, is_due) in [(None, false), (Some(0), false), (Some(1), true), (Some(2), true), (Some(3), false)]
        {
            assert_eq!(stopping.is_due(patience), is_due, "{patience:?}");
        }
    }
}
