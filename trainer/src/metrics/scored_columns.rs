//! Metrics of scores: of the positive one of two classes, or of each of several labels.

use super::metric::MetricState;
use super::output_rows::OutputRows;
use super::roc_auc::ScoredLabels;
use crate::loss::{OutputKind, Target};
use edgecut_cluster::{ClusterError, ProcessGroup};

/// Computes a metric of the scores of all ranks; `None` if it is not defined on them.
type OfScores = fn(ScoredLabels, &mut ProcessGroup) -> Result<Option<f64>, ClusterError>;

/// The scores of this rank's seeds: one column for two classes, or a column for each label.
pub(super) struct ScoredColumns {
    columns: Vec<ScoredLabels>,
    metric: OfScores,
}

impl ScoredColumns {
    pub(super) fn new(outputs: OutputKind, metric: OfScores) -> Self {
        Self { columns: no_scores(outputs), metric }
    }
}

/// Returns the columns of outputs, without seeds.
pub(crate) fn no_scores(outputs: OutputKind) -> Vec<ScoredLabels> {
    let columns = if let OutputKind::Labels(labels) = outputs { labels } else { 1 };
    vec![ScoredLabels::default(); columns]
}

/// Adds a batch to the columns of its outputs.
pub(crate) fn add_scores(columns: &mut [ScoredLabels], outputs: &OutputRows<'_>, target: &Target) {
    match target {
        Target::Classes(labels) => {
            let decision = outputs.decision();
            for (row, &label) in outputs.rows().zip(labels) {
                columns[0].push(decision.score_of(row), label == decision.positive_class() as i64);
            }
        }
        Target::Numbers { values, dim } => {
            for (logits, labels) in outputs.rows().zip(values.chunks_exact(*dim)) {
                for ((scored, &logit), &label) in columns.iter_mut().zip(logits).zip(labels) {
                    if !label.is_nan() {
                        scored.push(logit, label > 0.5);
                    }
                }
            }
        }
    }
}

impl MetricState for ScoredColumns {
    fn add(&mut self, outputs: &OutputRows<'_>, target: &Target) {
        add_scores(&mut self.columns, outputs, target);
    }

    /// Returns the mean over the columns on which the metric is defined, as the evaluators of OGB.
    fn over_all_ranks(self: Box<Self>, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        let mut sum = 0.0;
        let mut num_defined = 0_u32;
        for scored in self.columns {
            if let Some(value) = (self.metric)(scored, world)? {
                sum += value;
                num_defined += 1;
            }
        }
        Ok((num_defined > 0).then(|| sum / f64::from(num_defined)))
    }
}
