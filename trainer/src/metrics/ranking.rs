//! Ranking metrics of link prediction.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// The values of k of the metric hits@k.
const DEPTHS: [f64; 3] = [1.0, 3.0, 10.0];

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
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankingMetrics {
    reciprocals: f64,
    /// The numbers of edges with a rank of at most 1, 3 and 10.
    hits: [f64; 3],
    /// Other depths, and the numbers of edges with a rank of at most each depth.
    others: Vec<(u32, f64)>,
    count: f64,
}

impl RankingMetrics {
    /// Makes sums that also count the edges among the first K, for other depths K.
    ///
    /// ```
    /// use edgecut_trainer::metrics::RankingMetrics;
    /// let mut metrics = RankingMetrics::with_depths(&[50, 3, 11]);
    /// metrics.add(12.0);
    /// assert_eq!((metrics.hits(), metrics.hits_at()), (Some([0.0; 3]), vec![(50, 1.0), (11, 0.0)]));
    /// ```
    pub fn with_depths(depths: &[u32]) -> Self {
        let others = depths.iter().filter(|&&depth| !DEPTHS.contains(&f64::from(depth)));
        Self { others: others.map(|&depth| (depth, 0.0)).collect(), ..Self::default() }
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
        for (hits, depth) in self.hits.iter_mut().zip(DEPTHS) {
            *hits += f64::from(u8::from(rank_of_hits <= depth));
        }
        for (depth, hits) in &mut self.others {
            *hits += f64::from(u8::from(rank_of_hits <= f64::from(*depth)));
        }
        self.count += 1.0;
    }

    /// Adds the sums of all other processes. Every process must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if the collective fails.
    pub fn all_reduce(&mut self, world: &mut ProcessGroup) -> Result<(), ClusterError> {
        let [one, three, ten] = self.hits;
        let mut sums = vec![self.reciprocals, one, three, ten, self.count];
        sums.extend(self.others.iter().map(|(_, hits)| hits));
        world.all_reduce(&mut sums, ReduceOp::Sum)?;
        for ((_, hits), sum) in self.others.iter_mut().zip(sums.split_off(5)) {
            *hits = sum;
        }
        self.reciprocals = sums[0];
        self.hits.copy_from_slice(&sums[1..4]);
        self.count = sums[4];
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

    /// Returns the shares of edges with a rank of at most 1, 3 and 10, or `None` without edges.
    pub fn hits(&self) -> Option<[f64; 3]> {
        let [one, three, ten] = self.hits.map(|hits| self.share(hits));
        Some([one?, three?, ten?])
    }

    /// Returns the depths of [`RankingMetrics::with_depths`] except 1, 3 and 10, and the share of edges with a rank of at
    /// most each depth; empty without edges.
    pub fn hits_at(&self) -> Vec<(u32, f64)> {
        self.others.iter().filter_map(|&(depth, hits)| Some((depth, self.share(hits)?))).collect()
    }

    fn share(&self, sum: f64) -> Option<f64> {
        (self.count > 0.0).then(|| sum / self.count)
    }
}
