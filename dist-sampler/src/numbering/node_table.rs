//! A hash table from global ids to numbers in a batch.

use edgecut_graph::prefetch;

/// The slots of the smallest table.
const MIN_SLOTS: usize = 1024;
/// 2^64 divided by the golden ratio. Multiplying by it spreads consecutive ids over the slots (Fibonacci hashing).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const EMPTY: u64 = 0;

/// A hash table from global ids to numbers, with open addressing and linear probing, at most half full.
///
/// A slot is one `u64` with the number plus 1 in the upper half and the id in the lower half, so that one prefetch
/// covers both. The table takes 16 to 32 bytes per node.
#[derive(Default)]
pub(crate) struct NodeTable {
    /// The slots. Their number is 0 or a power of two.
    slots: Vec<u64>,
    len: usize,
}

impl NodeTable {
    /// Creates a table with room for `num_nodes` nodes.
    pub(crate) fn with_room_for(num_nodes: usize) -> Self {
        let num_slots = if num_nodes == 0 { 0 } else { (2 * num_nodes).next_power_of_two() };
        Self { slots: vec![EMPTY; num_slots], len: 0 }
    }

    /// Returns the number of slots.
    pub(crate) fn num_slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether one more node needs a larger table.
    pub(crate) fn is_full(&self) -> bool {
        2 * self.len >= self.slots.len()
    }

    /// Removes all nodes and keeps the memory.
    pub(crate) fn clear(&mut self) {
        if self.len > 0 {
            self.slots.fill(EMPTY);
            self.len = 0;
        }
    }

    /// Returns the number of `node`. Inserts the node with the number `next` if it is not in the table.
    #[inline]
    pub(crate) fn get_or_insert(&mut self, node: u32, next: u32) -> u32 {
        if self.is_full() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = self.home(node);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                self.slots[at] = (u64::from(next) + 1) << 32 | u64::from(node);
                self.len += 1;
                return next;
            }
            if slot as u32 == node {
                return ((slot >> 32) - 1) as u32;
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns the number of `node`, if it is in the table.
    #[inline]
    pub(crate) fn get(&self, node: u32) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = self.home(node);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            if slot as u32 == node {
                return Some(((slot >> 32) - 1) as u32);
            }
            at = (at + 1) & mask;
        }
    }

    /// Prefetches the memory that [`NodeTable::get_or_insert`] reads for `node`.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32) {
        if !self.slots.is_empty() {
            prefetch(&self.slots, self.home(node));
        }
    }

    /// Returns the first slot that may hold `node`. The table must have slots.
    #[inline]
    fn home(&self, node: u32) -> usize {
        let bits = self.slots.len().trailing_zeros();
        (u64::from(node).wrapping_mul(MULTIPLIER) >> (u64::BITS - bits)) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![EMPTY; (2 * self.slots.len()).max(MIN_SLOTS)];
        let smaller = std::mem::replace(&mut self.slots, larger);
        let mask = self.slots.len() - 1;
        for slot in smaller.into_iter().filter(|&slot| slot != EMPTY) {
            let mut at = self.home(slot as u32);
            while self.slots[at] != EMPTY {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustc_hash::FxHashMap;

    proptest! {
        #[test]
        fn numbers_are_those_of_a_map(
            rounds in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..3000), 1..3),
            bound in prop::sample::select(vec![1_u32, 50, 5000, u32::MAX]),
        ) {
            let mut table = NodeTable::default();
            for nodes in rounds {
                let mut map: FxHashMap<u32, u32> = FxHashMap::default();
                for node in nodes.into_iter().map(|node| node % bound).chain([0, u32::MAX]) {
                    let next = map.len() as u32;
                    prop_assert_eq!(table.get(node), map.get(&node).copied());
                    let expected = *map.entry(node).or_insert(next);
                    table.prefetch(node);
                    prop_assert_eq!(table.get_or_insert(node, next), expected);
                }
                prop_assert!(table.num_slots() >= 2 * map.len());
                table.clear();
            }
        }
    }

    #[test]
    fn a_table_with_room_does_not_grow() {
        for num_nodes in [0, 1, 2, 3, 512, 513, 5000] {
            let mut table = NodeTable::with_room_for(num_nodes);
            let num_slots = table.num_slots();
            assert_eq!(table.get(0), None);
            for node in 0..num_nodes as u32 {
                table.get_or_insert(node * 3, node);
            }
            assert_eq!(table.num_slots(), num_slots);
            assert!((0..num_nodes as u32).all(|node| table.get(node * 3) == Some(node)));
            assert_eq!(table.get(1), None);
        }
    }

    #[test]
    fn the_largest_number_is_kept() {
        let mut table = NodeTable::default();
        assert_eq!(table.get_or_insert(5, u32::MAX), u32::MAX);
        assert_eq!(table.get_or_insert(5, 0), u32::MAX);
    }
}
