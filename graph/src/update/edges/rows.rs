//! The arrays of the edges of updated parts.

use super::{InEdge, TypeEdges};
use crate::dataset::{HeldOutEdges, OverlapFilter, Split};
use crate::memory::{Buffer, Workspace};
use crate::part_writer::{Groups, HeldOutInPart};
use crate::update::nodes::TypeNodes;
use crate::update::numbers::UpdatedNumbers;
use crate::{GraphError, parallel};
use bytemuck::Pod;

/// The edges of a type in an updated part.
pub(in crate::update) struct PartRows {
    /// Global ids of the sources of each row.
    pub(super) rows: Groups,
    /// The position of each edge, if edges have attributes or their sources have times.
    pub(super) positions: Buffer<u64>,
    pub(super) src_times: Option<Buffer<i64>>,
    /// The number of training, validation and test edges among those with labels.
    pub(in crate::update) split_sizes: [u64; 3],
}

/// The held-out edges of a type in all updated parts, by split and part.
pub(in crate::update) type HeldOutInParts = [Vec<HeldOutInPart>; 2];

impl TypeEdges<'_> {
    /// Makes the edges of an updated part. `nodes` and `updated` are of all node types.
    pub(in crate::update) fn rows_in(
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
        let rows =
            self.kept_edges(part, &destinations, filter, space, |edge| updated[src_type].global(&self.src, edge.src))?;
        let has_positions = self.has_attributes() || self.edges[part].src_times.is_some();
        let mut positions = Buffer::default();
        if has_positions {
            positions = self.kept_edges(part, &destinations, filter, space, |edge| edge.position)?.values;
        }
        let src_times = self.edges[part].src_times.as_ref().map(|_| {
            space.build(positions.len(), STEP, |range| {
                Ok(positions[range].iter().map(|&at| self.src_time(part, at as usize, &nodes[src_type])).collect())
            })
        });
        let split_sizes = self.split_sizes(part, &positions);
        Ok(PartRows { rows, positions, src_times: src_times.transpose()?, split_sizes })
    }

    /// Makes the kept edges of each destination, as the values that `value` returns.
    fn kept_edges<V: Pod + Default + Send + Sync>(
        &self,
        part: usize,
        destinations: &[u32],
        filter: Option<&OverlapFilter>,
        space: &Workspace,
        value: impl Fn(InEdge) -> V + Sync,
    ) -> Result<Groups<V>, GraphError> {
        Groups::from_rows_in(
            space,
            destinations.len(),
            |row| self.room(part, destinations[row]),
            |row, room: &mut [V]| {
                let mut num_kept = 0;
                self.for_each_kept(part, destinations[row], filter, |edge| {
                    room[num_kept] = value(edge);
                    num_kept += 1;
                });
                num_kept
            },
        )
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

    fn has_attributes(&self) -> bool {
        let of_type = self.of_type;
        let has_arrays = of_type.has_weights || of_type.has_times || of_type.ids.is_some();
        has_arrays || of_type.feature_dim > 0 || of_type.labels.is_some()
    }

    fn split_sizes(&self, part: usize, positions: &[u64]) -> [u64; 3] {
        let mut sizes = [0; 3];
        let labels = [&self.edges[part].attributes.labels, &self.added.attributes.labels];
        let [Some(known), Some(added)] = labels else { return sizes };
        for &position in positions {
            let position = position as usize;
            let code = known.splits.get(position).copied();
            let code = code.unwrap_or_else(|| added.splits[position - known.splits.len()]);
            if let Some(split) = Split::of_code(code) {
                sizes[split.index()] += 1;
            }
        }
        sizes
    }

    /// Groups the held-out edges by the parts that have them, with global ids after the update. Frees the lists.
    pub(in crate::update) fn held_out_in_parts(&mut self, updated: &[UpdatedNumbers]) -> Option<HeldOutInParts> {
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
}
