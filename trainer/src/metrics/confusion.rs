//! The predictions of a classifier by label.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// The number of seeds by label and predicted class.
///
/// ```
/// use edgecut_trainer::metrics::ConfusionMatrix;
/// let mut matrix = ConfusionMatrix::new(2).expect("few classes");
/// for (label, prediction) in [(0, 0), (0, 1), (1, 1)] {
///     matrix.add(label, prediction);
/// }
/// assert_eq!(matrix.rows(), [[1, 1], [0, 1]]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfusionMatrix {
    num_classes: usize,
    /// `[num_classes * num_classes]`, row by row.
    counts: Vec<u64>,
}

impl ConfusionMatrix {
    /// The most classes of a matrix, which bounds its memory to 2 MB.
    pub const MAX_CLASSES: usize = 512;

    /// Makes a matrix of zeros, or `None` for no or more than [`Self::MAX_CLASSES`] classes.
    pub fn new(num_classes: usize) -> Option<Self> {
        let fits = (1..=Self::MAX_CLASSES).contains(&num_classes);
        fits.then(|| Self { num_classes, counts: vec![0; num_classes * num_classes] })
    }

    /// Adds a seed. A seed whose label or prediction is not a class is ignored.
    pub fn add(&mut self, label: i64, prediction: i64) {
        let class = |value: i64| usize::try_from(value).ok().filter(|&class| class < self.num_classes);
        if let (Some(label), Some(prediction)) = (class(label), class(prediction)) {
            self.counts[label * self.num_classes + prediction] += 1;
        }
    }

    /// Adds the counts of all other ranks. Every rank must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if the collective fails.
    pub fn all_reduce(&mut self, world: &mut ProcessGroup) -> Result<(), ClusterError> {
        world.all_reduce(&mut self.counts, ReduceOp::Sum)
    }

    /// Returns the rows: the number of seeds of each label by predicted class. `[num_classes][num_classes]`
    pub fn rows(&self) -> Vec<&[u64]> {
        self.counts.chunks_exact(self.num_classes).collect()
    }
}
