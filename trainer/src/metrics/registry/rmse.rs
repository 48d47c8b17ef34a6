//! The root mean squared error.

use crate::loss::OutputKind;
use crate::metrics::error_sums::ErrorSums;
use crate::metrics::metric::MetricEntry;

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "rmse",
    label: "RMSE",
    about: "root of the mean squared error of the known numbers",
    higher_is_better: false,
    is_share: false,
    is_of_class: false,
    needs: "numbers",
    accepts: |outputs| matches!(outputs, OutputKind::Numbers(_)),
    start: |outputs| {
        ErrorSums::state(outputs, |columns| ErrorSums::total(columns, |column| column.squared).map(f64::sqrt))
    },
};
