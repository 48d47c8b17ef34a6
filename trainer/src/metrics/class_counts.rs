//! How often each class was taken for each.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// Counts of (label, prediction).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfusionMatrix {
    num_classes: usize,
    /// `[label, prediction]`.
    counts: Vec<u64>,
}

impl ConfusionMatrix {
    /// No seeds yet.
    pub fn new(num_classes: usize) -> Self {
        Self { num_classes, counts: vec![0; num_classes * num_classes] }
    }

    /// Adds a seed; one whose label or prediction is no class is left out.
    pub fn add(&mut self, label: i64, prediction: i64) {
        let class = |value: i64| usize::try_from(value).ok().filter(|&class| class < self.num_classes);
        if let (Some(label), Some(prediction)) = (class(label), class(prediction)) {
            self.counts[label * self.num_classes + prediction] += 1;
        }
    }

    /// Adds the seeds of all other ranks.
    ///
    /// # Errors
    /// A failure of the job.
    pub fn all_reduce(&mut self, world: &mut ProcessGroup) -> Result<(), ClusterError> {
        world.all_reduce(&mut self.counts, ReduceOp::Sum)
    }

    /// Seeds of the class, predictions of it, and how many of both.
    fn of_class(&self, class: usize) -> [u64; 3] {
        let labelled = self.counts[class * self.num_classes..][..self.num_classes].iter().sum();
        let predicted = self.counts.iter().skip(class).step_by(self.num_classes).sum();
        [labelled, predicted, self.counts[class * (self.num_classes + 1)]]
    }

    /// F1 of all decisions together, if there was a seed. With one label and one prediction per seed, each wrong decision is a
    /// false positive of one class and a false negative of another: it equals the accuracy.
    pub fn micro_f1(&self) -> Option<f64> {
        let all: u64 = self.counts.iter().sum();
        let correct: u64 = (0..self.num_classes).map(|class| self.of_class(class)[2]).sum();
        (all > 0).then(|| correct as f64 / all as f64)
    }

    /// The mean F1 of the classes that have seeds or were predicted, if there is one; a class of which none was found has 0.
    pub fn macro_f1(&self) -> Option<f64> {
        let f1 = |[labelled, predicted, correct]: [u64; 3]| {
            let both = labelled + predicted;
            (both > 0).then(|| 2.0 * correct as f64 / both as f64)
        };
        let all: Vec<f64> = (0..self.num_classes).filter_map(|class| f1(self.of_class(class))).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }
}
