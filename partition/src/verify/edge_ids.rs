//! The check of the ids of edges.

use super::wrong;
use crate::PartitionError;
use edgecut_graph::{DiskPartId, EdgeId, EdgeIds, EdgeTypeId, GraphError, Part, edge_dir, part_dir};
use rayon::slice::ParallelSliceMut;
use std::path::{Path, PathBuf};

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
/// an edge and its reverse. Takes 32 bytes per edge. `parts` are all parts in the folder `dir`.
pub(super) fn check(dir: &Path, parts: &[Part], e: EdgeTypeId) -> Result<(), PartitionError> {
    let mut found = Vec::new();
    for (part, id) in parts.iter().zip(0..) {
        let edges = part.edges(e);
        let Some(ids) = &edges.attributes.ids else { return Ok(()) };
        let are_positions = part.meta().provenance.edge_ids;
        let first_destination = part.owned(edges.dst_type).start;
        for (destination, bounds) in (first_destination..).zip(edges.csc.indptr().windows(2)) {
            for edge in bounds[0] as usize..bounds[1] as usize {
                let of_edge = ids.get(edge);
                if let Some(why) = problem(of_edge, are_positions) {
                    return wrong(file(dir, part, id, e, ids), format!("the id of edge {edge} {why}"));
                }
                found.push(IdOfEdge { key: of_edge.key(), ends: [edges.csc.indices()[edge], destination] });
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
