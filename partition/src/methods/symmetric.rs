//! The undirected graph over all node types that all methods but the random one work on.

use crate::methods::joined::JoinedIds;
use edgecut_graph::part_writer::{Grouped, Groups, InEdges, Pairs};
use edgecut_graph::{GraphError, Workspace};
use rayon::prelude::*;
use std::ops::Range;

/// Returns the neighbors of each joined id: both directions of every edge, ascending, without duplicates and self
/// loops.
///
/// Most graphs already have both directions of every edge. Their in-neighbors are all their neighbors, and checking
/// this takes a fraction of the time and memory of adding the other direction.
///
/// # Errors
/// Those of scratch files, if the edges are in such files.
pub(crate) fn symmetric(ids: &JoinedIds, graph: &Grouped) -> Result<Groups, GraphError> {
    let in_neighbors = in_neighbors(ids, graph)?;
    let ranges = in_neighbors.row_ranges(MOST_VALUES);
    let is_symmetric = ranges.into_par_iter().all(|rows| holds_the_reverse(&in_neighbors, rows));
    if is_symmetric { Ok(in_neighbors) } else { both_directions(&graph.space, &in_neighbors) }
}

/// The most neighbors, in a mapped file, that are searched for reverses at the same time. They are read in random order,
/// so they should stay in the page cache.
const MOST_VALUES: usize = 1 << 28;

/// Returns the in-edges themselves if they are the symmetric graph already: one type, in ascending rows without duplicates and
/// self loops, in both directions. This saves a copy of all edges.
pub(crate) fn symmetric_in_edges(graph: &Grouped) -> Option<&Groups> {
    let ([_], [edges]) = (&graph.node_types[..], &graph.edge_types[..]) else { return None };
    let rows = &edges.rows;
    let is_simple = |node: usize| {
        let neighbors = rows.row(node);
        neighbors.windows(2).all(|pair| pair[0] < pair[1]) && neighbors.binary_search(&(node as u32)).is_err()
    };
    let is_simple = (0..rows.num_rows()).into_par_iter().all(is_simple);
    let is_symmetric =
        is_simple && rows.row_ranges(MOST_VALUES).into_par_iter().all(|range| holds_the_reverse(rows, range));
    is_symmetric.then_some(rows)
}

/// Returns the in-neighbors of each joined id, ascending, without duplicates and the node itself.
fn in_neighbors(ids: &JoinedIds, graph: &Grouped) -> Result<Groups, GraphError> {
    let into_type = |t: usize| graph.edge_types.iter().filter(move |edges| edges.dst_type == t);
    let in_edges: Vec<Vec<&InEdges>> = (0..graph.node_types.len()).map(|t| into_type(t).collect()).collect();
    let fill = |node: usize, room: &mut [u32]| {
        let t = ids.type_of(node);
        let mut length = 0;
        for edges in &in_edges[t] {
            let src_start = ids.start(edges.src_type) as u32;
            let sources = edges.rows.row(node - ids.start(t)).iter().map(|&src| src_start + src);
            for src in sources.filter(|&src| src as usize != node) {
                room[length] = src;
                length += 1;
            }
        }
        sort_and_dedup(&mut room[..length])
    };
    let room = |node: usize| {
        let t = ids.type_of(node);
        in_edges[t].iter().map(|edges| edges.rows.row_len(node - ids.start(t))).sum()
    };
    Groups::from_rows_in(&graph.space, ids.num_nodes(), room, fill)
}

/// Sorts `values`, moves one copy of each to the front, and returns the number of distinct values.
fn sort_and_dedup(values: &mut [u32]) -> usize {
    // If the edge list is sorted, so are the rows, which the sort detects in one pass.
    values.sort_unstable();
    let mut kept = 0;
    for at in 0..values.len() {
        if kept == 0 || values[kept - 1] != values[at] {
            values[kept] = values[at];
            kept += 1;
        }
    }
    kept
}

