//! A node with its score, and the best of many.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A node and its score. The order is a ranking: the highest score is the least, then the smallest id. Scores
/// that are NaN come last.
#[derive(Clone, Copy, Debug)]
pub struct ScoredNode {
    /// The id of the node in the dataset.
    pub id: u32,
    /// The score.
    pub score: f32,
}

impl Ord for ScoredNode {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_number = self.score.is_nan().cmp(&other.score.is_nan());
        let by_score = || other.score.partial_cmp(&self.score).unwrap_or(Ordering::Equal);
        by_number.then_with(by_score).then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for ScoredNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScoredNode {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ScoredNode {}

/// The best nodes so far, at most `limit`.
#[derive(Debug)]
pub(super) struct Best {
    limit: usize,
    /// The worst node is on top.
    heap: BinaryHeap<ScoredNode>,
}

impl Best {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, heap: BinaryHeap::new() }
    }

    /// Adds a node if it is among the best.
    pub(super) fn offer(&mut self, node: ScoredNode) {
        if self.heap.len() < self.limit {
            self.heap.push(node);
            return;
        }
        let Some(mut worst) = self.heap.peek_mut() else { return };
        // The comparison of two numbers rejects most nodes.
        if node.score < worst.score || node >= *worst {
            return;
        }
        *worst = node;
    }

    /// Returns the nodes, the best first.
    pub(super) fn into_sorted(self) -> Vec<ScoredNode> {
        self.heap.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_the_first_of_all_in_order() {
        let scores = [0.5, f32::NAN, 3.0, -1.0, 3.0, f32::NEG_INFINITY, 0.5, 2.0];
        let all = (0..).zip(scores).map(|(id, score)| ScoredNode { id, score });
        for limit in 0..10 {
            let mut best = Best::new(limit);
            all.clone().for_each(|node| best.offer(node));
            let found: Vec<u32> = best.into_sorted().iter().map(|node| node.id).collect();
            assert_eq!(found, [2, 4, 7, 0, 6, 3, 5, 1][..limit.min(8)]);
        }
    }
}
