//! In-edges in the original and in the new numbering.

use super::renumber::Renumbering;
use super::{EdgeSlice, Groups, Pairs};
use crate::dataset::{EdgeAttributes, EdgeData, EdgeList, GivenNegatives, HeldOutEdges};
use crate::memory::{Buffer, Workspace};
use crate::part::PartitionBook;
use crate::{GlobalNodeId, GraphError, parallel};

/// All in-edges of one edge type in original ids. Each row is a destination, and its values are its sources in the
/// order of the original edge list.
pub struct InEdges {
    /// The name of the relation.
    pub relation: String,
    /// The type of the sources.
    pub src_type: usize,
    /// The type of the destinations.
    pub dst_type: usize,
    /// The sources of each destination.
    pub rows: Groups,
    /// The attributes, in the order of the original edge list.
    pub attributes: EdgeAttributes,
    /// The held-out edges, in original ids.
    pub held_out: HeldOutEdges,
    /// The position of each edge in the original edge list, if edges have attributes. Positions have 64 bits, since a
    /// type may have more than 2^32 edges.
    positions: Option<Groups<u64>>,
}

impl InEdges {
    /// Groups the edges of a type with `num_rows` destinations.
    pub(crate) fn new_in(space: &Workspace, edges: EdgeData, num_rows: usize) -> Result<Self, GraphError> {
        let rows = Groups::new_in(space, num_rows, &edges)?;
        let positions = (!edges.attributes.is_empty()).then(|| Groups::new_in(space, num_rows, &Positions(&edges)));
        let positions = positions.transpose()?;
        let src_type = edges.src_type.index();
        let dst_type = edges.dst_type.index();
        let EdgeData { relation, attributes, held_out, .. } = edges;
        Ok(Self { relation, src_type, dst_type, rows, attributes, held_out, positions })
    }

    /// Returns the position of each edge in the original edge list, in the order of the rows, if edges have attributes.
    pub(super) fn positions(&self) -> Option<&[u64]> {
        self.positions.as_ref().map(|positions| &positions.values[..])
    }

    /// Returns the number of edges.
    pub fn num_edges(&self) -> usize {
        self.rows.values.len()
    }

    /// Renumbers the edges. `types` are the new numberings of all node types.
    pub(crate) fn renumber(self, types: &[Renumbering], space: &Workspace) -> Result<RenumberedInEdges, GraphError> {
        let src = &types[self.src_type];
        let dst = &types[self.dst_type];
        // Renumbered rows have the sizes of the original rows, in the new order.
        let num_rows = dst.original.len();
        let room = |row: usize| self.rows.row_len(dst.original[row] as usize);
        let positions = self.positions.as_ref().map(|positions| {
            let fill = |row: usize, room: &mut [u64]| {
                room.copy_from_slice(positions.row(dst.original[row] as usize));
                room.len()
            };
            Groups::from_rows_in(space, num_rows, room, fill).map(|groups| groups.values)
        });
        let positions = positions.transpose()?;
        let fill = |row: usize, room: &mut [u32]| {
            let sources = self.rows.row(dst.original[row] as usize);
            room.iter_mut().zip(sources).for_each(|(global, &id)| *global = src.new[id as usize]);
            room.len()
        };
        let rows = Groups::from_rows_in(space, num_rows, room, fill)?;
        let held_out =
            (!self.held_out.is_empty()).then(|| self.held_out.lists().map(|(_, edges)| by_part(edges, src, dst)));
        Ok(RenumberedInEdges {
            src_type: self.src_type,
            dst_type: self.dst_type,
            rows,
            attributes: self.attributes,
            positions,
            held_out,
        })
    }
}

impl Pairs for EdgeData {
    type Value = u32;

    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        self.src.iter().zip(&self.dst[..]).for_each(|(&src, &dst)| visit(dst, src));
    }
}

/// The pairs (destination, position of the edge) of all edges.
struct Positions<'a>(&'a EdgeData);

impl Pairs for Positions<'_> {
    type Value = u64;

    fn for_each(&self, mut visit: impl FnMut(u32, u64)) {
        self.0.dst.iter().zip(0..).for_each(|(&dst, position)| visit(dst, position));
    }
}

/// All in-edges of one edge type in global ids. Each row is a destination, so the rows of a part are contiguous. Its
/// values are its sources in the order of the original edge list.
pub(crate) struct RenumberedInEdges {
    pub(crate) src_type: usize,
    dst_type: usize,
    rows: Groups,
    /// The attributes, in the order of the original edge list.
    pub(crate) attributes: EdgeAttributes,
    /// The position of each value in the original edge list, if edges have attributes.
    positions: Option<Buffer<u64>>,
    /// The validation and test edges into each part, in the order of the original lists.
    pub(crate) held_out: Option<[Vec<HeldOutInPart>; 2]>,
}

