//! In-edges, in the original numbering and in the new one.

use super::renumber::Renumbering;
use super::{EdgeSlice, Groups, Pairs};
use crate::{EdgeAttributes, EdgeData, EdgeList, GlobalNodeId, HeldOutEdges};
use rayon::prelude::*;

/// All in-edges of one edge type. Rows are original ids of destinations; values are original ids of sources, in the
/// order of the original edge list.
pub struct InEdges {
    /// The relation's name.
    pub relation: String,
    /// The type of the sources.
    pub src_type: usize,
    /// The type of the destinations.
    pub dst_type: usize,
    /// The sources of each destination.
    pub rows: Groups,
    /// In the order of the original edge list.
    pub attributes: EdgeAttributes,
    /// In original ids.
    pub held_out: HeldOutEdges,
    /// Where in the original edge list each edge is, if it carries something: by 64 bits, since a type may have more
    /// than 2^32 edges.
    positions: Option<Groups<u64>>,
}

impl InEdges {
    /// Groups the edges of a type with `num_rows` destinations.
    pub(crate) fn new(edges: EdgeData, num_rows: usize) -> Self {
        let rows = Groups::new(num_rows, &edges);
        let positions = (!edges.attributes.is_empty()).then(|| Groups::new(num_rows, &Positions(&edges)));
        let (src_type, dst_type) = (edges.src_type.index(), edges.dst_type.index());
        let EdgeData { relation, attributes, held_out, .. } = edges;
        Self { relation, src_type, dst_type, rows, attributes, held_out, positions }
    }

    /// The number of edges.
    pub fn num_edges(&self) -> usize {
        self.rows.values.len()
    }

    /// The same edges in the new numbering of node types.
    pub(crate) fn renumber(self, types: &[Renumbering]) -> RenumberedInEdges {
        let (src, dst) = (&types[self.src_type], &types[self.dst_type]);
        let mut ends = Vec::with_capacity(dst.original.len() + 1);
        ends.push(0);
        let mut end = 0;
        for &id in &dst.original {
            end += self.rows.row_len(id as usize);
            ends.push(end);
        }
        let positions = self.positions.as_ref().map(|positions| {
            let fill = |row: usize, room: &mut [u64]| {
                room.copy_from_slice(positions.row(dst.original[row] as usize));
                room.len()
            };
            Groups::from_rows(ends.clone(), fill).values
        });
        let fill = |row: usize, room: &mut [u32]| {
            let sources = self.rows.row(dst.original[row] as usize);
            room.iter_mut().zip(sources).for_each(|(global, &id)| *global = src.new[id as usize]);
            room.len()
        };
        let rows = Groups::from_rows(ends, fill);
        let held_out =
            (!self.held_out.is_empty()).then(|| self.held_out.lists().map(|(_, edges)| by_part(edges, src, dst)));
        let (src_type, dst_type, attributes) = (self.src_type, self.dst_type, self.attributes);
        RenumberedInEdges { src_type, dst_type, rows, attributes, positions, held_out }
    }
}

impl Pairs for EdgeData {
    type Value = u32;

    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        self.src.iter().zip(&self.dst[..]).for_each(|(&src, &dst)| visit(dst, src));
    }
}

/// Every (destination, position of the edge).
struct Positions<'a>(&'a EdgeData);

impl Pairs for Positions<'_> {
    type Value = u64;

    fn for_each(&self, mut visit: impl FnMut(u32, u64)) {
        self.0.dst.iter().zip(0..).for_each(|(&dst, position)| visit(dst, position));
    }
}

/// All in-edges of one edge type. Rows are global ids of destinations, so that each part's rows are contiguous; values
/// are global ids of sources, in the order of the original edge list.
pub(crate) struct RenumberedInEdges {
    pub(crate) src_type: usize,
    dst_type: usize,
    rows: Groups,
    /// In the order of the original edge list.
    pub(crate) attributes: EdgeAttributes,
    /// Where in the original edge list each value is, if edges carry something.
    positions: Option<Vec<u64>>,
    /// The validation and the test edges into each part, in the order of the original lists.
    pub(crate) held_out: Option<[Vec<HeldOutInPart>; 2]>,
}

/// The held-out edges of one split into one part.
#[derive(Default)]
pub(crate) struct HeldOutInPart {
    /// Global ids, all sources before all destinations.
    pub(crate) ends: Vec<u32>,
    /// Their times, if they have any.
    pub(crate) times: Option<Vec<i64>>,
}

impl RenumberedInEdges {
    /// The rows that `part` owns.
    pub(crate) fn of_part(&self, part: u32, types: &[Renumbering]) -> EdgeSlice<'_> {
        let rows = types[self.dst_type].range(part);
        let indptr = &self.rows.offsets[rows.start..=rows.end];
        let indices = &self.rows.values[indptr[0] as usize..indptr[indptr.len() - 1] as usize];
        EdgeSlice { src_type: self.src_type, dst_type: self.dst_type, indptr, indices }
    }

    /// Where in the original edge list the edges of `slice`, of [`RenumberedInEdges::of_part`], are; nothing where they
    /// carry nothing.
    pub(crate) fn positions(&self, slice: &EdgeSlice<'_>) -> &[u64] {
        let edges = slice.indptr[0] as usize..slice.indptr[slice.indptr.len() - 1] as usize;
        self.positions.as_ref().map_or(&[], |positions| &positions[edges])
    }
}

/// The edges of a list by the part that owns their destination.
fn by_part(edges: &EdgeList, src: &Renumbering, dst: &Renumbering) -> Vec<HeldOutInPart> {
    let num_parts = dst.book.num_parts();
    let global: Vec<(u32, u32)> = edges
        .src
        .par_iter()
        .zip(&edges.dst[..])
        .map(|(&from, &to)| (src.new[from as usize], dst.new[to as usize]))
        .collect();
    let mut sources = vec![Vec::new(); num_parts];
    let mut destinations = vec![Vec::new(); num_parts];
    let mut times = vec![Vec::new(); num_parts];
    for (at, &(from, to)) in global.iter().enumerate() {
        let part = dst.book.owner(GlobalNodeId(to)).index();
        sources[part].push(from);
        destinations[part].push(to);
        if let Some(of_edges) = &edges.times {
            times[part].push(of_edges[at]);
        }
    }
    let has_times = edges.times.is_some();
    let parts = sources.into_iter().zip(destinations).zip(times);
    parts
        .map(|((sources, destinations), times)| HeldOutInPart {
            ends: [sources, destinations].concat(),
            times: has_times.then_some(times),
        })
        .collect()
}
