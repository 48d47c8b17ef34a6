//! The loss of several labels.

use super::numbers::Numbers;
use super::{Loss, LossSettings, LossSum, OutputKind, Target, TargetError};
use crate::loss::SeedTotals;
use burn::tensor::Tensor;
use burn::tensor::activation::log_sigmoid;
use edgecut_gnn::ops::GnnBackend;

/// The binary cross entropy of each known label, as `torch.nn.BCEWithLogitsLoss(pos_weight)`. Each output is the logit of a label.
///
/// With `gamma` above 0 it is the focal loss of Lin et al. ("Focal loss for dense object detection", ICCV 2017): a label that is
/// predicted with the probability `p` weighs `(1 - p)^gamma`.
#[derive(Clone, Debug, PartialEq)]
pub struct BinaryCrossEntropy {
    /// The exponent of the focal loss, from 0 to 100.
    pub gamma: f64,
    /// The weight of labels that apply, above 0.
    pub positive_weight: f64,
}

impl Loss for BinaryCrossEntropy {
    const NAME: &'static str = "bce";
    const ABOUT: &'static str = "binary cross entropy of each of several labels; settings `positive_weight` [default: 1] of labels \
                                 that apply, and `gamma` [default: 0] of the focal loss";
    const NEEDS: &'static str = "labels that are 1, 0 or unknown";

    fn with_settings(settings: &mut LossSettings) -> Result<Self, String> {
        let gamma = settings.take("gamma", 0.0)?;
        let positive_weight = settings.take("positive_weight", 1.0)?;
        if !(0.0..=100.0).contains(&gamma) {
            return Err(format!("`gamma` {gamma} of the loss bce is not from 0 to 100"));
        }
        if positive_weight > 0.0 && positive_weight < f64::INFINITY {
            Ok(Self { gamma, positive_weight })
        } else {
            Err(format!("`positive_weight` {positive_weight} of the loss bce is not a finite number above 0"))
        }
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
        let log_applies = log_sigmoid(outputs.clone());
        let log_applies_not = log_sigmoid(outputs.clone().neg());
        let mut applies = log_applies.clone() * labels.values.clone();
        let mut applies_not = log_applies_not.clone() * labels.values.clone().neg().add_scalar(1.0);
        if self.positive_weight != 1.0 {
            applies = applies.mul_scalar(self.positive_weight);
        }
        if self.gamma > 0.0 {
            // The powers of the probabilities of the other outcome.
            applies = applies * log_applies_not.mul_scalar(self.gamma).exp();
            applies_not = applies_not * log_applies.mul_scalar(self.gamma).exp();
        }
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
