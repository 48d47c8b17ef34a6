//! The Huber loss.

use super::numbers::Numbers;
use super::{Loss, LossSettings, LossSum, Target, TargetError};
use burn::tensor::Tensor;
use edgecut_gnn::ops::GnnBackend;

/// The Huber loss of known numbers, as `torch.nn.HuberLoss`: quadratic for errors up to `delta` and linear beyond, so
/// that outliers weigh less (Huber, "Robust estimation of a location parameter", 1964).
#[derive(Clone, Debug, PartialEq)]
pub struct Huber {
    /// The greatest error of the quadratic part, above 0.
    pub delta: f64,
}

impl Loss for Huber {
    const NAME: &'static str = "huber";
    const ABOUT: &'static str = "Huber loss of numbers: squared up to an error of `delta` [default: 1], then linear";
    const NEEDS: &'static str = "numbers";

    fn with_settings(settings: &mut LossSettings) -> Result<Self, String> {
        let delta = settings.take("delta", 1.0)?;
        if delta > 0.0 && delta < f64::INFINITY {
            Ok(Self { delta })
        } else {
            Err(format!("`delta` {delta} of the loss huber is not a finite number above 0"))
        }
    }

    fn default_metric(&self) -> &'static str {
        "mae"
    }

    fn sum<B: GnnBackend>(&self, outputs: Tensor<B, 2>, target: &Target) -> Result<LossSum<B>, TargetError> {
        let numbers = Numbers::new::<Self>(&outputs, target)?;
        let errors = numbers.errors(outputs).abs();
        let quadratic = errors.clone().clamp_max(self.delta);
        let linear = errors - quadratic.clone();
        Ok(numbers.sum((quadratic.clone() * quadratic).mul_scalar(0.5) + linear.mul_scalar(self.delta)))
    }
}
