//! The area under the ROC curve.

#[cfg(doc)]
use super::gathered_scores::GatheredScores;
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use rayon::prelude::*;

/// The number of scores that all ranks together exchange per round.
const SCORES_PER_ROUND: usize = 1 << 20;

/// The scores of one rank's seeds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoredLabels {
    /// Scores of positive seeds.
    pub positives: Vec<f32>,
    /// Scores of negative seeds.
    pub negatives: Vec<f32>,
}

impl ScoredLabels {
    /// Adds a seed.
    pub fn push(&mut self, score: f32, positive: bool) {
        if positive {
            self.positives.push(score);
        } else {
            self.negatives.push(score);
        }
    }

    /// Removes the seeds whose score is NaN.
    pub(crate) fn remove_nan(&mut self) {
        self.positives.retain(|score| !score.is_nan());
        self.negatives.retain(|score| !score.is_nan());
    }

    /// Returns true if a score is NaN.
    pub(super) fn has_nan(&self) -> bool {
        self.positives.iter().chain(&self.negatives).any(|score| score.is_nan())
    }

    /// Returns the area under the ROC curve of the seeds of all ranks, see [`GatheredScores::roc_auc`]. The result is the same
    /// on each rank. Every rank must call this.
    ///
    /// The scores of the more frequent kind (positive or negative) stay on their ranks. The scores of the other kind
    /// are gathered on all ranks, at most 4 MiB at a time, and each rank counts the correctly ordered pairs with its
    /// own scores.
    ///
    /// # Errors
    /// [`ClusterError`] if a collective fails.
    pub fn roc_auc_over_all_ranks(self, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        let mut totals = [self.positives.len() as u64, self.negatives.len() as u64, u64::from(self.has_nan())];
        world.all_reduce(&mut totals, ReduceOp::Sum)?;
        let [positives, negatives, ranks_with_nan] = totals;
        if ranks_with_nan > 0 || positives == 0 || negatives == 0 {
            return Ok(None);
        }
        let positives_travel = positives <= negatives;
        let (travelling, mut staying) =
            if positives_travel { (self.positives, self.negatives) } else { (self.negatives, self.positives) };
        staying.sort_unstable_by(f32::total_cmp);
        let mut twice_won = 0_u128;
        scores_of_all_ranks(world, &travelling, |scores| {
            let twice_above = twice_above(scores, &staying);
            // If the negatives travel, `twice_above` counts for the negatives. A pair counts 2 in total for both sides,
            // so the positives have the rest.
            let twice_pairs = 2 * scores.len() as u128 * staying.len() as u128;
            twice_won += if positives_travel { twice_above } else { twice_pairs - twice_above };
        })?;
        // All-reduce adds 64-bit numbers. The 128-bit count is split into limbs of 32 bits, so that sums over all ranks
        // fit.
        let low = u128::from(u32::MAX);
        let mut limbs = [twice_won & low, (twice_won >> 32) & low, twice_won >> 64].map(|limb| limb as u64);
        world.all_reduce(&mut limbs, ReduceOp::Sum)?;
        let twice_won = u128::from(limbs[0]) + (u128::from(limbs[1]) << 32) + (u128::from(limbs[2]) << 64);
        Ok(Some(Pairs { positives, negatives }.share_in_order(twice_won)))
    }
}

/// The numbers of positives and negatives, whose product is the number of pairs.
pub(super) struct Pairs {
    pub(super) positives: u64,
    pub(super) negatives: u64,
}

impl Pairs {
    /// Returns the share of correctly ordered pairs, given twice their number.
    pub(super) fn share_in_order(&self, twice_won: u128) -> f64 {
        twice_won as f64 / 2.0 / (self.positives as f64 * self.negatives as f64)
    }
}

/// Returns twice the number of pairs of a score and a smaller entry of `sorted`, plus the number of pairs of equal
/// values. Counts are doubled so that ties, which count half, are integers.
pub(super) fn twice_above(scores: &[f32], sorted: &[f32]) -> u128 {
    let of_score = |&score: &f32| {
        // `<` and `<=` treat -0.0 and 0.0 as equal. `total_cmp` sorts them next to each other, so the partitions are
        // valid.
        let below = sorted.partition_point(|&other| other < score);
        let tied = sorted[below..].partition_point(|&other| other <= score);
        2 * below as u128 + tied as u128
    };
    scores.par_iter().map(of_score).sum()
}

/// Calls `work` with the scores of all ranks, piece by piece. All ranks take part in the same number of rounds, also
/// those that have no scores left.
pub(super) fn scores_of_all_ranks(
    world: &mut ProcessGroup,
    mine: &[f32],
    mut work: impl FnMut(&[f32]),
) -> Result<(), ClusterError> {
    let scores_per_rank = (SCORES_PER_ROUND / world.size()).max(1);
    let mut rounds = [mine.len().div_ceil(scores_per_rank) as u64];
    world.all_reduce(&mut rounds, ReduceOp::Max)?;
    let mut pieces = mine.chunks(scores_per_rank);
    for _ in 0..rounds[0] {
        let piece = pieces.next().unwrap_or_default();
        let bytes: Vec<u8> = piece.iter().flat_map(|score| score.to_le_bytes()).collect();
        for theirs in world.all_gather(&bytes)? {
            let (words, _) = theirs.as_chunks::<4>();
            let scores: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
            work(&scores);
        }
    }
    Ok(())
}
