//! Counts of labels, predictions and matches per class, and the F1 scores that are computed from them.

use super::metric::MetricState;
use super::output_rows::OutputRows;
use crate::loss::{OutputKind, Target};
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// Three counters per class: the seeds with this label, the predictions of this class, and the correct predictions of
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassCounts {
    /// `[num_classes * 3]`: the labelled, predicted and correct seeds of class 0, then of class 1, and so on.
    counts: Vec<u64>,
}

/// The counters of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfClass {
    /// The seeds with this label.
    pub labelled: u64,
    /// The predictions of this class.
    pub predicted: u64,
    /// The correct predictions of it.
    pub correct: u64,
}

impl OfClass {
    /// Returns the share of predictions that are correct, or `None` without predictions.
    pub fn precision(&self) -> Option<f64> {
        (self.predicted > 0).then(|| self.correct as f64 / self.predicted as f64)
    }

    /// Returns the share of seeds that are found, or `None` without seeds.
    pub fn recall(&self) -> Option<f64> {
        (self.labelled > 0).then(|| self.correct as f64 / self.labelled as f64)
    }

    /// Returns the harmonic mean of both, 0 without a correct prediction, or `None` without seeds and predictions.
    pub fn f1(&self) -> Option<f64> {
        let both = self.labelled + self.predicted;
        (both > 0).then(|| 2.0 * self.correct as f64 / both as f64)
    }
}

impl ClassCounts {
    /// Makes counters of 0.
    pub fn new(num_classes: usize) -> Self {
        Self { counts: vec![0; 3 * num_classes] }
    }

    /// Adds a seed. A seed whose label or prediction is not a class is ignored.
    pub fn add(&mut self, label: i64, prediction: i64) {
        let (Some(label), Some(prediction)) = (self.class(label), self.class(prediction)) else { return };
        self.counts[3 * label] += 1;
        self.counts[3 * prediction + 1] += 1;
        self.counts[3 * label + 2] += u64::from(label == prediction);
    }

    /// Adds a seed without a prediction, because its logits contain NaN. It counts as a false negative of its class,
    /// and not as a prediction of any class.
    pub fn add_unclassified(&mut self, label: i64) {
        if let Some(label) = self.class(label) {
            self.counts[3 * label] += 1;
        }
    }

    fn class(&self, value: i64) -> Option<usize> {
        usize::try_from(value).ok().filter(|class| 3 * class < self.counts.len())
    }

    /// Adds a batch. A label that is predicted counts as a prediction of its own class.
    pub(crate) fn add_batch(&mut self, outputs: &OutputRows<'_>, target: &Target) {
        match target {
            Target::Classes(labels) => {
                for (found, &label) in outputs.classes().zip(labels) {
                    match found {
                        Some(found) => self.add(label, found),
                        None => self.add_unclassified(label),
                    }
                }
            }
            Target::Numbers { values, dim } => {
                for (position, (applies, &label)) in outputs.labels().zip(values).enumerate() {
                    let of_label = &mut self.counts[3 * (position % dim)..][..3];
                    let is_labelled = label > 0.5;
                    let is_predicted = !label.is_nan() && applies;
                    of_label[0] += u64::from(is_labelled);
                    of_label[1] += u64::from(is_predicted);
                    of_label[2] += u64::from(is_labelled && is_predicted);
                }
            }
        }
    }

    /// Makes the state of a metric that is computed from counts.
    pub(super) fn state(outputs: OutputKind, metric: OfCounts) -> Box<dyn MetricState> {
        Box::new(CountMetric { counts: Self::new(outputs.width()), metric })
    }

    /// Adds the counts of all other ranks. Every rank must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if the collective fails.
    pub fn all_reduce(&mut self, world: &mut ProcessGroup) -> Result<(), ClusterError> {
        world.all_reduce(&mut self.counts, ReduceOp::Sum)
    }

    /// Returns the counters of each class.
    pub fn classes(&self) -> impl Iterator<Item = OfClass> {
        let (classes, _) = self.counts.as_chunks::<3>();
        classes.iter().map(|&[labelled, predicted, correct]| OfClass { labelled, predicted, correct })
    }

    /// Returns F1 over all decisions, or `None` without seeds. With one label and one prediction per seed, each wrong
    /// decision is a false positive of one class and a false negative of another, so micro F1 equals the accuracy.
    pub fn micro_f1(&self) -> Option<f64> {
        let seeds: u64 = self.classes().map(|class| class.labelled).sum();
        let correct: u64 = self.classes().map(|class| class.correct).sum();
        (seeds > 0).then(|| correct as f64 / seeds as f64)
    }

    /// Returns F1 over all decisions about labels. A seed may have several labels. `None` without labels and predictions.
    pub(super) fn micro_f1_of_labels(&self) -> Option<f64> {
        let both: u64 = self.classes().map(|label| label.labelled + label.predicted).sum();
        let correct: u64 = self.classes().map(|label| label.correct).sum();
        (both > 0).then(|| 2.0 * correct as f64 / both as f64)
    }

    /// Returns the mean F1 of the classes or labels that have seeds or predictions, or `None` if there are none. A class
    /// without a correct seed has an F1 of 0. For classes it equals scikit-learn's, which counts a label without positives
    /// and predictions as 0.
    pub fn macro_f1(&self) -> Option<f64> {
        // F1 = 2 TP / (2 TP + FP + FN), and labelled + predicted = 2 TP + FP + FN.
        self.mean_over_classes(|class| 2.0 * class.correct as f64 / (class.labelled + class.predicted) as f64)
    }

    /// Returns the mean of a measure over the classes that have seeds or predictions, or `None` if there are none.
    pub(super) fn mean_over_classes(&self, measure: impl Fn(OfClass) -> f64) -> Option<f64> {
        let mut sum = 0.0;
        let mut classes = 0_u64;
        for class in self.classes() {
            if class.labelled + class.predicted > 0 {
                sum += measure(class);
                classes += 1;
            }
        }
        (classes > 0).then(|| sum / classes as f64)
    }
}

/// Computes a metric from the counts of all ranks.
type OfCounts = fn(&ClassCounts) -> Option<f64>;

/// The state of a metric that is computed from counts.
struct CountMetric {
    counts: ClassCounts,
    metric: OfCounts,
}

impl MetricState for CountMetric {
    fn add(&mut self, outputs: &OutputRows<'_>, target: &Target) {
        self.counts.add_batch(outputs, target);
    }

    fn over_all_ranks(mut self: Box<Self>, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        self.counts.all_reduce(world)?;
        Ok((self.metric)(&self.counts))
    }
}
