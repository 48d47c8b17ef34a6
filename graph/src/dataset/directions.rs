//! Reverse edges.

use super::merged_edges::Precedence;
use super::{Dataset, EdgeAttributes, EdgeData, HeldOutEdges, KeptDuplicate, undirected};
use crate::memory::Workspace;
use crate::{GraphError, NodeTypeId, parallel, reverse_relation};

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
    ///
    /// # Panics
    /// If edges with labels join a node type to itself. [`Dataset::to_undirected_in`] returns an error.
    pub fn to_undirected(&mut self) {
        assert!(self.labeled_type_within().is_none(), "reverses among labeled edges");
        for edges in self.edge_types.iter_mut().filter(|e| e.src_type == e.dst_type) {
            add_reverses(edges, KeptDuplicate::First);
        }
    }

    /// Like [`Dataset::to_undirected`], with the edges and their attributes in `space`. Of duplicates with attributes, `kept`
    /// stays. Returns a sentence for each edge type whose duplicates had weights, times or features.
    ///
    /// # Errors
    /// [`GraphError::Scratch`], [`GraphError::MemoryLimit`] for a node with more edges than the working memory has room
    /// for, and [`GraphError::Dataset`] for edges with labels.
    pub fn to_undirected_in(&mut self, space: &Workspace, kept: KeptDuplicate) -> Result<Vec<String>, GraphError> {
        if let Some(edges) = self.labeled_type_within() {
            let why = format!(
                "edge type {} has labels, and adding reverses to it would merge edges with different labels: add a \
                 reverse type to each edge type instead (--add-reverse-edges)",
                self.edge_type_name(edges)
            );
            return Err(GraphError::Dataset { dataset: self.name.clone(), why });
        }
        let mut merged = Vec::new();
        for (at, edges) in self.edge_types.iter_mut().enumerate().filter(|(_, e)| e.src_type == e.dst_type) {
            let has_values = edges.attributes.is_in_digests();
            let num_merged = if space.is_scratch() {
                undirected::add_reverses(space, edges, self.node_types[edges.src_type.index()].num_nodes, kept)?
            } else {
                add_reverses(edges, kept)
            };
            if has_values && num_merged > 0 {
                merged.push((at, num_merged));
            }
        }
        let mut said = Vec::new();
        for (at, num_merged) in merged {
            let has_times = self.edge_types[at].attributes.times.is_some();
            let kept = if has_times { kept } else { KeptDuplicate::First };
            said.push(format!(
                "`to_undirected` keeps the {} edge from one node to another, and the weights, times or features of \
                 {num_merged} {} edges of type {} are lost: combine these edges beforehand if they count",
                kept.word(),
                kept.word_of_others(),
                self.edge_type_name(&self.edge_types[at])
            ));
        }
        Ok(said)
    }

    /// Returns the first edge type that has labels and joins a node type to itself.
    fn labeled_type_within(&self) -> Option<&EdgeData> {
        self.edge_types.iter().find(|e| e.src_type == e.dst_type && e.attributes.labels.is_some())
    }

    /// Adds the inverse of each edge right after it, whether it exists or not, with the same attributes, as OGB's loader
    /// does. Edge types that join two node types do not change.
    pub fn add_inverse_edges(&mut self) {
        // Nothing fails in memory.
        let _ = self.add_inverse_edges_in(&Workspace::default());
    }

    /// Like [`Dataset::add_inverse_edges`], with arrays in `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub(crate) fn add_inverse_edges_in(&mut self, space: &Workspace) -> Result<(), GraphError> {
        const STEP: &str = "adding inverse edges";
        for edges in self.edge_types.iter_mut().filter(|e| e.src_type == e.dst_type) {
            let num_stored = 2 * edges.src.len();
            let alternate = |first: &[u32], second: &[u32]| {
                let at = |at: usize| if at.is_multiple_of(2) { first[at / 2] } else { second[at / 2] };
                space.build(num_stored, STEP, |range| {
                    Ok(parallel::map_indices(range.len(), |offset| at(range.start + offset)))
                })
            };
            let src = alternate(&edges.src, &edges.dst)?;
            let dst = alternate(&edges.dst, &edges.src)?;
            if !edges.attributes.is_empty() {
                let positions = space.filter_map(num_stored, STEP, |at| Some(at as u64 / 2))?;
                edges.attributes = edges.attributes.select_in(space, &positions)?;
            }
            edges.src = src;
            edges.dst = dst;
        }
        Ok(())
    }

    /// Adds a reverse type to each edge type, such as `rev_writes` from papers to authors for `writes` from authors to
    /// papers. Messages then flow both ways, and a model can distinguish the directions. A type that joins a node type
    /// to itself also gets a reverse type; a type whose reverse type of that name exists does not. A reverse edge has
    /// the weight, time and features of its edge, and the reverse of a held-out edge is held out as well. Labels stay with
    /// the edges that have them.
    pub fn add_reverse_edges(&mut self) {
        let known: Vec<(NodeTypeId, String, NodeTypeId)> =
            self.edge_types.iter().map(|e| (e.src_type, e.relation.clone(), e.dst_type)).collect();
        for (edges, (src_type, relation, dst_type)) in self.edge_types.clone().into_iter().zip(&known) {
            let reverse = (*dst_type, reverse_relation(relation), *src_type);
            let is_reverse = known
                .iter()
                .any(|(src, name, dst)| (src, dst) == (dst_type, src_type) && reverse_relation(name) == *relation);
            if !is_reverse && !known.contains(&reverse) {
                let EdgeData { src, dst, attributes, held_out, .. } = edges;
                let attributes = EdgeAttributes { labels: None, ..attributes };
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

/// Adds the reverses of the edges of a type in memory. Returns the number of edges with attributes that were merged with
/// another one.
fn add_reverses(edges: &mut EdgeData, kept: KeptDuplicate) -> usize {
    let mut num_merged = 0;
    let keys = if edges.attributes.is_empty() {
        both_directions(edges)
    } else {
        let (keys, num_kept) = both_directions_with_attributes(edges, kept);
        num_merged = edges.src.len() - num_kept;
        keys
    };
    edges.src = parallel::map(&keys, |&key| (key >> 32) as u32).into();
    edges.dst = parallel::map(&keys, |&key| key as u32).into();
    num_merged
}

/// Returns the edges in both directions, sorted and without duplicates.
fn both_directions(edges: &EdgeData) -> Vec<u64> {
    let held_out = HeldOutPairs::new(&edges.held_out);
    let src = &edges.src[..];
    let dst = &edges.dst[..];
    let num_edges = src.len();
    // The edges come first, then their reverses.
    let key = |at: usize| match at.checked_sub(num_edges) {
        None => pack(src[at], dst[at]),
        Some(at) => pack(dst[at], src[at]),
    };
    let mut keys: Vec<u64> = if held_out.is_empty() {
        parallel::map_indices(2 * num_edges, key)
    } else {
        parallel::filter_map(2 * num_edges, |at| Some(key(at)).filter(|&key| at < num_edges || !held_out.contains(key)))
    };
    parallel::sort(&mut keys);
    keys.dedup();
    keys
}

/// Like [`both_directions`] for edges with attributes, which are moved to the new order. Also returns the number of edges that
/// are no added reverses.
fn both_directions_with_attributes(edges: &mut EdgeData, kept: KeptDuplicate) -> (Vec<u64>, usize) {
    let precedence = Precedence::new(edges, kept);
    let held_out = HeldOutPairs::new(&edges.held_out);
    let src = &edges.src[..];
    let dst = &edges.dst[..];
    let num_edges = src.len() as u64;
    // Positions break ties: an existing edge sorts before the reverse of another, and the first of duplicates before
    // the rest. So `dedup` keeps the right attributes, unless a later edge replaces an earlier one.
    let key = |at: u64| match at.checked_sub(num_edges) {
        None => (pack(src[at as usize], dst[at as usize]), at),
        Some(reversed) => (pack(dst[reversed as usize], src[reversed as usize]), at),
    };
    let mut keys: Vec<(u64, u64)> = parallel::filter_map(2 * num_edges as usize, |at| {
        Some(key(at as u64)).filter(|&(key, at)| at < num_edges || !held_out.contains(key))
    });
    parallel::sort_pairs(&mut keys);
    keys.dedup_by(|other, first| {
        if other.0 != first.0 {
            return false;
        }
        if precedence.replaces(first.1, other.1) {
            first.1 = other.1;
        }
        true
    });
    let num_kept = keys.iter().filter(|&&(_, at)| at < num_edges).count();
    // Both directions of an edge have the attributes at the edge's position.
    let positions: Vec<u64> = parallel::map(&keys, |&(_, at)| if at < num_edges { at } else { at - num_edges });
    edges.attributes = edges.attributes.select(&positions);
    (parallel::map(&keys, |&(key, _)| key), num_kept)
}

/// The pairs of nodes that held-out edges join, in either direction.
pub(super) struct HeldOutPairs(Vec<u64>);

impl HeldOutPairs {
    pub(super) fn new(held_out: &HeldOutEdges) -> Self {
        let ends = held_out.lists().into_iter().flat_map(|(_, list)| list.src.iter().zip(&list.dst[..]));
        let mut pairs: Vec<u64> = ends.map(|(&a, &b)| pack(a.min(b), a.max(b))).collect();
        parallel::sort(&mut pairs);
        Self(pairs)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, key: u64) -> bool {
        let a = (key >> 32) as u32;
        let b = key as u32;
        self.0.binary_search(&pack(a.min(b), a.max(b))).is_ok()
    }
}

#[cfg(test)]
mod tests;
