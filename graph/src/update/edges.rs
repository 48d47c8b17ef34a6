//! The edges of a type in the updated parts.

use super::added::AddedEdges;
use super::nodes::TypeNodes;
use super::numbers::{KnownNumbers, UpdatedNumbers};
use super::{EdgeUpdate, RemovedCounts};
use crate::dataset::{
    Candidate, EdgeIdKind, EdgeIds, EdgeLabelKind, EdgeLabelValues, EdgeList, HeldOutEdges, NO_SPLIT, OverlapFilter,
    Split, TypedEdges,
};
use crate::memory::{Buffer, Features, Workspace};
use crate::part::{EdgeTypeMeta, PartEdges, edge_dir};
use crate::part_writer::{Content, EdgeSlice, Groups, HeldOutInPart, Job, Selection, id_files};
use crate::{EdgeTypeId, GraphError, NodeTypeId, Part, parallel};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// The labels of added edges that have none.
    unlabeled: Unlabeled,
}

/// The values of edges without labels.
#[derive(Default)]
struct Unlabeled {
    classes: Vec<i64>,
    targets: Vec<f32>,
    splits: Vec<u8>,
}

/// An in-edge of a node.
#[derive(Clone, Copy)]
struct InEdge {
    /// The id of the source.
    src: u32,
    /// The position among the edges of the part, or past their number among the added edges.
    position: u64,
}

/// The numbers of the training edges of a type.
#[derive(Clone, Debug, Default)]
pub(super) struct EdgeCounts {
    /// The edges into known nodes of each part.
    pub(super) known: Vec<u64>,
    /// The edges into each new node.
    pub(super) new: Vec<u64>,
    /// The edges that were removed because they are held out as well.
    pub(super) overlaps: u64,
}

/// The edges of a type in an updated part.
pub(super) struct PartRows {
    /// Global ids of the sources of each row.
    rows: Groups,
    /// The position of each edge, if edges have attributes or their sources have times.
    positions: Buffer<u64>,
    src_times: Option<Buffer<i64>>,
    /// The number of training, validation and test edges among those with labels.
    pub(super) split_sizes: [u64; 3],
}

