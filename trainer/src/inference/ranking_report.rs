//! Ranking metrics of lists of destinations.

use super::scored_node::ScoredNode;
use serde::Serialize;

/// The metrics of the destinations that were listed for sources, compared with the destinations of held-out edges.
///
/// Sources without held-out edges do not count. Each metric but the coverage is a mean over sources.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RankingMetrics {
    /// The number of sources with held-out edges.
    pub sources: u64,
    /// The share of a source's held-out destinations that are listed.
    pub recall: f64,
    /// The normalised discounted cumulative gain: the sum of `1 / log2(rank + 1)` over listed held-out destinations, divided
    /// by the greatest possible sum.
    pub ndcg: f64,
    /// The mean average precision: the sum of the precision at the rank of each listed held-out destination, divided by the
    /// greatest possible number of them.
    pub map: f64,
    /// The share of sources for which at least one held-out destination is listed.
    pub hit_rate: f64,
    /// The share of all destinations that are listed for any source, with or without held-out edges.
    pub coverage: f64,
}

/// Sums up the metrics of blocks of sources.
#[derive(Clone, Debug)]
pub struct RankingReport {
    k: usize,
    sources: u64,
    recall: f64,
    ndcg: f64,
    map: f64,
    hits: u64,
    is_listed: Vec<bool>,
}

impl RankingReport {
    /// Makes the report of lists of at most `k` destinations, which are ids below `num_destinations`.
    pub fn new(k: usize, num_destinations: usize) -> Self {
        let is_listed = vec![false; num_destinations];
        Self { k, sources: 0, recall: 0.0, ndcg: 0.0, map: 0.0, hits: 0, is_listed }
    }

    /// Adds the destinations of some sources, the best first, and their held-out destinations, ascending and distinct.
    ///
    /// # Panics
    /// If a destination is not below `num_destinations`.
    pub fn add(&mut self, lists: &[Vec<ScoredNode>], held_out: &[Vec<u32>]) {
        for (list, held_out) in lists.iter().zip(held_out) {
            for node in list {
                self.is_listed[node.id as usize] = true;
            }
            if held_out.is_empty() {
                continue;
            }
            let mut found = 0_u32;
            let (mut gain, mut precision) = (0.0, 0.0);
            for (rank, node) in (1..).zip(list) {
                if held_out.binary_search(&node.id).is_ok() {
                    found += 1;
                    gain += discount(rank);
                    precision += f64::from(found) / f64::from(rank);
                }
            }
            let most = held_out.len().min(self.k);
            let best: f64 = (1..=most as u32).map(discount).sum();
            self.sources += 1;
            self.recall += f64::from(found) / held_out.len() as f64;
            self.ndcg += gain / best;
            self.map += precision / most as f64;
            self.hits += u64::from(found > 0);
        }
    }

    /// Returns the metrics of all sources so far; `None` without sources with held-out edges.
    pub fn metrics(&self) -> Option<RankingMetrics> {
        if self.sources == 0 {
            return None;
        }
        let mean = |sum: f64| sum / self.sources as f64;
        let num_listed = self.is_listed.iter().filter(|&&listed| listed).count();
        Some(RankingMetrics {
            sources: self.sources,
            recall: mean(self.recall),
            ndcg: mean(self.ndcg),
            map: mean(self.map),
            hit_rate: mean(self.hits as f64),
            coverage: num_listed as f64 / self.is_listed.len() as f64,
        })
    }
}

fn discount(rank: u32) -> f64 {
    1.0 / (f64::from(rank) + 1.0).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_equal_their_formulas() {
        let list = |ids: &[u32]| ids.iter().map(|&id| ScoredNode { id, score: 0.0 }).collect::<Vec<_>>();
        let mut report = RankingReport::new(3, 10);
        assert_eq!(report.metrics(), None);
        // The first source has held-out destinations at ranks 1 and 3, and one that is not listed.
        report.add(&[list(&[4, 7, 2]), list(&[1, 4, 0])], &[vec![2, 4, 9], vec![]]);
        report.add(&[list(&[5])], &[vec![6]]);
        let found = report.metrics().expect("metrics");
        let ideal = 1.0 + 1.0 / 3_f64.log2() + 0.5;
        let expected = RankingMetrics {
            sources: 2,
            recall: (2.0 / 3.0) / 2.0,
            ndcg: (1.0 + 0.5) / ideal / 2.0,
            map: (1.0 + 2.0 / 3.0) / 3.0 / 2.0,
            hit_rate: 0.5,
            coverage: 0.6,
        };
        let pairs = [
            (found.recall, expected.recall),
            (found.ndcg, expected.ndcg),
            (found.map, expected.map),
            (found.hit_rate, expected.hit_rate),
            (found.coverage, expected.coverage),
        ];
        assert_eq!(found.sources, expected.sources);
        assert!(pairs.iter().all(|(found, expected)| (found - expected).abs() < 1e-12), "{found:?} for {expected:?}");
    }
}
