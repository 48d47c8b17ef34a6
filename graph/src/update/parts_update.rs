//! The update of parts on disk, before its files are written.

use super::edges::{EdgeCounts, TypeEdges};
use super::nodes::TypeNodes;
use super::numbers::KnownNumbers;
use super::{GraphUpdate, RemovedCounts, UpdateRules, fit};
use crate::dataset::{
    Candidate, Dataset, EdgeOverlap, NodeOverlap, OverlapFilter, Overlaps, SettledOverlaps, TypedEdges,
    count_edge_overlaps,
};
use crate::edge_type_names::{EdgeTypeNames, check_reverse_pairs};
use crate::memory::Workspace;
use crate::{EdgeTypeId, EdgeTypeMeta, GraphError, Meta, NodeTypeId, Part};
use std::sync::Arc;

/// Changes of the graph of existing parts, which [`PartsUpdate::write`] writes once the new nodes have parts.
///
/// Invariant: parts are read one at a time. The memory is bounded by the edges of the largest part, the rows of the update, the
/// held-out edges, and a bit per node.
pub struct PartsUpdate<'a> {
    pub(super) parts: &'a [Part],
    pub(super) nodes: Vec<TypeNodes<'a>>,
    pub(super) edges: Vec<TypeEdges<'a>>,
    pub(super) counts: Vec<EdgeCounts>,
    pub(super) filter: Option<OverlapFilter>,
    pub(super) space: Workspace,
    reverse_types: Vec<(String, String)>,
    edge_types: Vec<UpdatedEdges>,
    warnings: Vec<String>,
}

/// The numbers of edges of a type, held-out edges included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdatedEdges {
    /// The edges that the update removes.
    pub removed: RemovedCounts,
    /// The edges that are removed because they are held out as well.
    pub overlaps: u64,
    /// The edges after the update.
    pub after: u64,
}

/// The quantities of a part, without new nodes. Lists are by node type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartQuantities {
    /// The nodes that stay.
    pub nodes: Vec<u64>,
    /// The training edges into these nodes.
    pub in_edges: Vec<u64>,
    /// The training nodes.
    pub train: Vec<u64>,
}

/// The new nodes of an update, type by type.
#[derive(Clone, Debug, Default)]
pub struct NewNodes {
    /// The node type of each node.
    pub node_types: Vec<usize>,
    /// The training edges into each node.
    pub in_edges: Vec<u64>,
    /// True for each training node.
    pub is_train: Vec<bool>,
    /// The end of the neighbors of each node in `neighbors`.
    pub ends: Vec<usize>,
    /// The neighbors in both directions, each once. A node is no neighbor of itself.
    pub neighbors: Vec<Neighbor>,
}

/// A neighbor of a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbor {
    /// A node of this part.
    InPart(u32),
    /// The new node at this position.
    New(u32),
}

