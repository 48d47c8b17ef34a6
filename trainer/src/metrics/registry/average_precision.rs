//! The average precision.

use crate::loss::OutputKind;
use crate::metrics::gathered_scores::GatheredScores;
use crate::metrics::metric::MetricEntry;
use crate::metrics::scored_columns::ScoredColumns;

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "average-precision",
    label: "average precision",
    about: "average precision of the positive one of two classes, or its mean over several labels",
    higher_is_better: true,
    is_share: true,
    is_of_class: true,
    needs: "two classes, or labels",
    accepts: |outputs| matches!(outputs, OutputKind::Classes(2) | OutputKind::Labels(_)),
    start: |outputs| {
        Box::new(ScoredColumns::new(outputs, |scored, world| {
            Ok(GatheredScores::of_all_ranks(&scored, world)?.average_precision())
        }))
    },
};
