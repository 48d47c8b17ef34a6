//! Reverse edges, with arrays in memory or in scratch files.

use super::directions::pack;
use super::merged_edges::Precedence;
use super::{EdgeData, KeptDuplicate};
use crate::grouping::{Groups, Pairs};
use crate::memory::{Buffer, Workspace};
use crate::{GraphError, parallel};
use bytemuck::{Pod, Zeroable};
use std::marker::PhantomData;

/// Does for one edge type what [`Dataset::to_undirected`](super::Dataset::to_undirected) does, with arrays in `space`:
/// groups both directions by source, then sorts the destinations of each source. Returns the number of edges with attributes that
/// were merged with another one.
pub(super) fn add_reverses(
    space: &Workspace,
    edges: &mut EdgeData,
    num_nodes: usize,
    kept: KeptDuplicate,
) -> Result<usize, GraphError> {
    let leaks = leaks(edges);
    if edges.attributes.is_empty() {
        let rows = Groups::new_in(space, num_nodes, &BothDirections::<u32>::new(edges, &leaks))?;
        let rows = distinct(space, rows, |kept, other| kept == other)?;
        edges.src = sources(space, &rows)?;
        edges.dst = rows.values;
        return Ok(0);
    }
    let rows = Groups::new_in(space, num_nodes, &BothDirections::<Reached>::new(edges, &leaks))?;
    let precedence = Precedence::new(edges, kept);
    // Of edges to the same destination, the one at the first position stays, unless a later one replaces it.
    let rows = distinct(space, rows, |kept, other| {
        if kept.dst != other.dst {
            return false;
        }
        if precedence.replaces(kept.position(), other.position()) {
            *kept = *other;
        }
        true
    })?;
    let num_edges = edges.src.len() as u64;
    let reached = &rows.values[..];
    let num_kept = reached.iter().filter(|edge| edge.position() < num_edges).count();
    edges.src = sources(space, &rows)?;
    edges.dst = space.build(reached.len(), STEP, |range| Ok(parallel::map(&reached[range], |edge| edge.dst)))?;
    let positions: Buffer<u64> = space.build(reached.len(), STEP, |range| {
        Ok(parallel::map(&reached[range], |edge| edge.position() % num_edges.max(1)))
    })?;
    edges.attributes = edges.attributes.select_in(space, &positions)?;
    Ok(num_edges as usize - num_kept)
}

/// Returns the positions of the edges whose reverses would give a held-out edge away, ascending.
fn leaks(edges: &EdgeData) -> Vec<u64> {
    let lists = edges.held_out.lists().into_iter();
    let ends = lists.flat_map(|(_, list)| list.src.iter().zip(&list.dst[..]));
    let mut pairs: Vec<u64> = ends.map(|(&a, &b)| pack(a.min(b), a.max(b))).collect();
    if pairs.is_empty() {
        // Edges in scratch files are not read once more.
        return Vec::new();
    }
    parallel::sort(&mut pairs);
    parallel::filter_map(edges.src.len(), |at| {
        let [a, b] = [edges.src[at], edges.dst[at]];
        pairs.binary_search(&pack(a.min(b), a.max(b))).is_ok().then_some(at as u64)
    })
}

/// Returns the sources and destinations of edges that are visited by source, sorted by (source, destination), in `space`.
pub(crate) fn sorted_edges(
    space: &Workspace,
    num_nodes: usize,
    edges: &impl Pairs<Value = u32>,
) -> Result<(Buffer<u32>, Buffer<u32>), GraphError> {
    let rows = Groups::new_in(space, num_nodes, edges)?;
    let rows = distinct(space, rows, |_, _| false)?;
    Ok((sources(space, &rows)?, rows.values))
}

/// The name of a step in progress reports.
const STEP: &str = "adding reverse edges";
/// The number of sources that one task writes.
const SOURCES_PER_TASK: usize = 1 << 16;

