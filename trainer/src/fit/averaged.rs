//! The moving average of a model's parameters.

use super::statistics::average_statistics;
use crate::error::TrainError;
use crate::gradients::{FlatLengthError, flatten_parameters, load_parameters};
use burn::module::AutodiffModule;
use burn::tensor::backend::AutodiffBackend;
use edgecut_cluster::ProcessGroup;

/// The exponential moving average of a model's parameters and running statistics over the steps of the optimizer, as PyTorch's
/// `AveragedModel` computes it: `average = decay * average + (1 - decay) * value`, from the values after the first step on.
/// Evaluation and saved models have the average, training goes on with the values.
pub(super) struct Averaged {
    decay: Option<f64>,
    /// The average in the order of the module's fields, and then what each value lacks to the average: with a decay near 1,
    /// the change of a step is smaller than the distance of two `f32`, and rounding would stop the average. Empty before
    /// the first step.
    values: Vec<f32>,
}

impl Averaged {
    /// Makes the average of a model before the first step. Without `decay`, it is the model itself.
    pub(super) fn new(decay: Option<f64>) -> Self {
        Self { decay, values: Vec::new() }
    }

    /// Adds the model after a step.
    pub(super) fn add<B: AutodiffBackend, M: AutodiffModule<B>>(&mut self, model: &M) {
        let Some(decay) = self.decay else { return };
        let after_step = flatten_parameters(model);
        let num_values = after_step.len();
        if self.values.is_empty() {
            self.values = after_step;
            self.values.resize(2 * num_values, 0.0);
            return;
        }
        let (averages, remainders) = self.values.split_at_mut(num_values);
        for ((average, remainder), value) in averages.iter_mut().zip(remainders).zip(after_step) {
            // A value that does not change keeps its bits.
            let exact = f64::from(*average) + f64::from(*remainder);
            let exact = exact + (1.0 - decay) * (f64::from(value) - exact);
            *average = exact as f32;
            *remainder = (exact - f64::from(*average)) as f32;
        }
    }

    /// Returns the averages, without what they lack.
    fn averages(&self) -> &[f32] {
        &self.values[..self.values.len() / 2]
    }

    /// Averages the running statistics over all ranks, as [`average_statistics`] does for the model. Every rank must call this.
    ///
    /// # Errors
    /// A failure of the job.
    pub(super) fn average_statistics<B: AutodiffBackend, M: AutodiffModule<B>>(
        &mut self,
        model: &M,
        batches: u64,
        world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        if self.values.is_empty() {
            return Ok(());
        }
        let averaged = load_parameters(model.clone(), self.averages())?;
        // Remainders of statistics stay: they are less than the distance of two `f32`.
        let averages = flatten_parameters(&average_statistics(averaged, batches, world)?);
        self.values[..averages.len()].copy_from_slice(&averages);
        Ok(())
    }

    /// Returns the model to evaluate and to save.
    ///
    /// # Errors
    /// [`FlatLengthError`] for the average of another model.
    pub(super) fn model<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        model: &M,
    ) -> Result<M::InnerModule, FlatLengthError> {
        if self.values.is_empty() { Ok(model.valid()) } else { load_parameters(model.valid(), self.averages()) }
    }

    /// Returns the values for a checkpoint.
    pub(super) fn values(&self) -> &[f32] {
        &self.values
    }

    /// Takes over the values of a checkpoint of a model with this number of parameters.
    pub(super) fn restore(&mut self, mut values: Vec<f32>, num_parameters: usize) {
        if !values.is_empty() {
            // A checkpoint of an earlier version has the averages alone.
            values.resize(2 * num_parameters, 0.0);
        }
        self.values = values;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::backend::{Autodiff, NdArray};
    use edgecut_gnn::nn::{BatchNorm, Dense, WeightInit};

    type B = Autodiff<NdArray>;

    #[test]
    fn the_average_follows_the_values_after_each_step() {
        let device = Default::default();
        let layer = Dense::<B>::new(1, 1, &mut WeightInit::new(0), &device);
        let mut averaged = Averaged::new(Some(0.9));
        assert_eq!(flatten_parameters(&averaged.model(&layer).expect("a model")), flatten_parameters(&layer));
        // The numbers of PyTorch 1.13: AveragedModel(layer, avg_fn=lambda a, p, n: 0.9 * a + (1 - 0.9) * p).
        let steps = [[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]];
        let expected = [[1.0, -2.0], [1.2, -1.75], [0.98, -1.175]];
        for (values, expected) in steps.iter().zip(expected) {
            let layer = load_parameters(layer.clone(), values).expect("two parameters");
            averaged.add(&layer);
            let found = flatten_parameters(&averaged.model(&layer).expect("a model"));
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
            // Training goes on with the values.
            assert_eq!(flatten_parameters(&layer), values);
        }
        let mut restored = Averaged::new(Some(0.9));
        restored.restore(averaged.values().to_vec(), 2);
        assert_eq!(restored.values(), averaged.values());
        // Checkpoints of earlier versions have the averages alone.
        restored.restore(averaged.values()[..2].to_vec(), 2);
        assert_eq!(restored.averages(), averaged.averages());
        assert_eq!(restored.values()[2..], [0.0; 2]);
    }

    /// The change of a step, 1e-6 of a distance of 0.01, is less than the distance of two `f32` near 1.
    #[test]
    fn a_slow_average_moves() {
        let device = Default::default();
        let layer = Dense::<B>::new(1, 1, &mut WeightInit::new(0), &device);
        let decay = 0.999_999;
        let mut averaged = Averaged::new(Some(decay));
        let [start, end] = [1.0_f32, 1.01];
        averaged.add(&load_parameters(layer.clone(), &[start, start]).expect("two parameters"));
        let moved = load_parameters(layer, &[end, end]).expect("two parameters");
        let num_steps = 2000;
        for _ in 0..num_steps {
            averaged.add(&moved);
        }
        let expected = f64::from(end) + (f64::from(start) - f64::from(end)) * decay.powi(num_steps);
        let found = f64::from(averaged.averages()[0]);
        assert!((found - expected).abs() < 1e-7, "{found}, expected {expected}");
    }

    #[test]
    fn without_decay_the_model_is_evaluated_itself() {
        let norm = BatchNorm::<B>::new(2, &Default::default());
        let mut averaged = Averaged::new(None);
        averaged.add(&norm);
        assert!(averaged.values().is_empty());
        assert_eq!(flatten_parameters(&averaged.model(&norm).expect("a model")), flatten_parameters(&norm));
    }
}
