//! The lines of epochs of models for nodes, edges and graphs.

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

/// Formats the scores on the validation data: the accuracy if it is defined, and the metric that selects the best epoch.
pub(super) fn valid(report: &EpochReport<SeedScores>) -> String {
    let accuracy = report.valid.as_ref().and_then(|valid| valid.accuracy);
    if report.metric == "accuracy" {
        return percent(accuracy);
    }
    let metric = format!("{} {}", report.metric, shown(&report.metric, report.valid_metric));
    match accuracy {
        Some(accuracy) => format!("{}, {metric}", percent(Some(accuracy))),
        None => metric,
    }
}

/// The report of an epoch of a model for nodes or edges.
pub(super) struct SeedText;

impl EpochText<SeedScores> for SeedText {
    fn fields(&self, report: &EpochReport<SeedScores>) -> Value {
        let valid_acc = report.valid.as_ref().and_then(|valid| valid.accuracy);
        json!({ "seeds": report.num_seeds, "valid_acc": valid_acc })
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
