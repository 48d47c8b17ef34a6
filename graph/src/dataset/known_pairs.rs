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
/// Invariant: the memory is an entry per node. A pair takes 8 bytes in the workspace.
#[derive(Debug, Default)]
pub struct KnownPairs {
    nodes: JoinedNodes,
    /// The pairs of each node with larger nodes: ascending values of [`JoinedNodes::key`].
    rows: Groups<u64>,
}

/// A numbering of the nodes of all types, type by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct JoinedNodes {
    /// The number of each type's first node, then the number of all nodes.
    starts: Vec<u64>,
}

/// A pair as a row and a value in it: the smaller end, and the larger end with a list.
pub(crate) type PairKey = (u32, u64);

impl JoinedNodes {
    /// Numbers the nodes of types with so many nodes.
    ///
    /// # Errors
    /// Fails for 2^32 nodes and more.
    pub(crate) fn new(num_nodes: impl IntoIterator<Item = usize>) -> Result<Self, String> {
        let mut starts = vec![0];
        let mut end = 0;
        for number in num_nodes {
            end += number as u64;
            starts.push(end);
        }
        if end > u64::from(u32::MAX) {
            return Err(format!("it has {end} nodes, more than 2^32 - 1"));
        }
        Ok(Self { starts })
    }

    fn num_nodes(&self) -> usize {
        self.starts.last().map_or(0, |&end| end as usize)
    }

    /// Returns the key of a pair, the same for both directions; `None` if a node is not numbered.
    pub(crate) fn key(&self, ends: [End; 2], list: Split) -> Option<PairKey> {
        let a = self.number(ends[0])?;
        let b = self.number(ends[1])?;
        Some((a.min(b) as u32, a.max(b) << LIST_BITS | u64::from(list.code())))
    }

    fn number(&self, end: End) -> Option<u64> {
        let (node_type, node) = end;
        let number = self.starts.get(node_type.index())? + u64::from(node);
        self.starts.get(node_type.index() + 1).is_some_and(|&end| number < end).then_some(number)
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
        let num_nodes = nodes.num_nodes();
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

    /// Returns the numbering of the nodes.
    pub(crate) fn nodes(&self) -> &JoinedNodes {
        &self.nodes
    }

    /// Returns the list of a pair; `None` if no known edge joins it.
    pub(crate) fn get(&self, ends: [End; 2]) -> Option<Split> {
        let (row, value) = self.nodes.key(ends, Split::Train)?;
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
