//! The edges that an update adds.

use super::numbers::KnownNumbers;
use crate::dataset::{EdgeAttributes, EdgeData};
use crate::memory::Buffer;

/// The added edges of a type, in the order of their tables. Nodes have ids as in [`KnownNumbers`].
#[derive(Default)]
pub(super) struct AddedEdges {
    pub(super) src: Buffer<u32>,
    pub(super) dst: Buffer<u32>,
    pub(super) attributes: EdgeAttributes,
    /// The nodes that added edges go to, ascending.
    destinations: Vec<u32>,
    /// The end of the edges into each destination in `positions`.
    ends: Vec<usize>,
    /// The positions of the edges into each destination, ascending.
    positions: Vec<u64>,
}

impl AddedEdges {
    /// Groups edges, whose ends are numbers, by destination.
    pub(super) fn new(added: &EdgeData, [src_type, dst_type]: [&KnownNumbers; 2]) -> Self {
        let src = src_type.ids_of_numbers(&added.src);
        let dst = dst_type.ids_of_numbers(&added.dst);
        let mut positions: Vec<u64> = (0..dst.len() as u64).collect();
        positions.sort_by_key(|&at| dst[at as usize]);
        let mut destinations = Vec::new();
        let mut ends = Vec::new();
        for of_node in positions.chunk_by(|&a, &b| dst[a as usize] == dst[b as usize]) {
            destinations.push(dst[of_node[0] as usize]);
            ends.push(ends.last().copied().unwrap_or(0) + of_node.len());
        }
        let attributes = added.attributes.clone();
        Self { src: src.into(), dst: dst.into(), attributes, destinations, ends, positions }
    }

    /// Returns the number of edges.
    pub(super) fn len(&self) -> usize {
        self.src.len()
    }

    /// Returns the nodes that the edges go to, ascending.
    pub(super) fn destinations(&self) -> &[u32] {
        &self.destinations
    }

    /// Returns the positions of the edges into a node.
    pub(super) fn edges_into(&self, dst: u32) -> &[u64] {
        match self.destinations.binary_search(&dst) {
            Err(_) => &[],
            Ok(at) => {
                let start = if at == 0 { 0 } else { self.ends[at - 1] };
                &self.positions[start..self.ends[at]]
            }
        }
    }
}
