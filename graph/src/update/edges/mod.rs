//! The edges of a type in the updated parts.

mod count;
mod files;
mod removals;
mod rows;

use super::added::AddedEdges;
use super::nodes::TypeNodes;
use super::numbers::KnownNumbers;
use super::{EdgeUpdate, RemovedCounts};
use crate::dataset::{Candidate, EdgeIdKind, EdgeIds, EdgeLabels, EdgeList, HeldOutEdges, OverlapFilter, TypedEdges};
use crate::part::{EdgeTypeMeta, PartEdges};
use crate::{EdgeTypeId, NodeTypeId, Part, parallel};
pub(super) use count::EdgeCounts;
use removals::Removals;
pub(super) use rows::{HeldOutInParts, PartRows};
use std::collections::HashSet;
use std::sync::Arc;

/// The number of rows whose edges one task reads.
const ROWS_PER_TASK: usize = 256;

/// The edges of a type in existing parts, with the changes of an update. Nodes have ids as in [`KnownNumbers`].
pub(super) struct TypeEdges<'a> {
    parts: &'a [Part],
    edge_type: EdgeTypeId,
    edges: Vec<&'a PartEdges>,
    of_type: &'a EdgeTypeMeta,
    src: Arc<KnownNumbers<'a>>,
    dst: Arc<KnownNumbers<'a>>,
    removals: Removals,
    added: AddedEdges,
    /// True if the sources of each destination ascend and occur once, as in an undirected graph.
    is_sorted: bool,
    /// The held-out edges that stay, in the order of the parts, then those that are added.
    pub(super) held_out: HeldOutEdges,
}

/// An in-edge of a node.
#[derive(Clone, Copy)]
struct InEdge {
    /// The id of the source.
    src: u32,
    /// The position among the edges of the part, or past their number among the added edges.
    position: u64,
}