impl<'a> PartsUpdate<'a> {
    /// Applies changes to the graph of `parts`, which are all parts on disk of a graph.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] for changes that do not fit the types of the parts, for pairs of reverse types that are not each
    /// other's reverse, and for overlaps that are not allowed.
    pub fn new(parts: &'a [Part], update: GraphUpdate, rules: &UpdateRules) -> Result<Self, GraphError> {
        let Some(meta) = parts.first().map(Part::meta) else {
            return Err(GraphError::Dataset { dataset: String::new(), why: "there are no parts to update".into() });
        };
        fit::check(meta, &update).map_err(|why| wrong(meta, why))?;
        let (update, mut warnings) = without_unlabeled(update);
        let GraphUpdate { node_types, edge_types } = update;
        let mut nodes = Vec::with_capacity(node_types.len());
        for (t, of_type) in (0..).map(NodeTypeId).zip(node_types) {
            let known = Arc::new(KnownNumbers::new(parts, t, &of_type.removed).map_err(|why| wrong(meta, why))?);
            nodes.push(TypeNodes::new(parts, t, known, of_type).map_err(|why| wrong(meta, why))?);
        }
        let mut edges = Vec::with_capacity(edge_types.len());
        for (e, of_type) in (0..).map(EdgeTypeId).zip(edge_types) {
            edges.push(TypeEdges::new(parts, e, of_type, &nodes, rules.to_undirected));
        }
        let mut update = Self {
            parts,
            nodes,
            edges,
            counts: Vec::new(),
            filter: None,
            space: rules.space.clone(),
            reverse_types: rules.reverse_types.clone(),
            edge_types: Vec::new(),
            warnings: Vec::new(),
        };
        let names: Vec<EdgeTypeNames> = meta.edge_types.iter().map(EdgeTypeMeta::names).collect();
        check_reverse_pairs(&rules.reverse_types, &names, |_| false).map_err(|why| wrong(meta, why))?;
        let settled = rules.overlap.settle(&update.overlaps(), rules.to_undirected).map_err(|why| wrong(meta, why))?;
        warnings.extend(settled.warnings.iter().cloned());
        let overlaps_of_held_out = update.remove_overlaps(&settled, rules);
        if rules.to_undirected && rules.sorts_held_out {
            update.edges.iter_mut().for_each(TypeEdges::sort_held_out);
        }
        for (edges, of_held_out) in update.edges.iter().zip(overlaps_of_held_out) {
            if let Some(id) = edges.repeated_id(update.filter.as_ref()) {
                let name = meta.edge_types[edges.edge_type().index()].full_name();
                let why = format!(
                    "edge type {name}: an added edge has the id {id}, which another edge has already: give it another id, or \
                     remove the other edge"
                );
                return Err(wrong(meta, why));
            }
            let num_new = update.nodes[edges.dst_type().index()].num_new();
            let counts = edges.count(num_new, update.filter.as_ref());
            let held_out: usize = edges.held_out.lists().iter().map(|(_, list)| list.len()).sum();
            let train: u64 = counts.known.iter().chain(&counts.new).sum();
            update.edge_types.push(UpdatedEdges {
                removed: edges.removed(),
                overlaps: counts.overlaps + of_held_out,
                after: train + held_out as u64,
            });
            update.counts.push(counts);
        }
        update.warnings = warnings;
        Ok(update)
    }

    /// Counts the overlaps after the update.
    fn overlaps(&self) -> Overlaps {
        let mut node_types = Vec::new();
        for (name, splits) in self.nodes.iter().flat_map(TypeNodes::splits) {
            let mut all = NodeOverlap { node_type: name.clone(), ..NodeOverlap::default() };
            for splits in splits {
                let overlap = NodeOverlap::count(&name, splits);
                all.train_valid += overlap.train_valid;
                all.train_test += overlap.train_test;
                all.valid_test += overlap.valid_test;
            }
            if all.is_some() {
                node_types.push(all);
            }
        }
        let edge_types: Vec<EdgeOverlap> = count_edge_overlaps(&self.typed_edges());
        Overlaps { node_types, edge_types }
    }

