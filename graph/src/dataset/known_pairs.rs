//! Pairs of nodes whose edges are in a list already.

use super::Split;
use crate::grouping::{Groups, Pairs};
use crate::memory::Workspace;
use crate::{GraphError, NodeTypeId};

/// A node of a type.
type End = (NodeTypeId, u32);

/// The bits of a value that have the list of a pair.
const LIST_BITS: u32 = 2;

/// The list of each pair of nodes that known edges join. Directions and edge types do not distinguish pairs.
///
/// Invariant: the memory is an entry for each node that has a number. A pair takes 8 bytes in the workspace.
#[derive(Debug, Default)]
pub struct KnownPairs {
    nodes: JoinedNodes,
    /// The pairs of each node with larger nodes: ascending values of [`pair_key`].
    rows: Groups<u64>,
}

/// A numbering of some nodes of all types.
#[derive(Clone, Debug, Default)]
pub(crate) struct JoinedNodes {
    /// The type and the number of each node, ascending.
    nodes: Vec<(NodeTypeId, u32)>,
}

/// A pair as a row and a value in it: the smaller end, and the larger end with a list.
pub(crate) type PairKey = (u32, u64);

/// Returns the key of a pair of joined numbers, the same for both directions.
pub(crate) fn pair_key([a, b]: [u32; 2], list: Split) -> PairKey {
    (a.min(b), u64::from(a.max(b)) << LIST_BITS | u64::from(list.code()))
}

impl JoinedNodes {
    /// Numbers nodes.
    pub(crate) fn new(mut nodes: Vec<(NodeTypeId, u32)>) -> Self {
        nodes.sort_unstable();
        nodes.dedup();
        Self { nodes }
    }

    /// Returns the nodes, ascending.
    pub(crate) fn nodes(&self) -> &[(NodeTypeId, u32)] {
        &self.nodes
    }

    /// Returns the key of a pair; `None` if a node is not numbered.
    pub(crate) fn key(&self, ends: [End; 2], list: Split) -> Option<PairKey> {
        Some(pair_key([self.number(ends[0])?, self.number(ends[1])?], list))
    }

    fn number(&self, end: End) -> Option<u32> {
        self.nodes.binary_search(&end).ok().map(|at| at as u32)
    }
}

impl KnownPairs {
    /// Creates the map from pairs with their lists, with arrays in `space`. A pair with several lists is in the last of them: in
    /// training, its edges would reveal those that are held out.
    ///
    /// # Errors
    /// [`GraphError::Scratch`], and [`GraphError::MemoryLimit`] for a node with too many pairs.
    pub(crate) fn new(
        space: &Workspace,
        nodes: JoinedNodes,
        pairs: &impl Pairs<Value = u64>,
    ) -> Result<Self, GraphError> {
        let num_nodes = nodes.nodes.len();
        let grouped = Groups::new_in(space, num_nodes, pairs)?;
        let rows = Groups::from_rows_in(
            space,
            num_nodes,
            |row| grouped.row_len(row),
            |row, room: &mut [u64]| {
                room.copy_from_slice(grouped.row(row));
                room.sort_unstable();
                keep_last_lists(room)
            },
        )?;
        Ok(Self { nodes, rows })
    }

    /// Returns the list of a pair; `None` if no known edge joins it.
    pub(crate) fn get(&self, ends: [End; 2]) -> Option<Split> {
        self.find(self.nodes.key(ends, Split::Train)?)
    }

    /// Returns the list of the pair with a key, whichever list the key has.
    pub(crate) fn find(&self, key: PairKey) -> Option<Split> {
        let row = key.0;
        let value = key.1 >> LIST_BITS << LIST_BITS;
        let values = self.rows.row(row as usize);
        let at = values.partition_point(|&known| known < value);
        let known = values.get(at).filter(|&&known| known >> LIST_BITS == value >> LIST_BITS)?;
        Split::of_code((known & ((1 << LIST_BITS) - 1)) as u8)
    }

    /// Returns true if the arrays are in scratch files.
    #[cfg(test)]
    pub(crate) fn is_mapped(&self) -> bool {
        self.rows.values.is_mapped()
    }
}

/// Moves the last value of each pair to the start of ascending values, and returns the number of pairs.
fn keep_last_lists(values: &mut [u64]) -> usize {
    let mut num_kept = 0;
    for at in 0..values.len() {
        let is_last = values.get(at + 1).is_none_or(|next| next >> LIST_BITS != values[at] >> LIST_BITS);
        if is_last {
            values[num_kept] = values[at];
            num_kept += 1;
        }
    }
    num_kept
}
