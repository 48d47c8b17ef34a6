//! The lists of the edges that join the same nodes as added edges.

use super::numbers::KnownNumbers;
use crate::dataset::{Dataset, EdgeData, EdgeList, JoinedNodes, KnownPairs, Split, pair_key};
use crate::grouping::Pairs;
use crate::memory::{Buffer, GrowingArray, Workspace};
use crate::part::PartEdges;
use crate::{EdgeTypeId, GraphError, NodeTypeId, Part, parallel};
use std::ops::Range;

/// The edges of a part that a task looks up.
const CHUNK: usize = 1 << 16;
/// The chunks whose results are in memory at a time.
const CHUNKS_AT_ONCE: usize = 64;

/// Finds the lists in `parts` of the pairs of nodes that edges of `added` join, whose types are at the positions
/// `edge_types`. The nodes of `added` have their numbers after an update in which the nodes of `removed` are removed, which
/// has an entry per node type and original id. Edges of the types `in_parts` of the parts are searched, held-out edges
/// included. Arrays with an entry per edge are made in `space`.
///
/// # Errors
/// [`GraphError::Dataset`] if the original ids of the parts do not belong together, and the errors of a workspace.
pub fn known_pairs(
    parts: &[Part],
    removed: &[Vec<bool>],
    added: &Dataset,
    edge_types: &[EdgeTypeId],
    in_parts: &[EdgeTypeId],
    space: &Workspace,
) -> Result<KnownPairs, GraphError> {
    let mut numbers = Vec::with_capacity(removed.len());
    for (t, is_removed) in (0..).map(NodeTypeId).zip(removed) {
        numbers.push(KnownNumbers::new(parts, t, is_removed).map_err(|why| wrong(added, why))?);
    }
    let edges = edge_types.iter().map(|edge_type| &added.edge_types[edge_type.index()]).collect();
    let pairs = AddedPairs { edges, nodes: JoinedNodes::default() };
    let nodes = JoinedNodes::new(pairs.ends(&numbers));
    let pairs = AddedPairs { nodes: nodes.clone(), ..pairs };
    let ends = numbers.iter().enumerate().map(|(t, numbers)| global_ends(&nodes, t, numbers)).collect();
    let wanted = KnownPairs::new(space, nodes.clone(), &pairs)?;
    let search = Search { ends, wanted: &wanted };
    let mut found = FoundPairs { keys: space.growing()? };
    for part in parts {
        for &edge_type in in_parts {
            let edges = part.edges(edge_type);
            let first = part.owned(edges.dst_type).start;
            found.add(edges.csc.num_edges(), &|range, keys| search.training_edges(edges, first, range, keys))?;
            for (split, list) in [(Split::Valid, &edges.held_out.valid), (Split::Test, &edges.held_out.test)] {
                let list = HeldOutList { edges, list, split };
                found.add(list.list.len(), &|range, keys| search.held_out_edges(&list, range, keys))?;
            }
        }
        part.release_pages();
    }
    KnownPairs::new(space, nodes, &found.keys.finish()?)
}

fn wrong(dataset: &Dataset, why: String) -> GraphError {
    GraphError::Dataset { dataset: dataset.name.clone(), why }
}

/// Returns the global ids of the numbered nodes of a type with their joined numbers, ascending.
fn global_ends(nodes: &JoinedNodes, node_type: usize, numbers: &KnownNumbers) -> Vec<(u32, u32)> {
    let of_type = (0_u32..).zip(nodes.nodes()).filter(|(_, node)| node.0.index() == node_type);
    let (joined, of_nodes): (Vec<u32>, Vec<u32>) = of_type.map(|(joined, node)| (joined, node.1)).unzip();
    let mut ends: Vec<(u32, u32)> = numbers.ids_of_numbers(&of_nodes).into_iter().zip(joined).collect();
    ends.sort_unstable();
    ends
}

/// The pairs that added edges join.
struct AddedPairs<'a> {
    edges: Vec<&'a EdgeData>,
    /// The known nodes that these edges join.
    nodes: JoinedNodes,
}

