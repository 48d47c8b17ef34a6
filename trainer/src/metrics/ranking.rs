//! Ranking metrics of link prediction.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use std::collections::BTreeMap;

/// The depths at which hits are always counted.
const DEPTHS: [u32; 3] = [1, 3, 10];

/// Returns the rank of a positive edge with score `score` among negative edges with scores `others`, from 1.
///
/// It is the realistic rank: the mean of the optimistic rank, where ties rank below the edge, and the pessimistic rank,
/// where ties rank above it (Berrendorf et al., "On the ambiguity of rank-based evaluation of entity alignment or link
/// prediction methods", 2020). A model that gives all edges the same score gains nothing by it.
///
/// A positive edge whose score is NaN ranks last. Negative edges whose scores are NaN rank above the positive edge.
pub fn realistic_rank(score: f32, others: &[f32]) -> f64 {
    let (above, tied) = others.iter().fold((0_u64, 0_u64), |(above, tied), &other| match score.partial_cmp(&other) {
        Some(std::cmp::Ordering::Greater) => (above, tied),
        Some(std::cmp::Ordering::Equal) => (above, tied + 1),
        Some(std::cmp::Ordering::Less) | None => (above + 1, tied),
    });
    1.0 + above as f64 + tied as f64 / 2.0
}

/// The sums of ranking metrics over positive edges.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingMetrics {
    reciprocals: f64,
    count: f64,
    /// By depth, the number of edges with at most this rank.
    hits: BTreeMap<u32, f64>,
}

impl RankingMetrics {
    /// Makes sums that count the edges among the first 1, 3 and 10, and among the first K for other depths K.
    ///
    /// ```
    /// use edgecut_trainer::metrics::RankingMetrics;
    /// let mut metrics = RankingMetrics::with_depths(&[50, 3, 11]);
    /// metrics.add(12.0);
    /// assert_eq!([3, 11, 50].map(|depth| metrics.hits()[&depth]), [Some(0.0), Some(0.0), Some(1.0)]);
    /// ```
    pub fn with_depths(depths: &[u32]) -> Self {
        let hits = DEPTHS.iter().chain(depths).map(|&depth| (depth, 0.0)).collect();
        Self { reciprocals: 0.0, count: 0.0, hits }
    }

    /// Adds the rank of an edge, from 1. For hits a half rank counts as the next whole rank.
    pub fn add(&mut self, rank: f64) {
        self.add_ranks(rank, rank);
    }

    /// Adds an edge below `above` negatives and beside `tied` ones, for hits after these.
    pub(super) fn add_with_ties(&mut self, above: usize, tied: usize) {
        self.add_ranks(1.0 + above as f64 + tied as f64 / 2.0, 1.0 + (above + tied) as f64);
    }

    /// Adds an edge with its rank, and the rank that counts for hits.
    fn add_ranks(&mut self, rank: f64, rank_of_hits: f64) {
        self.reciprocals += 1.0 / rank;
        self.count += 1.0;
        for (depth, hits) in &mut self.hits {
            *hits += f64::from(u8::from(rank_of_hits <= f64::from(*depth)));
        }
    }

    /// Adds the sums of all other processes. Every process must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if the collective fails.
    pub fn all_reduce(&mut self, world: &mut ProcessGroup) -> Result<(), ClusterError> {
        let mut sums = vec![self.reciprocals, self.count];
        sums.extend(self.hits.values());
        world.all_reduce(&mut sums, ReduceOp::Sum)?;
        self.reciprocals = sums[0];
        self.count = sums[1];
        self.hits.values_mut().zip(&sums[2..]).for_each(|(hits, sum)| *hits = *sum);
        Ok(())
    }

    /// Returns the number of ranked edges.
    pub fn count(&self) -> u64 {
        self.count as u64
    }

    /// Returns the mean reciprocal rank, or `None` without edges.
    pub fn mrr(&self) -> Option<f64> {
        self.share(self.reciprocals)
    }

    /// Returns by depth the share of edges with at most this rank, or `None` without edges.
    pub fn hits(&self) -> BTreeMap<u32, Option<f64>> {
        self.hits.iter().map(|(&depth, &hits)| (depth, self.share(hits))).collect()
    }

    fn share(&self, sum: f64) -> Option<f64> {
        (self.count > 0.0).then(|| sum / self.count)
    }
}