/// The end of an edge, and the position that its attributes are at. Reverses come after all edges: the reverse of the edge
/// at position `p` has the position `num_edges + p`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
struct Reached {
    dst: u32,
    /// The position, in halves, since the type must not contain padding. The order of the fields is that of sorting.
    high: u32,
    low: u32,
}

impl Reached {
    fn new(dst: u32, position: u64) -> Self {
        Self { dst, high: (position >> 32) as u32, low: position as u32 }
    }

    fn position(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

/// The edges by their sources, followed by their reverses, except for those that would leak a held-out edge.
struct BothDirections<'a, V> {
    src: &'a [u32],
    dst: &'a [u32],
    leaks: &'a [u64],
    value: PhantomData<V>,
}

impl<'a, V> BothDirections<'a, V> {
    fn new(edges: &'a EdgeData, leaks: &'a [u64]) -> Self {
        Self { src: &edges.src, dst: &edges.dst, leaks, value: PhantomData }
    }

    /// Calls `visit` with the source, the destination and the position.
    fn for_each_edge(&self, mut visit: impl FnMut(u32, u32, u64)) {
        let ends = || self.src.iter().copied().zip(self.dst.iter().copied());
        ends().zip(0..).for_each(|((src, dst), position)| visit(src, dst, position));
        let num_edges = self.src.len() as u64;
        let mut leaks = self.leaks.iter().copied().peekable();
        ends().zip(0..).for_each(|((src, dst), position)| {
            if leaks.next_if_eq(&position).is_none() {
                visit(dst, src, num_edges + position);
            }
        });
    }
}

/// The two kinds of values that edges are sorted by.
trait FromEdge: Pod + Default + Send + Sync + Ord {
    fn from_edge(dst: u32, position: u64) -> Self;
}

impl FromEdge for u32 {
    fn from_edge(dst: u32, _: u64) -> Self {
        dst
    }
}

impl FromEdge for Reached {
    fn from_edge(dst: u32, position: u64) -> Self {
        Self::new(dst, position)
    }
}

impl<V: FromEdge> Pairs for BothDirections<'_, V> {
    type Value = V;

    fn for_each(&self, mut visit: impl FnMut(u32, V)) {
        self.for_each_edge(|src, dst, position| visit(src, V::from_edge(dst, position)));
    }
}

/// Sorts each row, and leaves out each value that `merges` adds to the kept one before it.
fn distinct<V: FromEdge>(
    space: &Workspace,
    rows: Groups<V>,
    merges: impl Fn(&mut V, &V) -> bool + Sync,
) -> Result<Groups<V>, GraphError> {
    let fill = |row: usize, room: &mut [V]| {
        room.copy_from_slice(rows.row(row));
        room.sort_unstable();
        let mut kept = 0;
        for at in 0..room.len() {
            let other = room[at];
            if kept == 0 || !merges(&mut room[kept - 1], &other) {
                room[kept] = other;
                kept += 1;
            }
        }
        kept
    };
    Groups::from_rows_in(space, rows.num_rows(), |row| rows.row_len(row), fill)
}

/// Returns the row of each value.
fn sources<V: FromEdge>(space: &Workspace, rows: &Groups<V>) -> Result<Buffer<u32>, GraphError> {
    let offsets = &rows.offsets[..];
    space.build(rows.values.len(), STEP, |range| {
        let mut sources = vec![0; range.len()];
        parallel::for_each_chunk(&mut sources, SOURCES_PER_TASK, &|first, mut rest| {
            let mut at = (range.start + first) as u64;
            let mut row = offsets.partition_point(|&offset| offset <= at);
            while !rest.is_empty() {
                let in_row = rest.len().min((offsets[row] - at) as usize);
                let (of_row, later) = std::mem::take(&mut rest).split_at_mut(in_row);
                of_row.fill(row as u32 - 1);
                rest = later;
                at = offsets[row];
                row += 1;
            }
        });
        Ok(sources)
    })
}