impl<'a> TypeEdges<'a> {
    /// Joins the edges of `parts` with an update. `is_undirected` tells if edges have their reverses.
    pub(super) fn new(
        parts: &'a [Part],
        edge_type: EdgeTypeId,
        update: EdgeUpdate,
        nodes: &[TypeNodes<'a>],
        is_undirected: bool,
    ) -> Self {
        let EdgeUpdate { removed, removes_both_directions, added } = update;
        let edges: Vec<&PartEdges> = parts.iter().map(|part| part.edges(edge_type)).collect();
        let [src_type, dst_type] = [edges[0].src_type, edges[0].dst_type];
        let src = nodes[src_type.index()].known().clone();
        let dst = nodes[dst_type.index()].known().clone();
        let removals = Removals::new(&removed, removes_both_directions, [&src, &dst]);
        let of_type = &parts[0].meta().edge_types[edge_type.index()];
        let mut added_held_out = HeldOutEdges::default();
        let mut added = added.map_or_else(AddedEdges::default, |mut added| {
            added_held_out = std::mem::take(&mut added.held_out);
            if of_type.ids == Some(EdgeIdKind::Texts) {
                added.attributes.ids = added.attributes.ids.map(|ids| EdgeIds::Texts(ids.to_texts()));
            }
            AddedEdges::new(&added, [&src, &dst])
        });
        if let (Some(labels), None) = (of_type.labels, &added.attributes.labels) {
            added.attributes.labels = Some(EdgeLabels::unlabeled(labels.values, added.len()));
        }
        let is_sorted = is_undirected && src_type == dst_type;
        let held_out = HeldOutEdges::default();
        let mut of_type = Self { parts, edge_type, edges, of_type, src, dst, removals, added, is_sorted, held_out };
        of_type.held_out = HeldOutEdges {
            valid: of_type.held_out_of(|edges| &edges.held_out.valid, &added_held_out.valid),
            test: of_type.held_out_of(|edges| &edges.held_out.test, &added_held_out.test),
        };
        of_type
    }

    pub(super) fn edge_type(&self) -> EdgeTypeId {
        self.edge_type
    }

    pub(super) fn src_type(&self) -> NodeTypeId {
        self.edges[0].src_type
    }

    pub(super) fn dst_type(&self) -> NodeTypeId {
        self.edges[0].dst_type
    }

    /// Returns the ends of the added edges.
    pub(super) fn added(&self) -> &AddedEdges {
        &self.added
    }

    /// Returns the removed edges so far, and the listed pairs that no edge has joined.
    pub(super) fn removed(&self) -> RemovedCounts {
        self.removals.counts()
    }

    /// Returns the edges of a split that stay, in the order of the parts, then those that are added.
    fn held_out_of(&self, of_part: impl Fn(&'a PartEdges) -> &'a EdgeList, added: &EdgeList) -> EdgeList {
        let lists: Vec<&EdgeList> = self.edges.iter().map(|edges| of_part(edges)).collect();
        let has_times = lists.iter().any(|list| list.times.is_some()) || added.times.is_some();
        let [mut src, mut dst] = [Vec::new(), Vec::new()];
        let mut times = Vec::new();
        for list in lists {
            for at in 0..list.len() {
                if !self.removals.removes([&self.src, &self.dst], [list.src[at], list.dst[at]]) {
                    src.push(list.src[at]);
                    dst.push(list.dst[at]);
                    times.extend(list.times.as_ref().map(|times| times[at]));
                }
            }
        }
        src.extend(self.src.ids_of_numbers(&added.src));
        dst.extend(self.dst.ids_of_numbers(&added.dst));
        times.extend(added.times.as_deref().unwrap_or_default());
        let times = has_times.then(|| times.into());
        EdgeList { times, ..EdgeList::new(src.into(), dst.into()) }
    }

    /// Sorts the held-out edges by the numbers of their ends, as the edges of undirected types are. An edge that a table lists
    /// again stays one edge, in the first of its lists.
    pub(super) fn sort_held_out(&mut self) {
        if !self.is_sorted {
            return;
        }
        let mut known = HashSet::new();
        for list in [&mut self.held_out.valid, &mut self.held_out.test] {
            let mut edges: Vec<([u32; 2], usize)> = Vec::new();
            for at in (0..list.len()).filter(|&at| known.insert((list.src[at], list.dst[at]))) {
                edges.push(([self.src.number(list.src[at]), self.dst.number(list.dst[at])], at));
            }
            edges.sort_unstable();
            *list = list.select(&edges.iter().map(|edge| edge.1 as u64).collect::<Vec<u64>>());
        }
    }

    /// Calls `visit` for each in-edge of a node after the update, in their order, and `removed` for each known edge that is
    /// removed. `part` has the known node `dst`.
    fn for_each_edge(&self, part: usize, dst: u32, mut visit: impl FnMut(InEdge), mut removed: impl FnMut([u32; 2])) {
        let num_edges = self.num_edges(part) as u64;
        let added = self.added.edges_into(dst);
        let ends = [&*self.src, &*self.dst];
        let mut known: &[u32] = &[];
        let mut first = 0;
        if dst < self.dst.num_known() {
            let row = (dst - self.dst.range(part).start) as usize;
            let csc = &self.edges[part].csc;
            known = csc.neighbors(row);
            first = csc.indptr()[row];
        }
        if !self.is_sorted || added.is_empty() {
            for (position, &src) in (first..).zip(known) {
                if self.removals.removes_nothing(ends) || !self.removals.is_removed(ends, [src, dst]) {
                    visit(InEdge { src, position });
                } else {
                    removed([src, dst]);
                }
            }
            for &at in added {
                visit(InEdge { src: self.added.src[at as usize], position: num_edges + at });
            }
            return;
        }
        // Few rows have added edges, so only their sources need numbers.
        let mut edges: Vec<(u32, InEdge)> = Vec::with_capacity(known.len() + added.len());
        for (position, &src) in (first..).zip(known) {
            if self.removals.is_removed(ends, [src, dst]) {
                removed([src, dst]);
            } else {
                edges.push((self.src.number(src), InEdge { src, position }));
            }
        }
        for &at in added {
            let src = self.added.src[at as usize];
            edges.push((self.src.number(src), InEdge { src, position: num_edges + at }));
        }
        // Known edges come before added ones, so they stay if edges are equal.
        edges.sort_by_key(|&(number, edge)| (number, edge.position));
        edges.dedup_by_key(|edge| edge.0);
        edges.into_iter().for_each(|(_, edge)| visit(edge));
    }

    /// Returns the number of training edges in a part before the update.
    fn num_edges(&self, part: usize) -> usize {
        self.edges[part].csc.num_edges()
    }

    /// Returns the part that has a node, the first one for a new node.
    fn part_of(&self, dst: u32) -> usize {
        if dst < self.dst.num_known() { self.dst.part_of(dst) } else { 0 }
    }

    /// Returns an edge in the form in which overlaps are looked up. New nodes have no part yet.
    fn candidate(&self, part: usize, dst: u32, edge: InEdge) -> Candidate {
        let added = edge.position.checked_sub(self.num_edges(part) as u64);
        let time = match added {
            None => self.edges[part].attributes.times.as_ref().map(|times| times[edge.position as usize]),
            Some(at) => self.added.attributes.times.as_ref().map(|times| times[at as usize]),
        };
        Candidate { src: edge.src, dst, time }
    }

    /// Returns the type in the form in which overlaps are counted. `reverse_types` are pairs of types that are each other's
    /// reverse.
    pub(super) fn typed<'s>(&'s self, num_new: usize, reverse_types: &'s [(String, String)]) -> TypedEdges<'s> {
        let num_known = self.dst.num_known();
        TypedEdges {
            names: self.of_type.names(),
            reverse_types,
            held_out: [vec![&self.held_out.valid], vec![&self.held_out.test]],
            has_times: self.of_type.has_times,
            train: Box::new(move |visit| {
                for (part, of_part) in self.parts.iter().enumerate() {
                    let range = self.dst.range(part);
                    parallel::for_each_range(range.len(), ROWS_PER_TASK, &|rows| {
                        for dst in rows.map(|row| range.start + row as u32).filter(|&dst| !self.dst.is_removed(dst)) {
                            self.for_each_edge(part, dst, |edge| visit(self.candidate(part, dst, edge)), |_| {});
                        }
                    });
                    of_part.release_pages();
                }
                for dst in num_known..num_known + num_new as u32 {
                    self.for_each_edge(0, dst, |edge| visit(self.candidate(0, dst, edge)), |_| {});
                }
            }),
        }
    }

    /// Returns true if an edge is removed because it is held out as well.
    fn is_overlap(&self, part: usize, dst: u32, edge: InEdge, filter: Option<&OverlapFilter>) -> bool {
        filter.is_some_and(|filter| filter.removes(self.edge_type, self.candidate(part, dst, edge)))
    }

    /// Returns the positions of the added edges that are not held out as well.
    pub(super) fn added_positions(&self, filter: Option<&OverlapFilter>) -> impl Iterator<Item = usize> {
        (0..self.added.len()).filter(move |&at| {
            let dst = self.added.dst[at];
            let part = self.part_of(dst);
            let edge = InEdge { src: self.added.src[at], position: (self.num_edges(part) + at) as u64 };
            !self.is_overlap(part, dst, edge, filter)
        })
    }

    fn for_each_kept(&self, part: usize, dst: u32, filter: Option<&OverlapFilter>, mut visit: impl FnMut(InEdge)) {
        self.for_each_edge(
            part,
            dst,
            |edge| {
                if !self.is_overlap(part, dst, edge, filter) {
                    visit(edge);
                }
            },
            |_| {},
        );
    }
}
