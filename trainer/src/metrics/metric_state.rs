//! A metric while batches are evaluated.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_cluster::{ClusterError, ProcessGroup};

use super::class_counts::ClassCounts;
use super::metric::Metric;
use super::roc_auc::ScoredLabels;

/// What one rank has seen of its seeds.
#[derive(Debug, Clone)]
pub enum MetricState {
    /// Seeds that are classified correctly, and seeds.
    Accuracy([f64; 2]),
    /// The scores of this rank's seeds.
    RocAuc(ScoredLabels),
    /// Counts of labels and predictions; and which F1 of them.
    F1(ClassCounts, Metric),
}

impl MetricState {
    /// No seeds yet.
    pub fn new(metric: Metric, num_classes: usize) -> Self {
        match metric {
            Metric::Accuracy => Self::Accuracy([0.0; 2]),
            Metric::RocAuc => Self::RocAuc(ScoredLabels::default()),
            Metric::MicroF1 | Metric::MacroF1 => Self::F1(ClassCounts::new(num_classes), metric),
        }
    }

    /// Adds a batch, whose labels are classes. A seed with a NaN among its logits is classified wrongly.
    ///
    /// # Shapes
    /// - `logits`: `[seeds, classes]`
    /// - `labels`: `[seeds]`
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
            Self::RocAuc(scored) => {
                // The greater the logit of class 1 is over that of class 0, the more probable it is.
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

    /// The metric over the seeds of all ranks, the same on each; nothing where it is not defined, as without seeds.
    ///
    /// # Errors
    /// A failure of the job.
    pub fn over_all_ranks(self, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        match self {
            Self::Accuracy(mut sums) => {
                world.all_reduce(&mut sums, edgecut_cluster::ReduceOp::Sum)?;
                let [correct, seeds] = sums;
                Ok((seeds > 0.0).then(|| correct / seeds))
            }
            Self::RocAuc(scored) => scored.roc_auc_over_all_ranks(world),
            Self::F1(mut counts, metric) => {
                counts.all_reduce(world)?;
                Ok(if metric == Metric::MacroF1 { counts.macro_f1() } else { counts.micro_f1() })
            }
        }
    }
}

/// Returns the class with the greatest logit of each row; nothing for a row with a NaN, of which backends make different
/// classes.
fn predictions<B: Backend>(logits: &Tensor<B, 2>) -> Vec<Option<i64>> {
    let classes = logits.clone().argmax(1).into_data();
    let is_nan = logits.clone().is_nan().any_dim(1).into_data();
    classes.iter::<i64>().zip(is_nan.iter::<bool>()).map(|(class, is_nan)| (!is_nan).then_some(class)).collect()
}
