//! The scores of positive and negative seeds.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use serde::Serialize;

/// The number of bins.
const BINS: usize = 20;

/// Counts of positive and negative seeds by their score, as a probability: the logistic function of the score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScoreHistogram {
    /// The positive seeds in each bin. Bin *b* of *n* has probabilities from *b / n* to *(b + 1) / n*.
    pub positives: [u64; BINS],
    /// The negative seeds in each bin.
    pub negatives: [u64; BINS],
}

impl ScoreHistogram {
    /// Adds a seed. A score of NaN is ignored.
    pub fn add(&mut self, score: f32, positive: bool) {
        if score.is_nan() {
            return;
        }
        let probability = 1.0 / (1.0 + (-score).exp());
        let bin = ((probability * BINS as f32) as usize).min(BINS - 1);
        let counts = if positive { &mut self.positives } else { &mut self.negatives };
        counts[bin] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        let bins =
            self.positives.iter_mut().zip(&other.positives).chain(self.negatives.iter_mut().zip(&other.negatives));
        bins.for_each(|(count, others)| *count += others);
    }

    /// Adds the counts of all other ranks. Every rank must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if the collective fails.
    pub fn all_reduce(&mut self, world: &mut ProcessGroup) -> Result<(), ClusterError> {
        let mut sums = [self.positives, self.negatives].concat();
        world.all_reduce(&mut sums, ReduceOp::Sum)?;
        self.positives.copy_from_slice(&sums[..BINS]);
        self.negatives.copy_from_slice(&sums[BINS..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_has_a_bin() {
        let mut histogram = ScoreHistogram::default();
        for score in [f32::NEG_INFINITY, -1e30, 0.0, 1e30, f32::INFINITY, f32::NAN] {
            histogram.add(score, false);
        }
        let mut expected = [0; BINS];
        (expected[0], expected[BINS / 2], expected[BINS - 1]) = (2, 1, 2);
        assert_eq!((histogram.negatives, histogram.positives), (expected, [0; BINS]));
    }
}
