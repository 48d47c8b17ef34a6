//! The metrics of seeds, a file each.

use super::metric::MetricEntry;

/// Declares the modules of metrics, and the list of their entries.
macro_rules! metrics {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

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
    rmse,
    mae,
    r2,
}
