//! F1 over all decisions.

use crate::loss::OutputKind;
use crate::metrics::class_counts::ClassCounts;
use crate::metrics::metric::MetricEntry;

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "micro-f1",
    label: "micro F1",
    about: "F1 over all decisions; with one class per seed it equals the accuracy",
    higher_is_better: true,
    is_share: true,
    is_of_class: false,
    needs: "classes or labels",
    accepts: |outputs| !matches!(outputs, OutputKind::Numbers(_)),
    start: |outputs| match outputs {
        OutputKind::Classes(_) => ClassCounts::state(outputs, ClassCounts::micro_f1),
        _ => ClassCounts::state(outputs, ClassCounts::micro_f1_of_labels),
    },
};
