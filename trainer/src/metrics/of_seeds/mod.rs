//! The metrics of seeds, a file each.

mod accuracy;
mod average_precision;
mod macro_f1;
mod micro_f1;
mod roc_auc;

use super::metric::MetricEntry;

/// The metrics in the order in which help and errors list them.
pub(super) const ALL: &[&MetricEntry] =
    &[&accuracy::ENTRY, &roc_auc::ENTRY, &average_precision::ENTRY, &micro_f1::ENTRY, &macro_f1::ENTRY];
