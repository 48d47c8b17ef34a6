//! The loss of classification.

use super::class_weights::ClassWeights;
use super::{Loss, LossSettings, LossSum, OutputKind, Target, TargetError};
use crate::loss::SeedTotals;
use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use edgecut_gnn::ops::{GnnBackend, cross_entropy_sum};

/// The loss of classification: a cross entropy whose classes may have weights and whose targets may be smoothed. It equals
/// `torch.nn.CrossEntropyLoss(weight, label_smoothing)`.
///
/// With the weights `w`, the smoothing `e` and `K` classes, a seed of class `y` with the probabilities `p` has the loss
/// `-(1 - e) w[y] log p[y] - e / K sum_c w[c] log p[c]` and the weight `w[y]` (Szegedy et al. 2016, section 7).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossEntropy {
    /// The weights of the classes.
    pub class_weights: ClassWeights,
    /// The share of a target that is spread evenly over all classes, from 0 to 1.
    pub label_smoothing: f64,
}

impl Loss for CrossEntropy {
    const NAME: &'static str = "cross-entropy";
    const ABOUT: &'static str = "cross entropy of classes; settings `class_weights` and `label_smoothing`";
    const NEEDS: &'static str = "classes";

    fn with_settings(settings: &mut LossSettings) -> Result<Self, String> {
        let class_weights = settings.take("class_weights", ClassWeights::Equal)?;
        let label_smoothing = settings.take("label_smoothing", 0.0)?;
        if !(0.0..=1.0).contains(&label_smoothing) {
            return Err(format!("`label_smoothing` {label_smoothing} of the loss cross-entropy is not from 0 to 1"));
        }
        Ok(Self { class_weights, label_smoothing })
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
        if *self == Self::default() {
            return cross_entropy(outputs, labels);
        }
        self.weighted(outputs, labels)
    }

    fn accuracy(&self, totals: &SeedTotals) -> Option<f64> {
        totals.accuracy()
    }
}

/// Computes the cross entropy between logits and labels, and counts the correct predictions.
///
/// # Shapes
/// - `logits`: `[num_seeds, num_classes]`
/// - `labels`: `[num_seeds]`, from 0 to `num_classes - 1`
///
/// # Errors
/// [`TargetError`] if the number of labels differs from the number of rows, or if a label is not a class.
pub fn cross_entropy<B: GnnBackend>(logits: Tensor<B, 2>, labels: &[i64]) -> Result<LossSum<B>, TargetError> {
    check_labels(&logits, labels)?;
    let num_seeds = labels.len();
    let device = logits.device();
    if num_seeds == 0 {
        return Ok(LossSum::without_seeds(&device));
    }
    let (sum, totals) = cross_entropy_sum(logits, classes_of(labels, &device));
    Ok(LossSum { sum, totals, num_seeds, weight: num_seeds as f64 })
}

/// Checks that each row of the logits has a label that is a class.
pub(super) fn check_labels<B: Backend>(logits: &Tensor<B, 2>, labels: &[i64]) -> Result<(), TargetError> {
    let [num_seeds, num_classes] = logits.dims();
    let num_labels = labels.len();
    if num_labels != num_seeds {
        let what = format!("{num_labels} labels for {num_seeds} predictions, expected one label per prediction");
        return Err(TargetError(what));
    }
    let is_class = |label: i64| usize::try_from(label).is_ok_and(|label| label < num_classes);
    if let Some(row) = labels.iter().position(|&label| !is_class(label)) {
        let label = labels[row];
        return Err(TargetError(format!(
            "seed {row} of the batch has label {label}, but labels must be at least 0 and below {num_classes} classes"
        )));
    }
    Ok(())
}

pub(super) fn classes_of<B: Backend>(labels: &[i64], device: &B::Device) -> Tensor<B, 1, Int> {
    let classes = labels.iter().map(|&label| label as i32).collect::<Vec<_>>();
    Tensor::from_data(TensorData::new(classes, [labels.len()]), device)
}

impl CrossEntropy {
    /// Computes the loss with weights and smoothing.
    fn weighted<B: GnnBackend>(&self, logits: Tensor<B, 2>, labels: &[i64]) -> Result<LossSum<B>, TargetError> {
        check_labels(&logits, labels)?;
        let [num_seeds, num_classes] = logits.dims();
        let device = logits.device();
        let weights = self.class_weights.of_classes(num_classes)?;
        if num_seeds == 0 {
            return Ok(LossSum::without_seeds(&device));
        }
        let of_label = |&label: &i64| weights[label as usize];
        let weight: f64 = labels.iter().map(of_label).sum();
        let even = self.label_smoothing / num_classes as f64;
        let mut targets: Vec<f64> = weights.iter().map(|weight| even * weight).collect::<Vec<_>>().repeat(num_seeds);
        for (row, label) in targets.chunks_exact_mut(num_classes).zip(labels) {
            row[*label as usize] += (1.0 - self.label_smoothing) * of_label(label);
        }
        let targets = Tensor::<B, 2>::from_data(TensorData::new(targets, [num_seeds, num_classes]), &device);
        let (_, totals) = cross_entropy_sum(logits.clone(), classes_of(labels, &device));
        let correct = totals.narrow(0, 1, 1);
        let sum = (log_softmax(logits, 1) * targets).sum().neg();
        let totals = Tensor::cat(vec![sum.clone().detach(), correct], 0);
        Ok(LossSum { sum, totals, num_seeds, weight })
    }
}
