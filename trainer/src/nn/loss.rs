//! The loss and the accuracy of classification.

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use thiserror::Error;

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
    /// The mean cross entropy over the seeds, `[1]`; 0 without seeds.
    pub loss: Tensor<B, 1>,
    /// The sum of the seeds' cross entropies and the number of correctly classified seeds, `[2]`, without gradients.
    pub judged: Tensor<B, 1>,
    /// The number of seeds.
    pub num_seeds: usize,
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
    let [num_seeds, num_classes] = logits.dims();
    if labels.len() != num_seeds {
        return Err(LabelError::Count { labels: labels.len(), rows: num_seeds });
    }
    let is_class = |label: i64| usize::try_from(label).is_ok_and(|label| label < num_classes);
    if let Some(row) = labels.iter().position(|&label| !is_class(label)) {
        return Err(LabelError::NoSuchClass { row, label: labels[row], num_classes });
    }
    let device = logits.device();
    if num_seeds == 0 {
        // A separate leaf tensor, because burn rejects a backward pass from a tensor that is not tracked.
        let loss = Tensor::zeros([1], &device).require_grad();
        return Ok(Classification { loss, judged: Tensor::zeros([2], &device), num_seeds });
    }
    let classes = labels.iter().map(|&label| label as i32).collect::<Vec<_>>();
    let classes = Tensor::<B, 1, Int>::from_data(TensorData::new(classes, [num_seeds]), &device);
    let (sum, judged) = cross_entropy_sum(logits, classes);
    // A multiplication instead of a division, because burn computes the gradient of a division by a scalar in `f32`.
    Ok(Classification { loss: sum.mul_scalar(1.0 / num_seeds as f64), judged, num_seeds })
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
