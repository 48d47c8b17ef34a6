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
    /// In the order of the module's fields; empty before the first step.
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
        if self.values.is_empty() {
            self.values = after_step;
            return;
        }
        for (average, value) in self.values.iter_mut().zip(after_step) {
            // A value that does not change keeps its bits.
            let change = (1.0 - decay) * (f64::from(value) - f64::from(*average));
            *average = (f64::from(*average) + change) as f32;
        }
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
        let averaged = load_parameters(model.clone(), &self.values)?;
        self.values = flatten_parameters(&average_statistics(averaged, batches, world)?);
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
        if self.values.is_empty() { Ok(model.valid()) } else { load_parameters(model.valid(), &self.values) }
    }

    /// Returns the values for a checkpoint.
    pub(super) fn values(&self) -> &[f32] {
        &self.values
    }

    /// Takes over the values of a checkpoint.
    pub(super) fn restore(&mut self, values: Vec<f32>) {
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
        restored.restore(averaged.values().to_vec());
        assert_eq!(restored.values(), averaged.values());
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
