//! The focal loss.

use super::class_weights::ClassWeights;
use super::cross_entropy::{check_labels, classes_of};
use super::{Loss, LossSettings, LossSum, OutputKind, Target, TargetError};
use crate::loss::SeedTotals;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::{GnnBackend, cross_entropy_sum};

/// The focal loss of classes, `-w[y] (1 - p[y])^gamma log p[y]` for a seed of class `y` with the probabilities `p`: seeds
/// that are predicted well weigh less, so that rare classes count (Lin et al., "Focal loss for dense object detection",
/// ICCV 2017). Seeds are averaged with the weights `w[y]`, as in the cross entropy, which `gamma` 0 is.
#[derive(Clone, Debug, PartialEq)]
pub struct Focal {
    /// The exponent, 0 or at least 1.
    pub gamma: f64,
    /// The weights of the classes.
    pub class_weights: ClassWeights,
}

impl Loss for Focal {
    const NAME: &'static str = "focal";
    const ABOUT: &'static str = "focal loss of rare classes; settings `gamma` [default: 2] and `class_weights`";
    const NEEDS: &'static str = "classes";

    fn with_settings(settings: &mut LossSettings) -> Result<Self, String> {
        let gamma = settings.take("gamma", 2.0)?;
        let class_weights = settings.take("class_weights", ClassWeights::Equal)?;
        // The gradient of smaller exponents is not bounded.
        if gamma == 0.0 || (1.0..=100.0).contains(&gamma) {
            Ok(Self { gamma, class_weights })
        } else {
            Err(format!("`gamma` {gamma} of the loss focal is neither 0 nor from 1 to 100"))
        }
    }

    fn outputs(&self, targets: OutputKind) -> Option<OutputKind> {
        if matches!(targets, OutputKind::Classes(_)) { Some(targets) } else { None }
    }

    fn default_metric(&self) -> &'static str {
        "accuracy"
    }

    fn class_weights(&mut self) -> Option<&mut ClassWeights> {
        Some(&mut self.class_weights)
    }

    fn sum<B: GnnBackend>(&self, outputs: Tensor<B, 2>, target: &Target) -> Result<LossSum<B>, TargetError> {
        let Target::Classes(labels) = target else { return Err(TargetError::other_kind::<Self>("numbers")) };
        check_labels(&outputs, labels)?;
        let [num_seeds, num_classes] = outputs.dims();
        let device = outputs.device();
        let weights = self.class_weights.of_classes(num_classes)?;
        if num_seeds == 0 {
            return Ok(LossSum::without_seeds(&device));
        }
        let mut weight = 0.0;
        let mut weight_of_label = vec![0.0; num_seeds * num_classes];
        let mut is_label = vec![0.0; num_seeds * num_classes];
        for (row, &label) in labels.iter().enumerate() {
            let at = row * num_classes + label as usize;
            weight += weights[label as usize];
            weight_of_label[at] = weights[label as usize];
            is_label[at] = 1.0;
        }
        let matrix =
            |values: Vec<f64>| Tensor::<B, 2>::from_data(TensorData::new(values, [num_seeds, num_classes]), &device);
        let (_, totals) = cross_entropy_sum(outputs.clone(), classes_of(labels, &device));
        let log = log_softmax(outputs, 1);
        let others = (log.clone().exp() * matrix(is_label)).sum_dim(1).neg().add_scalar(1.0).clamp_min(0.0);
        let focus = if self.gamma == 0.0 { others.ones_like() } else { others.powf_scalar(self.gamma) };
        let sum = (log * matrix(weight_of_label) * focus).sum().neg();
        let totals = Tensor::cat(vec![sum.clone().detach(), totals.narrow(0, 1, 1)], 0);
        Ok(LossSum { sum, totals, num_seeds, weight })
    }

    fn accuracy(&self, totals: &SeedTotals) -> Option<f64> {
        totals.accuracy()
    }
}
