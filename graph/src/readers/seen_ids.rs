//! Numbers of nodes that follow from the ids of edges alone.

use super::npy_folder::Integers;
use crate::GraphError;
use std::path::{Path, PathBuf};

/// The most nodes without an edge that are assumed for each end of an edge. A single stray id would otherwise make billions
/// of nodes. Graphs with more of them state their number of nodes.
const IDLE_PER_END: u64 = 16;
/// The nodes without an edge that a graph of any size may have.
const IDLE_ANYWAY: u64 = 1 << 16;

/// The largest id of the nodes of a type, and the number of ends of edges among which it was found.
#[derive(Default)]
pub(super) struct SeenIds {
    largest: i64,
    file: PathBuf,
    ends: usize,
}

impl SeenIds {
    /// Adds the ids of `ends` ends of edges in the array `file`.
    pub(super) fn add(&mut self, file: &Path, largest: Option<i64>, ends: usize) {
        self.ends += ends;
        if let Some(largest) = largest
            && (self.file.as_os_str().is_empty() || largest > self.largest)
        {
            self.largest = largest;
            self.file = file.to_owned();
        }
    }

    /// Returns the number of nodes: one more than the largest id. `remedy` says where the number can be stated.
    ///
    /// # Errors
    /// An id that is too large for the number of edges, with its edge in the file.
    pub(super) fn count(&self, remedy: &str) -> Result<i64, GraphError> {
        if self.file.as_os_str().is_empty() {
            return Ok(0);
        }
        let Err(why) = check_largest(self.largest, self.ends) else { return Ok(self.largest.saturating_add(1)) };
        let (_, ids) = Integers::open(&self.file)?;
        let at = ids.position(|id| id == self.largest)?.unwrap_or(0);
        let edge = at % (ids.len() / 2).max(1);
        Err(GraphError::format(&self.file, format!("edge {edge} has node {why}: number nodes from 0, or {remedy}")))
    }
}

/// Checks the largest id among this number of ends of edges.
///
/// # Errors
/// The id, and why it is too large.
pub(super) fn check_largest(largest: i64, ends: usize) -> Result<(), String> {
    let most = (ends as u64).saturating_mul(1 + IDLE_PER_END).saturating_add(IDLE_ANYWAY);
    if largest < 0 || (largest as u64) < most {
        return Ok(());
    }
    Err(format!("{largest}, but {ends} ends of edges are few for so many nodes, which must be fewer than {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_grow_with_the_number_of_edges() {
        for (largest, ends, is_right) in [
            (-1, 0, true),
            (65_535, 0, true),
            (65_536, 0, false),
            (65_535 + 1700, 100, true),
            (65_536 + 1700, 100, false),
            (i64::MAX, 1 << 40, false),
            (u32::MAX.into(), 1 << 28, true),
        ] {
            assert_eq!(check_largest(largest, ends).is_ok(), is_right, "{largest} of {ends}");
        }
    }
}
