//! The mean absolute error.

use super::numbers::Numbers;
use super::{Loss, LossSettings, LossSum, Target, TargetError};
use burn::tensor::Tensor;
use edgecut_gnn::ops::GnnBackend;

/// The mean absolute error of known numbers, as `torch.nn.L1Loss`.
#[derive(Clone, Debug, PartialEq)]
pub struct MeanAbsoluteError;

impl Loss for MeanAbsoluteError {
    const NAME: &'static str = "mae";
    const ABOUT: &'static str = "mean absolute error of numbers";
    const NEEDS: &'static str = "numbers";

    fn with_settings(_settings: &mut LossSettings) -> Result<Self, String> {
        Ok(Self)
    }

    fn default_metric(&self) -> &'static str {
        "mae"
    }

    fn sum<B: GnnBackend>(&self, outputs: Tensor<B, 2>, target: &Target) -> Result<LossSum<B>, TargetError> {
        let numbers = Numbers::new::<Self>(&outputs, target)?;
        Ok(numbers.sum(numbers.errors(outputs).abs()))
    }
}
