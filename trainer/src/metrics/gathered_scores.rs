//! The scores of all ranks in one place, for metrics that compare each positive with all negatives.

use super::ranking::RankingMetrics;
use super::roc_auc::{Pairs, ScoredLabels, scores_of_all_ranks, twice_above};
use edgecut_cluster::{ClusterError, ProcessGroup};

/// The scores of the positives and negatives of all ranks. Each rank holds all of them, 4 bytes each.
///
/// A positive whose score is NaN ranks below all others, and a negative above all others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatheredScores {
    /// Ascending.
    positives: Vec<f32>,
    /// Ascending.
    negatives: Vec<f32>,
    has_nan: bool,
}

impl GatheredScores {
    /// Sorts the scores of a single rank.
    pub fn of_one_rank(scored: ScoredLabels) -> Self {
        let has_nan = scored.has_nan();
        let sorted = |scores: Vec<f32>, in_place_of_nan: f32| {
            let mut scores: Vec<f32> =
                scores.into_iter().map(|score| if score.is_nan() { in_place_of_nan } else { score }).collect();
            scores.sort_unstable_by(f32::total_cmp);
            scores
        };
        Self {
            positives: sorted(scored.positives, f32::NEG_INFINITY),
            negatives: sorted(scored.negatives, f32::INFINITY),
            has_nan,
        }
    }

    /// Gathers the scores of all ranks. Every rank must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if a collective fails.
    pub fn of_all_ranks(scored: &ScoredLabels, world: &mut ProcessGroup) -> Result<Self, ClusterError> {
        let mut all = ScoredLabels::default();
        scores_of_all_ranks(world, &scored.positives, |scores| all.positives.extend_from_slice(scores))?;
        scores_of_all_ranks(world, &scored.negatives, |scores| all.negatives.extend_from_slice(scores))?;
        Ok(Self::of_one_rank(all))
    }

    /// Returns the scores of positives in ascending order.
    pub(super) fn positives(&self) -> &[f32] {
        &self.positives
    }

    /// Returns the scores of negatives in ascending order.
    pub(super) fn negatives(&self) -> &[f32] {
        &self.negatives
    }

    /// Returns the area under the ROC curve: the probability that a positive scores higher than a negative, where ties
    /// count half (Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic curve",
    /// Radiology 1982).
    ///
    /// The result is exact. It is `None` without positives, without negatives, or if a score is NaN.
    pub fn roc_auc(&self) -> Option<f64> {
        let pairs = Pairs { positives: self.positives.len() as u64, negatives: self.negatives.len() as u64 };
        self.is_defined().then(|| pairs.share_in_order(twice_above(&self.positives, &self.negatives)))
    }

    /// Returns the average precision: the mean over the positives of the precision among the seeds that score at least as
    /// high as the positive. It equals the sum over all thresholds of the precision times the increase of the recall.
    /// `None` without positives or negatives, or if a score is NaN.
    pub fn average_precision(&self) -> Option<f64> {
        if !self.is_defined() {
            return None;
        }
        let precision = |&score: &f32| {
            let positives = self.positives.len() - self.positives.partition_point(|&other| other < score);
            let Counts { above, tied } = self.negatives_of(score);
            positives as f64 / (positives + above + tied) as f64
        };
        Some(self.positives.iter().map(precision).sum::<f64>() / self.positives.len() as f64)
    }

    /// Ranks each positive among all negatives. Besides hits at 1, 3 and 10 it counts hits at `depths`.
    ///
    /// The reciprocal rank is that of the realistic rank. For hits, ties count against the positive: a hit at K scores
    /// higher than the K-th highest negative, as in the evaluators of OGB (Hu et al., "Open Graph Benchmark: Datasets for
    /// machine learning on graphs", NeurIPS 2020).
    pub fn ranking(&self, depths: &[u32]) -> RankingMetrics {
        let mut metrics = RankingMetrics::with_depths(depths);
        for &score in &self.positives {
            let Counts { above, tied } = self.negatives_of(score);
            metrics.add_with_ties(above, tied);
        }
        metrics
    }

    fn is_defined(&self) -> bool {
        !self.has_nan && !self.positives.is_empty() && !self.negatives.is_empty()
    }

    /// Counts the negatives with a higher score and those with the same score.
    fn negatives_of(&self, score: f32) -> Counts {
        // `<` and `<=` treat -0.0 and 0.0 as equal, which are neighbors in the order.
        let below = self.negatives.partition_point(|&other| other < score);
        let tied = self.negatives[below..].partition_point(|&other| other <= score);
        Counts { above: self.negatives.len() - below - tied, tied }
    }
}

/// The numbers of negatives with a higher score than a positive, and with the same score.
struct Counts {
    above: usize,
    tied: usize,
}
