//! How high true edges rank among false ones.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// The depths at which hits are counted.
const DEPTHS: [f64; 3] = [1.0, 3.0, 10.0];

/// The rank of a true edge among false ones, from 1: the mean of the optimistic one, where ties rank below it, and of the
/// pessimistic one, where they rank above it (Berrendorf et al., "On the ambiguity of rank-based evaluation of entity
/// alignment or link prediction methods", 2020). A model that scores all alike so gains nothing.
///
/// A NaN is no score: a true edge with one ranks last, false ones with one rank above it.
pub fn realistic_rank(score: f32, others: &[f32]) -> f64 {
    let (above, tied) = others.iter().fold((0_u64, 0_u64), |(above, tied), &other| match score.partial_cmp(&other) {
        Some(std::cmp::Ordering::Greater) => (above, tied),
        Some(std::cmp::Ordering::Equal) => (above, tied + 1),
        Some(std::cmp::Ordering::Less) | None => (above + 1, tied),
    });
    1.0 + above as f64 + tied as f64 / 2.0
}

/// Sums over ranks of true edges.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RankingMetrics {
    reciprocals: f64,
    /// At 1, 3 and 10.
    hits: [f64; 3],
    count: f64,
}

impl RankingMetrics {
    /// Adds the rank of an edge, from 1; a half one counts as the next whole one for hits.
    pub fn add(&mut self, rank: f64) {
        self.reciprocals += 1.0 / rank;
        for (hits, depth) in self.hits.iter_mut().zip(DEPTHS) {
            *hits += f64::from(u8::from(rank <= depth));
        }
        self.count += 1.0;
    }

    /// Adds the ranks that all other processes have seen.
    ///
    /// # Errors
    /// A failure of the job.
    pub fn all_reduce(&mut self, world: &mut ProcessGroup) -> Result<(), ClusterError> {
        let [one, three, ten] = self.hits;
        let mut sums = [self.reciprocals, one, three, ten, self.count];
        world.all_reduce(&mut sums, ReduceOp::Sum)?;
        let [reciprocals, one, three, ten, count] = sums;
        *self = Self { reciprocals, hits: [one, three, ten], count };
        Ok(())
    }

    /// How many ranks there were.
    pub fn count(&self) -> u64 {
        self.count as u64
    }

    /// The mean reciprocal rank, if there was a rank.
    pub fn mrr(&self) -> Option<f64> {
        self.share(self.reciprocals)
    }

    /// The shares of ranks of at most 1, 3 and 10, if there was a rank.
    pub fn hits(&self) -> Option<[f64; 3]> {
        let [one, three, ten] = self.hits.map(|hits| self.share(hits));
        Some([one?, three?, ten?])
    }

    fn share(&self, sum: f64) -> Option<f64> {
        (self.count > 0.0).then(|| sum / self.count)
    }
}