/// The held-out edges of a type in all updated parts, by split and part.
pub(super) type HeldOutInParts = [Vec<HeldOutInPart>; 2];

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
        let added = added.map_or_else(AddedEdges::default, |mut added| {
            added_held_out = std::mem::take(&mut added.held_out);
            if of_type.ids == Some(EdgeIdKind::Texts) {
                added.attributes.ids = added.attributes.ids.map(|ids| EdgeIds::Texts(ids.to_texts()));
            }
            AddedEdges::new(&added, [&src, &dst])
        });
        let mut unlabeled = Unlabeled::default();
        if let (Some(labels), None) = (of_type.labels, &added.attributes.labels) {
            unlabeled.splits = vec![NO_SPLIT; added.len()];
            match labels.values {
                EdgeLabelKind::NumClasses(_) => unlabeled.classes = vec![-1; added.len()],
                EdgeLabelKind::Targets(targets) => unlabeled.targets = vec![f32::NAN; added.len() * targets.dim],
            }
        }
        let is_sorted = is_undirected && src_type == dst_type;
        let held_out = HeldOutEdges::default();
        let mut of_type =
            Self { parts, edge_type, edges, of_type, src, dst, removals, added, is_sorted, held_out, unlabeled };
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

    /// Returns the type in the form in which overlaps are counted.
    pub(super) fn typed<'s>(&'s self, num_new: usize) -> TypedEdges<'s> {
        let num_known = self.dst.num_known();
        TypedEdges {
            name: format!("{}__{}__{}", self.of_type.src_type, self.of_type.relation, self.of_type.dst_type),
            src_type: self.src_type(),
            relation: &self.of_type.relation,
            dst_type: self.dst_type(),
            reverses: Vec::new(),
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

    /// Counts the training edges after the update, and those that are removed.
    pub(super) fn count(&self, num_new: usize, filter: Option<&OverlapFilter>) -> EdgeCounts {
        let mut counts = EdgeCounts::default();
        let overlaps = AtomicU64::new(0);
        let ends = [&*self.src, &*self.dst];
        for (part, of_part) in self.parts.iter().enumerate() {
            let range = self.dst.range(part);
            if filter.is_none() && self.removals.removes_nothing(ends) {
                // Only rows with added edges change.
                let mut num_edges = self.num_edges(part) as u64;
                for &dst in self.added.destinations().iter().filter(|dst| range.contains(dst)) {
                    let before = self.edges[part].csc.degree((dst - range.start) as usize) as u64;
                    num_edges += self.count_row(part, dst, filter, &overlaps) - before;
                }
                counts.known.push(num_edges);
            } else {
                let num_edges = AtomicU64::new(0);
                parallel::for_each_range(range.len(), ROWS_PER_TASK, &|rows| {
                    for dst in rows.map(|row| range.start + row as u32) {
                        if self.dst.is_removed(dst) {
                            let sources = self.edges[part].csc.neighbors((dst - range.start) as usize);
                            sources.iter().for_each(|&src| self.removals.count(ends, [src, dst]));
                        } else {
                            num_edges.fetch_add(self.count_row(part, dst, filter, &overlaps), Ordering::Relaxed);
                        }
                    }
                });
                counts.known.push(num_edges.into_inner());
            }
            of_part.release_pages();
        }
        let num_known = self.dst.num_known();
        let new = num_known..num_known + num_new as u32;
        counts.new.extend(new.map(|dst| self.count_row(0, dst, filter, &overlaps)));
        counts.overlaps = overlaps.into_inner();
        counts
    }

    /// Returns the id of an added edge that another edge has as well, if there is one.
    pub(super) fn repeated_id(&self, filter: Option<&OverlapFilter>) -> Option<String> {
        let added = self.ids_of_new_edges(filter);
        if added.is_empty() {
            return None;
        }
        for (part, of_part) in self.parts.iter().enumerate() {
            let range = self.dst.range(part);
            let Some(known) = &self.edges[part].attributes.ids else { continue };
            let first = AtomicU64::new(u64::MAX);
            parallel::for_each_range(range.len(), ROWS_PER_TASK, &|rows| {
                for dst in rows.map(|row| range.start + row as u32).filter(|&dst| !self.dst.is_removed(dst)) {
                    self.for_each_kept(part, dst, filter, |edge| {
                        let at = edge.position as usize;
                        if at < known.len() && added.contains(&known.get(at).key()) {
                            first.fetch_min(edge.position, Ordering::Relaxed);
                        }
                    });
                }
            });
            of_part.release_pages();
            let first = first.into_inner();
            if first < u64::MAX {
                return Some(known.get(first as usize).to_string());
            }
        }
        None
    }

    /// Returns the keys of the ids of the added edges, without edges that the parts have already and overlaps.
    fn ids_of_new_edges(&self, filter: Option<&OverlapFilter>) -> HashSet<u128> {
        let mut keys = HashSet::new();
        let Some(ids) = &self.added.attributes.ids else { return keys };
        for &dst in self.added.destinations() {
            // New nodes are counted with the first part.
            let part = (0..self.parts.len()).find(|&part| self.dst.range(part).contains(&dst)).unwrap_or(0);
            let num_known = self.edges[part].attributes.ids.as_ref().map_or(0, EdgeIds::len);
            self.for_each_kept(part, dst, filter, |edge| {
                if let Some(at) = (edge.position as usize).checked_sub(num_known) {
                    keys.insert(ids.get(at).key());
                }
            });
        }
        keys
    }

    /// Returns the number of edges into a node after the update. Counts those that are removed, and overlaps.
    fn count_row(&self, part: usize, dst: u32, filter: Option<&OverlapFilter>, overlaps: &AtomicU64) -> u64 {
        let ends = [&*self.src, &*self.dst];
        let mut num_kept = 0;
        self.for_each_edge(
            part,
            dst,
            |edge| {
                if self.is_overlap(part, dst, edge, filter) {
                    overlaps.fetch_add(1, Ordering::Relaxed);
                } else {
                    num_kept += 1;
                }
            },
            |pair| self.removals.count(ends, pair),
        );
        num_kept
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

    /// Makes the edges of an updated part. `nodes` and `updated` are of all node types.
    pub(super) fn rows_in(
        &self,
        part: usize,
        nodes: &[TypeNodes],
        updated: &[UpdatedNumbers],
        filter: Option<&OverlapFilter>,
        space: &Workspace,
    ) -> Result<PartRows, GraphError> {
        const STEP: &str = "updating times";
        let [src_type, dst_type] = [self.src_type().index(), self.dst_type().index()];
        let destinations = nodes[dst_type].ids_in(part, &updated[dst_type]);
        let num_rows = destinations.len();
        let rows = Groups::from_rows_in(
            space,
            num_rows,
            |row| self.room(part, destinations[row]),
            |row, room: &mut [u32]| {
                let mut num_kept = 0;
                self.for_each_kept(part, destinations[row], filter, |edge| {
                    room[num_kept] = updated[src_type].global(&self.src, edge.src);
                    num_kept += 1;
                });
                num_kept
            },
        )?;
        let has_positions = self.has_attributes() || self.edges[part].src_times.is_some();
        let mut positions = Buffer::default();
        if has_positions {
            positions = Groups::from_rows_in(
                space,
                num_rows,
                |row| self.room(part, destinations[row]),
                |row, room: &mut [u64]| {
                    let mut num_kept = 0;
                    self.for_each_kept(part, destinations[row], filter, |edge| {
                        room[num_kept] = edge.position;
                        num_kept += 1;
                    });
                    num_kept
                },
            )?
            .values;
        }
        let src_times = self.edges[part].src_times.as_ref().map(|_| {
            space.build(positions.len(), STEP, |range| {
                Ok(positions[range].iter().map(|&at| self.src_time(part, at as usize, &nodes[src_type])).collect())
            })
        });
        let split_sizes = self.split_sizes(part, &positions);
        Ok(PartRows { rows, positions, src_times: src_times.transpose()?, split_sizes })
    }

    /// Returns the most edges that a node may have after the update.
    fn room(&self, part: usize, dst: u32) -> u64 {
        let row = dst.checked_sub(self.dst.range(part).start).filter(|_| dst < self.dst.num_known());
        let num_known = row.map_or(0, |row| self.edges[part].csc.degree(row as usize));
        (num_known + self.added.edges_into(dst).len()) as u64
    }

    /// Returns the time of the source of the edge at a position.
    fn src_time(&self, part: usize, position: usize, sources: &TypeNodes) -> i64 {
        let edges = self.edges[part];
        match position.checked_sub(edges.csc.num_edges()) {
            Some(at) => sources.time(self.added.src[at]),
            None => {
                let updated = sources.updated_time(edges.csc.indices()[position]);
                updated.or(edges.src_times.as_ref().map(|times| times[position])).unwrap_or(0)
            }
        }
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

    fn has_attributes(&self) -> bool {
        let of_type = self.of_type;
        let has_arrays = of_type.has_weights || of_type.has_times || of_type.ids.is_some();
        has_arrays || of_type.feature_dim > 0 || of_type.labels.is_some()
    }

    /// Returns the splits of the edges of a part, then of those that are added.
    fn label_splits(&self, part: usize) -> Option<[&[u8]; 2]> {
        let known = self.edges[part].attributes.labels.as_ref()?;
        let added = self.added.attributes.labels.as_ref();
        Some([&known.splits, added.map_or(&self.unlabeled.splits[..], |labels| &labels.splits[..])])
    }

    fn split_sizes(&self, part: usize, positions: &[u64]) -> [u64; 3] {
        let mut sizes = [0; 3];
        let Some([known, added]) = self.label_splits(part) else { return sizes };
        for &position in positions {
            let position = position as usize;
            let code = known.get(position).copied().unwrap_or_else(|| added[position - known.len()]);
            if let Some(split) = Split::of_code(code) {
                sizes[split.index()] += 1;
            }
        }
        sizes
    }

    /// Groups the held-out edges by the parts that have them, with global ids after the update. Frees the lists.
    pub(super) fn held_out_in_parts(&mut self, updated: &[UpdatedNumbers]) -> Option<HeldOutInParts> {
        let HeldOutEdges { valid, test } = std::mem::take(&mut self.held_out);
        if valid.is_empty() && test.is_empty() {
            return None;
        }
        let [src, dst] = [&updated[self.src_type().index()], &updated[self.dst_type().index()]];
        Some([valid, test].map(|list| {
            let from = parallel::map(&list.src, |&id| src.global(&self.src, id));
            let to = parallel::map(&list.dst, |&id| dst.global(&self.dst, id));
            HeldOutInPart::of_edges(&from, &to, list.times.as_deref(), &dst.book)
        }))
    }

    /// Returns the files of a part in the folder `root`.
    pub(super) fn jobs<'s>(
        &'s self,
        part: usize,
        root: &str,
        arrays: &'s PartRows,
        held_out: Option<&'s HeldOutInParts>,
    ) -> Vec<Job<'s>> {
        let PartRows { rows, positions, src_times, .. } = arrays;
        let dir = format!("{root}/{}", edge_dir(self.of_type));
        let known = &self.edges[part].attributes;
        let added = &self.added.attributes;
        let selected = Selection::Rows(positions);
        let mut files = vec![
            ("indptr".to_owned(), Content::Indptr(&rows.offsets)),
            ("indices".to_owned(), Content::Ids(&rows.values)),
        ];
        if let Some(features) = &known.features {
            let pieces: Vec<&Features> = [Some(features), added.features.as_ref()].into_iter().flatten().collect();
            files.push(("features".to_owned(), Content::Features(pieces, selected)));
        }
        if let Some(weights) = &known.weights {
            let pieces = [Some(&weights[..]), added.weights.as_deref()].into_iter().flatten().collect();
            files.push(("weights".to_owned(), Content::Floats(pieces, None, selected)));
        }
        if let Some(times) = &known.times {
            let pieces = [Some(&times[..]), added.times.as_deref()].into_iter().flatten().collect();
            files.push(("times".to_owned(), Content::Whole(pieces, selected)));
        }
        if let Some(ids) = &known.ids {
            let pieces: Vec<&EdgeIds> = [Some(ids), added.ids.as_ref()].into_iter().flatten().collect();
            let of_ids = id_files(&pieces, positions);
            files.extend(of_ids.into_iter().map(|(file, content)| (file.to_owned(), content)));
        }
        if let (Some(labels), Some([splits, added_splits])) = (&known.labels, self.label_splits(part)) {
            let values = added.labels.as_ref().map(|labels| &labels.values);
            match &labels.values {
                EdgeLabelValues::Classes { of_edges, .. } => {
                    let classes = values.and_then(EdgeLabelValues::classes);
                    let of_added = classes.map_or(&self.unlabeled.classes[..], |classes| &classes[..]);
                    files.push(("labels".to_owned(), Content::Whole(vec![&of_edges[..], of_added], selected)));
                }
                EdgeLabelValues::Targets(targets) => {
                    let of_added = values.and_then(EdgeLabelValues::targets);
                    let of_added = of_added.map_or(&self.unlabeled.targets[..], |targets| &targets.values[..]);
                    let pieces = vec![&targets.values[..], of_added];
                    files.push(("targets".to_owned(), Content::Floats(pieces, Some(targets.dim), selected)));
                }
            }
            files.push(("splits".to_owned(), Content::Bytes(vec![splits, added_splits], selected)));
        }
        if let Some(times) = src_times {
            files.push(("src_times".to_owned(), Content::Times(times)));
        }
        if let Some(held_out) = held_out {
            let has_times = held_out.iter().flatten().any(|of_part| of_part.times.is_some());
            for (split, lists) in ["valid", "test"].into_iter().zip(held_out) {
                let HeldOutInPart { ends, times, .. } = &lists[part];
                files.push((format!("{split}_edges"), Content::Edges(ends)));
                if has_times {
                    files.push((format!("{split}_edge_times"), Content::Times(times.as_deref().unwrap_or_default())));
                }
            }
        }
        files.into_iter().map(|(file, content)| Job::new(format!("{dir}/{file}.npy"), content)).collect()
    }

    /// Returns the edges of an updated part in the form that measures read.
    pub(super) fn slice<'s>(&self, arrays: &'s PartRows) -> EdgeSlice<'s> {
        EdgeSlice {
            src_type: self.src_type().index(),
            dst_type: self.dst_type().index(),
            indptr: &arrays.rows.offsets,
            indices: &arrays.rows.values,
        }
    }
}

