//! Reverse edges.

use super::{Dataset, EdgeData, HeldOutEdges};
use crate::NodeTypeId;
use rayon::prelude::*;

/// Packs an edge into one number, which sorts by source, then by destination.
pub(super) fn pack(src: u32, dst: u32) -> u64 {
    u64::from(src) << 32 | u64::from(dst)
}

impl Dataset {
    /// Adds the reverse of every edge of each type that joins a node type to itself, unless it already exists.
    /// Duplicates collapse to one edge. The result is sorted by (source, destination). It is symmetric except around
    /// held-out edges. Self loops stay single.
    ///
    /// An edge keeps its weight, time and features; of duplicates the first one is kept. An added edge copies them from
    /// the edge that it reverses. Held-out edges do not change, and no edge is added between the ends of a held-out
    /// edge, because it would leak that edge.
    pub fn to_undirected(&mut self) {
        for edges in self.edge_types.iter_mut().filter(|e| e.src_type == e.dst_type) {
            let keys = if edges.attributes.is_empty() {
                both_directions(edges)
            } else {
                both_directions_with_attributes(edges)
            };
            edges.src = keys.par_iter().map(|k| (k >> 32) as u32).collect::<Vec<_>>().into();
            edges.dst = keys.par_iter().map(|k| *k as u32).collect::<Vec<_>>().into();
        }
    }

    /// Adds a reverse type to each edge type, such as `rev_writes` from papers to authors for `writes` from authors to
    /// papers. Messages then flow both ways, and a model can distinguish the directions. A type that joins a node type
    /// to itself also gets a reverse type; a type whose reverse type of that name exists does not. A reverse edge has
    /// the weight, time and features of its edge, and the reverse of a held-out edge is held out as well.
    pub fn add_reverse_edges(&mut self) {
        let known: Vec<(NodeTypeId, String, NodeTypeId)> =
            self.edge_types.iter().map(|e| (e.src_type, e.relation.clone(), e.dst_type)).collect();
        for (edges, (src_type, relation, dst_type)) in self.edge_types.clone().into_iter().zip(&known) {
            let reverse = (*dst_type, format!("rev_{relation}"), *src_type);
            let is_reverse = relation.strip_prefix("rev_").is_some_and(|forward| {
                known.iter().any(|(src, name, dst)| (src, name.as_str(), dst) == (dst_type, forward, src_type))
            });
            if !is_reverse && !known.contains(&reverse) {
                let EdgeData { src, dst, attributes, held_out, .. } = edges;
                let held_out = held_out.reversed();
                let (src_type, relation, dst_type) = reverse;
                self.edge_types.push(EdgeData {
                    src_type,
                    relation,
                    dst_type,
                    src: dst,
                    dst: src,
                    attributes,
                    held_out,
                });
            }
        }
    }
}

/// Returns the edges in both directions, sorted and without duplicates.
fn both_directions(edges: &EdgeData) -> Vec<u64> {
    let held_out = HeldOutPairs::new(&edges.held_out);
    let ends = || edges.src.par_iter().zip(&edges.dst[..]);
    let mut keys: Vec<u64> = Vec::with_capacity(2 * edges.src.len());
    keys.par_extend(ends().map(|(&src, &dst)| pack(src, dst)));
    if held_out.is_empty() {
        keys.par_extend(ends().map(|(&src, &dst)| pack(dst, src)));
    } else {
        keys.par_extend(ends().map(|(&src, &dst)| pack(dst, src)).filter(|&key| !held_out.contains(key)));
    }
    keys.par_sort_unstable();
    keys.dedup();
    keys
}

/// Like [`both_directions`] for edges with attributes, which are moved to the new order.
fn both_directions_with_attributes(edges: &mut EdgeData) -> Vec<u64> {
    let held_out = HeldOutPairs::new(&edges.held_out);
    let num_edges = edges.src.len() as u64;
    let ends = || edges.src.par_iter().zip(&edges.dst[..]).enumerate();
    // Positions break ties: an existing edge sorts before the reverse of another, and the first of duplicates before
    // the rest. So `dedup` keeps the right attributes.
    let mut keys: Vec<(u64, u64)> = Vec::with_capacity(2 * edges.src.len());
    keys.par_extend(ends().map(|(at, (&src, &dst))| (pack(src, dst), at as u64)));
    let reverse = ends().map(|(at, (&src, &dst))| (pack(dst, src), num_edges + at as u64));
    keys.par_extend(reverse.filter(|&(key, _)| !held_out.contains(key)));
    keys.par_sort_unstable();
    keys.dedup_by_key(|&mut (key, _)| key);
    // Both directions of an edge have the attributes at the edge's position.
    let positions: Vec<u64> =
        keys.par_iter().map(|&(_, at)| if at < num_edges { at } else { at - num_edges }).collect();
    edges.attributes = edges.attributes.select(&positions);
    keys.into_par_iter().map(|(key, _)| key).collect()
}

/// The pairs of nodes that held-out edges join, in either direction.
struct HeldOutPairs(Vec<u64>);

impl HeldOutPairs {
    fn new(held_out: &HeldOutEdges) -> Self {
        let ends = held_out.lists().into_iter().flat_map(|(_, list)| list.src.iter().zip(&list.dst[..]));
        let mut pairs: Vec<u64> = ends.map(|(&a, &b)| pack(a.min(b), a.max(b))).collect();
        pairs.par_sort_unstable();
        Self(pairs)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, key: u64) -> bool {
        let a = (key >> 32) as u32;
        let b = key as u32;
        self.0.binary_search(&pack(a.min(b), a.max(b))).is_ok()
    }
}

#[cfg(test)]
mod tests;
