//! The updated edges of a type.

use super::gather::{gather, gather_features};
use super::nodes::{NONE, Numbering};
use super::{EdgeUpdate, RemovedCounts};
use crate::GraphError;
use crate::dataset::{
    EdgeAttributes, EdgeData, EdgeLabelKind, EdgeLabelValues, EdgeLabels, EdgeList, HeldOutEdges, NO_SPLIT, Targets,
};
use crate::memory::{Buffer, Features, GrowingArray, Workspace};
use crate::part::PartEdges;
use crate::{EdgeTypeId, NodeTypeId, Part};
use std::collections::HashMap;

/// The most edges that wait to be appended to arrays.
const PIECE: usize = 1 << 20;

/// Returns the updated edges of a type, and the numbers of removed edges.
pub(super) fn updated(
    parts: &[Part],
    edge_type: EdgeTypeId,
    update: EdgeUpdate,
    numberings: &[Numbering],
    space: &Workspace,
) -> Result<(EdgeData, RemovedCounts), GraphError> {
    let EdgeUpdate { removed, removes_both_directions, added } = update;
    let of_type = TypeInParts::new(parts, edge_type, numberings);
    let mut removals = Removals::new(&removed, removes_both_directions);
    let meta = &parts[0].meta().edge_types[edge_type.index()];
    let mut kept = of_type.kept(&mut removals, space)?;
    let mut held_out = HeldOutEdges {
        valid: of_type.held_out(|edges| &edges.held_out.valid, &mut removals),
        test: of_type.held_out(|edges| &edges.held_out.test, &mut removals),
    };
    let num_added = added.as_ref().map_or(0, |added| added.src.len());
    let num_known = of_type.num_edges();
    let first = &of_type.edges[0];
    if let Some(added) = &added {
        kept.src.append(added.src.to_vec())?;
        kept.dst.append(added.dst.to_vec())?;
        kept.positions.append((num_known..num_known + num_added as u64).collect())?;
        held_out.valid = joined(&held_out.valid, &added.held_out.valid);
        held_out.test = joined(&held_out.test, &added.held_out.test);
    }
    let positions = kept.positions.finish()?;
    let of_added = added.as_ref().map(|added| &added.attributes);
    let mut attributes = EdgeAttributes::default();
    if meta.feature_dim > 0 {
        let pieces: Vec<&Features> = of_type.attributes(of_added).filter_map(|of| of.features.as_ref()).collect();
        attributes.features = Some(gather_features(space, &pieces, meta.feature_dim, meta.feature_dtype, &positions)?);
    }
    if meta.has_weights {
        let pieces: Vec<&[f32]> = of_type.attributes(of_added).filter_map(|of| of.weights.as_deref()).collect();
        attributes.weights = Some(gather(space, &pieces, 1, &positions)?);
    }
    if meta.has_times {
        let pieces: Vec<&[i64]> = of_type.attributes(of_added).filter_map(|of| of.times.as_deref()).collect();
        attributes.times = Some(gather(space, &pieces, 1, &positions)?);
    }
    if let Some(labels) = meta.labels {
        let of_added = of_added.and_then(|added| added.labels.as_ref());
        attributes.labels = Some(of_type.labels(labels.values, of_added, num_added, &positions, space)?);
    }
    let src = kept.src.finish()?;
    let dst = kept.dst.finish()?;
    let mut edges = EdgeData::new(first.src_type, meta.relation.clone(), first.dst_type, src, dst);
    edges.attributes = attributes;
    edges.held_out = held_out;
    Ok((edges, removals.counts(&removed)))
}

/// The edges of a type in all parts.
struct TypeInParts<'a> {
    parts: &'a [Part],
    edges: Vec<&'a PartEdges>,
    /// The position of the first edge of each part, counted over all parts.
    starts: Vec<u64>,
    src: &'a Numbering,
    dst: &'a Numbering,
}

/// Edges that stay.
struct Kept<'a> {
    src: GrowingArray<'a, u32>,
    dst: GrowingArray<'a, u32>,
    /// The position of each edge, counted over all parts.
    positions: GrowingArray<'a, u64>,
}

impl<'a> TypeInParts<'a> {
    fn new(parts: &'a [Part], edge_type: EdgeTypeId, numberings: &'a [Numbering]) -> Self {
        let edges: Vec<&PartEdges> = parts.iter().map(|part| part.edges(edge_type)).collect();
        let mut starts = vec![0];
        for (at, of_part) in edges.iter().enumerate() {
            starts.push(starts[at] + of_part.csc.num_edges() as u64);
        }
        let src = &numberings[edges[0].src_type.index()];
        let dst = &numberings[edges[0].dst_type.index()];
        Self { parts, edges, starts, src, dst }
    }

