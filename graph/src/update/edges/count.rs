//! The numbers of edges after an update.

use super::{ROWS_PER_TASK, TypeEdges};
use crate::dataset::{EdgeIds, OverlapFilter};
use crate::parallel;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of the training edges of a type.
#[derive(Clone, Debug, Default)]
pub(in crate::update) struct EdgeCounts {
    /// The edges into known nodes of each part.
    pub(in crate::update) known: Vec<u64>,
    /// The edges into each new node.
    pub(in crate::update) new: Vec<u64>,
    /// The edges that were removed because they are held out as well.
    pub(in crate::update) overlaps: u64,
}

impl TypeEdges<'_> {
    /// Counts the training edges after the update, and those that are removed.
    pub(in crate::update) fn count(&self, num_new: usize, filter: Option<&OverlapFilter>) -> EdgeCounts {
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
    pub(in crate::update) fn repeated_id(&self, filter: Option<&OverlapFilter>) -> Option<String> {
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
}
