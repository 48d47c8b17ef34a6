//! What names a batch, and so everything random about it.

use edgecut_graph::rng::combine;

/// Names a batch: two batches with the same key and the same seed nodes are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    /// The seed of the run.
    pub seed: u64,
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The batch within the epoch, over all ranks.
    pub batch: u64,
}

impl BatchKey {
    /// The key as one number, which is what goes over the wire.
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
