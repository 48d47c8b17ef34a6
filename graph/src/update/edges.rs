//! The updated edges of a type.

use super::gather::{gather, gather_features};
use super::nodes::{NONE, Numbering};
use super::{EdgeUpdate, RemovedCounts};
use crate::GraphError;
use crate::dataset::{
    EdgeAttributes, EdgeData, EdgeLabelKind, EdgeLabelValues, EdgeLabels, EdgeList, HeldOutEdges, NO_SPLIT, Targets,
};
use crate::memory::{Features, GrowingArray, Workspace};
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
    let of_added = added.as_ref().map(|added| &added.held_out);
    let valid = HeldOutLists {
        in_parts: of_type.edges.iter().map(|edges| &edges.held_out.valid).collect(),
        added: of_added.map(|held_out| &held_out.valid),
    };
    let test = HeldOutLists {
        in_parts: of_type.edges.iter().map(|edges| &edges.held_out.test).collect(),
        added: of_added.map(|held_out| &held_out.test),
    };
    let held_out = HeldOutEdges {
        valid: of_type.held_out(&valid, &mut removals, space)?,
        test: of_type.held_out(&test, &mut removals, space)?,
    };
    let num_added = added.as_ref().map_or(0, |added| added.src.len());
    let num_known = of_type.num_edges();
    let first = &of_type.edges[0];
    if let Some(added) = &added {
        kept.src.append(added.src.to_vec())?;
        kept.dst.append(added.dst.to_vec())?;
        kept.positions.append((num_known..num_known + num_added as u64).collect())?;
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

/// The held-out edges of a split.
struct HeldOutLists<'a> {
    /// The edges of each part.
    in_parts: Vec<&'a EdgeList>,
    /// The edges that are added.
    added: Option<&'a EdgeList>,
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

    /// Returns the held-out edges of a split that stay, in the order of the parts, then those that are added.
    fn held_out(
        &self,
        lists: &HeldOutLists,
        removals: &mut Removals,
        space: &Workspace,
    ) -> Result<EdgeList, GraphError> {
        let HeldOutLists { in_parts, added } = lists;
        let has_times = in_parts.iter().chain(added).any(|list| list.times.is_some());
        let [mut src, mut dst] = [space.growing()?, space.growing()?];
        let mut times = space.growing()?;
        for list in in_parts {
            for start in (0..list.len()).step_by(PIECE) {
                let [mut sources, mut destinations] = [Vec::new(), Vec::new()];
                let mut times_of_piece = Vec::new();
                for at in start..list.len().min(start + PIECE) {
                    let globals = [list.src[at], list.dst[at]];
                    let source = self.src.of_global[globals[0] as usize];
                    let destination = self.dst.of_global[globals[1] as usize];
                    if !removals.removes(self, globals, [source, destination]) {
                        sources.push(source);
                        destinations.push(destination);
                        times_of_piece.push(list.times.as_ref().map_or(0, |times| times[at]));
                    }
                }
                src.append(sources)?;
                dst.append(destinations)?;
                times.append(times_of_piece)?;
            }
        }
        if let Some(added) = added {
            src.append(added.src.to_vec())?;
            dst.append(added.dst.to_vec())?;
            times.append(added.times.as_deref().unwrap_or_default().to_vec())?;
        }
        let mut all = EdgeList::new(src.finish()?, dst.finish()?);
        if has_times {
            all.times = Some(times.finish()?);
        }
        Ok(all)
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
