//! Numbers the nodes of a batch in the order in which they are found.

use edgecut_graph::prefetch;
use rustc_hash::FxHashMap;

/// Maps global ids of one node type to numbers in a batch.
///
/// The process's own nodes are looked up in an array of stamps (generation and number in one `u64`), which needs no
/// clearing between batches; nodes of other parts in a hash table. So memory grows with the part, not with the graph.
pub(crate) struct Relabel {
    owned: std::ops::Range<u32>,
    stamps: Vec<u64>,
    generation: u32,
    remote: FxHashMap<u32, u32>,
    nodes: Vec<u32>,
}

impl Relabel {
    /// A map for a process that owns the global ids `owned`.
    pub(crate) fn new(owned: std::ops::Range<u32>) -> Self {
        let stamps = vec![0; owned.len()];
        Self { owned, stamps, generation: 1, remote: FxHashMap::default(), nodes: Vec::new() }
    }

    /// Forgets all nodes.
    pub(crate) fn reset(&mut self) {
        self.nodes.clear();
        self.remote.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.stamps.fill(0);
            self.generation = 1;
        }
    }

    /// The number of `node`, a new one if it was not seen since the reset.
    #[inline]
    pub(crate) fn number(&mut self, node: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let at = node.wrapping_sub(self.owned.start) as usize;
        let found = match self.stamps.get_mut(at) {
            Some(stamp) if (*stamp >> 32) as u32 == self.generation => *stamp as u32,
            Some(stamp) => {
                *stamp = u64::from(self.generation) << 32 | u64::from(next);
                next
            }
            None => *self.remote.entry(node).or_insert(next),
        };
        if found == next {
            self.nodes.push(node);
        }
        found
    }

    /// Asks for what [`Relabel::number`] will read for `node`.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32) {
        prefetch(&self.stamps, node.wrapping_sub(self.owned.start) as usize);
    }

    /// Global ids of the nodes seen since the reset, by number.
    pub(crate) fn nodes(&self) -> &[u32] {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_order_of_discovery_and_restart_after_a_reset() {
        let mut relabel = Relabel::new(10..20);
        for round in 0..3 {
            let ids = [15, 3, 15, 40, 10, 3, 19, 20, 9];
            let numbers: Vec<u32> = ids.iter().map(|&id| relabel.number(id + round)).collect();
            assert_eq!(numbers, [0, 1, 0, 2, 3, 1, 4, 5, 6]);
            assert_eq!(relabel.nodes(), [15, 3, 40, 10, 19, 20, 9].map(|id| id + round));
            relabel.reset();
        }
    }

    #[test]
    fn stamps_of_an_old_generation_never_come_back() {
        let mut relabel = Relabel::new(0..4);
        relabel.generation = u32::MAX;
        relabel.number(2);
        relabel.reset();
        assert_eq!((relabel.generation, relabel.number(1), relabel.number(2)), (1, 0, 1));
    }
}
