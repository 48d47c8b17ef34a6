//! Sets of nodes with a slot for each.

/// A set of nodes of one type. The slot of a node is the number of smaller nodes in the set. Takes two bits per node of
/// the graph, and a lookup reads one cache line.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeSet {
    blocks: Vec<Block>,
}

/// 64 consecutive ids.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// A bit per id, set if the id is in the set.
    bits: u64,
    /// The number of ids in the set before this block.
    before: u32,
}

impl NodeSet {
    /// Makes the set of `nodes`, which are ascending, distinct and below `bound`.
    pub(crate) fn new(nodes: &[u32], bound: usize) -> Self {
        let mut blocks = vec![Block::default(); bound.div_ceil(u64::BITS as usize)];
        for &node in nodes {
            blocks[(node / u64::BITS) as usize].bits |= 1 << (node % u64::BITS);
        }
        let mut before = 0;
        for block in &mut blocks {
            block.before = before;
            before += block.bits.count_ones();
        }
        Self { blocks }
    }

    /// Returns the slot of `node`, which is below the bound, or `None` if it is not in the set.
    pub(crate) fn slot(&self, node: u32) -> Option<u32> {
        let Block { bits, before } = self.blocks[(node / u64::BITS) as usize];
        let bit = 1_u64 << (node % u64::BITS);
        (bits & bit != 0).then(|| before + (bits & (bit - 1)).count_ones())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slots_count_the_smaller_nodes(nodes in proptest::collection::btree_set(0_u32..300, 0..120)) {
            let nodes: Vec<u32> = nodes.into_iter().collect();
            let set = NodeSet::new(&nodes, 300);
            for node in 0..300 {
                prop_assert_eq!(set.slot(node), nodes.binary_search(&node).ok().map(|slot| slot as u32));
            }
        }
    }
}
