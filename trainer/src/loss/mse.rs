//! The mean squared error.

use super::numbers::Numbers;
use super::{Loss, LossSettings, LossSum, Target, TargetError};
use burn::tensor::Tensor;
use edgecut_gnn::ops::GnnBackend;

/// The mean squared error of known numbers, as `torch.nn.MSELoss`.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanSquaredError;

impl Loss for MeanSquaredError {
    const NAME: &'static str = "mse";
    const ABOUT: &'static str = "mean squared error of numbers";
    const NEEDS: &'static str = "numbers";

    fn with_settings(_settings: &mut LossSettings) -> Result<Self, String> {
        Ok(Self)
    }

    fn default_metric(&self) -> &'static str {
        "rmse"
    }

    fn sum<B: GnnBackend>(&self, outputs: Tensor<B, 2>, target: &Target) -> Result<LossSum<B>, TargetError> {
        let numbers = Numbers::new::<Self>(&outputs, target)?;
        let errors = numbers.errors(outputs);
        Ok(numbers.sum(errors.clone() * errors))
    }
}
