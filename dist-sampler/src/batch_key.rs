//! The key of a batch, which determines all of its random numbers.

use edgecut_graph::rng::combine;
use serde::{Deserialize, Serialize};

/// The key of a batch. Two batches with the same key and the same seed nodes are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BatchKey {
    /// The seed of the run.
    pub seed: u64,
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The number of the batch within the epoch, over all ranks.
    pub batch: u64,
}

impl BatchKey {
    /// Returns the key as one number, from which the random numbers of the batch follow.
    pub fn stream(self) -> u64 {
        combine(combine(combine(0, self.seed), self.epoch), self.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_changes_the_stream() {
        let key = BatchKey { seed: 1, epoch: 2, batch: 3 };
        let others = [BatchKey { seed: 2, ..key }, BatchKey { epoch: 1, ..key }, BatchKey { batch: 2, ..key }];
        for other in others {
            assert_ne!(key.stream(), other.stream());
        }
    }
}
