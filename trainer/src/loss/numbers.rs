//! Targets that are numbers, on the device of the outputs.

use super::{Loss, LossSum, Target, TargetError};
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Tensor, TensorData};

/// The known numbers of a target beside the outputs that are compared with them.
pub(super) struct Numbers<B: Backend> {
    /// `[num_seeds, dim]`; 0 where unknown.
    pub(super) values: Tensor<B, 2>,
    /// True where values are unknown; `None` if all are known.
    unknown: Option<Tensor<B, 2, Bool>>,
    num_seeds: usize,
    num_known: usize,
}

impl<B: Backend> Numbers<B> {
    /// Copies the numbers of a target to the device of `outputs`.
    ///
    /// # Errors
    /// [`TargetError`] for classes, or for another number of values than outputs. `L` is the loss.
    pub(super) fn new<L: Loss>(outputs: &Tensor<B, 2>, target: &Target) -> Result<Self, TargetError> {
        let Target::Numbers { values, .. } = target else { return Err(TargetError::other_kind::<L>("classes")) };
        let [seeds, columns] = outputs.dims();
        if values.len() != seeds * columns {
            let given = values.len();
            return Err(TargetError(format!(
                "the batch has {given} numbers as targets, but the model has {seeds} rows of {columns} outputs"
            )));
        }
        let device = outputs.device();
        let num_known = target.num_known();
        let mut unknown = None;
        if num_known < values.len() {
            let mask: Vec<bool> = values.iter().map(|value| value.is_nan()).collect();
            unknown = Some(Tensor::from_data(TensorData::new(mask, [seeds, columns]), &device));
        }
        let known: Vec<f32> = values.iter().map(|&value| if value.is_nan() { 0.0 } else { value }).collect();
        let values = Tensor::from_data(TensorData::new(known, [seeds, columns]), &device);
        Ok(Self { values, unknown, num_seeds: seeds, num_known })
    }

    /// Returns the differences of outputs and numbers, 0 where these are unknown.
    pub(super) fn errors(&self, outputs: Tensor<B, 2>) -> Tensor<B, 2> {
        self.known(outputs - self.values.clone())
    }

    /// Replaces values by 0 where the numbers are unknown.
    pub(super) fn known(&self, values: Tensor<B, 2>) -> Tensor<B, 2> {
        match &self.unknown {
            Some(unknown) => values.mask_fill(unknown.clone(), 0.0),
            None => values,
        }
    }

    /// Returns the sum of the losses of known values. The weight is the number of known values.
    pub(super) fn sum(&self, losses: Tensor<B, 2>) -> LossSum<B> {
        if self.num_seeds == 0 {
            return LossSum::without_seeds(&losses.device());
        }
        LossSum::new(losses.sum(), self.num_seeds, self.num_known as f64)
    }
}