/// Returns true if each of `rows` has exactly those smaller nodes as neighbors that have it as a neighbor.
///
/// Rows ascend. So while the nodes are visited in ascending order, the smaller neighbors of each row must come up one
/// by one, in their order.
fn holds_the_reverse(graph: &Groups, rows: Range<usize>) -> bool {
    let offsets = &graph.offsets[..];
    let values = &graph.values[..];
    // The position in each row of the smaller neighbor that has to come up next.
    let mut next: Vec<u64> = offsets[rows.clone()].to_vec();
    for node in 0..rows.end {
        let neighbors = &values[offsets[node] as usize..offsets[node + 1] as usize];
        let larger = neighbors.partition_point(|&other| (other as usize) < rows.start.max(node + 1));
        for &other in neighbors[larger..].iter().take_while(|&&other| (other as usize) < rows.end) {
            let other = other as usize;
            let at = next[other - rows.start];
            if at == offsets[other + 1] || values[at as usize] as usize != node {
                return false;
            }
            next[other - rows.start] = at + 1;
        }
    }
    // All smaller neighbors were met if the next entry of each row is larger than the row itself.
    rows.zip(next).all(|(row, at)| at == offsets[row + 1] || values[at as usize] as usize > row)
}

/// Returns each row merged with all nodes in whose rows it occurs, ascending, without duplicates.
fn both_directions(space: &Workspace, graph: &Groups) -> Result<Groups, GraphError> {
    let reverse = Groups::new_in(space, graph.num_rows(), &Reverse(graph))?;
    let room = |row: usize| graph.row_len(row) + reverse.row_len(row);
    Groups::from_rows_in(space, graph.num_rows(), room, |row, room| merge(graph.row(row), reverse.row(row), room))
}

/// Writes the union of two ascending lists without duplicates to `room`, and returns its length.
fn merge(mut a: &[u32], mut b: &[u32], room: &mut [u32]) -> usize {
    let mut length = 0;
    while let (&[first, ref rest_of_a @ ..], &[other, ref rest_of_b @ ..]) = (a, b) {
        room[length] = first.min(other);
        length += 1;
        if first <= other {
            a = rest_of_a;
        }
        if other <= first {
            b = rest_of_b;
        }
    }
    for rest in [a, b] {
        room[length..length + rest.len()].copy_from_slice(rest);
        length += rest.len();
    }
    length
}

/// Every (value, row) pair of a graph, in the order of rows, so that the rows of each value ascend.
struct Reverse<'a>(&'a Groups);

