//! Several graphs as one.

use crate::prefetch::bytes_held;
use edgecut_graph::GraphDataset;

/// Some graphs side by side, as plain arrays: one graph without edges between them, so that whatever works on one works on all
/// (a block-diagonal adjacency).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphBatch {
    /// Which graphs of the set; none when this rank has run out of graphs before the others.
    pub graphs: Vec<u32>,
    /// Where each graph's nodes start: `[graphs.len() + 1]`.
    pub node_offsets: Vec<u32>,
    /// Where each node's in-edges start: `[num_nodes + 1]`.
    pub indptr: Vec<u32>,
    /// The source of every edge, in the batch's numbering.
    pub indices: Vec<u32>,
    /// `[num_nodes, feature_dim]`, row-major.
    pub features: Vec<f32>,
    /// Features per node.
    pub feature_dim: usize,
    /// The label of every edge, if edges have labels; else empty.
    pub edge_labels: Vec<u32>,
    /// The class of each graph.
    pub labels: Vec<i64>,
}

impl GraphBatch {
    /// Puts these graphs side by side, in this order.
    ///
    /// # Panics
    /// If there is no such graph, or nodes or edges cannot be counted in 32 bits.
    pub fn new(dataset: &GraphDataset, graphs: Vec<u32>) -> Self {
        let of_all = |count: fn(edgecut_graph::GraphView<'_>) -> usize| -> usize {
            graphs.iter().map(|&graph| count(dataset.graph(graph as usize))).sum()
        };
        let (num_nodes, num_edges) = (of_all(|graph| graph.num_nodes()), of_all(|graph| graph.indices.len()));
        let in_32_bits = num_nodes.max(num_edges) < u32::MAX as usize;
        assert!(in_32_bits, "a batch of {num_nodes} nodes and {num_edges} edges: batch numbering has 32 bits");
        let feature_dim = dataset.feature_dim();
        let mut batch = Self {
            node_offsets: Vec::with_capacity(graphs.len() + 1),
            indptr: Vec::with_capacity(num_nodes + 1),
            indices: Vec::with_capacity(num_edges),
            features: Vec::with_capacity(num_nodes * feature_dim),
            feature_dim,
            edge_labels: Vec::new(),
            labels: graphs.iter().map(|&graph| i64::from(dataset.class(graph as usize))).collect(),
            graphs,
        };
        batch.node_offsets.push(0);
        batch.indptr.push(0);
        for position in 0..batch.graphs.len() {
            batch.append(dataset, batch.graphs[position] as usize);
        }
        batch
    }

    fn append(&mut self, dataset: &GraphDataset, number: usize) {
        let graph = dataset.graph(number);
        let (first_node, first_edge) = (self.num_nodes() as u32, self.indices.len() as u32);
        let before = graph.indptr[0];
        self.indptr.extend(graph.indptr[1..].iter().map(|end| first_edge + (end - before) as u32));
        self.indices.extend(graph.indices.iter().map(|source| first_node + source));
        dataset.append_features(number, &mut self.features);
        self.edge_labels.extend(dataset.edge_labels_of(number).unwrap_or_default());
        self.node_offsets.push(self.num_nodes() as u32);
    }

    /// Nodes of all graphs of the batch.
    pub fn num_nodes(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// The bytes of memory that the arrays hold, unused capacity included.
    pub fn num_bytes(&self) -> usize {
        let ids = [&self.graphs, &self.node_offsets, &self.indptr, &self.indices, &self.edge_labels];
        ids.into_iter().map(bytes_held).sum::<usize>() + bytes_held(&self.features) + bytes_held(&self.labels)
    }

    /// Edges of all graphs of the batch.
    pub fn num_edges(&self) -> usize {
        self.indices.len()
    }
}
