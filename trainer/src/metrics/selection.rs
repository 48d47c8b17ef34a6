//! The comparison of epochs.

/// The metric that selects the best epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The name of the metric.
    pub metric: String,
    /// True if greater values are better.
    pub higher_is_better: bool,
}

impl Selection {
    /// Returns true if a value of the metric is better than another one.
    pub fn is_better(&self, value: f64, than: f64) -> bool {
        if self.higher_is_better { value > than } else { value < than }
    }
}
