//! Negatives that a dataset gives for the evaluation of its held-out edges.

use crate::memory::{Buffer, select_rows};
use crate::scan::first_position;
use serde::{Deserialize, Serialize};

/// The given negatives of a list of held-out edges, in the id space of the edges.
#[derive(Clone, Debug)]
pub enum GivenNegatives {
    /// Separate destinations for each edge, which replace its own.
    OfEach {
        /// The number of negatives per edge, at least 1.
        num: usize,
        /// Row-major, `[num_edges, num]`.
        dst: Buffer<u32>,
    },
    /// Pairs that are the negatives of all edges of the list.
    Shared {
        /// The source of each pair.
        src: Buffer<u32>,
        /// The destination of each pair, as many as sources.
        dst: Buffer<u32>,
    },
}

/// The kind and the number of given negatives, as `META.json` describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NegativesMeta {
    /// The number of negatives of each edge.
    OfEach(u64),
    /// The number of shared pairs over all parts.
    Shared(u64),
}

impl GivenNegatives {
    /// Returns the number of negative pairs.
    pub fn num_pairs(&self) -> usize {
        match self {
            Self::OfEach { dst, .. } | Self::Shared { dst, .. } => dst.len(),
        }
    }

    /// Returns the kind and the number of the negatives.
    pub fn meta(&self) -> NegativesMeta {
        match self {
            Self::OfEach { num, .. } => NegativesMeta::OfEach(*num as u64),
            Self::Shared { dst, .. } => NegativesMeta::Shared(dst.len() as u64),
        }
    }

    /// Returns the number of bytes of the arrays.
    pub(crate) fn stored_bytes(&self) -> usize {
        match self {
            Self::OfEach { dst, .. } => dst.len() * size_of::<u32>(),
            Self::Shared { src, dst } => (src.len() + dst.len()) * size_of::<u32>(),
        }
    }

    /// Returns the negatives of the edges at `positions`, in that order.
    pub(crate) fn select(&self, positions: &[u64]) -> Self {
        match self {
            Self::OfEach { num, dst } => Self::OfEach { num: *num, dst: select_rows(dst, *num, positions).into() },
            shared => shared.clone(),
        }
    }

    /// Returns the negatives of the reversed edges. Destinations of their own do not make pairs with the reversed
    /// edges' sources, so only shared pairs have reverses.
    pub(crate) fn reversed(&self) -> Option<Self> {
        match self {
            Self::OfEach { .. } => None,
            Self::Shared { src, dst } => Some(Self::Shared { src: dst.clone(), dst: src.clone() }),
        }
    }

    /// Checks the lengths, and that all ids are below the numbers of nodes of both types.
    ///
    /// # Errors
    /// The reason. `edges` names the list, such as `held-out valid edges`.
    pub(crate) fn check(&self, num_edges: usize, num_nodes: [usize; 2], edges: &str) -> Result<(), String> {
        let in_range =
            |ids: &[u32], num_nodes: usize, end: &str| match first_position(ids, |id| id as usize >= num_nodes) {
                Some(at) => Err(format!(
                    "the {end} of negative {at} of {edges} is node {}, but there are {num_nodes} nodes",
                    ids[at]
                )),
                None => Ok(()),
            };
        match self {
            Self::OfEach { num, dst } => {
                if *num == 0 || num_edges.checked_mul(*num) != Some(dst.len()) {
                    return Err(format!("{} negatives for {num_edges} {edges} with {num} each", dst.len()));
                }
                in_range(dst, num_nodes[1], "destination")
            }
            Self::Shared { src, dst } => {
                if src.is_empty() {
                    return Err(format!("the list of negatives of {edges} is empty"));
                }
                if src.len() != dst.len() {
                    return Err(format!(
                        "{} sources but {} destinations of negatives of {edges}",
                        src.len(),
                        dst.len()
                    ));
                }
                in_range(src, num_nodes[0], "source")?;
                in_range(dst, num_nodes[1], "destination")
            }
        }
    }
}