    fn typed_edges(&self) -> Vec<TypedEdges<'_>> {
        let mut typed = Vec::with_capacity(self.edges.len());
        for edges in &self.edges {
            let num_new = self.nodes[edges.dst_type().index()].num_new();
            typed.push(edges.typed(num_new, &self.reverse_types));
        }
        typed
    }

    /// Chooses the edges to remove because of overlaps. Returns the number of validation edges that are removed, by edge type.
    fn remove_overlaps(&mut self, settled: &SettledOverlaps, rules: &UpdateRules) -> Vec<u64> {
        let mut removed = vec![0; self.edges.len()];
        if !settled.removes {
            return removed;
        }
        let filter = OverlapFilter::new(&self.typed_edges(), rules.to_undirected);
        for ((e, edges), removed) in (0..).map(EdgeTypeId).zip(&mut self.edges).zip(&mut removed) {
            let valid = &edges.held_out.valid;
            let mut kept: Vec<u64> = Vec::with_capacity(valid.len());
            for at in 0..valid.len() {
                let time = valid.times.as_ref().map(|times| times[at]);
                if !filter.is_test_edge(e, Candidate { src: valid.src[at], dst: valid.dst[at], time }) {
                    kept.push(at as u64);
                }
            }
            *removed = (valid.len() - kept.len()) as u64;
            if *removed > 0 {
                edges.held_out.valid = valid.select(&kept);
            }
        }
        self.filter = Some(filter);
        removed
    }

    /// Returns the numbers of edges, by edge type.
    pub fn edge_types(&self) -> &[UpdatedEdges] {
        &self.edge_types
    }

    /// Returns a sentence for each overlap, and for each split with new nodes or edges that have no label.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the quantities of each part without new nodes.
    pub fn known_quantities(&self) -> Vec<PartQuantities> {
        let num_types = self.nodes.len();
        let train: Vec<Vec<u64>> = self.nodes.iter().map(TypeNodes::train_nodes).collect();
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in 0..self.parts.len() {
            let mut of_part = PartQuantities {
                nodes: self.nodes.iter().map(|of_type| u64::from(of_type.known().num_kept_in(part))).collect(),
                in_edges: vec![0; num_types],
                train: train.iter().map(|of_type| of_type[part]).collect(),
            };
            for (edges, counts) in self.edges.iter().zip(&self.counts) {
                of_part.in_edges[edges.dst_type().index()] += counts.known[part];
            }
            parts.push(of_part);
        }
        parts
    }

    /// Returns the new nodes with their neighbors.
    pub fn new_nodes(&self) -> NewNodes {
        let mut all = NewNodes::default();
        // The position of each type's first new node.
        let mut firsts = Vec::with_capacity(self.nodes.len());
        for (t, of_type) in self.nodes.iter().enumerate() {
            firsts.push(all.node_types.len());
            all.node_types.extend(std::iter::repeat_n(t, of_type.num_new()));
            all.is_train.extend(of_type.new_is_train());
        }
        all.in_edges = vec![0; all.node_types.len()];
        // A new node, by its position, and a neighbor by its type and id.
        let mut pairs: Vec<(u32, [u32; 2])> = Vec::new();
        for (edges, counts) in self.edges.iter().zip(&self.counts) {
            let types = [edges.src_type().index(), edges.dst_type().index()];
            for (degree, more) in all.in_edges[firsts[types[1]]..].iter_mut().zip(&counts.new) {
                *degree += more;
            }
            for at in edges.added_positions(self.filter.as_ref()) {
                let ends = [edges.added().src[at], edges.added().dst[at]];
                for (end, other) in [(0, 1), (1, 0)] {
                    let is_loop = types[0] == types[1] && ends[0] == ends[1];
                    if let Some(position) = ends[end].checked_sub(self.nodes[types[end]].known().num_known())
                        && !is_loop
                    {
                        pairs.push(((firsts[types[end]] as u32) + position, [types[other] as u32, ends[other]]));
                    }
                }
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        all.ends = (0..all.node_types.len() as u32).map(|node| pairs.partition_point(|pair| pair.0 <= node)).collect();
        for (_, [node_type, id]) in pairs {
            let known = self.nodes[node_type as usize].known();
            all.neighbors.push(match id.checked_sub(known.num_known()) {
                Some(position) => Neighbor::New(firsts[node_type as usize] as u32 + position),
                None => Neighbor::InPart(known.part_of(id) as u32),
            });
        }
        all
    }
}

fn wrong(meta: &Meta, why: String) -> GraphError {
    GraphError::Dataset { dataset: meta.dataset.clone(), why }
}

/// Leaves new nodes and edges without a label out of their splits, and describes them.
fn without_unlabeled(update: GraphUpdate) -> (GraphUpdate, Vec<String>) {
    let GraphUpdate { mut node_types, mut edge_types } = update;
    let mut rows = Dataset { name: String::new(), node_types: Vec::new(), edge_types: Vec::new() };
    rows.node_types.extend(node_types.iter_mut().map(|of_type| std::mem::take(&mut of_type.rows)));
    let with_edges: Vec<_> = edge_types.iter_mut().filter(|of_type| of_type.added.is_some()).collect();
    rows.edge_types.extend(with_edges.iter().filter_map(|of_type| of_type.added.clone()));
    let warnings = rows.leave_out_unlabeled();
    node_types.iter_mut().zip(rows.node_types).for_each(|(of_type, rows)| of_type.rows = rows);
    with_edges.into_iter().zip(rows.edge_types).for_each(|(of_type, added)| of_type.added = Some(added));
    (GraphUpdate { node_types, edge_types }, warnings)
}
