//! The lines of epochs of models for nodes, edges and graphs.

use crate::progress::reporter::{EpochText, cost, number, percent, shown};
use edgecut_trainer::{EpochCost, EpochReport, SeedScores};
use serde::Serialize;

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

/// An epoch's line in the metrics file.
#[derive(Serialize)]
struct SeedLine<'a> {
    epoch: u64,
    seeds: u64,
    loss: Option<f64>,
    train_acc: Option<f64>,
    valid_acc: Option<f64>,
    metric: &'a str,
    valid_metric: Option<f64>,
    #[serde(flatten)]
    cost: &'a EpochCost,
}

impl EpochText<SeedScores> for SeedText {
    fn line(&self, report: &EpochReport<SeedScores>) -> impl Serialize {
        SeedLine {
            epoch: report.epoch,
            seeds: report.num_seeds,
            loss: report.loss,
            train_acc: report.train_acc,
            valid_acc: report.valid.as_ref().and_then(|valid| valid.accuracy),
            metric: &report.metric,
            valid_metric: report.valid_metric,
            cost: &report.cost,
        }
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
