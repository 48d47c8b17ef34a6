//! A mini-batch of whole graphs.

use crate::bytes_held::bytes_held;
use edgecut_graph::GraphDataset;

/// Several graphs combined into one without edges between them (a block-diagonal adjacency), as plain arrays.
/// Operations on one graph therefore work on the batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphBatch {
    /// The numbers of the graphs in the set. Empty if this rank has run out of graphs before other ranks.
    pub graphs: Vec<u32>,
    /// The start of each graph's nodes, `[graphs.len() + 1]`.
    pub node_offsets: Vec<u32>,
    /// The start of each node's in-edges, `[num_nodes + 1]`.
    pub indptr: Vec<u32>,
    /// The number of each edge's source in the batch.
    pub indices: Vec<u32>,
    /// `[num_nodes, feature_dim]`, row-major.
    pub features: Vec<f32>,
    /// Features per node.
    pub feature_dim: usize,
    /// `[num_edges, edge_dim]`, row-major.
    pub edge_features: Vec<f32>,
    /// Features per edge.
    pub edge_dim: usize,
    /// The class of each graph; empty if graphs have targets.
    pub labels: Vec<i64>,
    /// `[graphs.len(), target_dim]`, row-major: the numbers to predict for each graph, NaN where unknown.
    pub targets: Vec<f32>,
    /// The numbers to predict per graph, 0 if graphs have classes.
    pub target_dim: usize,
}

impl GraphBatch {
    /// Combines graphs of a set, in the given order.
    ///
    /// # Panics
    /// If a graph does not exist, or if the nodes or edges do not fit 32-bit numbers.
    pub fn new(dataset: &GraphDataset, graphs: Vec<u32>) -> Self {
        let of_all = |count: fn(edgecut_graph::GraphView<'_>) -> usize| -> usize {
            graphs.iter().map(|&graph| count(dataset.graph(graph as usize))).sum()
        };
        let num_nodes = of_all(|graph| graph.num_nodes());
        let num_edges = of_all(|graph| graph.indices.len());
        let in_32_bits = num_nodes.max(num_edges) < u32::MAX as usize;
        assert!(in_32_bits, "a batch of {num_nodes} nodes and {num_edges} edges exceeds 32-bit numbering");
        let feature_dim = dataset.feature_dim();
        let mut labels = Vec::new();
        let mut targets = Vec::new();
        for &graph in &graphs {
            match dataset.targets() {
                Some(of_all) => targets.extend_from_slice(of_all.row(graph as usize)),
                None => labels.push(i64::from(dataset.class(graph as usize))),
            }
        }
        let mut batch = Self {
            node_offsets: Vec::with_capacity(graphs.len() + 1),
            indptr: Vec::with_capacity(num_nodes + 1),
            indices: Vec::with_capacity(num_edges),
            features: Vec::with_capacity(num_nodes * feature_dim),
            feature_dim,
            edge_features: Vec::with_capacity(num_edges * dataset.edge_dim()),
            edge_dim: dataset.edge_dim(),
            labels,
            targets,
            target_dim: dataset.targets().map_or(0, |targets| targets.dim),
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
        let first_node = self.num_nodes() as u32;
        let first_edge = self.indices.len() as u32;
        let before = graph.indptr[0];
        self.indptr.extend(graph.indptr[1..].iter().map(|end| first_edge + (end - before) as u32));
        self.indices.extend(graph.indices.iter().map(|source| first_node + source));
        dataset.append_features(number, &mut self.features);
        dataset.append_edge_features(number, &mut self.edge_features);
        self.node_offsets.push(self.num_nodes() as u32);
    }

    /// Returns the number of nodes of all graphs in the batch.
    pub fn num_nodes(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Returns the bytes of memory that the arrays hold, including unused capacity.
    pub fn num_bytes(&self) -> usize {
        let ids = [&self.graphs, &self.node_offsets, &self.indptr, &self.indices];
        let numbers = bytes_held(&self.features) + bytes_held(&self.edge_features) + bytes_held(&self.targets);
        ids.into_iter().map(bytes_held).sum::<usize>() + numbers + bytes_held(&self.labels)
    }

    /// Returns the number of edges of all graphs in the batch.
    pub fn num_edges(&self) -> usize {
        self.indices.len()
    }
}
