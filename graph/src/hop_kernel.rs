//! What draws hops elsewhere than on the CPU.

use crate::EdgeTypeId;
use std::error::Error;
use thiserror::Error;

/// One hop of one edge type in which any two neighbors of a node are equally likely.
#[derive(Clone, Copy, Debug)]
pub struct PlainHop<'a> {
    /// The edge type.
    pub edge_type: EdgeTypeId,
    /// Rows of the part, of the edge type's destinations; all of them are in range. A row may be named twice.
    pub rows: &'a [u32],
    /// The most neighbors of a row, at least 1; `None` takes each neighbor once.
    pub fanout: Option<u32>,
    /// Whether a neighbor may be drawn twice; of no effect without a fan-out.
    pub replace: bool,
    /// Names the random numbers of (batch, hop, edge type); a row's original id completes it.
    pub key: u64,
}

/// Draws plain hops of one part: on a device that holds its edges, say.
///
/// What it draws is what the CPU draws, id for id: a batch must not show where it was made. For each row the sequence
/// [`CounterRng`](crate::rng::CounterRng) of [`combine`](crate::rng::combine)`(key, original id)` decides. If the fan-out is below
/// the row's in-degree, positions among its in-edges are drawn by Floyd's algorithm, or with replacement by one
/// [`below`](crate::rng::CounterRng::below) each, and taken ascending; else all in-edges are taken in order, but with
/// replacement, where the fan-out of a row with neighbors is always reached.
pub trait HopKernel: Send + Sync {
    /// Whether a hop of `num_rows` rows of `edge_type` is to be drawn here. The CPU draws the others, those of edge types that
    /// the kernel does not hold among them.
    fn takes(&self, edge_type: EdgeTypeId, num_rows: usize) -> bool;

    /// Appends to `out` the number of neighbors drawn for each row, then the neighbors of all rows end to end (global ids, each
    /// row's in the order of its in-edges).
    ///
    /// # Errors
    /// [`HopError::TooLarge`] if `out` would be longer than `max_words`; [`HopError::Failed`] if the device fails. What `out` holds
    /// then is of no meaning.
    fn sample_hop(&self, hop: &PlainHop<'_>, max_words: usize, out: &mut Vec<u32>) -> Result<(), HopError>;
}

/// A hop was not drawn.
#[derive(Debug, Error)]
pub enum HopError {
    /// The answer would be longer than it may be.
    #[error("a hop's answer is longer than it may be")]
    TooLarge,
    /// The device failed.
    #[error("draw a hop on the device")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}