/// The held-out edges of one split into one part.
#[derive(Default)]
pub(crate) struct HeldOutInPart {
    /// The global ids of all sources, followed by those of all destinations.
    pub(crate) ends: Vec<u32>,
    /// The times of the edges, if any.
    pub(crate) times: Option<Vec<i64>>,
    /// The given negatives, if any.
    pub(crate) negatives: Option<NegativesInPart>,
}

/// The given negatives of one split in one part, in global ids.
pub(crate) enum NegativesInPart {
    /// The destinations of each held-out edge of the part, row-major.
    OfEach { num: usize, dst: Vec<u32> },
    /// The sources, followed by the destinations, of the shared pairs into the part.
    Shared { ends: Vec<u32> },
}

impl RenumberedInEdges {
    /// Returns the rows that `part` owns.
    pub(crate) fn of_part(&self, part: u32, types: &[Renumbering]) -> EdgeSlice<'_> {
        let rows = types[self.dst_type].range(part);
        let indptr = &self.rows.offsets[rows.start..=rows.end];
        let indices = &self.rows.values[indptr[0] as usize..indptr[indptr.len() - 1] as usize];
        EdgeSlice { src_type: self.src_type, dst_type: self.dst_type, indptr, indices }
    }

    /// Returns the positions in the original edge list of the edges of `slice`, which [`RenumberedInEdges::of_part`]
    /// returned. Returns an empty slice if edges have no attributes.
    pub(crate) fn positions(&self, slice: &EdgeSlice<'_>) -> &[u64] {
        let edges = slice.indptr[0] as usize..slice.indptr[slice.indptr.len() - 1] as usize;
        self.positions.as_ref().map_or(&[], |positions| &positions[edges])
    }
}

/// Groups the edges of a list by the part that owns their destination.
fn by_part(edges: &EdgeList, src: &Renumbering, dst: &Renumbering) -> Vec<HeldOutInPart> {
    let from = parallel::map(&edges.src, |&id| src.new[id as usize]);
    let to = parallel::map(&edges.dst, |&id| dst.new[id as usize]);
    let mut parts = HeldOutInPart::of_edges(&from, &to, edges.times.as_deref(), &dst.book);
    if let Some(given) = &edges.negatives {
        let owners = to.iter().map(|&to| dst.book.owner(GlobalNodeId(to)).index());
        let negatives = negatives_by_part(given, owners, src, dst);
        parts.iter_mut().zip(negatives).for_each(|(part, negatives)| part.negatives = Some(negatives));
    }
    parts
}

impl HeldOutInPart {
    /// Groups edges with global ids by the part that owns their destination. Returns them by part.
    pub(crate) fn of_edges(src: &[u32], dst: &[u32], times: Option<&[i64]>, book: &PartitionBook) -> Vec<Self> {
        let num_parts = book.num_parts();
        let mut sources = vec![Vec::new(); num_parts];
        let mut destinations = vec![Vec::new(); num_parts];
        let mut times_of_parts = vec![Vec::new(); num_parts];
        for (at, (&from, &to)) in src.iter().zip(dst).enumerate() {
            let part = book.owner(GlobalNodeId(to)).index();
            sources[part].push(from);
            destinations[part].push(to);
            times_of_parts[part].extend(times.map(|times| times[at]));
        }
        let mut parts = Vec::with_capacity(num_parts);
        for ((sources, destinations), of_part) in sources.into_iter().zip(destinations).zip(times_of_parts) {
            let ends = [sources, destinations].concat();
            parts.push(Self { ends, times: times.is_some().then_some(of_part), negatives: None });
        }
        parts
    }
}

/// Groups given negatives by part: those of each edge by the part that owns the edge, in `owners`, and shared pairs by
/// the part that owns their destination.
fn negatives_by_part(
    given: &GivenNegatives,
    owners: impl Iterator<Item = usize>,
    src: &Renumbering,
    dst: &Renumbering,
) -> Vec<NegativesInPart> {
    match given {
        GivenNegatives::OfEach { num, dst: ids } => {
            let mut parts = vec![Vec::new(); dst.book.num_parts()];
            for (part, row) in owners.zip(ids.chunks_exact(*num)) {
                parts[part].extend(row.iter().map(|&id| dst.new[id as usize]));
            }
            parts.into_iter().map(|dst| NegativesInPart::OfEach { num: *num, dst }).collect()
        }
        GivenNegatives::Shared { src: from, dst: to } => {
            let pairs = EdgeList::new(from.clone(), to.clone());
            by_part(&pairs, src, dst).into_iter().map(|part| NegativesInPart::Shared { ends: part.ends }).collect()
        }
    }
}
