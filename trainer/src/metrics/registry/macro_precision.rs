//! The mean precision of the classes.

use crate::loss::OutputKind;
use crate::metrics::class_counts::ClassCounts;
use crate::metrics::metric::MetricEntry;

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "macro-precision",
    label: "macro precision",
    about: "mean precision of the classes or labels, 0 for one that is never predicted",
    higher_is_better: true,
    is_share: true,
    is_of_class: false,
    needs: "classes or labels",
    accepts: |outputs| !matches!(outputs, OutputKind::Numbers(_)),
    start: |outputs| ClassCounts::state(outputs, macro_precision),
};

/// Returns the mean over the classes or labels that have seeds or predictions. For classes it equals scikit-learn's with
/// `zero_division=0`, which counts a label without positives and predictions as 0.
fn macro_precision(counts: &ClassCounts) -> Option<f64> {
    counts.mean_over_classes(
        |class| if class.predicted > 0 { class.correct as f64 / class.predicted as f64 } else { 0.0 },
    )
}
