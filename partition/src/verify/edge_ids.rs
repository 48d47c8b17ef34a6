//! The check of the ids of edges.

use super::wrong;
use crate::PartitionError;
use edgecut_graph::rng::mix;
use edgecut_graph::{DiskPartId, EdgeId, EdgeIds, EdgeTypeId, GraphError, Part, edge_dir, part_dir};
use rayon::slice::ParallelSliceMut;
use std::path::{Path, PathBuf};

/// The number of edges whose ids are compared at once, in about 2 GiB.
const EDGES_AT_ONCE: usize = 1 << 26;

/// A share of all ids. Equal ids are in the same share.
#[derive(Clone, Copy)]
struct Share {
    number: u64,
    /// The number of shares.
    count: u64,
}

impl Share {
    fn has(self, key: u128) -> bool {
        mix(key as u64) % self.count == self.number
    }
}

/// An edge by its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct IdOfEdge {
    key: u128,
    /// The source and the destination, as global ids.
    ends: [u32; 2],
}

impl IdOfEdge {
    /// Returns true if the other edge leads back, as the reverse that is added to an edge of an undirected graph.
    fn is_reverse_of(&self, other: &Self) -> bool {
        self.ends[0] != self.ends[1] && self.ends == [other.ends[1], other.ends[0]]
    }
}

/// Checks the ids of the edges of a type: texts are UTF-8, positions are not negative, and no two edges have the same id, except
/// an edge and its reverse. `parts` are all parts in the folder `dir`.
pub(super) fn check(dir: &Path, parts: &[Part], e: EdgeTypeId) -> Result<(), PartitionError> {
    check_in_shares(dir, parts, e, EDGES_AT_ONCE)
}

/// Checks the ids in shares of about `edges_at_once` edges, each of which takes 32 bytes. Reads all ids for each share.
fn check_in_shares(dir: &Path, parts: &[Part], e: EdgeTypeId, edges_at_once: usize) -> Result<(), PartitionError> {
    let num_edges: usize = parts.iter().map(|part| part.edges(e).csc.num_edges()).sum();
    let count = num_edges.div_ceil(edges_at_once) as u64;
    for number in 0..count {
        check_share(dir, parts, e, Share { number, count })?;
    }
    Ok(())
}

fn check_share(dir: &Path, parts: &[Part], e: EdgeTypeId, share: Share) -> Result<(), PartitionError> {
    let mut found = Vec::new();
    for (part, id) in parts.iter().zip(0..) {
        let edges = part.edges(e);
        let Some(ids) = &edges.attributes.ids else { return Ok(()) };
        let are_positions = part.meta().provenance.edge_ids;
        let first_destination = part.owned(edges.dst_type).start;
        for (destination, bounds) in (first_destination..).zip(edges.csc.indptr().windows(2)) {
            for edge in bounds[0] as usize..bounds[1] as usize {
                let of_edge = ids.get(edge);
                let key = of_edge.key();
                if !share.has(key) {
                    continue;
                }
                if let Some(why) = problem(of_edge, are_positions) {
                    return wrong(file(dir, part, id, e, ids), format!("the id of edge {edge} {why}"));
                }
                found.push(IdOfEdge { key, ends: [edges.csc.indices()[edge], destination] });
            }
        }
    }
    found.par_sort_unstable();
    let joins_one_type = parts.first().is_some_and(|part| part.edges(e).src_type == part.edges(e).dst_type);
    for pair in found.windows(2) {
        if pair[0].key == pair[1].key && !(joins_one_type && pair[0].is_reverse_of(&pair[1])) {
            return Err(twice(dir, parts, e, pair[0].key));
        }
    }
    Ok(())
}

/// Returns the reason if an id is not one of the format.
fn problem(id: EdgeId<'_>, is_position: bool) -> Option<String> {
    match id {
        EdgeId::Text(text) if std::str::from_utf8(text).is_err() => Some("is not UTF-8".into()),
        EdgeId::Number(number) if is_position && number < 0 => Some(format!("is {number}, but it is a position")),
        _ => None,
    }
}

/// Creates the error of an id that two edges have.
fn twice(dir: &Path, parts: &[Part], e: EdgeTypeId, key: u128) -> PartitionError {
    for (part, id) in parts.iter().zip(0..) {
        let Some(ids) = &part.edges(e).attributes.ids else { continue };
        if let Some(edge) = (0..ids.len()).find(|&edge| ids.get(edge).key() == key) {
            let why = format!("edge {edge} has the id {}, which another edge has as well", ids.get(edge));
            return GraphError::format(file(dir, part, id, e, ids), why).into();
        }
    }
    GraphError::format(dir, "two edges have the same id").into()
}

/// Returns the file with the ids of the edges of a type in a part.
fn file(dir: &Path, part: &Part, id: u32, e: EdgeTypeId, ids: &EdgeIds) -> PathBuf {
    let name = match ids {
        EdgeIds::Numbers(_) => "ids.npy",
        EdgeIds::Texts(_) => "id_bytes.npy",
    };
    dir.join(part_dir(DiskPartId(id))).join(edge_dir(&part.meta().edge_types[e.index()])).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PartitionOptions, partition};
    use edgecut_graph::{Dataset, NodeData};

    /// The edges of a ring, of which the last one has the id of another edge, or one of its own.
    #[test]
    fn repeated_ids_are_found_in_any_number_of_shares() {
        const NUM_EDGES: u32 = 40;
        let dir = tempfile::tempdir().unwrap();
        for (name, last, is_valid) in [("own", 39, true), ("repeated", 12, false)] {
            let nodes = NodeData { name: "node".into(), num_nodes: NUM_EDGES as usize, ..NodeData::default() };
            let src: Vec<u32> = (0..NUM_EDGES).collect();
            let dst: Vec<u32> = src.iter().map(|node| (node + 1) % NUM_EDGES).collect();
            let mut ring = Dataset::homogeneous("ring", nodes, src.into(), dst.into());
            let ids: Vec<i64> = (0..39).chain([last]).collect();
            ring.edge_types[0].attributes.ids = Some(EdgeIds::Numbers(ids.into()));
            let out = dir.path().join(name);
            partition(&ring, &PartitionOptions::new(2), &out, &()).unwrap();
            let parts: Vec<Part> = (0..2).map(|id| Part::open(&out, DiskPartId(id), false).unwrap()).collect();
            for edges_at_once in [1, 7, 40] {
                let checked = check_in_shares(&out, &parts, EdgeTypeId(0), edges_at_once);
                assert_eq!(checked.is_ok(), is_valid, "{name}, {edges_at_once} at once: {checked:?}");
                if let Err(error) = checked {
                    assert!(error.to_string().contains("has the id 12, which another edge has as well"), "{error}");
                }
            }
        }
    }
}
