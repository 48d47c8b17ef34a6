//! Sets of many small graphs, each with a class.

mod files;

use crate::classes::{check_num_classes, max_classes};
use crate::{Buffer, Features, GraphError};
use xxhash_rust::xxh3::Xxh3;

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
    /// The label of each graph, `[num_graphs]`. Labels are arbitrary numbers that become classes in ascending order.
    pub labels: Vec<i64>,
    /// The features of nodes, if any.
    pub features: Option<Features>,
    /// The labels of nodes, if any.
    pub node_labels: Option<NodeLabels>,
    /// The label of each edge, from 0, `[num_edges]`, if any.
    pub edge_labels: Option<Vec<u32>>,
}

/// Node labels. Models read them one-hot encoded.
#[derive(Clone, Debug)]
pub struct NodeLabels {
    /// The columns of a node's row that are 1, `[num_nodes, per_node]`.
    pub columns: Buffer<u32>,
    /// The number of labels per node.
    pub per_node: usize,
    /// The number of columns of a row.
    pub dim: usize,
}

/// A set of graphs, in memory or mapped. The in-edges of all nodes are stored end to end, with sources numbered within
/// their graph. Cloning is cheap.
///
/// Invariants: offsets start at 0, never decrease and end at the length of the array that they divide; the source of an
/// edge is below the number of nodes of its graph; columns of node labels are below `dim`; class indices are below the
/// number of classes.
#[derive(Clone, Debug)]
pub struct GraphDataset {
    name: String,
    node_offsets: Buffer<u64>,
    indptr: Buffer<u64>,
    indices: Buffer<u32>,
    features: Option<Features>,
    node_labels: Option<NodeLabels>,
    edge_labels: Option<Buffer<u32>>,
    labels: Buffer<u32>,
    classes: Vec<i64>,
}

/// One graph of the set.
#[derive(Clone, Copy, Debug)]
pub struct GraphView<'a> {
    /// The first node, in the numbering of the whole set.
    pub first_node: usize,
    /// The offsets of the in-edges of each node in the edges of the whole set, `[num_nodes + 1]`.
    pub indptr: &'a [u64],
    /// The sources of the edges, grouped by destination and numbered within the graph.
    pub indices: &'a [u32],
}

impl GraphView<'_> {
    /// Returns the number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Returns the sources of a node's in-edges, in the order of the input.
    ///
    /// # Panics
    /// If the node is out of range.
    pub fn neighbors(&self, node: usize) -> &[u32] {
        let first = self.indptr[0];
        &self.indices[(self.indptr[node] - first) as usize..(self.indptr[node + 1] - first) as usize]
    }
}

impl GraphDataset {
    /// Checks all data and groups the edges by destination.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] naming the graph, node or edge that is inconsistent.
    pub fn new(name: &str, data: GraphData) -> Result<Self, GraphError> {
        let fail = |why: String| GraphError::Dataset { dataset: name.into(), why };
        let GraphData { node_offsets, src, dst, labels, features, node_labels, edge_labels } = data;
        let num_nodes = check_offsets(&node_offsets).map_err(fail)?;
        let num_graphs = node_offsets.len() - 1;
        let rows = |what: &str, given: usize, expected: usize| {
            if given == expected { Ok(()) } else { Err(fail(format!("{given} {what}, expected {expected}"))) }
        };
        rows("labels of graphs", labels.len(), num_graphs)?;
        rows("destinations of edges", dst.len(), src.len())?;
        if let Some(labels) = &edge_labels {
            rows("labels of edges", labels.len(), src.len())?;
        }
        let graph_of = graph_of_nodes(&node_offsets);
        check_edges(&graph_of, &src, &dst).map_err(fail)?;
        let grouped = group(&node_offsets, &graph_of, &src, &dst, edge_labels.as_deref());
        let mut classes = labels.clone();
        classes.sort_unstable();
        classes.dedup();
        let class = |label: &i64| classes.partition_point(|other| other < label) as u32;
        let labels: Vec<u32> = labels.iter().map(class).collect();
        let dataset = Self {
            name: name.into(),
            node_offsets: node_offsets.into(),
            indptr: grouped.indptr.into(),
            indices: grouped.indices.into(),
            features,
            node_labels,
            edge_labels: grouped.edge_labels.map(Into::into),
            labels: labels.into(),
            classes,
        };
        dataset.check_nodes(num_nodes).map_err(fail)?;
        Ok(dataset)
    }

