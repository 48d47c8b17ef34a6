//! The lines of epochs of models for nodes, edges and graphs.

use crate::progress::epoch_table::scores_of;
use crate::progress::named_values::NamedValues;
use crate::progress::reporter::EpochText;
use crate::run_page::{MetricName, percent};
use edgecut_trainer::{EpochReport, SeedScores};
use serde_json::{Value, json};

/// The report of an epoch of a model for nodes, edges or graphs.
#[derive(Default)]
pub(super) struct SeedText {
    pub(super) of_graphs: bool,
    /// True in a cross-validation whose epoch the test graphs select.
    pub(super) by_test: bool,
}

impl EpochText<SeedScores> for SeedText {
    fn fields(&self, report: &EpochReport<SeedScores>) -> Value {
        let valid_acc = report.valid.as_ref().and_then(|valid| valid.accuracy);
        if self.of_graphs {
            return json!({ "fold": report.fold, "graphs": report.num_seeds, "valid_acc": valid_acc });
        }
        json!({ "seeds": report.num_seeds, "valid_acc": valid_acc })
    }

    // Without a validation, the metric that selects the best epoch has no value.
    fn metrics(&self, report: &EpochReport<SeedScores>) -> NamedValues {
        match &report.valid {
            Some(valid) => (&valid.metrics).into(),
            None => vec![(MetricName::of(&report.metric), None)].into(),
        }
    }

    fn judge(&self) -> &'static str {
        if self.by_test { "test" } else { "valid" }
    }

    // The accuracy follows the metrics if it is defined.
    fn scores(&self, report: &EpochReport<SeedScores>) -> Vec<String> {
        let metrics = self.metrics(report);
        let mut texts = scores_of(&metrics);
        let accuracy = report.valid.as_ref().and_then(|valid| valid.accuracy);
        if accuracy.is_some() && metrics.iter().all(|(metric, _)| !metric.is_accuracy()) {
            texts.push(format!("accuracy {}", percent(accuracy)));
        }
        texts
    }
}
