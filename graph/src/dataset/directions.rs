//! Reverse edges.

use super::checks::check_ends;
use super::undirected::add_reverses;
use super::{Dataset, EdgeAttributes, EdgeData, KeptDuplicate};
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
    /// If edges with labels join a node type to itself, or for edges of nodes that do not exist.
    /// [`Dataset::to_undirected_in`] returns an error.
    pub fn to_undirected(&mut self) {
        let made = self.to_undirected_in(&Workspace::default(), KeptDuplicate::First);
        assert!(made.is_ok(), "{made:?}");
    }

    /// Like [`Dataset::to_undirected`], with the edges and their attributes in `space`. Of duplicates with attributes, `kept`
    /// stays. Returns a sentence for each edge type whose duplicates had weights, times or features.
    ///
    /// # Errors
    /// [`GraphError::Scratch`], [`GraphError::MemoryLimit`] for a node with more edges than the working memory has room
    /// for, and [`GraphError::Dataset`] for edges with labels or of nodes that do not exist.
    pub fn to_undirected_in(&mut self, space: &Workspace, kept: KeptDuplicate) -> Result<Vec<String>, GraphError> {
        for edges in self.edge_types.iter().filter(|e| e.src_type == e.dst_type) {
            let name = self.edge_type_name(edges);
            let nodes = &self.node_types[edges.src_type.index()];
            let checked = if edges.attributes.labels.is_some() {
                Err(format!(
                    "edge type {name} has labels, and adding reverses to it would merge edges with different labels: add a \
                     reverse type to each edge type instead (--add-reverse-edges)"
                ))
            } else {
                check_ends(&edges.src, &edges.dst, "edge", [nodes, nodes])
                    .map_err(|why| format!("edge type {name}: {why}"))
            };
            checked.map_err(|why| GraphError::Dataset { dataset: self.name.clone(), why })?;
        }
        let mut merged = Vec::new();
        for (at, edges) in self.edge_types.iter_mut().enumerate().filter(|(_, e)| e.src_type == e.dst_type) {
            let has_values = edges.attributes.is_in_digests();
            let num_merged = add_reverses(space, edges, self.node_types[edges.src_type.index()].num_nodes, kept)?;
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

#[cfg(test)]
mod tests;
