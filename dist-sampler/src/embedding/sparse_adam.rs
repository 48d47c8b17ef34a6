//! Adam for rows of which few have a gradient.

/// Adam that leaves rows without a gradient as they are, moments included (torch's `SparseAdam`; Kingma and Ba: Adam, ICLR
/// 2015). Its bias correction counts all steps, not those in which a row took part.
///
/// ```
/// use edgecut_dist_sampler::SparseAdam;
/// let (mut value, mut first, mut second) = ([1.0], [0.0], [0.0]);
/// SparseAdam::new(0.1).apply(1, &[4.0], &mut value, &mut first, &mut second);
/// assert!((value[0] - 0.9_f32).abs() < 1e-6, "the first step is one of the learning rate");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseAdam {
    /// The learning rate.
    pub lr: f64,
    /// How much of the mean of gradients stays from step to step.
    pub beta_1: f64,
    /// How much of the mean of squared gradients stays from step to step.
    pub beta_2: f64,
    /// Added to the root of the latter.
    pub epsilon: f64,
}

impl SparseAdam {
    /// With the usual means (0.9, 0.999) and epsilon (1e-8).
    pub fn new(lr: f64) -> Self {
        Self { lr, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8 }
    }

    /// Updates one row in the `step`-th step, counted from 1. All slices are as long.
    pub fn apply(&self, step: u64, gradient: &[f32], value: &mut [f32], first: &mut [f32], second: &mut [f32]) {
        let exponent = i32::try_from(step).unwrap_or(i32::MAX);
        let size = self.lr * (1.0 - self.beta_2.powi(exponent)).sqrt() / (1.0 - self.beta_1.powi(exponent));
        let (beta_1, beta_2) = (self.beta_1 as f32, self.beta_2 as f32);
        let (size, epsilon) = (size as f32, self.epsilon as f32);
        for (((value, first), second), &gradient) in value.iter_mut().zip(first).zip(second).zip(gradient) {
            *first = beta_1 * *first + (1.0 - beta_1) * gradient;
            *second = beta_2 * *second + (1.0 - beta_2) * gradient * gradient;
            *value -= size * *first / (second.sqrt() + epsilon);
        }
    }
}
