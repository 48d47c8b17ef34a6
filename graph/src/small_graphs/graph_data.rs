//! The data that sets of graphs are made of, and its checks.

use super::attribute_rows::AttributeRows;
use crate::Targets;

/// The data of a set of graphs, with nodes numbered over all graphs.
///
/// ```
/// use edgecut_graph::{GraphData, GraphDataset};
/// // A path of three nodes, and a node with a self loop.
/// let data = GraphData {
///     node_offsets: vec![0, 3, 4],
///     src: vec![0, 1, 1, 2, 3],
///     dst: vec![1, 0, 2, 1, 3],
///     labels: vec![7, -1],
///     ..GraphData::default()
/// };
/// let graphs = GraphDataset::new("two", data)?;
/// assert_eq!((graphs.num_graphs(), graphs.num_nodes(), graphs.num_edges()), (2, 4, 5));
/// assert_eq!((graphs.class(0), graphs.classes()), (1, &[-1, 7][..]));
/// assert_eq!(graphs.graph(0).neighbors(1), [0, 2]);
/// # Ok::<(), edgecut_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GraphData {
    /// The first node of each graph, followed by the total number of nodes, `[num_graphs + 1]`. Starts at 0.
    pub node_offsets: Vec<u64>,
    /// The source of each edge, `[num_edges]`.
    pub src: Vec<u32>,
    /// The destination of each edge, a node of the same graph, `[num_edges]`.
    pub dst: Vec<u32>,
    /// The label of each graph, `[num_graphs]`. Labels are arbitrary numbers that become classes in ascending order. Empty
    /// if graphs have targets.
    pub labels: Vec<i64>,
    /// Numbers to predict for each graph, in place of labels.
    pub targets: Option<Targets>,
    /// The attributes of nodes.
    pub nodes: AttributeRows,
    /// The attributes of edges, in the order of `src`.
    pub edges: AttributeRows,
}

/// Checks the node offsets and returns the number of nodes.
pub(super) fn check_offsets(node_offsets: &[u64]) -> Result<usize, String> {
    let (Some(0), Some(&num_nodes)) = (node_offsets.first(), node_offsets.last()) else {
        return Err("offsets of nodes do not start at 0".into());
    };
    if let Some(graph) = node_offsets.windows(2).position(|ends| ends[0] > ends[1]) {
        return Err(format!("offsets of nodes decrease after graph {graph}"));
    }
    match num_nodes {
        0..=0xffff_ffff => Ok(num_nodes as usize),
        _ => Err(format!("{num_nodes} nodes, but at most 2^32 - 1 are supported")),
    }
}

/// Returns the graph of each node.
pub(super) fn graph_of_nodes(node_offsets: &[u64]) -> Vec<u32> {
    let mut graph_of = Vec::with_capacity(node_offsets[node_offsets.len() - 1] as usize);
    for (end, graph) in node_offsets[1..].iter().zip(0..) {
        graph_of.resize(*end as usize, graph);
    }
    graph_of
}

/// Checks that both ends of each edge are nodes of the same graph.
pub(super) fn check_edges(graph_of: &[u32], src: &[u32], dst: &[u32]) -> Result<(), String> {
    for (edge, (&from, &to)) in src.iter().zip(dst).enumerate() {
        match (graph_of.get(from as usize), graph_of.get(to as usize)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => {
                return Err(format!("edge {edge} goes from node {from} of graph {a} to node {to} of graph {b}"));
            }
            (a, _) => {
                let node = if a.is_none() { from } else { to };
                return Err(format!("edge {edge} joins node {node}, but there are {} nodes", graph_of.len()));
            }
        }
    }
    Ok(())
}

/// Edges grouped by destination.
pub(super) struct GroupedEdges {
    pub(super) indptr: Vec<u64>,
    pub(super) indices: Vec<u32>,
    /// The position of each edge before grouping.
    pub(super) order: Vec<u32>,
}

/// Groups edges by a counting sort, which keeps the order of the edges of each node.
pub(super) fn group(node_offsets: &[u64], graph_of: &[u32], src: &[u32], dst: &[u32]) -> GroupedEdges {
    let mut indptr = vec![0_u64; graph_of.len() + 1];
    dst.iter().for_each(|&node| indptr[node as usize + 1] += 1);
    for node in 0..graph_of.len() {
        indptr[node + 1] += indptr[node];
    }
    let mut next = indptr.clone();
    let mut indices = vec![0; src.len()];
    let mut order = vec![0; src.len()];
    for (edge, (&from, &to)) in src.iter().zip(dst).enumerate() {
        let at = next[to as usize] as usize;
        next[to as usize] += 1;
        // Sources are stored relative to the first node of their graph.
        indices[at] = from - node_offsets[graph_of[from as usize] as usize] as u32;
        order[at] = edge as u32;
    }
    GroupedEdges { indptr, indices, order }
}
