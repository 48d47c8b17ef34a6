//! The expected calibration error.

use crate::loss::{OutputKind, Target};
use crate::metrics::decision::logistic;
use crate::metrics::metric::{MetricEntry, MetricState};
use crate::metrics::output_rows::{OutputRows, class_of};
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

pub(super) const ENTRY: MetricEntry = MetricEntry {
    name: "calibration-error",
    label: "calibration error",
    about: "mean distance of probabilities from the share of seeds for which they are right, in 15 bins",
    higher_is_better: false,
    is_share: true,
    is_of_class: false,
    needs: "classes or labels",
    accepts: |outputs| !matches!(outputs, OutputKind::Numbers(_)),
    start: |_| Box::new(CalibrationError::default()),
};

/// The number of bins.
const BINS: usize = 15;

/// Sums over the seeds by the probability of their likeliest class, or by the probability of a label (Guo et al., "On
/// calibration of modern neural networks", ICML 2017).
#[derive(Default)]
struct CalibrationError {
    /// The sum of the probabilities of each bin, minus the number of seeds for which they are right.
    excess: [f64; BINS],
    count: f64,
}

impl CalibrationError {
    fn add_probability(&mut self, probability: f64, is_right: bool) {
        let bin = ((probability * BINS as f64) as usize).min(BINS - 1);
        self.excess[bin] += probability - f64::from(u8::from(is_right));
        self.count += 1.0;
    }
}

impl MetricState for CalibrationError {
    fn add(&mut self, outputs: &OutputRows<'_>, target: &Target) {
        for (logits, &label) in outputs.rows().zip(target.classes()) {
            let likeliest = class_of(logits);
            let probability = match likeliest {
                Some(class) => outputs.decision().log_probability(logits, class as usize).exp(),
                None => f64::NAN,
            };
            self.add_probability(probability, likeliest == Some(label));
        }
        for (&logit, &label) in outputs.values().iter().zip(target.numbers()) {
            if !label.is_nan() {
                self.add_probability(logistic(outputs.decision().divided(logit)), label > 0.5);
            }
        }
    }

    fn over_all_ranks(self: Box<Self>, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        let mut sums = [0.0; BINS + 1];
        sums[..BINS].copy_from_slice(&self.excess);
        sums[BINS] = self.count;
        world.all_reduce(&mut sums, ReduceOp::Sum)?;
        let error: f64 = sums[..BINS].iter().map(|excess| excess.abs()).sum();
        let count = sums[BINS];
        Ok((count > 0.0 && error.is_finite()).then(|| error / count))
    }
}
