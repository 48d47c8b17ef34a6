//! The scores of held-out edges and of their negatives during an evaluation.

use super::config::LinkMetric;
use super::scores::LinkScores;
use crate::error::TrainError;
use crate::metrics::{GatheredScores, RankingMetrics, ScoreHistogram, ScoredLabels, realistic_rank};
use edgecut_cluster::{ProcessGroup, ReduceOp};

/// The edges that this rank has judged so far.
pub(super) struct Judged {
    metric: LinkMetric,
    ranks: RankingMetrics,
    histogram: ScoreHistogram,
    /// All scores, if the metric needs them or all edges share their negatives.
    scored: Option<ScoredLabels>,
    is_shared: bool,
    num_left_out: u64,
}

impl Judged {
    /// Starts an evaluation. `is_shared` is true if all edges share their negatives.
    pub(super) fn new(metric: LinkMetric, is_shared: bool) -> Self {
        // Each score takes 4 bytes, so scores are kept only if all of them are needed.
        let keeps_scores = is_shared || metric.needs_all_scores();
        Self {
            metric,
            ranks: RankingMetrics::with_depth(depth_of(metric)),
            histogram: ScoreHistogram::default(),
            scored: keeps_scores.then(ScoredLabels::default),
            is_shared,
            num_left_out: 0,
        }
    }

    /// Counts edges without negatives, which cannot be ranked.
    pub(super) fn leave_out(&mut self, num_edges: usize) {
        self.num_left_out += num_edges as u64;
    }

    /// Adds an edge with its own negatives.
    pub(super) fn add(&mut self, positive: f32, negatives: &[f32]) {
        self.ranks.add(realistic_rank(positive, negatives));
        self.add_score(positive, true);
        negatives.iter().for_each(|&score| self.add_score(score, false));
    }

    /// Adds the score of an edge or of a negative that all edges share.
    pub(super) fn add_score(&mut self, score: f32, is_positive: bool) {
        self.histogram.add(score, is_positive);
        if let Some(scored) = &mut self.scored {
            scored.push(score, is_positive);
        }
    }

    /// Returns the scores over all ranks. Every rank must call this.
    pub(super) fn scores(mut self, world: &mut ProcessGroup) -> Result<LinkScores, TrainError> {
        self.histogram.all_reduce(world)?;
        let mut left_out = [self.num_left_out];
        world.all_reduce(&mut left_out, ReduceOp::Sum)?;
        let gathered = match &self.scored {
            Some(scored) if self.is_shared || self.metric == LinkMetric::AveragePrecision => {
                Some(GatheredScores::of_all_ranks(scored, world)?)
            }
            _ => None,
        };
        if let Some(gathered) = gathered.as_ref().filter(|_| self.is_shared) {
            self.ranks = gathered.ranking(depth_of(self.metric));
        } else {
            self.ranks.all_reduce(world)?;
        }
        let (roc_auc, average_precision) = match (gathered, self.scored) {
            (Some(gathered), _) => (gathered.roc_auc(), gathered.average_precision()),
            (None, Some(scored)) => (scored.roc_auc_over_all_ranks(world)?, None),
            (None, None) => (None, None),
        };
        let histogram = Some(self.histogram);
        let [left_out] = left_out;
        Ok(LinkScores { roc_auc, average_precision, histogram, left_out, ..LinkScores::new(&self.ranks) })
    }
}

/// Returns the depth of the hits that a metric counts. The others count hits at 1, 3 and 10 alone.
pub(super) fn depth_of(metric: LinkMetric) -> u32 {
    match metric {
        LinkMetric::HitsAt(depth) => depth,
        LinkMetric::Mrr | LinkMetric::RocAuc | LinkMetric::AveragePrecision => 10,
    }
}
