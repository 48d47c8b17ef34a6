//! A stretch of an epoch that one number of processes has trained on.

use serde::{Deserialize, Serialize};

/// A stretch of an epoch's steps during which the number of processes did not change.
///
/// A run that is interrupted within an epoch can continue with another number of processes. The segments of the epoch so
/// far then determine which seeds are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochSegment {
    /// The number of processes.
    pub world_size: usize,
    /// The number of groups of parts that these processes held; 0 for sets of small graphs, which have no parts.
    pub num_groups: usize,
    /// The number of steps in which these processes would have finished the epoch.
    pub num_steps: usize,
    /// The number of steps that they took.
    pub steps: usize,
}

impl EpochSegment {
    /// Returns the number of batches of all processes in some segments.
    pub fn num_batches(segments: &[Self]) -> usize {
        segments.iter().map(|segment| segment.world_size * segment.steps).sum()
    }
}