    fn check_nodes(&self, num_nodes: usize) -> Result<(), String> {
        if let Some(rows) = self.features.as_ref().map(Features::num_rows).filter(|&rows| rows != num_nodes) {
            return Err(format!("{rows} rows of features for {num_nodes} nodes"));
        }
        let Some(NodeLabels { columns, per_node, dim }) = &self.node_labels else { return Ok(()) };
        if columns.len() != num_nodes * per_node {
            return Err(format!("{} labels of nodes, expected {per_node} for each of {num_nodes}", columns.len()));
        }
        if let Some(at) = columns.iter().position(|&column| column as usize >= *dim) {
            return Err(format!("node {} has label {}, but there are {dim} labels", at / per_node, columns[at]));
        }
        // Each label value is a column of every node's row, so the number of values is bounded like the number of
        // classes.
        if *dim <= max_classes(0) {
            return Ok(());
        }
        let labels: Vec<i64> = columns.iter().map(|&column| i64::from(column)).collect();
        check_num_classes(&labels, *dim, "entry").map_err(|why| format!("labels of nodes: {why}"))
    }

    /// Sets the labels of nodes to their in-degrees, with one column per distinct in-degree. This distinguishes graphs
    /// without features (Xu et al., "How powerful are graph neural networks?", ICLR 2019).
    pub fn with_degrees_as_labels(mut self) -> Self {
        let degrees: Vec<u64> = self.indptr.windows(2).map(|ends| ends[1] - ends[0]).collect();
        let mut distinct = degrees.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let columns: Vec<u32> =
            degrees.iter().map(|degree| distinct.partition_point(|other| other < degree) as u32).collect();
        self.node_labels = Some(NodeLabels { columns: columns.into(), per_node: 1, dim: distinct.len() });
        self
    }

    /// Returns the name of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of graphs.
    pub fn num_graphs(&self) -> usize {
        self.node_offsets.len() - 1
    }

    /// Returns the number of nodes of all graphs.
    pub fn num_nodes(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Returns the number of edges of all graphs. Each direction counts as an edge.
    pub fn num_edges(&self) -> usize {
        self.indices.len()
    }

    /// Returns the number of nodes of a graph.
    ///
    /// # Panics
    /// If the graph is out of range.
    pub fn num_nodes_of(&self, graph: usize) -> usize {
        (self.node_offsets[graph + 1] - self.node_offsets[graph]) as usize
    }

    /// Returns one graph.
    ///
    /// # Panics
    /// If the graph is out of range.
    pub fn graph(&self, graph: usize) -> GraphView<'_> {
        let first_node = self.node_offsets[graph] as usize;
        let end = self.node_offsets[graph + 1] as usize;
        let indptr = &self.indptr[first_node..=end];
        let indices = &self.indices[indptr[0] as usize..indptr[end - first_node] as usize];
        GraphView { first_node, indptr, indices }
    }

    /// Returns the class of a graph, an index into [`classes`](Self::classes).
    ///
    /// # Panics
    /// If the graph is out of range.
    pub fn class(&self, graph: usize) -> u32 {
        self.labels[graph]
    }

    /// Returns the class of each graph.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the original label of each class, ascending.
    pub fn classes(&self) -> &[i64] {
        &self.classes
    }

