//! Numbers of the nodes of a batch, in the order of discovery.

pub(crate) mod disjoint;
pub(crate) mod node_table;
pub(crate) mod row_index;
pub(crate) mod shared;

/// The numbers of the nodes of one type in a batch.
pub(crate) trait Numbering {
    /// Returns the number of `node` in the neighborhood of seed `batch`, and assigns a new one if the node is new
    /// there. Shared neighborhoods ignore `batch`.
    fn number(&mut self, batch: u32, node: u32) -> u32;

    /// Prefetches the memory that [`Numbering::number`] reads for `node`.
    fn prefetch(&self, node: u32);

    /// Returns the global ids of the nodes, by number.
    fn nodes(&self) -> &[u32];

    /// Returns the seed to whose neighborhood the node with this number belongs, 0 in shared neighborhoods.
    fn batch_of(&self, number: usize) -> u32;
}