/// The removed edges of a type.
struct Removals {
    /// The listed pairs of global ids, each with its position in the list. If the pairs have no direction, the smaller id is the first one.
    listed: HashMap<[u32; 2], usize>,
    both_directions: bool,
    /// The listed pairs, as original ids.
    pairs: Vec<[u32; 2]>,
    /// True for each listed pair that an edge joins.
    is_met: Vec<AtomicBool>,
    num_listed: AtomicU64,
    num_with_nodes: AtomicU64,
}

impl Removals {
    fn new(pairs: &[[u32; 2]], both_directions: bool, [src, dst]: [&KnownNumbers; 2]) -> Self {
        let sources = src.globals_of(pairs.iter().map(|pair| pair[0]).collect());
        let destinations = dst.globals_of(pairs.iter().map(|pair| pair[1]).collect());
        let mut removals = Self {
            listed: HashMap::new(),
            both_directions,
            pairs: Vec::new(),
            is_met: Vec::new(),
            num_listed: AtomicU64::new(0),
            num_with_nodes: AtomicU64::new(0),
        };
        for &pair in pairs {
            let key = removals.key([sources.get(pair[0]), destinations.get(pair[1])]);
            if !removals.listed.contains_key(&key) {
                removals.listed.insert(key, removals.pairs.len());
                removals.pairs.push(pair);
                removals.is_met.push(AtomicBool::new(false));
            }
        }
        removals
    }