    /// Returns a hash of all graphs and features that identifies the set.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.name.as_bytes());
        for offsets in [&self.node_offsets, &self.indptr] {
            hash.update(bytemuck::cast_slice(offsets));
        }
        hash.update(bytemuck::cast_slice(&self.indices));
        hash.update(bytemuck::cast_slice(&self.labels));
        hash.update(bytemuck::cast_slice(&self.classes));
        hash.update(&(self.feature_dim() as u64).to_le_bytes());
        match &self.features {
            Some(Features::F32 { values, .. }) => hash.update(bytemuck::cast_slice(values)),
            Some(Features::F16 { values, .. }) => hash.update(bytemuck::cast_slice(values)),
            None => {}
        }
        let columns = self.node_labels.as_ref().map(|labels| &labels.columns);
        for labels in columns.into_iter().chain(&self.edge_labels) {
            hash.update(bytemuck::cast_slice(labels));
        }
        hash.digest()
    }

    /// Returns the number of columns of a node's row: its features, followed by its one-hot labels.
    pub fn feature_dim(&self) -> usize {
        let features = self.features.as_ref().map_or(0, Features::dim);
        features + self.node_labels.as_ref().map_or(0, |labels| labels.dim)
    }

    /// Appends the rows of the nodes of a graph to `rows`.
    ///
    /// # Shapes
    /// - appended: `[num_nodes_of(graph), feature_dim]`
    ///
    /// # Panics
    /// If the graph is out of range.
    pub fn append_features(&self, graph: usize, rows: &mut Vec<f32>) {
        let dim = self.feature_dim();
        let first = self.node_offsets[graph] as usize;
        let num_nodes = self.num_nodes_of(graph);
        let start = rows.len();
        rows.resize(start + num_nodes * dim, 0.0);
        let dense = self.features.as_ref().map_or(0, Features::dim);
        for (node, row) in (first..).zip(rows[start..].chunks_exact_mut(dim.max(1))) {
            if let Some(features) = &self.features {
                features.copy_row(node, &mut row[..dense]);
            }
            if let Some(NodeLabels { columns, per_node, .. }) = &self.node_labels {
                columns[node * per_node..(node + 1) * per_node].iter().for_each(|&c| row[dense + c as usize] = 1.0);
            }
        }
    }

    /// Returns the labels of a graph's edges, in the order of the edges, if edges have labels.
    ///
    /// # Panics
    /// If the graph is out of range.
    pub fn edge_labels_of(&self, graph: usize) -> Option<&[u32]> {
        let indptr = self.graph(graph).indptr;
        let range = indptr[0] as usize..indptr[indptr.len() - 1] as usize;
        self.edge_labels.as_ref().map(|labels| &labels[range])
    }
}

/// Checks the node offsets and returns the number of nodes.
fn check_offsets(node_offsets: &[u64]) -> Result<usize, String> {
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
fn graph_of_nodes(node_offsets: &[u64]) -> Vec<u32> {
    let mut graph_of = Vec::with_capacity(node_offsets[node_offsets.len() - 1] as usize);
    for (end, graph) in node_offsets[1..].iter().zip(0..) {
        graph_of.resize(*end as usize, graph);
    }
    graph_of
}

/// Checks that both ends of each edge are nodes of the same graph.
fn check_edges(graph_of: &[u32], src: &[u32], dst: &[u32]) -> Result<(), String> {
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
struct Grouped {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    edge_labels: Option<Vec<u32>>,
}

/// Groups edges by a counting sort, which keeps the order of the edges of each node.
fn group(node_offsets: &[u64], graph_of: &[u32], src: &[u32], dst: &[u32], edge_labels: Option<&[u32]>) -> Grouped {
    let mut indptr = vec![0_u64; graph_of.len() + 1];
    dst.iter().for_each(|&node| indptr[node as usize + 1] += 1);
    for node in 0..graph_of.len() {
        indptr[node + 1] += indptr[node];
    }
    let mut next = indptr.clone();
    let mut indices = vec![0; src.len()];
    let mut labels = edge_labels.map(|labels| vec![0; labels.len()]);
    for (edge, (&from, &to)) in src.iter().zip(dst).enumerate() {
        let at = next[to as usize] as usize;
        next[to as usize] += 1;
        // Sources are stored relative to the first node of their graph.
        indices[at] = from - node_offsets[graph_of[from as usize] as usize] as u32;
        if let (Some(grouped), Some(given)) = (&mut labels, edge_labels) {
            grouped[at] = given[edge];
        }
    }
    Grouped { indptr, indices, edge_labels: labels }
}

#[cfg(test)]
mod tests;
