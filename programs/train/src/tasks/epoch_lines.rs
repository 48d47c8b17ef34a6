//! The lines of epochs of models for nodes, edges and graphs.

use crate::progress::epoch_table::scores_of;
use crate::progress::named_values::NamedValues;
use crate::progress::reporter::EpochText;
use crate::run_page::{MetricName, percent};
use edgecut_trainer::{EpochReport, SeedScores};
use serde_json::{Value, json};

/// Formats the scores on the validation data: the metrics, and the accuracy if it is defined.
pub(super) fn scores(report: &EpochReport<SeedScores>) -> Vec<String> {
    let metrics = valid_metrics(report);
    let mut texts = scores_of(&metrics);
    let accuracy = report.valid.as_ref().and_then(|valid| valid.accuracy);
    if accuracy.is_some() && metrics.iter().all(|(metric, _)| !metric.is_accuracy()) {
        texts.push(format!("accuracy {}", percent(accuracy)));
    }
    texts
}

/// Returns the metrics on the validation data; the one that selects the best epoch without a value if there was no
/// validation.
pub(super) fn valid_metrics(report: &EpochReport<SeedScores>) -> NamedValues {
    match &report.valid {
        Some(valid) => (&valid.metrics).into(),
        None => vec![(MetricName::of(&report.metric), None)].into(),
    }
}

/// The report of an epoch of a model for nodes or edges.
pub(super) struct SeedText;

impl EpochText<SeedScores> for SeedText {
    fn fields(&self, report: &EpochReport<SeedScores>) -> Value {
        let valid_acc = report.valid.as_ref().and_then(|valid| valid.accuracy);
        json!({ "seeds": report.num_seeds, "valid_acc": valid_acc })
    }

    fn metrics(&self, report: &EpochReport<SeedScores>) -> NamedValues {
        valid_metrics(report)
    }

    fn scores(&self, report: &EpochReport<SeedScores>) -> Vec<String> {
        scores(report)
    }
}