impl AddedPairs<'_> {
    /// Returns the nodes that stay, and that an added edge joins with another such node. Only the edges of these nodes are looked
    /// up.
    fn ends(&self, numbers: &[KnownNumbers]) -> Vec<(NodeTypeId, u32)> {
        let mut nodes = Vec::new();
        for edges in &self.edges {
            let num_kept = [edges.src_type, edges.dst_type].map(|t| numbers[t.index()].num_kept());
            for (&src, &dst) in edges.src.iter().zip(&edges.dst[..]) {
                if src < num_kept[0] && dst < num_kept[1] {
                    nodes.extend([(edges.src_type, src), (edges.dst_type, dst)]);
                }
            }
        }
        nodes
    }
}

impl Pairs for AddedPairs<'_> {
    type Value = u64;

    fn for_each(&self, mut visit: impl FnMut(u32, u64)) {
        for edges in &self.edges {
            for (&src, &dst) in edges.src.iter().zip(&edges.dst[..]) {
                let ends = [(edges.src_type, src), (edges.dst_type, dst)];
                if let Some((row, value)) = self.nodes.key(ends, Split::Train) {
                    visit(row, value);
                }
            }
        }
    }
}

/// The keys of the pairs that were found, with their lists.
struct FoundPairs<'a> {
    keys: GrowingArray<'a, [u64; 2]>,
}

impl FoundPairs<'_> {
    /// Adds the keys that `search` finds for ranges of `num_edges` edges.
    fn add(
        &mut self,
        num_edges: usize,
        search: &(impl Fn(Range<usize>, &mut Vec<[u64; 2]>) + Sync),
    ) -> Result<(), GraphError> {
        for start in (0..num_edges).step_by(CHUNK * CHUNKS_AT_ONCE) {
            let num_chunks = (num_edges - start).div_ceil(CHUNK).min(CHUNKS_AT_ONCE);
            let found = parallel::collect(num_chunks, &|chunk| {
                let first = start + chunk * CHUNK;
                let mut keys = Vec::new();
                search(first..num_edges.min(first + CHUNK), &mut keys);
                keys
            });
            for keys in found {
                self.keys.append(keys)?;
            }
        }
        Ok(())
    }
}

impl Pairs for Buffer<[u64; 2]> {
    type Value = u64;

    fn for_each(&self, mut visit: impl FnMut(u32, u64)) {
        self.iter().for_each(|&[row, value]| visit(row as u32, value));
    }
}

/// The held-out edges of a split in a part.
struct HeldOutList<'a> {
    edges: &'a PartEdges,
    list: &'a EdgeList,
    split: Split,
}

/// The search for edges of parts among the pairs of added edges.
struct Search<'a> {
    /// The global id and the joined number of each node whose edges are looked up, by type.
    ends: Vec<Vec<(u32, u32)>>,
    wanted: &'a KnownPairs,
}

