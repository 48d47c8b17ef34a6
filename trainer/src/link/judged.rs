//! The scores of held-out edges and of their negatives during an evaluation.

use super::config::LinkMetric;
use super::scores::LinkScores;
use crate::error::TrainError;
use crate::metrics::{
    CurveCounts, GatheredScores, MetricList, RankingMetrics, ScoreHistogram, ScoredLabels, realistic_rank,
};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_graph::Split;

/// The edges that this rank has judged so far.
pub(super) struct Judged {
    metrics: MetricList<LinkMetric>,
    ranks: RankingMetrics,
    histogram: ScoreHistogram,
    /// The scores of test edges and their negatives.
    curve: Option<CurveCounts>,
    /// All scores, if the metric needs them or all edges share their negatives.
    scored: Option<ScoredLabels>,
    is_shared: bool,
    num_left_out: u64,
}

impl Judged {
    /// Starts an evaluation of a split. `is_shared` is true if all edges share their negatives.
    pub(super) fn new(split: Split, metrics: &MetricList<LinkMetric>, is_shared: bool) -> Self {
        // Each score takes 4 bytes, so scores are kept only if all of them are needed.
        let keeps_scores = is_shared || metrics.iter().any(LinkMetric::needs_all_scores);
        Self {
            metrics: metrics.clone(),
            ranks: RankingMetrics::with_depths(&depths_of(metrics)),
            histogram: ScoreHistogram::default(),
            curve: (split == Split::Test).then(CurveCounts::of_scores),
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
        if let Some(curve) = &mut self.curve {
            curve.add_score(score, is_positive);
        }
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
            Some(scored) if self.is_shared || self.metrics.contains(LinkMetric::AveragePrecision) => {
                Some(GatheredScores::of_all_ranks(scored, world)?)
            }
            _ => None,
        };
        if let Some(gathered) = gathered.as_ref().filter(|_| self.is_shared) {
            self.ranks = gathered.ranking(&depths_of(&self.metrics));
        } else {
            self.ranks.all_reduce(world)?;
        }
        let (roc_auc, average_precision) = match (gathered, self.scored) {
            (Some(gathered), _) => (gathered.roc_auc(), gathered.average_precision()),
            (None, Some(scored)) => (scored.roc_auc_over_all_ranks(world)?, None),
            (None, None) => (None, None),
        };
        let curves = match self.curve {
            Some(curve) => curve.curves(world)?,
            None => Vec::new(),
        };
        let histogram = Some(self.histogram);
        let [left_out] = left_out;
        Ok(LinkScores { roc_auc, average_precision, histogram, curves, left_out, ..LinkScores::new(&self.ranks) })
    }
}

/// Returns the depths of the hits that metrics count.
pub(super) fn depths_of(metrics: &MetricList<LinkMetric>) -> Vec<u32> {
    let mut depths = Vec::new();
    for metric in metrics.iter() {
        if let LinkMetric::HitsAt(depth) = metric {
            depths.push(depth);
        }
    }
    depths
}
