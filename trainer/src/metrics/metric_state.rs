//! A metric while batches are evaluated.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_cluster::{ClusterError, ProcessGroup};

use super::confusion_matrix::ConfusionMatrix;
use super::metric::Metric;
use super::roc_auc::ScoredLabels;

/// What one rank has seen of its seeds.
#[derive(Debug, Clone)]
pub enum MetricState {
    /// Seeds that are classified correctly, and seeds.
    Accuracy([f64; 2]),
    /// All scores.
    RocAuc(ScoredLabels),
    /// Labels and predictions; and which F1 of them.
    F1(ConfusionMatrix, Metric),
}

impl MetricState {
    /// No seeds yet.
    pub fn new(metric: Metric, num_classes: usize) -> Self {
        match metric {
            Metric::Accuracy => Self::Accuracy([0.0; 2]),
            Metric::RocAuc => Self::RocAuc(ScoredLabels::default()),
            Metric::MicroF1 | Metric::MacroF1 => Self::F1(ConfusionMatrix::new(num_classes), metric),
        }
    }

    /// Adds a batch, whose labels are classes.
    ///
    /// # Shapes
    /// - `logits`: `[seeds, classes]`
    /// - `labels`: `[seeds]`
    pub fn add<B: Backend>(&mut self, logits: &Tensor<B, 2>, labels: &[i64]) {
        let [rows, classes] = logits.dims();
        if rows == 0 || classes == 0 {
            return;
        }
        let predictions = || logits.clone().argmax(1).into_data();
        match self {
            Self::Accuracy([correct, seeds]) => {
                let right = predictions().iter::<i64>().zip(labels).filter(|(found, label)| found == *label).count();
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
            Self::F1(matrix, _) => {
                predictions().iter::<i64>().zip(labels).for_each(|(found, &label)| matrix.add(label, found));
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
            Self::RocAuc(scored) => Ok(scored.all_gather(world)?.roc_auc()),
            Self::F1(mut matrix, metric) => {
                matrix.all_reduce(world)?;
                Ok(if metric == Metric::MacroF1 { matrix.macro_f1() } else { matrix.micro_f1() })
            }
        }
    }
}
