//! The coefficient of determination.

use crate::loss::OutputKind;
use crate::metrics::error_sums::ErrorSums;
use crate::metrics::metric::MetricEntry;

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "r2",
    label: "R²",
    about: "coefficient of determination, 1 at best; the mean over several numbers",
    higher_is_better: true,
    is_share: false,
    is_of_class: false,
    needs: "numbers",
    accepts: |outputs| matches!(outputs, OutputKind::Numbers(_)),
    start: |outputs| ErrorSums::state(outputs, r2),
};

/// Returns the mean over the columns whose values are not all equal, `None` if there is no such column.
fn r2(columns: &[ErrorSums]) -> Option<f64> {
    let mut sum = 0.0;
    let mut num_defined = 0_u32;
    for column in columns {
        if column.variation > 0.0 {
            sum += 1.0 - column.squared / column.variation;
            num_defined += 1;
        }
    }
    (num_defined > 0 && sum.is_finite()).then(|| sum / f64::from(num_defined))
}
