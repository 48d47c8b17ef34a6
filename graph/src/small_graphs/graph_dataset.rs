//! Sets of many small graphs, each with a class or with numbers to predict.

use super::attribute_rows::{AttributeRows, OneHotLabels};
use super::graph_data::{GraphData, check_edges, check_offsets, graph_of_nodes, group};
use super::graph_view::GraphView;
use crate::memory::Buffer;
use crate::{GraphError, Targets};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3;

/// A set of graphs, in memory or mapped. The in-edges of all nodes are stored end to end, with sources numbered within
/// their graph. Cloning is cheap.
///
/// Invariants: offsets start at 0, never decrease and end at the length of the array that they divide; the source of an
/// edge is below the number of nodes of its graph; columns of labels are below the number of their names; class indices are below the
/// number of classes.
#[derive(Clone, Debug)]
pub struct GraphDataset {
    pub(super) name: String,
    pub(super) node_offsets: Buffer<u64>,
    pub(super) indptr: Buffer<u64>,
    pub(super) indices: Buffer<u32>,
    pub(super) nodes: AttributeRows,
    /// Grouped by destination like `indices`.
    pub(super) edges: AttributeRows,
    pub(super) labels: Buffer<u32>,
    pub(super) classes: Vec<i64>,
    pub(super) targets: Option<Targets>,
}

impl GraphDataset {
    /// Checks all data and groups the edges by destination.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] naming the graph, node or edge that is inconsistent.
    pub fn new(name: &str, data: GraphData) -> Result<Self, GraphError> {
        let fail = |why: String| GraphError::Dataset { dataset: name.into(), why };
        let GraphData { node_offsets, src, dst, labels, targets, nodes, edges } = data;
        let num_nodes = check_offsets(&node_offsets).map_err(fail)?;
        let num_graphs = node_offsets.len() - 1;
        let rows = |what: &str, given: usize, expected: usize| {
            if given == expected { Ok(()) } else { Err(fail(format!("{given} {what}, expected {expected}"))) }
        };
        if let Some(targets) = &targets {
            rows("labels of graphs with numbers to predict", labels.len(), 0)?;
            targets.problem(num_graphs, "graph").map_or(Ok(()), |why| Err(fail(why)))?;
        } else {
            rows("labels of graphs", labels.len(), num_graphs)?;
        }
        rows("destinations of edges", dst.len(), src.len())?;
        nodes.check(num_nodes, "node").map_err(fail)?;
        edges.check(src.len(), "edge").map_err(fail)?;
        if src.len() > u32::MAX as usize {
            return Err(fail(format!("{} edges, but at most 2^32 - 1 are supported", src.len())));
        }
        let graph_of = graph_of_nodes(&node_offsets);
        check_edges(&graph_of, &src, &dst).map_err(fail)?;
        let grouped = group(&node_offsets, &graph_of, &src, &dst);
        let mut classes = labels.clone();
        classes.sort_unstable();
        classes.dedup();
        let mut labels: Vec<u32> =
            labels.iter().map(|label| classes.partition_point(|other| other < label) as u32).collect();
        labels.resize(num_graphs, 0);
        Ok(Self {
            name: name.into(),
            node_offsets: node_offsets.into(),
            indptr: grouped.indptr.into(),
            indices: grouped.indices.into(),
            nodes,
            edges: edges.permuted(&grouped.order),
            labels: labels.into(),
            classes,
            targets,
        })
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
        let names = distinct.iter().map(|degree| format!("in-degree {degree}")).collect();
        self.nodes.labels = Some(OneHotLabels { columns: columns.into(), per_row: 1, names });
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

    /// Returns the class of each graph; 0 if graphs have targets.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the numbers to predict for each graph, if graphs have them in place of classes.
    pub fn targets(&self) -> Option<&Targets> {
        self.targets.as_ref()
    }

    /// Returns the original label of each class, ascending; empty if graphs have targets.
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
        if let Some(targets) = &self.targets {
            hash.update(&(targets.dim as u64).to_le_bytes());
            hash.update(bytemuck::cast_slice(&targets.values));
        }
        hash.update(&(self.nodes.dim() as u64).to_le_bytes());
        self.nodes.hash(&mut hash);
        // Sets without edge features have the hash of earlier versions, which did not read edge features.
        if self.edges.features.is_some() {
            hash.update(&(self.edges.dim() as u64).to_le_bytes());
        }
        self.edges.hash(&mut hash);
        hash.digest()
    }

    /// Returns the digests of what the graphs are, without the name of the set: `graphs` of their nodes and edges, `features`,
    /// `edge features`, and `labels`, which are classes or targets.
    pub fn array_digests(&self) -> BTreeMap<String, String> {
        let mut graphs = Xxh3::new();
        graphs.update(bytemuck::cast_slice(&self.node_offsets));
        graphs.update(bytemuck::cast_slice(&self.indptr));
        graphs.update(bytemuck::cast_slice(&self.indices));
        let mut features = Xxh3::new();
        self.nodes.hash(&mut features);
        let mut of_edges = Xxh3::new();
        self.edges.hash(&mut of_edges);
        let mut labels = Xxh3::new();
        labels.update(bytemuck::cast_slice(&self.labels));
        labels.update(bytemuck::cast_slice(&self.classes));
        if let Some(targets) = &self.targets {
            labels.update(bytemuck::cast_slice(&targets.values));
        }
        let all = [("graphs", graphs), ("features", features), ("edge features", of_edges), ("labels", labels)];
        all.into_iter().map(|(kind, hash)| (kind.to_owned(), format!("{:032x}", hash.digest128()))).collect()
    }

    /// Returns the number of columns of a node's row: its features, followed by its one-hot labels.
    pub fn feature_dim(&self) -> usize {
        self.nodes.dim()
    }

    /// Returns the number of columns of an edge's row: its features, followed by its one-hot labels.
    pub fn edge_dim(&self) -> usize {
        self.edges.dim()
    }

    /// Returns the attributes of nodes.
    pub fn nodes(&self) -> &AttributeRows {
        &self.nodes
    }

    /// Returns the attributes of edges, grouped by destination.
    pub fn edges(&self) -> &AttributeRows {
        &self.edges
    }

    /// Appends the rows of the nodes of a graph to `rows`.
    ///
    /// # Shapes
    /// - appended: `[num_nodes_of(graph), feature_dim]`
    ///
    /// # Panics
    /// If the graph is out of range.
    pub fn append_features(&self, graph: usize, rows: &mut Vec<f32>) {
        let first = self.node_offsets[graph] as usize;
        self.nodes.append(first..first + self.num_nodes_of(graph), rows);
    }

    /// Appends the rows of the edges of a graph to `rows`, in the order of the edges.
    ///
    /// # Shapes
    /// - appended: `[num_edges, edge_dim]`
    ///
    /// # Panics
    /// If the graph is out of range.
    pub fn append_edge_features(&self, graph: usize, rows: &mut Vec<f32>) {
        let indptr = self.graph(graph).indptr;
        self.edges.append(indptr[0] as usize..indptr[indptr.len() - 1] as usize, rows);
    }
}

#[cfg(test)]
mod tests;