impl Search<'_> {
    /// Returns the joined number of a node whose edges are looked up.
    fn end(&self, node_type: NodeTypeId, global: u32) -> Option<u32> {
        let of_type = &self.ends[node_type.index()];
        of_type.binary_search_by_key(&global, |end| end.0).ok().map(|at| of_type[at].1)
    }

    /// Adds the key of a pair to `keys`, if it is wanted.
    fn look_up(&self, ends: [u32; 2], split: Split, keys: &mut Vec<[u64; 2]>) {
        let (row, value) = pair_key(ends, split);
        if self.wanted.find((row, value)).is_some() {
            keys.push([u64::from(row), value]);
        }
    }

    /// Looks up the training edges at `positions`. `first` is the first node of the part.
    fn training_edges(&self, edges: &PartEdges, first: u32, positions: Range<usize>, keys: &mut Vec<[u64; 2]>) {
        let indptr = edges.csc.indptr();
        let mut row = indptr.partition_point(|&start| start <= positions.start as u64).saturating_sub(1);
        let mut start = positions.start;
        while start < positions.end {
            let end = (indptr[row + 1] as usize).min(positions.end);
            if let Some(destination) = self.end(edges.dst_type, first + row as u32) {
                for &source in &edges.csc.indices()[start..end] {
                    if let Some(source) = self.end(edges.src_type, source) {
                        self.look_up([source, destination], Split::Train, keys);
                    }
                }
            }
            start = end;
            row += 1;
        }
    }

    /// Looks up the held-out edges of a list at `positions`.
    fn held_out_edges(&self, held_out: &HeldOutList, positions: Range<usize>, keys: &mut Vec<[u64; 2]>) {
        let HeldOutList { edges, list, split } = *held_out;
        for at in positions {
            let source = self.end(edges.src_type, list.src[at]);
            let destination = self.end(edges.dst_type, list.dst[at]);
            if let (Some(source), Some(destination)) = (source, destination) {
                self.look_up([source, destination], split, keys);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part_writer::write_one_part;
    use crate::readers::{FakeOptions, fake};
    use crate::rng::CounterRng;
    use crate::{DiskPartId, HoldOut};
    use std::collections::HashMap;

    /// Compares the lists of 3000 pairs with a map of all edges, in memory and in scratch files.
    #[test]
    fn pairs_have_the_lists_of_their_edges_also_in_scratch_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut graph = fake(&FakeOptions { avg_num_nodes: 400, ..FakeOptions::default() }).unwrap();
        graph.hold_out_edges(&[EdgeTypeId(0)], &HoldOut::random(0.2, 0.2, 7)).unwrap();
        let num_nodes = graph.node_types[0].num_nodes;
        let mut lists: HashMap<[u32; 2], Split> = HashMap::new();
        let edges = &graph.edge_types[0];
        let held_out = &edges.held_out;
        for (split, src, dst) in [
            (Split::Train, &edges.src, &edges.dst),
            (Split::Valid, &held_out.valid.src, &held_out.valid.dst),
            (Split::Test, &held_out.test.src, &held_out.test.dst),
        ] {
            for (&src, &dst) in src.iter().zip(&dst[..]) {
                lists.insert([src.min(dst), src.max(dst)], split);
            }
        }
        let mut rng = CounterRng::new(3);
        let mut pairs: Vec<[u32; 2]> = lists.keys().step_by(3).map(|&[a, b]| [b, a]).collect();
        pairs.resize_with(3000, || [0, 1].map(|_| (rng.next_u64() % (num_nodes as u64 + 9)) as u32));
        let mut removed = vec![false; num_nodes];
        removed[num_nodes - 1] = true;
        let mut added = graph.clone();
        let src: Vec<u32> = pairs.iter().map(|pair| pair[0]).collect();
        let dst: Vec<u32> = pairs.iter().map(|pair| pair[1]).collect();
        let [src_type, dst_type] = [edges.src_type, edges.dst_type];
        added.edge_types[0] = EdgeData::new(src_type, "to", dst_type, src.into(), dst.into());
        write_one_part(graph, &dir.path().join("parts")).unwrap();
        let parts = [Part::open(&dir.path().join("parts"), DiskPartId(0), true).unwrap()];
        for space in [Workspace::default(), Workspace::scratch(dir.path(), 1 << 16, ()).unwrap()] {
            let of_type = [EdgeTypeId(0)];
            let known =
                known_pairs(&parts, std::slice::from_ref(&removed), &added, &of_type, &of_type, &space).unwrap();
            assert_eq!(known.is_mapped(), space.is_scratch());
            let mut num_known = 0;
            for &[a, b] in &pairs {
                let is_kept = (a.max(b) as usize) < num_nodes - 1;
                let expected = lists.get(&[a.min(b), a.max(b)]).copied().filter(|_| is_kept);
                assert_eq!(known.get([(src_type, a), (dst_type, b)]), expected, "{a} {b}");
                num_known += usize::from(expected.is_some());
            }
            assert!(num_known > 500, "{num_known}");
        }
    }
}