    fn num_edges(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// Returns the attributes of the edges of each part, then of those that are added.
    fn attributes(&self, added: Option<&'a EdgeAttributes>) -> impl Iterator<Item = &'a EdgeAttributes> {
        self.edges.iter().map(|edges| &edges.attributes).chain(added)
    }

    /// Returns the edges that stay, in the order of their destinations.
    fn kept<'s>(&self, removals: &mut Removals, space: &'s Workspace) -> Result<Kept<'s>, GraphError> {
        let mut kept = Kept { src: space.growing()?, dst: space.growing()?, positions: space.growing()? };
        let mut piece: [Vec<u32>; 2] = Default::default();
        let mut positions = Vec::new();
        // Removed destinations come last, so that their edges are counted.
        let removed =
            (0..self.dst.of_global.len() as u32).filter(|&global| self.dst.of_global[global as usize] == NONE);
        for global in self.dst.globals.iter().copied().chain(removed) {
            let dst = self.dst.of_global[global as usize];
            let part = self.part_of(global);
            let csc = &self.edges[part].csc;
            let row = (global - self.parts[part].owned(self.edges[part].dst_type).start) as usize;
            let first = self.starts[part] + csc.indptr()[row];
            for (position, &source) in (first..).zip(csc.neighbors(row)) {
                let src = self.src.of_global[source as usize];
                if removals.removes(self, [source, global], [src, dst]) {
                    continue;
                }
                piece[0].push(src);
                piece[1].push(dst);
                positions.push(position);
            }
            if positions.len() >= PIECE {
                kept.append(&mut piece, &mut positions)?;
            }
        }
        kept.append(&mut piece, &mut positions)?;
        Ok(kept)
    }

    /// Returns the part that holds a destination, which is a global id.
    fn part_of(&self, global: u32) -> usize {
        let dst_type = self.edges[0].dst_type;
        self.parts.partition_point(|part| part.owned(dst_type).end <= global)
    }

    /// Returns the original ids of the ends of an edge, which are global ids.
    fn originals(&self, [source, destination]: [u32; 2]) -> [u32; 2] {
        [self.original(self.edges[0].src_type, source), self.original(self.edges[0].dst_type, destination)]
    }

    fn original(&self, node_type: NodeTypeId, global: u32) -> u32 {
        let at = self.parts.partition_point(|part| part.owned(node_type).end <= global);
        let part = &self.parts[at];
        part.nodes(node_type).original_ids[(global - part.owned(node_type).start) as usize]
    }

    /// Returns the labels of the edges of each part.
    fn labels_of_parts(&self) -> impl Iterator<Item = &'a EdgeLabels> {
        self.edges.iter().filter_map(|edges| edges.attributes.labels.as_ref())
    }

    /// Returns the held-out edges of a split that stay, in the order of the parts.
    fn held_out(&self, list: impl Fn(&PartEdges) -> &EdgeList, removals: &mut Removals) -> EdgeList {
        let lists = self.edges.iter().map(|edges| list(edges));
        let has_times = lists.clone().any(|list| list.times.is_some());
        let mut kept = Vec::new();
        for list in lists {
            for (at, (&source, &destination)) in list.src.iter().zip(&list.dst[..]).enumerate() {
                let ends = [self.src.of_global[source as usize], self.dst.of_global[destination as usize]];
                if !removals.removes(self, [source, destination], ends) {
                    kept.push((ends, list.times.as_ref().map_or(0, |times| times[at])));
                }
            }
        }
        let src: Vec<u32> = kept.iter().map(|([src, _], _)| *src).collect();
        let dst: Vec<u32> = kept.iter().map(|([_, dst], _)| *dst).collect();
        let times = has_times.then(|| kept.iter().map(|(_, time)| *time).collect::<Vec<i64>>().into());
        EdgeList { times, ..EdgeList::new(src.into(), dst.into()) }
    }

    /// Returns the labels of the edges at `positions`. Added edges without labels have none, and are in no split.
    fn labels(
        &self,
        kind: EdgeLabelKind,
        added: Option<&EdgeLabels>,
        num_added: usize,
        positions: &[u64],
        space: &Workspace,
    ) -> Result<EdgeLabels, GraphError> {
        let no_splits = vec![NO_SPLIT; if added.is_none() { num_added } else { 0 }];
        let mut splits: Vec<&[u8]> = self.labels_of_parts().map(|labels| &labels.splits[..]).collect();
        splits.push(added.map_or(&no_splits[..], |labels| &labels.splits[..]));
        let values = match kind {
            EdgeLabelKind::NumClasses(num_classes) => {
                let unlabeled = vec![-1; no_splits.len()];
                let mut pieces: Vec<&[i64]> = self
                    .labels_of_parts()
                    .filter_map(|labels| labels.values.classes())
                    .map(|classes| &classes[..])
                    .collect();
                pieces.push(
                    added.and_then(|labels| labels.values.classes()).map_or(&unlabeled[..], |classes| &classes[..]),
                );
                EdgeLabelValues::Classes { of_edges: gather(space, &pieces, 1, positions)?, num_classes }
            }
            EdgeLabelKind::Targets(targets) => {
                let unknown = vec![f32::NAN; no_splits.len() * targets.dim];
                let mut pieces: Vec<&[f32]> = self
                    .labels_of_parts()
                    .filter_map(|labels| labels.values.targets())
                    .map(|of| &of.values[..])
                    .collect();
                pieces.push(added.and_then(|labels| labels.values.targets()).map_or(&unknown[..], |of| &of.values[..]));
                let values = gather(space, &pieces, targets.dim, positions)?;
                EdgeLabelValues::Targets(Targets { values, dim: targets.dim, kind: targets.kind })
            }
        };
        Ok(EdgeLabels { values, splits: gather(space, &splits, 1, positions)? })
    }
}

