//! Groups nodes by their owner, and finds each node's answer again.

use edgecut_graph::{GlobalNodeId, PartitionBook, PartitionId};

/// Nodes of one type, grouped by owner; within a group they keep their order.
pub(crate) struct Routes {
    /// The owner of each node.
    pub(crate) owners: Vec<u32>,
    /// For each part, rows within that part.
    pub(crate) rows: Vec<Vec<u32>>,
    /// For each part, the positions in the input that its rows come from.
    pub(crate) positions: Vec<Vec<u32>>,
}

impl Routes {
    /// Groups `nodes`, global ids of the type that `book` describes.
    pub(crate) fn new(book: &PartitionBook, nodes: &[u32]) -> Self {
        let parts = book.num_parts();
        let starts: Vec<u32> = (0..parts as u32).map(|p| book.range(PartitionId(p)).start).collect();
        let (mut rows, mut positions) = (vec![Vec::new(); parts], vec![Vec::new(); parts]);
        let mut owners = Vec::with_capacity(nodes.len());
        for (position, &node) in nodes.iter().enumerate() {
            let owner = book.owner(GlobalNodeId(node)).index();
            owners.push(owner as u32);
            rows[owner].push(node - starts[owner]);
            positions[owner].push(position as u32);
        }
        Self { owners, rows, positions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_node_goes_to_its_owner_and_back(nodes in proptest::collection::vec(0_u32..30, 0..60)) {
            let book = PartitionBook::new(vec![0, 7, 7, 20, 30]).unwrap();
            let routes = Routes::new(&book, &nodes);
            let mut back = vec![u32::MAX; nodes.len()];
            for part in 0..4 {
                let start = book.range(PartitionId(part as u32)).start;
                for (&row, &position) in routes.rows[part].iter().zip(&routes.positions[part]) {
                    prop_assert_eq!(routes.owners[position as usize], part as u32);
                    back[position as usize] = start + row;
                }
                prop_assert!(routes.positions[part].windows(2).all(|w| w[0] < w[1]));
            }
            prop_assert_eq!(back, nodes);
        }
    }
}
