//! The loss and the accuracy of classification.

use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use thiserror::Error;

use super::class_weights::ClassWeights;
use crate::ops::{GnnBackend, cross_entropy_sum};

/// The loss and the number of correct predictions of a batch.
///
/// ```
/// use burn::tensor::Tensor;
/// use edgecut_trainer::Cpu;
/// use edgecut_trainer::nn::cross_entropy;
/// let logits = Tensor::<Cpu, 2>::from_data([[5.0, 5.0]], &Default::default());
/// let result = cross_entropy(logits, &[1])?;
/// let loss: f32 = result.loss.into_scalar();
/// assert!((loss - 2.0_f32.ln()).abs() < 1e-6);
/// # Ok::<(), edgecut_trainer::nn::LabelError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Classification<B: Backend> {
    /// The mean loss over the seeds, weighted by their weights, `[1]`; 0 without seeds.
    pub loss: Tensor<B, 1>,
    /// The sum of the seeds' losses, `[1]`. With weights of classes, each loss is multiplied by its weight.
    pub sum: Tensor<B, 1>,
    /// The sum of the seeds' losses, times their weights, and the number of correctly classified seeds, `[2]`, without gradients.
    pub judged: Tensor<B, 1>,
    /// The number of seeds.
    pub num_seeds: usize,
    /// The sum of the seeds' weights, which is their number unless classes have weights.
    pub weight: f64,
}

impl<B: Backend> Classification<B> {
    /// Returns the number of seeds whose greatest logit belongs to their label. Waits for the device.
    pub fn num_correct(&self) -> usize {
        self.judged.clone().into_data().iter::<f64>().nth(1).unwrap_or(0.0) as usize
    }
}

/// Computes the mean cross entropy between logits and labels, and counts the correct predictions.
///
/// A batch without seeds has loss 0. Its gradients are zero or absent, never NaN.
///
/// # Shapes
/// - `logits`: `[num_seeds, num_classes]`
/// - `labels`: `[num_seeds]`, from 0 to `num_classes - 1`
///
/// # Errors
/// [`LabelError`] if the number of labels differs from the number of rows, or if a label is not a class.
///
/// ```
/// use burn::{backend::NdArray, tensor::Tensor};
/// use edgecut_trainer::nn::cross_entropy;
/// let logits = Tensor::<NdArray, 2>::from_data([[0.0, 0.0], [0.0, 9.0]], &Default::default());
/// let result = cross_entropy(logits, &[0, 1])?;
/// assert_eq!((result.num_correct(), result.num_seeds), (2, 2));
/// # Ok::<(), edgecut_trainer::nn::LabelError>(())
/// ```
pub fn cross_entropy<B: GnnBackend>(logits: Tensor<B, 2>, labels: &[i64]) -> Result<Classification<B>, LabelError> {
    check_labels(&logits, labels)?;
    let num_seeds = labels.len();
    let device = logits.device();
    if num_seeds == 0 {
        return Ok(without_seeds(&device));
    }
    let (sum, judged) = cross_entropy_sum(logits, classes_of(labels, &device));
    // A multiplication instead of a division, because burn computes the gradient of a division by a scalar in `f32`.
    let weight = num_seeds as f64;
    Ok(Classification { loss: sum.clone().mul_scalar(1.0 / weight), sum, judged, num_seeds, weight })
}

/// Checks that each row of the logits has a label that is a class.
fn check_labels<B: Backend>(logits: &Tensor<B, 2>, labels: &[i64]) -> Result<(), LabelError> {
    let [num_seeds, num_classes] = logits.dims();
    if labels.len() != num_seeds {
        return Err(LabelError::Count { labels: labels.len(), rows: num_seeds });
    }
    let is_class = |label: i64| usize::try_from(label).is_ok_and(|label| label < num_classes);
    if let Some(row) = labels.iter().position(|&label| !is_class(label)) {
        return Err(LabelError::NoSuchClass { row, label: labels[row], num_classes });
    }
    Ok(())
}

fn without_seeds<B: Backend>(device: &B::Device) -> Classification<B> {
    // A separate leaf tensor, because burn rejects a backward pass from a tensor that is not tracked.
    let loss = Tensor::zeros([1], device).require_grad();
    Classification { sum: loss.clone(), loss, judged: Tensor::zeros([2], device), num_seeds: 0, weight: 0.0 }
}

fn classes_of<B: Backend>(labels: &[i64], device: &B::Device) -> Tensor<B, 1, Int> {
    let classes = labels.iter().map(|&label| label as i32).collect::<Vec<_>>();
    Tensor::from_data(TensorData::new(classes, [labels.len()]), device)
}