impl Pairs for Reverse<'_> {
    type Value = u32;

    fn for_each(&self, mut visit: impl FnMut(u32, u32)) {
        let values = &self.0.values[..];
        for (row, ends) in self.0.offsets.windows(2).enumerate() {
            values[ends[0] as usize..ends[1] as usize].iter().for_each(|&value| visit(value, row as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::{Dataset, EdgeData, NodeData, NodeTypeId};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Edges = Vec<(u32, u32)>;

    /// Returns a dataset with two node types, of 9 and 5 nodes, and three edge types.
    fn dataset(within: &Edges, across: &Edges, back: &Edges) -> Dataset {
        let nodes = |name: &str, num_nodes| NodeData { name: name.into(), num_nodes, ..NodeData::default() };
        let edges = |src_type, dst_type, pairs: &Edges| {
            let (src, dst): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
            let src_type = NodeTypeId(src_type);
            let dst_type = NodeTypeId(dst_type);
            EdgeData::new(src_type, "to", dst_type, src.into(), dst.into())
        };
        Dataset {
            name: "test".into(),
            node_types: vec![nodes("a", 9), nodes("b", 5)],
            edge_types: vec![edges(0, 0, within), edges(0, 1, across), edges(1, 0, back)],
        }
    }

    fn pairs(sources: u32, destinations: u32) -> impl Strategy<Value = Edges> {
        prop::collection::vec((0..sources, 0..destinations), 0..40)
    }

    fn reversed(edges: &Edges) -> Edges {
        edges.iter().map(|&(a, b)| (b, a)).collect()
    }

    /// Returns the slow and obvious answer, and whether the edges had both directions from the start.
    fn expected(within: &Edges, across: &Edges, back: &Edges) -> (Vec<BTreeSet<u32>>, bool) {
        let across = across.iter().map(|&(a, b)| (a, 9 + b));
        let back = back.iter().map(|&(b, a)| (9 + b, a));
        let joined = within.iter().copied().chain(across).chain(back).filter(|(a, b)| a != b);
        let directed: BTreeSet<(u32, u32)> = joined.collect();
        let mut rows = vec![BTreeSet::new(); 14];
        for &(a, b) in &directed {
            rows[a as usize].insert(b);
            rows[b as usize].insert(a);
        }
        (rows, directed.iter().all(|&(a, b)| directed.contains(&(b, a))))
    }

    fn check(within: &Edges, across: &Edges, back: &Edges, threads: usize) {
        let dataset = dataset(within, across, back);
        let ids = JoinedIds::new(&dataset.node_types).unwrap();
        // In memory if possible, since each case makes many small files.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let scratch = Workspace::scratch(dir.path(), 1, ()).unwrap();
        let external = Grouped::new_in(&scratch, dataset.clone()).unwrap();
        let grouped = Grouped::new_in(&Workspace::default(), dataset).unwrap();
        let (rows, had_both) = expected(within, across, back);
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| {
            let directed = in_neighbors(&ids, &grouped).unwrap();
            let is_symmetric = directed.row_ranges(1).into_iter().all(|range| holds_the_reverse(&directed, range));
            assert_eq!(is_symmetric, had_both);
            let mapped = in_neighbors(&ids, &external).unwrap();
            // A range for each value.
            let is_symmetric = mapped.row_ranges(1).into_iter().all(|range| holds_the_reverse(&mapped, range));
            assert_eq!(is_symmetric, had_both);
            let graph = symmetric(&ids, &grouped).unwrap();
            let mapped = symmetric(&ids, &external).unwrap();
            assert_eq!((&mapped.offsets[..], &mapped.values[..]), (&graph.offsets[..], &graph.values[..]));
            assert!(symmetric_in_edges(&grouped).is_none(), "there are two types of nodes");
            for (row, expected) in rows.iter().enumerate() {
                assert!(graph.row(row).iter().eq(expected), "row {row}: {:?}, expected {expected:?}", graph.row(row));
            }
        });
    }

    proptest! {
        #[test]
        fn in_edges_are_taken_as_they_are_if_they_are_the_symmetric_graph(
            edges in pairs(9, 9), simple in any::<bool>(), both in any::<bool>(), sorted in any::<bool>(),
        ) {
            let mut edges = edges;
            if both {
                edges.extend(reversed(&edges));
            }
            if simple {
                let mut seen = BTreeSet::new();
                edges.retain(|&(a, b)| a != b && seen.insert((a, b)));
            }
            if sorted {
                edges.sort_unstable();
            }
            let mut dataset = dataset(&edges, &vec![], &vec![]);
            dataset.node_types.truncate(1);
            dataset.edge_types.truncate(1);
            let ids = JoinedIds::new(&dataset.node_types).unwrap();
            let grouped = Grouped::new_in(&Workspace::default(), dataset).unwrap();
            let built = symmetric(&ids, &grouped).unwrap();
            let rows = &grouped.edge_types[0].rows;
            let are_equal = built.offsets[..] == rows.offsets[..] && built.values[..] == rows.values[..];
            prop_assert_eq!(symmetric_in_edges(&grouped).is_some(), are_equal);
            prop_assert!(!(simple && both && sorted) || are_equal);
        }

        #[test]
        fn holds_both_directions_of_any_edges(
            within in pairs(9, 9), across in pairs(9, 5), back in pairs(5, 9), threads in 1..5_usize,
        ) {
            check(&within, &across, &back, threads);
        }

        #[test]
        fn takes_edges_in_both_directions_as_they_are_unless_one_is_missing(
            within in pairs(9, 9), across in pairs(9, 5), removed in 0..80_usize, threads in 1..5_usize,
        ) {
            let mut both: Edges = within.iter().copied().chain(reversed(&within)).collect();
            let back = reversed(&across);
            check(&both, &across, &back, threads);
            if !both.is_empty() {
                both.remove(removed % both.len());
                check(&both, &across, &back, threads);
            }
        }
    }
}
