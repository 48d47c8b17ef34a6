//! The mean F1 of the classes.

use crate::loss::OutputKind;
use crate::metrics::class_counts::ClassCounts;
use crate::metrics::metric::MetricEntry;

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "macro-f1",
    label: "macro F1",
    about: "mean F1 of the classes or labels",
    higher_is_better: true,
    is_share: true,
    is_of_class: false,
    needs: "classes or labels",
    accepts: |outputs| !matches!(outputs, OutputKind::Numbers(_)),
    start: |outputs| ClassCounts::state(outputs, ClassCounts::macro_f1),
};