/// The loss of classification: a cross entropy whose classes may have weights and whose targets may be smoothed. It equals
/// `torch.nn.CrossEntropyLoss(weight, label_smoothing)`.
///
/// With the weights `w`, the smoothing `e` and `K` classes, a seed of class `y` with the probabilities `p` has the loss
/// `-(1 - e) w[y] log p[y] - e / K sum_c w[c] log p[c]` and the weight `w[y]` (Szegedy et al. 2016, section 7).
///
/// ```
/// use burn::{backend::NdArray, tensor::Tensor};
/// use edgecut_trainer::nn::ClassificationLoss;
/// let loss = ClassificationLoss { class_weights: "1,3".parse().unwrap(), label_smoothing: 0.0 };
/// let logits = Tensor::<NdArray, 2>::from_data([[0.0, 0.0], [0.0, 0.0]], &Default::default());
/// let result = loss.of(logits, &[0, 1])?;
/// assert_eq!(result.weight, 4.0);
/// assert!((result.loss.into_scalar() - 2.0_f32.ln()).abs() < 1e-6);
/// # Ok::<(), edgecut_trainer::nn::LabelError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassificationLoss {
    /// The weights of the classes.
    pub class_weights: ClassWeights,
    /// The share of a target that is spread evenly over all classes, from 0 to 1.
    pub label_smoothing: f64,
}

impl ClassificationLoss {
    /// Returns this loss with weights of classes in place of [`ClassWeights::Balanced`]. `counts` returns the number of
    /// training labels of each class, and is called only then.
    ///
    /// # Errors
    /// Those of `counts`.
    pub fn balanced<E>(&self, counts: impl FnOnce() -> Result<Vec<u64>, E>) -> Result<Self, E> {
        if self.class_weights != ClassWeights::Balanced {
            return Ok(self.clone());
        }
        Ok(Self { class_weights: self.class_weights.of_counts(&counts()?), ..self.clone() })
    }

    /// Computes the loss of logits, and counts the correct predictions.
    ///
    /// # Shapes
    /// - `logits`: `[num_seeds, num_classes]`
    /// - `labels`: `[num_seeds]`, from 0 to `num_classes - 1`
    ///
    /// # Errors
    /// [`LabelError`] if the number of labels differs from the number of rows, if a label is not a class, or if the
    /// number of weights is not that of the classes.
    pub fn of<B: GnnBackend>(&self, logits: Tensor<B, 2>, labels: &[i64]) -> Result<Classification<B>, LabelError> {
        if *self == Self::default() {
            return cross_entropy(logits, labels);
        }
        check_labels(&logits, labels)?;
        let [num_seeds, num_classes] = logits.dims();
        let device = logits.device();
        let weights = match &self.class_weights {
            ClassWeights::Equal => vec![1.0; num_classes],
            ClassWeights::Balanced => return Err(LabelError::NotCounted),
            ClassWeights::Given(weights) if weights.len() == num_classes => weights.clone(),
            ClassWeights::Given(weights) => return Err(LabelError::Weights { weights: weights.len(), num_classes }),
        };
        if num_seeds == 0 {
            return Ok(without_seeds(&device));
        }
        let of_label = |&label: &i64| weights[label as usize];
        let weight: f64 = labels.iter().map(of_label).sum();
        let even = self.label_smoothing / num_classes as f64;
        let mut targets: Vec<f64> = weights.iter().map(|weight| even * weight).collect::<Vec<_>>().repeat(num_seeds);
        for (row, label) in targets.chunks_exact_mut(num_classes).zip(labels) {
            row[*label as usize] += (1.0 - self.label_smoothing) * of_label(label);
        }
        let targets = Tensor::<B, 2>::from_data(TensorData::new(targets, [num_seeds, num_classes]), &device);
        let (_, judged) = cross_entropy_sum(logits.clone(), classes_of(labels, &device));
        let correct = judged.narrow(0, 1, 1);
        let sum = (log_softmax(logits, 1) * targets).sum().neg();
        let judged = Tensor::cat(vec![sum.clone().detach(), correct], 0);
        // Seeds whose classes all have the weight 0 have no mean.
        let scale = if weight > 0.0 { 1.0 / weight } else { 0.0 };
        Ok(Classification { loss: sum.clone().mul_scalar(scale), sum, judged, num_seeds, weight })
    }
}

/// Labels that do not match the logits.
///
/// ```
/// use burn::{backend::NdArray, tensor::Tensor};
/// use edgecut_trainer::nn::{LabelError, cross_entropy};
/// let logits = Tensor::<NdArray, 2>::zeros([1, 3], &Default::default());
/// let error = cross_entropy(logits, &[3]).unwrap_err();
/// assert_eq!(error, LabelError::NoSuchClass { row: 0, label: 3, num_classes: 3 });
/// ```
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LabelError {
    /// A wrong number of labels.
    #[error("{labels} labels for {rows} predictions, expected one label per prediction")]
    Count {
        /// Number of given labels.
        labels: usize,
        /// Rows of the logits.
        rows: usize,
    },
    /// A wrong number of class weights.
    #[error("`class_weights` has {weights} weights, but the model has {num_classes} classes: give a weight for each")]
    Weights {
        /// Number of given weights.
        weights: usize,
        /// Number of classes.
        num_classes: usize,
    },
    /// Balanced weights without the number of training labels.
    #[error("balanced class weights are computed from labels: call `ClassWeights::of_counts` first")]
    NotCounted,
    /// A label that is not a class.
    #[error("seed {row} of the batch has label {label}, but labels must be at least 0 and below {num_classes} classes")]
    NoSuchClass {
        /// The seed, in batch numbering.
        row: usize,
        /// The label of the seed.
        label: i64,
        /// Number of classes.
        num_classes: usize,
    },
}