impl Kept<'_> {
    /// Appends edges, and empties the arrays.
    fn append(&mut self, ends: &mut [Vec<u32>; 2], positions: &mut Vec<u64>) -> Result<(), GraphError> {
        let [src, dst] = ends;
        self.src.append(std::mem::take(src))?;
        self.dst.append(std::mem::take(dst))?;
        self.positions.append(std::mem::take(positions))
    }
}

/// The removed edges of a type so far.
struct Removals {
    /// True for each listed pair of original ids that an edge joins.
    listed: HashMap<[u32; 2], bool>,
    /// True if the pairs have no direction; the smaller id is then the first one in `listed`.
    both_directions: bool,
    counts: RemovedCounts,
}

impl Removals {
    fn new(pairs: &[[u32; 2]], both_directions: bool) -> Self {
        let mut removals = Self { listed: HashMap::new(), both_directions, counts: RemovedCounts::default() };
        removals.listed = pairs.iter().map(|&pair| (removals.key(pair), false)).collect();
        removals
    }

    /// Returns the key of a pair in `listed`.
    fn key(&self, mut pair: [u32; 2]) -> [u32; 2] {
        if self.both_directions {
            pair.sort_unstable();
        }
        pair
    }

    /// Returns true for an edge that is removed, and counts it. `globals` are its ends in the parts, and `numbers` after the
    /// update.
    fn removes(&mut self, of_type: &TypeInParts, globals: [u32; 2], numbers: [u32; 2]) -> bool {
        if !self.listed.is_empty()
            && let Some(is_met) = self.listed.get_mut(&self.key(of_type.originals(globals)))
        {
            *is_met = true;
            self.counts.listed += 1;
            return true;
        }
        let loses_end = numbers.contains(&NONE);
        if loses_end {
            self.counts.with_nodes += 1;
        }
        loses_end
    }

    /// Returns the counts. `pairs` are the listed pairs in their order.
    fn counts(self, pairs: &[[u32; 2]]) -> RemovedCounts {
        let first_unmatched = pairs.iter().find(|&&pair| self.listed.get(&self.key(pair)) == Some(&false)).copied();
        let num_unmatched = self.listed.values().filter(|is_met| !**is_met).count() as u64;
        RemovedCounts { first_unmatched, num_unmatched, ..self.counts }
    }
}

/// Joins two lists of held-out edges.
fn joined(known: &EdgeList, added: &EdgeList) -> EdgeList {
    let has_times = known.times.is_some() || added.times.is_some();
    let times = has_times.then(|| {
        let known = known.times.as_deref().unwrap_or_default();
        let added = added.times.as_deref().unwrap_or_default();
        [known, added].concat().into()
    });
    EdgeList { times, ..EdgeList::new(end_to_end(&known.src, &added.src), end_to_end(&known.dst, &added.dst)) }
}

fn end_to_end(known: &[u32], added: &[u32]) -> Buffer<u32> {
    [known, added].concat().into()
}
