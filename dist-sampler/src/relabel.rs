//! Numbers the nodes of a batch in the order in which they are found.

use edgecut_graph::prefetch;
use rustc_hash::FxHashMap;

/// Gives the nodes of one type their numbers in a batch.
pub(crate) trait Numbering {
    /// The number of `node` in the neighborhood of seed `batch`, a new one if it was not seen there. Where neighborhoods are
    /// not disjoint, `batch` does not count.
    fn number(&mut self, batch: u32, node: u32) -> u32;

    /// Asks for what [`Numbering::number`] will read for `node`.
    fn prefetch(&self, node: u32);

    /// Global ids of the nodes, by number.
    fn nodes(&self) -> &[u32];

    /// The seed of the node of a number.
    fn batch_of(&self, number: usize) -> u32;
}

/// Numbers for disjoint neighborhoods: a node has one in each that it is found in.
#[derive(Default)]
pub(crate) struct DisjointRelabel {
    numbers: FxHashMap<(u32, u32), u32>,
    nodes: Vec<u32>,
    batch: Vec<u32>,
}

impl DisjointRelabel {
    /// Global ids by number, and their seeds.
    pub(crate) fn into_parts(self) -> (Vec<u32>, Vec<u32>) {
        (self.nodes, self.batch)
    }
}

impl Numbering for DisjointRelabel {
    fn number(&mut self, batch: u32, node: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let found = *self.numbers.entry((batch, node)).or_insert(next);
        if found == next {
            self.nodes.push(node);
            self.batch.push(batch);
        }
        found
    }

    fn prefetch(&self, _node: u32) {}

    fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    fn batch_of(&self, number: usize) -> u32 {
        self.batch[number]
    }
}

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
}

impl Numbering for Relabel {
    #[inline]
    fn number(&mut self, _batch: u32, node: u32) -> u32 {
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

    #[inline]
    fn prefetch(&self, node: u32) {
        prefetch(&self.stamps, node.wrapping_sub(self.owned.start) as usize);
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
    fn disjoint_neighborhoods_number_a_node_once_each() {
        let mut relabel = DisjointRelabel::default();
        let numbers: Vec<u32> = [(0, 7), (1, 7), (0, 7), (1, 9)].iter().map(|&(b, id)| relabel.number(b, id)).collect();
        assert_eq!((numbers, relabel.into_parts()), (vec![0, 1, 0, 2], (vec![7, 7, 9], vec![0, 1, 1])));
    }

    #[test]
    fn stamps_of_an_old_generation_never_come_back() {
        let mut relabel = Relabel::new(0..4);
        relabel.generation = u32::MAX;
        relabel.number(0, 2);
        relabel.reset();
        assert_eq!((relabel.generation, relabel.number(0, 1), relabel.number(0, 2)), (1, 0, 1));
    }
}
