//! The sums of a step over the seeds of all ranks.

use serde::{Deserialize, Serialize};

/// The base in which a count is encoded as two `f32` digits, remainder and quotient. The sums of the digits over up to
/// 16,384 ranks stay below 2^24 if each rank has fewer than a million seeds in a step, so `f32` holds them exactly.
const COUNT_BASE: f64 = 1024.0;
/// The number of `f32` values that encode [`SeedTotals`]: the loss, two digits for each of the two counts and for the
/// whole part of the weight, and the rest of the weight.
const NUM_TOTALS: usize = 8;

/// Sums over the seeds of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedTotals {
    /// The sum of the seeds' losses, times their weights.
    pub loss: f64,
    /// The number of correct predictions; 0 if the loss does not count them.
    pub correct: f64,
    /// The number of seeds.
    pub seeds: f64,
    /// The sum of the weights: the number of seeds unless classes have weights, or the number of known values.
    pub weight: f64,
}

impl SeedTotals {
    /// Adds the totals of other seeds.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.correct += other.correct;
        self.seeds += other.seeds;
        self.weight += other.weight;
    }

    /// Appends the totals to a vector of gradients, so that one all-reduce sums both.
    pub(crate) fn append_to(&self, flat: &mut Vec<f32>) {
        flat.push(self.loss as f32);
        for count in [self.correct, self.seeds, self.weight.floor()] {
            let high = (count / COUNT_BASE).floor();
            flat.extend([(count - high * COUNT_BASE) as f32, high as f32]);
        }
        flat.push(self.weight.fract() as f32);
    }

    /// Removes the totals that [`SeedTotals::append_to`] appended from a vector, or from a sum of such vectors.
    pub(crate) fn split_off(flat: &mut Vec<f32>) -> Self {
        let numbers: Vec<f64> =
            flat.split_off(flat.len().saturating_sub(NUM_TOTALS)).into_iter().map(f64::from).collect();
        let number = |index: usize| numbers.get(index).copied().unwrap_or(0.0);
        let count = |low: usize| number(low) + number(low + 1) * COUNT_BASE;
        Self { loss: number(0), correct: count(1), seeds: count(3), weight: count(5) + number(7) }
    }

    /// Returns the mean loss, weighted, or `None` without seeds.
    pub fn mean_loss(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.loss / self.weight)
    }

    /// Returns the fraction of correctly classified seeds, or `None` without seeds.
    pub fn accuracy(&self) -> Option<f64> {
        (self.seeds > 0.0).then(|| self.correct / self.seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_many_ranks_are_exact_in_a_vector_of_gradients() {
        const RANKS: usize = 16_384;
        let mine = SeedTotals { loss: 0.5, correct: 999_423.0, seeds: 999_999.0, weight: 123_456.5 };
        let mut flat = vec![0.25_f32, -1.0];
        mine.append_to(&mut flat);
        assert_eq!(flat.len(), 2 + NUM_TOTALS);
        let mut sums = vec![0.0_f32; flat.len()];
        for _ in 0..RANKS {
            sums.iter_mut().zip(&flat).for_each(|(sum, number)| *sum += number);
        }
        let ranks = RANKS as f64;
        let expected = SeedTotals {
            loss: 0.5 * ranks,
            correct: 999_423.0 * ranks,
            seeds: 999_999.0 * ranks,
            weight: 123_456.5 * ranks,
        };
        assert_eq!(SeedTotals::split_off(&mut sums), expected);
        assert_eq!(sums, [0.25 * RANKS as f32, -(RANKS as f32)], "the gradients stay");
    }

    #[test]
    fn totals_of_a_rank_without_seeds_are_zero() {
        let mut flat = Vec::new();
        SeedTotals::default().append_to(&mut flat);
        assert_eq!(SeedTotals::split_off(&mut flat), SeedTotals::default());
        assert!(flat.is_empty());
    }
}
