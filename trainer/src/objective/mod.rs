//! The objective of a training: its loss, and the metric that selects the best epoch.

pub(crate) mod seed_result;
pub(crate) mod seed_scores;

use crate::error::TrainError;
use crate::fit::Selection;
use crate::loss::{AnyLoss, OutputKind};
use crate::metrics::Metric;
use crate::model_file::SavedLoss;

/// A loss and a metric that fit the targets of a dataset.
#[derive(Clone, Debug)]
pub(crate) struct Objective {
    pub(crate) loss: AnyLoss,
    pub(crate) metric: Metric,
    /// The meaning of the model's outputs.
    pub(crate) outputs: OutputKind,
}

impl Objective {
    /// Checks a loss and a metric against the targets. `None` selects the default loss of the targets, and the default
    /// metric of the loss.
    ///
    /// # Errors
    /// [`TrainError::Config`] if the loss does not fit the targets, or the metric the outputs.
    pub(crate) fn new(
        loss: Option<&AnyLoss>,
        metric: Option<Metric>,
        targets: OutputKind,
        dataset: &str,
    ) -> Result<Self, TrainError> {
        let fail = |what: String| TrainError::Config { what: format!("dataset {dataset}: {what}") };
        let Some(loss) = loss.cloned().or_else(|| AnyLoss::all_for(targets).next()) else {
            return Err(fail(format!("no loss applies to its targets: {targets}")));
        };
        let outputs = loss.outputs(targets).map_err(fail)?;
        let metric = match metric {
            Some(metric) => metric,
            None => loss.default_metric().parse().map_err(|error| fail(format!("{error}")))?,
        };
        match metric.problem(outputs) {
            Some(what) => Err(fail(what)),
            None => Ok(Self { loss, metric, outputs }),
        }
    }

    /// Returns the metric that selects the best epoch.
    pub(crate) fn selection(&self) -> Selection {
        Selection { metric: self.metric.to_string(), higher_is_better: self.metric.higher_is_better() }
    }

    /// Returns the loss as a model file names it.
    pub(crate) fn saved_loss(&self) -> SavedLoss {
        SavedLoss { name: self.loss.name().to_owned(), outputs: Some(self.outputs) }
    }

    /// Returns the default metric as a setting, for errors.
    pub(crate) fn default_metric(&self) -> String {
        format!("`metric={}`", self.loss.default_metric())
    }

    /// Returns the number of outputs of the model for a seed.
    pub(crate) fn num_outputs(&self) -> usize {
        self.loss.num_outputs(self.outputs)
    }
}
