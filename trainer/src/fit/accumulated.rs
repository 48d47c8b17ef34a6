//! Gradients of several steps, averaged for one step of the optimizer.

use super::step::StepGradients;
use crate::checkpoint::{Floats, StoredGradients};

/// The sum of the gradients of the steps since the optimizer's last one, each weighted by its seeds.
pub(super) struct Accumulated {
    /// The number of steps to sum.
    every: u64,
    num_steps: u64,
    /// Empty before the first step.
    sum: Vec<f32>,
    weight: f64,
}

impl Accumulated {
    pub(super) fn new(every: u64) -> Self {
        Self { every: every.max(1), num_steps: 0, sum: Vec::new(), weight: 0.0 }
    }

    /// Returns a copy of the sum.
    pub(super) fn stored(&self) -> StoredGradients {
        StoredGradients { num_steps: self.num_steps, sum: Floats(self.sum.clone()), weight: self.weight }
    }

    /// Replaces the sum.
    pub(super) fn restore(&mut self, stored: StoredGradients) {
        self.num_steps = stored.num_steps;
        self.sum = stored.sum.0;
        self.weight = stored.weight;
    }

    /// Adds the gradients of a step. Returns true if the optimizer is to take a step, and then replaces the gradients by
    /// the weighted mean over the steps since its last one.
    pub(super) fn add(&mut self, gradients: &mut StepGradients, is_last: bool) -> bool {
        if self.every == 1 {
            return true;
        }
        let weight = gradients.totals.weight;
        if self.sum.is_empty() {
            self.sum = vec![0.0; gradients.flat.len()];
        }
        for (sum, &gradient) in self.sum.iter_mut().zip(&gradients.flat) {
            *sum += gradient * weight as f32;
        }
        self.weight += weight;
        self.num_steps += 1;
        if self.num_steps < self.every && !is_last {
            return false;
        }
        let scale = if self.weight > 0.0 { (1.0 / self.weight) as f32 } else { 0.0 };
        gradients.flat = std::mem::take(&mut self.sum);
        gradients.flat.iter_mut().for_each(|gradient| *gradient *= scale);
        *self = Self::new(self.every);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeedTotals;
    use std::time::Duration;

    fn gradients(flat: &[f32], weight: f64) -> StepGradients {
        StepGradients {
            flat: flat.to_vec(),
            totals: SeedTotals { weight, seeds: weight, ..SeedTotals::default() },
            own_seeds: 0,
            compute: Duration::ZERO,
            allreduce: Duration::ZERO,
        }
    }

    #[test]
    fn steps_are_averaged_by_their_seeds() {
        let mut accumulated = Accumulated::new(3);
        let mut step = |flat: &[f32], weight: f64, is_last: bool| {
            let mut gradients = gradients(flat, weight);
            accumulated.add(&mut gradients, is_last).then_some(gradients.flat)
        };
        assert_eq!(step(&[1.0, 0.0], 2.0, false), None);
        assert_eq!(step(&[4.0, 8.0], 1.0, false), None);
        assert_eq!(step(&[0.0, 0.0], 1.0, false), Some(vec![1.5, 2.0]));
        // The next epoch begins anew, and its last step is taken with what there is.
        assert_eq!(step(&[2.0, 2.0], 8.0, false), None);
        assert_eq!(step(&[4.0, 1.0], 8.0, true), Some(vec![3.0, 1.5]));
        // A step without seeds.
        assert_eq!(step(&[0.0, 0.0], 0.0, true), Some(vec![0.0, 0.0]));
        let mut plain = gradients(&[7.0], 3.0);
        assert!(Accumulated::new(1).add(&mut plain, false));
        assert_eq!(plain.flat, [7.0]);
    }
}
