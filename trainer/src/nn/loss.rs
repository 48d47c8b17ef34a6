//! The loss and the accuracy of classification.

use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use thiserror::Error;

/// How well a batch was classified.
#[derive(Debug, Clone)]
pub struct Classification<B: Backend> {
    /// Mean cross entropy over the seeds, `[1]`; 0 for no seeds.
    pub loss: Tensor<B, 1>,
    /// Seeds whose greatest logit is their label's.
    pub num_correct: usize,
    /// Seeds.
    pub num_seeds: usize,
}

/// Mean cross entropy between logits and labels, and the number of correct predictions.
///
/// A batch without seeds has loss 0 and gradients that are zero or absent, never NaN.
///
/// # Shapes
/// - `logits`: `[num_seeds, num_classes]`
/// - `labels`: `[num_seeds]`, from 0 to `num_classes - 1`
///
/// # Errors
/// [`LabelError`] if there are more or fewer labels than rows, or a label is no class.
///
/// ```
/// use burn::{backend::NdArray, tensor::Tensor};
/// use edgecut_trainer::nn::cross_entropy;
/// let logits = Tensor::<NdArray, 2>::from_data([[0.0, 0.0], [0.0, 9.0]], &Default::default());
/// let result = cross_entropy(logits, &[0, 1])?;
/// assert_eq!((result.num_correct, result.num_seeds), (2, 2));
/// # Ok::<(), edgecut_trainer::nn::LabelError>(())
/// ```
pub fn cross_entropy<B: Backend>(logits: Tensor<B, 2>, labels: &[i64]) -> Result<Classification<B>, LabelError> {
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
        // A leaf of its own, since burn refuses a backward pass from a tensor that nothing tracks.
        let loss = Tensor::zeros([1], &device).require_grad();
        return Ok(Classification { loss, num_correct: 0, num_seeds });
    }
    let targets = TensorData::new(labels.to_vec(), [num_seeds, 1]);
    let targets = Tensor::<B, 2, Int>::from_data(targets, &device);
    let correct = logits.clone().argmax(1).equal(targets.clone()).into_data();
    let num_correct = correct.iter::<bool>().filter(|&correct| correct).count();
    let loss = log_softmax(logits, 1).gather(1, targets).mean().neg();
    Ok(Classification { loss, num_correct, num_seeds })
}

/// Labels that do not fit logits.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LabelError {
    /// Not one label per row.
    #[error("{labels} labels for {rows} predictions")]
    Count {
        /// Labels given.
        labels: usize,
        /// Rows of the logits.
        rows: usize,
    },
    /// A label that is no class.
    #[error("seed {row} of the batch has label {label}, classes go from 0 to {num_classes} (exclusive)")]
    NoSuchClass {
        /// The seed, in batch numbering.
        row: usize,
        /// Its label.
        label: i64,
        /// Number of classes.
        num_classes: usize,
    },
}
