//! The metrics of seeds, a file each.

mod accuracy;
mod average_precision;
mod calibration_error;
mod log_loss;
mod macro_f1;
mod macro_precision;
mod mae;
mod micro_f1;
mod r2;
mod rmse;
mod roc_auc;

use super::metric::MetricEntry;

/// Declares the list of the metrics' entries.
macro_rules! metrics {
    ($($module:ident),* $(,)?) => {
        /// The metrics in the order in which help and errors list them.
        pub(super) const ALL: &[&MetricEntry] = &[$(&$module::ENTRY),*];
    };
}

metrics! {
    accuracy,
    roc_auc,
    average_precision,
    micro_f1,
    macro_f1,
    macro_precision,
    log_loss,
    calibration_error,
    rmse,
    mae,
    r2,
}
