//! The interface of kernels that sample hops outside the CPU.

use crate::{EdgeTypeId, Fanout};
use std::error::Error;
use thiserror::Error;

/// One hop of one edge type, with uniform sampling of the neighbors of each node.
#[derive(Clone, Copy, Debug)]
pub struct PlainHop<'a> {
    /// The edge type to sample.
    pub edge_type: EdgeTypeId,
    /// The rows of the edge type's destinations in the part, all in range. A row may appear more than once.
    pub rows: &'a [u32],
    /// The number of neighbors to sample per row.
    pub fanout: Fanout,
    /// True to sample with replacement. Ignored for [`Fanout::All`].
    pub replace: bool,
    /// The random key of (batch, hop, edge type). The original id of a row completes it.
    pub key: u64,
}

/// A sampler of plain hops of one part, for example on a device that holds the edges.
///
/// The result must equal that of the CPU, id for id, so that a batch does not depend on the device that sampled it. The
/// random numbers of a row are those of [`CounterRng`](crate::rng::CounterRng) with the key
/// [`combine`](crate::rng::combine)`(key, original id)`:
///
/// * If the row has no in-edges, nothing is sampled.
/// * With replacement and a count, each of that many positions among the in-edges is one
///   [`below`](crate::rng::CounterRng::below). The positions are then sorted.
/// * Without replacement and with a count below the in-degree, positions are drawn by Floyd's algorithm and sorted.
/// * Otherwise all in-edges are taken, in order.
pub trait HopKernel: Send + Sync {
    /// Returns true if this kernel should sample a hop of `num_rows` rows of `edge_type`. The CPU samples all other
    /// hops, including those of edge types that the kernel does not hold.
    fn takes(&self, edge_type: EdgeTypeId, num_rows: usize) -> bool;

    /// Appends to `out` the number of neighbors sampled for each row, followed by the neighbors of all rows end to end.
    /// Neighbors are global ids, for each row in the order of its in-edges.
    ///
    /// # Errors
    /// Returns [`HopError::TooLarge`] if `out` would be longer than `max_words`, and [`HopError::Failed`] if the device
    /// fails. After an error the contents of `out` are unspecified.
    fn sample_hop(&self, hop: &PlainHop<'_>, max_words: usize, out: &mut Vec<u32>) -> Result<(), HopError>;
}

/// An error while sampling a hop.
#[derive(Debug, Error)]
pub enum HopError {
    /// The reply would exceed the allowed length.
    #[error("the reply of a hop exceeds its maximum length")]
    TooLarge,
    /// The device failed.
    #[error("draw a hop on the device")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}
