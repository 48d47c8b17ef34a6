//! The lines of epochs of models for nodes, edges and graphs.

use crate::progress::named_values::NamedValues;
use crate::progress::reporter::{EpochText, cost, number, percent, shown};
use edgecut_trainer::{EpochReport, SeedScores};
use serde_json::{Value, json};

/// Formats the accuracy of the training batches, with a comma behind it; empty if the loss counts no correct predictions.
pub(super) fn train(report: &EpochReport<SeedScores>) -> String {
    match report.train_acc {
        Some(accuracy) => format!("train {}, ", percent(Some(accuracy))),
        None => String::new(),
    }
}

/// Formats the scores on the validation data: the accuracy if it is defined, and the metrics.
pub(super) fn valid(report: &EpochReport<SeedScores>) -> String {
    let accuracy = report.valid.as_ref().and_then(|valid| valid.accuracy);
    let mut texts = Vec::new();
    if accuracy.is_some() || report.metric == "accuracy" {
        texts.push(percent(accuracy));
    }
    for (name, value) in valid_metrics(report).iter().filter(|(name, _)| name != "accuracy") {
        texts.push(format!("{name} {}", shown(name, *value)));
    }
    texts.join(", ")
}

/// Returns the metrics on the validation data; the one that selects the best epoch without a value if there was no
/// validation.
pub(super) fn valid_metrics(report: &EpochReport<SeedScores>) -> NamedValues {
    match &report.valid {
        Some(valid) => (&valid.metrics).into(),
        None => vec![(report.metric.clone(), None)].into(),
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

    fn words(&self, report: &EpochReport<SeedScores>, num_epochs: u64) -> String {
        format!(
            "epoch {}/{num_epochs}: loss {}, {}valid {}, {}",
            report.epoch,
            number(report.loss),
            train(report),
            valid(report),
            cost(&report.cost),
        )
    }
}
