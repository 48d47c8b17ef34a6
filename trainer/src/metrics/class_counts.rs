//! Counts of labels, predictions and matches per class, and the F1 scores that are computed from them.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// Three counters per class: the seeds with this label, the predictions of this class, and the correct predictions of
/// it.
///
/// ```
/// use edgecut_trainer::metrics::ClassCounts;
/// let mut counts = ClassCounts::new(3);
/// for (label, prediction) in [(0, 0), (0, 1), (1, 1), (2, 2)] {
///     counts.add(label, prediction);
/// }
/// assert_eq!(counts.micro_f1(), Some(0.75));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassCounts {
    /// `[num_classes * 3]`: the labelled, predicted and correct seeds of class 0, then of class 1, and so on.
    counts: Vec<u64>,
}

/// The counters of one class.
#[derive(Debug, Clone, Copy)]
struct OfClass {
    labelled: u64,
    predicted: u64,
    correct: u64,
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
    ///
    /// ```
    /// use edgecut_trainer::metrics::ClassCounts;
    /// let mut counts = ClassCounts::new(2);
    /// counts.add(0, 0);
    /// counts.add_unclassified(0);
    /// assert_eq!(counts.micro_f1(), Some(0.5));
    /// ```
    pub fn add_unclassified(&mut self, label: i64) {
        if let Some(label) = self.class(label) {
            self.counts[3 * label] += 1;
        }
    }

    fn class(&self, value: i64) -> Option<usize> {
        usize::try_from(value).ok().filter(|class| 3 * class < self.counts.len())
    }

    /// Adds the counts of all other ranks. Every rank must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if the collective fails.
    pub fn all_reduce(&mut self, world: &mut ProcessGroup) -> Result<(), ClusterError> {
        world.all_reduce(&mut self.counts, ReduceOp::Sum)
    }

    fn classes(&self) -> impl Iterator<Item = OfClass> {
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

    /// Returns the mean F1 of the classes that have seeds or predictions, or `None` if there are none. A class without
    /// a correct seed has an F1 of 0.
    ///
    /// ```
    /// use edgecut_trainer::metrics::ClassCounts;
    /// let mut counts = ClassCounts::new(3);
    /// counts.add(0, 0);
    /// counts.add(1, 2);
    /// // Class 0 has an F1 of 1. Class 1 was not found, and class 2 was predicted wrongly.
    /// assert_eq!(counts.macro_f1(), Some(1.0 / 3.0));
    /// ```
    pub fn macro_f1(&self) -> Option<f64> {
        let f1 = |class: OfClass| {
            // F1 = 2 TP / (2 TP + FP + FN), and labelled + predicted = 2 TP + FP + FN.
            let both = class.labelled + class.predicted;
            (both > 0).then(|| 2.0 * class.correct as f64 / both as f64)
        };
        let mut sum = 0.0;
        let mut classes = 0_u64;
        for f1 in self.classes().filter_map(f1) {
            sum += f1;
            classes += 1;
        }
        (classes > 0).then(|| sum / classes as f64)
    }
}
