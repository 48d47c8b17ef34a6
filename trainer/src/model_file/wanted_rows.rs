//! The rows of a table that a process needs, and the search for them.

use super::row_ids::PositionsById;
use super::row_reader::Taken;

/// The rows of a table that a process needs.
#[derive(Debug)]
pub(crate) struct WantedRows<'a> {
    pub(crate) node_type: &'a str,
    pub(crate) dim: usize,
    pub(crate) num_nodes: usize,
    /// The original ids of the rows' nodes, ascending.
    pub(crate) nodes: &'a [u32],
    /// The shard to read first. It holds these nodes if as many processes saved the model.
    pub(crate) first_shard: usize,
    /// The positions of the nodes by the ids of their table, to find rows by these ids instead of original ids.
    pub(crate) ids: Option<PositionsById>,
    /// True if the table may be for another number of nodes.
    pub(crate) may_differ: bool,
}

/// The wanted rows, and which of them were found.
pub(super) struct Rows<'a> {
    pub(super) lookup: Lookup<'a>,
    pub(super) found: Vec<bool>,
    pub(super) left: usize,
}

/// The search for the nodes of saved rows among the wanted nodes.
#[derive(Clone, Copy)]
pub(super) enum Lookup<'a> {
    /// By their original ids, which ascend.
    OriginalIds(&'a [u32]),
    /// By the ids of their table.
    TableIds(&'a PositionsById),
}

impl Rows<'_> {
    /// Marks the wanted nodes among `nodes` as found and returns their positions. `nodes` are original ids, which must
    /// ascend, and `hashes` the hashes of the nodes' ids in their table, for a lookup by these.
    ///
    /// # Errors
    /// The node, if a wanted node was found before.
    pub(super) fn take(&mut self, nodes: &[u32], hashes: &[u128]) -> Result<Vec<Taken>, u32> {
        let mut taken = Vec::new();
        match self.lookup {
            Lookup::OriginalIds(wanted) => {
                let Some(first) = nodes.first() else { return Ok(taken) };
                let mut position = wanted.partition_point(|node| node < first);
                for (in_piece, &node) in nodes.iter().enumerate() {
                    while wanted.get(position).is_some_and(|&next| next < node) {
                        position += 1;
                    }
                    if wanted.get(position) == Some(&node) {
                        taken.push(Taken { in_piece, wanted: position });
                    }
                }
            }
            Lookup::TableIds(positions) => {
                for (in_piece, hash) in hashes.iter().enumerate() {
                    if let Some(&position) = positions.get(hash) {
                        taken.push(Taken { in_piece, wanted: position as usize });
                    }
                }
            }
        }
        for row in &taken {
            if std::mem::replace(&mut self.found[row.wanted], true) {
                return Err(nodes[row.in_piece]);
            }
        }
        self.left -= taken.len();
        Ok(taken)
    }
}
