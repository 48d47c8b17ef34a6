//! Counts of how often nodes are read.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The number of batches in which each node was an input.
///
/// Neighborhoods are sampled without fetching to count which rows are worth a place in a cache.
#[derive(Clone, Debug, Default)]
pub struct Hotness {
    /// By node type, the counts of the nodes that occurred.
    counts: Vec<FxHashMap<u32, u32>>,
}

impl Hotness {
    /// Makes empty counts for a number of node types.
    pub fn new(num_node_types: usize) -> Self {
        Self { counts: vec![FxHashMap::default(); num_node_types] }
    }

    /// Counts each of `nodes`, which are global ids of type `node_type`, once.
    ///
    /// # Panics
    /// If the type does not exist.
    pub fn count(&mut self, node_type: usize, nodes: &[u32]) {
        let counts = &mut self.counts[node_type];
        nodes.iter().for_each(|&node| *counts.entry(node).or_default() += 1);
    }

    /// Adds `times` to the count of a node.
    ///
    /// # Panics
    /// If the type does not exist.
    pub(crate) fn add(&mut self, node_type: usize, node: u32, times: u32) {
        let count = self.counts[node_type].entry(node).or_default();
        *count = count.saturating_add(times);
    }

    /// Drops the nodes that `is_kept` rejects.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(usize, u32) -> bool) {
        for (node_type, counts) in self.counts.iter_mut().enumerate() {
            counts.retain(|&node, _| is_kept(node_type, node));
        }
    }

    /// Returns the nodes of a type with their counts, in no order.
    pub(crate) fn of_type(&self, node_type: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.counts[node_type].iter().map(|(&node, &count)| (node, count))
    }

    /// Returns true if no node was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|counts| counts.is_empty())
    }

    /// Returns the count of a node, given by global id.
    pub fn of(&self, node_type: usize, node: u32) -> u32 {
        self.counts.get(node_type).and_then(|counts| counts.get(&node)).copied().unwrap_or(0)
    }

    /// Returns, by node type, the most frequent nodes whose rows fit in `budget_bytes` together. Nodes are ordered by
    /// descending count, then by type and id. A row of a type takes `row_bytes`. Types with rows of 0 bytes or without
    /// an entry are skipped.
    pub fn hottest(&self, row_bytes: &[u64], budget_bytes: u64) -> Vec<Vec<u32>> {
        let mut candidates: Vec<(Reverse<u32>, usize, u32)> = Vec::new();
        for (node_type, counts) in self.counts.iter().enumerate() {
            if row_bytes.get(node_type).is_some_and(|&bytes| bytes > 0) {
                candidates.extend(counts.iter().map(|(&node, &count)| (Reverse(count), node_type, node)));
            }
        }
        candidates.sort_unstable();
        let mut left = budget_bytes;
        let mut chosen = vec![Vec::new(); self.counts.len()];
        for (_, node_type, node) in candidates {
            // A row that does not fit does not end the search, since rows of another type may be smaller.
            if let Some(rest) = left.checked_sub(row_bytes[node_type]) {
                chosen[node_type].push(node);
                left = rest;
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_goes_to_those_counted_most_whatever_the_order() {
        let batches: [&[u32]; 4] = [&[9, 1, 4], &[4, 9], &[4, 8], &[2]];
        let all = |order: &[usize]| {
            let mut hotness = Hotness::new(3);
            for &batch in order {
                hotness.count(0, batches[batch]);
                hotness.count(1, &[6]);
                hotness.count(2, &[0]);
            }
            hotness.hottest(&[10, 0, 3], 26)
        };
        // Node 0 of type 2 was counted four times, then node 4 of type 0 three times and node 9 twice. Then no row of
        // type 0 fits.
        let expected = [vec![4, 9], vec![], vec![0]];
        assert_eq!(all(&[0, 1, 2, 3]), expected);
        assert_eq!(all(&[3, 2, 1, 0]), expected);
        let mut ties = Hotness::new(1);
        ties.count(0, &[5, 3, 9, 1]);
        assert_eq!(ties.hottest(&[4], 12), [vec![1, 3, 5]]);
        assert_eq!(ties.hottest(&[4], 3), [Vec::<u32>::new()]);
        assert_eq!(ties.hottest(&[4], u64::MAX), [vec![1, 3, 5, 9]]);
        assert_eq!(ties.hottest(&[], u64::MAX), [Vec::<u32>::new()]);
    }
}
