//! Adam for embeddings, in which few rows have a gradient per step.

/// Adam that leaves rows without a gradient unchanged, including their moments (torch's `SparseAdam`; Kingma and Ba:
/// Adam, ICLR 2015). The bias correction counts all steps, including those in which a row had no gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseAdam {
    /// The learning rate.
    pub lr: f64,
    /// The decay rate of the mean of gradients.
    pub beta_1: f64,
    /// The decay rate of the mean of squared gradients.
    pub beta_2: f64,
    /// The term added to the root of the mean of squared gradients, for numerical stability.
    pub epsilon: f64,
}

impl SparseAdam {
    /// Makes an optimizer with the usual decay rates (0.9 and 0.999) and epsilon (1e-8).
    pub fn new(lr: f64) -> Self {
        Self { lr, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8 }
    }

    /// Updates one row in step `step`, counted from 1. All slices have the same length.
    pub fn apply(&self, step: u64, gradient: &[f32], value: &mut [f32], first: &mut [f32], second: &mut [f32]) {
        let exponent = i32::try_from(step).unwrap_or(i32::MAX);
        // Both bias corrections are folded into the step size, as in torch.
        let size = self.lr * (1.0 - self.beta_2.powi(exponent)).sqrt() / (1.0 - self.beta_1.powi(exponent));
        let beta_1 = self.beta_1 as f32;
        let beta_2 = self.beta_2 as f32;
        let size = size as f32;
        let epsilon = self.epsilon as f32;
        for (((value, first), second), &gradient) in value.iter_mut().zip(first).zip(second).zip(gradient) {
            *first = beta_1 * *first + (1.0 - beta_1) * gradient;
            *second = beta_2 * *second + (1.0 - beta_2) * gradient * gradient;
            *value -= size * *first / (second.sqrt() + epsilon);
        }
    }
}
