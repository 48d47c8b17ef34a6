//! The mean absolute error.

use crate::loss::OutputKind;
use crate::metrics::error_sums::ErrorSums;
use crate::metrics::metric::MetricEntry;

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "mae",
    label: "MAE",
    about: "mean absolute error of the known numbers",
    higher_is_better: false,
    is_share: false,
    is_of_class: false,
    needs: "numbers",
    accepts: |outputs| matches!(outputs, OutputKind::Numbers(_)),
    start: |outputs| ErrorSums::state(outputs, |columns| ErrorSums::total(columns, |column| column.absolute)),
};