    /// Returns the key of a pair in `listed`.
    fn key(&self, mut pair: [u32; 2]) -> [u32; 2] {
        if self.both_directions {
            pair.sort_unstable();
        }
        pair
    }

    fn removes_nothing(&self, ends: [&KnownNumbers; 2]) -> bool {
        self.listed.is_empty() && ends.iter().all(|end| end.keeps_all())
    }

    /// Returns true for a known edge that is removed.
    fn is_removed(&self, ends: [&KnownNumbers; 2], pair: [u32; 2]) -> bool {
        ends[0].is_removed(pair[0])
            || ends[1].is_removed(pair[1])
            || !self.listed.is_empty() && self.listed.contains_key(&self.key(pair))
    }

    /// Counts a known edge that is removed.
    fn count(&self, ends: [&KnownNumbers; 2], pair: [u32; 2]) {
        if let Some(&at) = self.listed.get(&self.key(pair)) {
            self.is_met[at].store(true, Ordering::Relaxed);
            self.num_listed.fetch_add(1, Ordering::Relaxed);
        } else if ends[0].is_removed(pair[0]) || ends[1].is_removed(pair[1]) {
            self.num_with_nodes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns true for a known edge that is removed, and counts it.
    fn removes(&self, ends: [&KnownNumbers; 2], pair: [u32; 2]) -> bool {
        let is_removed = self.is_removed(ends, pair);
        if is_removed {
            self.count(ends, pair);
        }
        is_removed
    }

    fn counts(&self) -> RemovedCounts {
        let unmatched = self.is_met.iter().zip(&self.pairs).filter(|(is_met, _)| !is_met.load(Ordering::Relaxed));
        RemovedCounts {
            listed: self.num_listed.load(Ordering::Relaxed),
            with_nodes: self.num_with_nodes.load(Ordering::Relaxed),
            first_unmatched: unmatched.clone().next().map(|(_, &pair)| pair),
            num_unmatched: unmatched.count() as u64,
        }
    }
}
