//! Numbers of nodes in disjoint neighborhoods.

use crate::numbering::Numbering;
use rustc_hash::FxHashMap;

/// Numbers for disjoint neighborhoods. A node has one number in each neighborhood in which it is found.
#[derive(Default)]
pub(crate) struct DisjointRelabel {
    numbers: FxHashMap<(u32, u32), u32>,
    nodes: Vec<u32>,
    batch: Vec<u32>,
}

impl DisjointRelabel {
    /// Returns the global ids and the seeds of the nodes, by number.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disjoint_neighborhoods_number_a_node_once_each() {
        let mut relabel = DisjointRelabel::default();
        let numbers: Vec<u32> = [(0, 7), (1, 7), (0, 7), (1, 9)].iter().map(|&(b, id)| relabel.number(b, id)).collect();
        assert_eq!((numbers, relabel.into_parts()), (vec![0, 1, 0, 2], (vec![7, 7, 9], vec![0, 1, 1])));
    }
}
