//! Numbers of nodes in shared neighborhoods.

use crate::numbering::Numbering;
use crate::numbering::node_table::NodeTable;
use edgecut_graph::prefetch;

/// The largest number of owned nodes for which stamps are always used. Their 2 MiB fit in the cache.
const MAX_NODES_ALWAYS_STAMPED: usize = 1 << 18;
/// The least number of owned nodes per slot for which the hash table is used. Below it, stamps are faster and take at
/// most four times the memory of the table. From it on, the table takes at most a quarter of the memory of stamps, and
/// between 20 % less and 30 % more time.
const NODES_PER_SLOT: usize = 4;

/// A map from global ids of one node type to numbers in a batch, for shared neighborhoods.
///
/// Owned nodes are looked up in an array of stamps (generation and number in one `u64`), which needs no clearing
/// between batches. Nodes of other parts are looked up in a hash table. Stamps take 8 bytes for each owned node. If a
/// batch finds only a small fraction of a large part, all nodes are in the table instead, so that memory grows with the
/// batch. Both give the same numbers.
pub(crate) struct Relabel {
    owned: std::ops::Range<u32>,
    /// Stamps of the owned nodes. Empty while the table holds them.
    stamps: Vec<u64>,
    generation: u32,
    table: NodeTable,
    nodes: Vec<u32>,
}

impl Relabel {
    /// Makes an empty map for a process that owns the global ids `owned`.
    pub(crate) fn new(owned: std::ops::Range<u32>) -> Self {
        let num_stamps = if owned.len() <= MAX_NODES_ALWAYS_STAMPED { owned.len() } else { 0 };
        Self { owned, stamps: vec![0; num_stamps], generation: 1, table: NodeTable::default(), nodes: Vec::new() }
    }

    /// Forgets all nodes.
    pub(crate) fn reset(&mut self) {
        self.nodes.clear();
        self.table.clear();
        self.generation = self.generation.wrapping_add(1);
        // Stamps from the first use of a generation must not count as current after the counter wraps.
        if self.generation == 0 {
            self.stamps.fill(0);
            self.generation = 1;
        }
    }

    /// Returns the number of a node without a stamp: a node of another part, or any node while stamps are not in use.
    #[inline]
    fn number_without_stamp(&mut self, node: u32, next: u32) -> u32 {
        if self.table.is_full() && self.should_stamp() {
            self.use_stamps();
            return self.number(0, node);
        }
        let found = self.table.get_or_insert(node, next);
        if found == next {
            self.nodes.push(node);
        }
        found
    }

    /// Returns whether stamps are not in use yet and the next larger table would be too large compared with them.
    fn should_stamp(&self) -> bool {
        let num_slots = 2 * self.table.num_slots();
        self.stamps.is_empty() && !self.owned.is_empty() && num_slots * NODES_PER_SLOT >= self.owned.len()
    }

    /// Switches to stamps for owned nodes. Numbers the nodes found so far again, in the same order.
    #[cold]
    fn use_stamps(&mut self) {
        self.stamps = vec![0; self.owned.len()];
        self.generation = 1;
        self.table = NodeTable::default();
        let nodes = std::mem::take(&mut self.nodes);
        for node in nodes {
            self.number(0, node);
        }
    }
}

impl Numbering for Relabel {
    #[inline]
    fn number(&mut self, _batch: u32, node: u32) -> u32 {
        let next = self.nodes.len() as u32;
        // An id below the owned range wraps to a large index, so one bounds check covers both ends.
        let at = node.wrapping_sub(self.owned.start) as usize;
        let found = match self.stamps.get_mut(at) {
            Some(stamp) if (*stamp >> 32) as u32 == self.generation => *stamp as u32,
            Some(stamp) => {
                *stamp = u64::from(self.generation) << 32 | u64::from(next);
                next
            }
            None => return self.number_without_stamp(node, next),
        };
        if found == next {
            self.nodes.push(node);
        }
        found
    }

    #[inline]
    fn prefetch(&self, node: u32) {
        let at = node.wrapping_sub(self.owned.start) as usize;
        if at < self.stamps.len() {
            prefetch(&self.stamps, at);
        } else {
            self.table.prefetch(node);
        }
    }

    fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    fn batch_of(&self, _number: usize) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustc_hash::FxHashMap;

    #[test]
    fn numbers_follow_the_order_of_discovery_and_restart_after_a_reset() {
        let mut relabel = Relabel::new(10..20);
        for round in 0..3 {
            let ids = [15, 3, 15, 40, 10, 3, 19, 20, 9];
            let numbers: Vec<u32> = ids.iter().map(|&id| relabel.number(0, id + round)).collect();
            assert_eq!(numbers, [0, 1, 0, 2, 3, 1, 4, 5, 6]);
            assert_eq!(relabel.nodes(), [15, 3, 40, 10, 19, 20, 9].map(|id| id + round));
            relabel.reset();
        }
    }

    #[test]
    fn stamps_of_an_old_generation_never_come_back() {
        let mut relabel = Relabel::new(0..4);
        relabel.generation = u32::MAX;
        relabel.number(0, 2);
        relabel.reset();
        assert_eq!((relabel.generation, relabel.number(0, 1), relabel.number(0, 2)), (1, 0, 1));
    }

    /// Checks the numbers against those of a plain hash map.
    fn check_numbers(relabel: &mut Relabel, nodes: impl Iterator<Item = u32>) {
        let mut expected: FxHashMap<u32, u32> = FxHashMap::default();
        for node in nodes {
            let next = expected.len() as u32;
            let number = *expected.entry(node).or_insert(next);
            relabel.prefetch(node);
            assert_eq!(relabel.number(0, node), number, "node {node}");
            assert_eq!(relabel.nodes()[number as usize], node);
        }
        assert_eq!(relabel.nodes().len(), expected.len());
    }

    #[test]
    fn numbers_are_the_same_with_stamps_with_a_table_and_across_the_change() {
        let num_owned = MAX_NODES_ALWAYS_STAMPED as u32 + 1;
        let owned = 1000..1000 + num_owned;
        // Three quarters of the nodes are owned, the others are not.
        let nodes = |count: u32| (0..count).map(move |i| i.wrapping_mul(2_654_435_761) % (num_owned / 3 * 4));
        let mut relabel = Relabel::new(owned);
        assert!(relabel.stamps.is_empty());
        check_numbers(&mut relabel, nodes(2_000));
        assert!(relabel.stamps.is_empty(), "a small batch needs no stamps");
        relabel.reset();
        check_numbers(&mut relabel, nodes(150_000));
        assert_eq!(relabel.stamps.len(), num_owned as usize, "a large batch changes to stamps while it is numbered");
        for count in [3, 150_000] {
            relabel.reset();
            check_numbers(&mut relabel, nodes(count));
        }
    }

    #[test]
    fn memory_of_a_small_batch_does_not_grow_with_the_part() {
        let mut relabel = Relabel::new(0..u32::MAX);
        check_numbers(&mut relabel, (0..50_000).map(|i: u32| i.wrapping_mul(2_654_435_761)));
        assert!(relabel.stamps.is_empty());
        assert!(relabel.table.num_slots() <= 4 * 50_000);
    }

    #[test]
    fn a_process_without_nodes_of_a_type_numbers_those_of_others() {
        check_numbers(&mut Relabel::new(7..7), (0..5000).map(|i| i % 1700));
    }
}
