//! The state of a metric during an evaluation.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_cluster::{ClusterError, ProcessGroup};

use super::class_counts::ClassCounts;
use super::gathered_scores::GatheredScores;
use super::metric::Metric;
use super::roc_auc::ScoredLabels;

/// The state of a metric over the seeds that one rank has evaluated.
///
/// ```
/// use burn::tensor::Tensor;
/// use edgecut_trainer::Cpu;
/// use edgecut_trainer::metrics::{Metric, MetricState};
/// let mut state = MetricState::new(Metric::Accuracy, 2);
/// let logits = Tensor::<Cpu, 2>::from_data([[2.0, 1.0], [0.0, 3.0]], &Default::default());
/// state.add(&logits, &[0, 0]);
/// assert!(matches!(state, MetricState::Accuracy([1.0, 2.0])));
/// ```
#[derive(Debug, Clone)]
pub enum MetricState {
    /// The number of correctly classified seeds, and the number of seeds.
    Accuracy([f64; 2]),
    /// The scores of this rank's seeds, and the metric: the area under the ROC curve or the average precision.
    Scores(ScoredLabels, Metric),
    /// The counts of labels and predictions, and the metric: micro or macro F1.
    F1(ClassCounts, Metric),
}

impl MetricState {
    /// Makes a state without seeds.
    pub fn new(metric: Metric, num_classes: usize) -> Self {
        match metric {
            Metric::Accuracy => Self::Accuracy([0.0; 2]),
            Metric::RocAuc | Metric::AveragePrecision => Self::Scores(ScoredLabels::default(), metric),
            Metric::MicroF1 | Metric::MacroF1 => Self::F1(ClassCounts::new(num_classes), metric),
        }
    }

    /// Adds a batch. A seed with NaN among its logits counts as misclassified.
    ///
    /// # Shapes
    /// - `logits`: `[seeds, classes]`
    /// - `labels`: `[seeds]`, each a class
    pub fn add<B: Backend>(&mut self, logits: &Tensor<B, 2>, labels: &[i64]) {
        let [rows, classes] = logits.dims();
        if rows == 0 || classes == 0 {
            return;
        }
        match self {
            Self::Accuracy([correct, seeds]) => {
                let found = predictions(logits);
                let right = found.iter().zip(labels).filter(|(found, label)| **found == Some(**label)).count();
                *correct += right as f64;
                *seeds += labels.len() as f64;
            }
            Self::Scores(scored, _) => {
                // The probability of class 1 grows with the difference of the two logits, so the difference is the
                // score.
                let values: Vec<f32> = logits.clone().into_data().iter::<f32>().collect();
                for (row, &label) in values.chunks_exact(classes).zip(labels) {
                    scored.push(row[classes - 1] - row[0], label == classes as i64 - 1);
                }
            }
            Self::F1(counts, _) => {
                for (found, &label) in predictions(logits).into_iter().zip(labels) {
                    match found {
                        Some(found) => counts.add(label, found),
                        None => counts.add_unclassified(label),
                    }
                }
            }
        }
    }

    /// Returns the metric over the seeds of all ranks, the same on each rank, or `None` if it is not defined, for
    /// example without seeds. Every rank must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if a collective fails.
    pub fn over_all_ranks(self, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        match self {
            Self::Accuracy(mut sums) => {
                world.all_reduce(&mut sums, edgecut_cluster::ReduceOp::Sum)?;
                let [correct, seeds] = sums;
                Ok((seeds > 0.0).then(|| correct / seeds))
            }
            Self::Scores(scored, Metric::AveragePrecision) => {
                Ok(GatheredScores::of_all_ranks(&scored, world)?.average_precision())
            }
            Self::Scores(scored, _) => scored.roc_auc_over_all_ranks(world),
            Self::F1(mut counts, metric) => {
                counts.all_reduce(world)?;
                Ok(if metric == Metric::MacroF1 { counts.macro_f1() } else { counts.micro_f1() })
            }
        }
    }
}

/// Returns the class with the greatest logit of each row, or `None` for a row with NaN, because the argmax of such a
/// row differs between backends.
pub(crate) fn predictions<B: Backend>(logits: &Tensor<B, 2>) -> Vec<Option<i64>> {
    let classes = logits.clone().argmax(1).into_data();
    let is_nan = logits.clone().is_nan().any_dim(1).into_data();
    classes.iter::<i64>().zip(is_nan.iter::<bool>()).map(|(class, is_nan)| (!is_nan).then_some(class)).collect()
}
