//! The loss of several labels.

use super::numbers::Numbers;
use super::{Loss, LossSettings, LossSum, OutputKind, Target, TargetError};
use crate::loss::SeedTotals;
use burn::tensor::Tensor;
use burn::tensor::activation::log_sigmoid;
use edgecut_gnn::ops::GnnBackend;

/// The binary cross entropy of each known label, as `torch.nn.BCEWithLogitsLoss`. Each output is the logit of a label.
#[derive(Clone, Debug, PartialEq)]
pub struct BinaryCrossEntropy;

impl Loss for BinaryCrossEntropy {
    const NAME: &'static str = "bce";
    const ABOUT: &'static str = "binary cross entropy of each of several labels";
    const NEEDS: &'static str = "labels that are 1, 0 or unknown";

    fn with_settings(_settings: &mut LossSettings) -> Result<Self, String> {
        Ok(Self)
    }

    fn outputs(&self, targets: OutputKind) -> Option<OutputKind> {
        if matches!(targets, OutputKind::Labels(_)) { Some(targets) } else { None }
    }

    fn default_metric(&self) -> &'static str {
        "micro-f1"
    }

    fn sum<B: GnnBackend>(&self, outputs: Tensor<B, 2>, target: &Target) -> Result<LossSum<B>, TargetError> {
        let labels = Numbers::new::<Self>(&outputs, target)?;
        // The sum of the entropies of both outcomes, each weighted by its label.
        let applies = log_sigmoid(outputs.clone()) * labels.values.clone();
        let applies_not = log_sigmoid(outputs.clone().neg()) * labels.values.clone().neg().add_scalar(1.0);
        let losses = labels.known(applies + applies_not).neg();
        let predicted = outputs.greater_elem(0.0).float();
        let wrong = labels.known((predicted - labels.values.clone()).abs()).sum().detach();
        let mut loss = labels.sum(losses);
        let correct = wrong.neg().add_scalar(loss.weight);
        loss.totals = Tensor::cat(vec![loss.sum.clone().detach(), correct], 0);
        Ok(loss)
    }

    fn accuracy(&self, totals: &SeedTotals) -> Option<f64> {
        (totals.weight > 0.0).then(|| totals.correct / totals.weight)
    }
}
