//! Grouping of nodes by owner.

use crate::cache::node_set::NodeSet;
use edgecut_graph::{GatheredRows, GlobalNodeId, PartitionBook, PartitionId};

/// Nodes of one type grouped by owner. Each group keeps the order of the nodes.
pub(crate) struct Routes {
    /// The owner of each node.
    pub(crate) owners: Vec<u32>,
    /// For each part, the rows within that part.
    pub(crate) rows: Vec<Vec<u32>>,
}

impl Routes {
    /// Groups `nodes`, which are global ids of the type that `book` describes.
    pub(crate) fn new(book: &PartitionBook, nodes: &[u32]) -> Self {
        let starts = starts(book);
        let mut rows = vec![Vec::new(); starts.len()];
        let mut owners = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let owner = book.owner(GlobalNodeId(node)).index();
            owners.push(owner as u32);
            rows[owner].push(node - starts[owner]);
        }
        Self { owners, rows }
    }
}

/// The locations of the rows of some nodes of one type.
pub(crate) struct Sources {
    /// For each node, its row in this process's part, or [`GatheredRows::ELSEWHERE`].
    pub(crate) own: Vec<u32>,
    /// For each node, its slot in the fixed cache, or [`GatheredRows::ELSEWHERE`]. Empty without such a cache.
    pub(crate) cached: Vec<u32>,
    /// The number of nodes that are in the cache.
    pub(crate) num_cached: usize,
    /// For each part, the rows to request from it. Empty for this process's part.
    pub(crate) others: Vec<Elsewhere>,
}

/// Rows within another part, and the nodes to which they belong.
#[derive(Clone, Default)]
pub(crate) struct Elsewhere {
    pub(crate) rows: Vec<u32>,
    /// The positions of these nodes in the list of nodes, ascending.
    pub(crate) positions: Vec<u32>,
}

impl Sources {
    /// Locates `nodes`, which are global ids of the type that `book` describes, for a process that holds part `own` and
    /// a cache of the rows of `cached` nodes. `read` has an entry other than [`GatheredRows::ELSEWHERE`] for each node whose
    /// row comes from the cache that looks ahead, and may be empty.
    pub(crate) fn new(
        book: &PartitionBook,
        own: PartitionId,
        nodes: &[u32],
        cached: Option<&NodeSet>,
        read: &[u32],
    ) -> Self {
        let starts = starts(book);
        let mine = book.range(own);
        let row = |&node: &u32| if mine.contains(&node) { node - mine.start } else { GatheredRows::ELSEWHERE };
        let rows: Vec<u32> = nodes.iter().map(row).collect();
        let mut others = vec![Elsewhere::default(); starts.len()];
        let mut slots = if cached.is_some() { vec![GatheredRows::ELSEWHERE; nodes.len()] } else { Vec::new() };
        let mut num_cached = 0;
        for (position, &node) in nodes.iter().enumerate() {
            if mine.contains(&node) {
                continue;
            }
            if let Some(slot) = cached.and_then(|cached| cached.slot(node)) {
                slots[position] = slot;
                num_cached += 1;
            } else if read.get(position).is_some_and(|&slot| slot != GatheredRows::ELSEWHERE) {
                num_cached += 1;
            } else {
                let owner = book.owner(GlobalNodeId(node)).index();
                others[owner].rows.push(node - starts[owner]);
                others[owner].positions.push(position as u32);
            }
        }
        Self { own: rows, cached: slots, num_cached, others }
    }
}

/// Returns the first global id of each part.
fn starts(book: &PartitionBook) -> Vec<u32> {
    (0..book.num_parts() as u32).map(|part| book.range(PartitionId(part)).start).collect()
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
            let mut rows: Vec<_> = routes.rows.iter().map(|rows| rows.iter()).collect();
            let back = routes.owners.iter().map(|&owner| {
                book.range(PartitionId(owner)).start + rows[owner as usize].next().unwrap()
            });
            prop_assert_eq!(back.collect::<Vec<u32>>(), nodes);
            prop_assert!(rows.iter().all(|rows| rows.len() == 0));
        }

        #[test]
        fn every_node_is_here_or_elsewhere(
            nodes in proptest::collection::vec(0_u32..30, 0..60),
            own in 0_u32..4,
            with_cache in any::<bool>(),
        ) {
            let kept: Vec<u32> = (0..30).step_by(3).collect();
            let book = PartitionBook::new(vec![0, 7, 7, 20, 30]).unwrap();
            let cached = NodeSet::new(&kept, 30);
            let sources = Sources::new(&book, PartitionId(own), &nodes, with_cache.then_some(&cached), &[]);
            prop_assert_eq!(sources.cached.len(), if with_cache { nodes.len() } else { 0 });
            prop_assert_eq!(sources.cached.iter().filter(|&&slot| slot != GatheredRows::ELSEWHERE).count(), sources.num_cached);
            let mut back: Vec<u32> = sources.own.iter().map(|&row| match row {
                GatheredRows::ELSEWHERE => u32::MAX,
                row => book.range(PartitionId(own)).start + row,
            }).collect();
            for (position, &slot) in sources.cached.iter().enumerate() {
                if slot != GatheredRows::ELSEWHERE {
                    prop_assert_eq!(back[position], u32::MAX);
                    back[position] = kept[slot as usize];
                }
            }
            for (part, Elsewhere { rows, positions }) in sources.others.iter().enumerate() {
                prop_assert!(rows.is_empty() || part != own as usize);
                for (&row, &position) in rows.iter().zip(positions) {
                    prop_assert_eq!(back[position as usize], u32::MAX);
                    back[position as usize] = book.range(PartitionId(part as u32)).start + row;
                }
                prop_assert!(positions.windows(2).all(|w| w[0] < w[1]));
            }
            prop_assert_eq!(back, nodes);
        }
    }
}
