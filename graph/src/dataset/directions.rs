//! The other direction of edges.

use super::{Dataset, EdgeData, HeldOutEdges};
use crate::NodeTypeId;
use rayon::prelude::*;

/// An edge as one number, which sorts by source and then by destination.
pub(super) fn pack(src: u32, dst: u32) -> u64 {
    u64::from(src) << 32 | u64::from(dst)
}

impl Dataset {
    /// Adds the reverse of every edge of a type that joins a node type to itself, except where the reverse is there
    /// already; duplicates collapse to one edge. What results is sorted by (source, destination), and symmetric where
    /// no edge is held out; self loops stay single.
    ///
    /// An edge keeps its weight, time and features, of duplicates those of the first; an edge that is added has those
    /// of the edge that it is the reverse of. Held-out edges stay as they are, and no edge is added between the ends of
    /// one, which would give it away.
    pub fn to_undirected(&mut self) {
        for edges in self.edge_types.iter_mut().filter(|e| e.src_type == e.dst_type) {
            let keys = match edges.attributes.is_empty() {
                true => both_directions(edges),
                false => both_directions_with_attributes(edges),
            };
            edges.src = keys.par_iter().map(|k| (k >> 32) as u32).collect::<Vec<_>>().into();
            edges.dst = keys.par_iter().map(|k| *k as u32).collect::<Vec<_>>().into();
        }
    }

    /// Adds to each edge type, `writes` from authors to papers, another one in the other direction, `rev_writes` from
    /// papers to authors, so that messages flow both ways and a model tells them apart. A type that joins a node type
    /// to itself gets one as well; one whose reverse of that name is there already does not. A reverse edge has the
    /// weight, time and features of its edge, and the reverse of a held-out edge is held out as well.
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

/// The sorted edges in both directions, without duplicates.
fn both_directions(edges: &EdgeData) -> Vec<u64> {
    let held_out = HeldOutPairs::new(&edges.held_out);
    let ends = || edges.src.par_iter().zip(&edges.dst[..]);
    let mut keys: Vec<u64> = Vec::with_capacity(2 * edges.src.len());
    keys.par_extend(ends().map(|(&src, &dst)| pack(src, dst)));
    match held_out.is_empty() {
        true => keys.par_extend(ends().map(|(&src, &dst)| pack(dst, src))),
        false => keys.par_extend(ends().map(|(&src, &dst)| pack(dst, src)).filter(|&key| !held_out.contains(key))),
    }
    keys.par_sort_unstable();
    keys.dedup();
    keys
}

/// The same where edges carry something, which is put in their new order.
fn both_directions_with_attributes(edges: &mut EdgeData) -> Vec<u64> {
    let held_out = HeldOutPairs::new(&edges.held_out);
    let num_edges = edges.src.len() as u64;
    let ends = || edges.src.par_iter().zip(&edges.dst[..]).enumerate();
    // An edge that is there sorts before the reverse of another, and the first of duplicates before the others.
    let mut keys: Vec<(u64, u64)> = Vec::with_capacity(2 * edges.src.len());
    keys.par_extend(ends().map(|(at, (&src, &dst))| (pack(src, dst), at as u64)));
    let reverse = ends().map(|(at, (&src, &dst))| (pack(dst, src), num_edges + at as u64));
    keys.par_extend(reverse.filter(|&(key, _)| !held_out.contains(key)));
    keys.par_sort_unstable();
    keys.dedup_by_key(|&mut (key, _)| key);
    let positions: Vec<u64> =
        keys.par_iter().map(|&(_, at)| if at < num_edges { at } else { at - num_edges }).collect();
    edges.attributes = edges.attributes.select(&positions);
    keys.into_par_iter().map(|(key, _)| key).collect()
}

/// The pairs of nodes that held-out edges join, in whatever direction.
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
        let (a, b) = ((key >> 32) as u32, key as u32);
        self.0.binary_search(&pack(a.min(b), a.max(b))).is_ok()
    }
}

#[cfg(test)]
mod tests;
