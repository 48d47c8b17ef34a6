//! Batches in the layout of PyG: edges as pairs of ends, numbers as 64-bit integers.

use edgecut_dist_loader::{EdgeBatch, MiniBatch, NodeBatch};
use edgecut_graph::Meta;
use numpy::ndarray::Array2;
use numpy::{Element, IntoPyArray};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A batch whose arrays become NumPy's without a copy.
pub(crate) struct Prepared {
    num_seeds: usize,
    labels: Vec<i64>,
    nodes: Vec<PreparedNodes>,
    edges: Vec<PreparedEdges>,
}

struct PreparedNodes {
    original_ids: Vec<i64>,
    /// The number of nodes that each hop added.
    per_hop: Vec<usize>,
    batch: Vec<i64>,
    times: Vec<i64>,
    features: Vec<f32>,
    feature_dim: usize,
}

struct PreparedEdges {
    /// All sources, then all destinations.
    ends: Vec<i64>,
    /// The number of edges that each hop added.
    per_hop: Vec<usize>,
    times: Vec<i64>,
    weights: Vec<f32>,
    features: Vec<f32>,
    feature_dim: usize,
}

impl Prepared {
    /// Converts a batch. The sampling threads do this.
    pub(crate) fn new(batch: MiniBatch, meta: &Meta, num_hops: usize) -> Self {
        let dst_types = meta.edge_types.iter().map(|e| meta.node_types.iter().position(|n| n.name == e.dst_type));
        let edges = batch.edges.into_iter().zip(dst_types).map(|(edges, dst_type)| {
            let offsets = dst_type.and_then(|t| batch.nodes.get(t)).map_or(&[][..], |nodes| &nodes.hop_offsets);
            PreparedEdges::new(edges, offsets, num_hops)
        });
        let edges = edges.collect();
        let nodes = batch.nodes.into_iter().map(|nodes| PreparedNodes::new(nodes, num_hops)).collect();
        Self { num_seeds: batch.num_seeds, labels: batch.labels, nodes, edges }
    }

    /// Returns a dictionary of arrays. The batch of a rank that has run out of seeds has no nodes and edges.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("batch_size", self.num_seeds)?;
        dict.set_item("y", self.labels.into_pyarray(py))?;
        let nodes = self.nodes.into_iter().map(|nodes| nodes.into_python(py)).collect::<PyResult<Vec<_>>>()?;
        dict.set_item("nodes", PyList::new(py, nodes)?)?;
        let edges = self.edges.into_iter().map(|edges| edges.into_python(py)).collect::<PyResult<Vec<_>>>()?;
        dict.set_item("edges", PyList::new(py, edges)?)?;
        Ok(dict)
    }
}

impl PreparedNodes {
    fn new(nodes: NodeBatch, num_hops: usize) -> Self {
        let mut per_hop: Vec<usize> = (0..=num_hops).map(|hop| hop_range(&nodes.hop_offsets, hop).len()).collect();
        per_hop.resize(num_hops + 1, 0);
        Self {
            original_ids: wide(&nodes.original_ids),
            per_hop,
            batch: wide(&nodes.batch),
            times: nodes.times,
            features: nodes.features,
            feature_dim: nodes.feature_dim,
        }
    }

    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        let rows = self.original_ids.len();
        dict.set_item("n_id", self.original_ids.into_pyarray(py))?;
        dict.set_item("num_sampled", self.per_hop)?;
        set_matrix(&dict, "x", rows, self.feature_dim, self.features)?;
        set_unless_empty(&dict, "batch", self.batch)?;
        set_unless_empty(&dict, "time", self.times)?;
        Ok(dict)
    }
}

impl PreparedEdges {
    fn new(edges: EdgeBatch, dst_offsets: &[u32], num_hops: usize) -> Self {
        let num_edges = edges.indices.len();
        let mut ends = Vec::with_capacity(2 * num_edges);
        ends.extend(edges.indices.iter().map(|&source| i64::from(source)));
        for (row, of_row) in edges.indptr.windows(2).enumerate() {
            ends.extend(std::iter::repeat_n(row as i64, (of_row[1] - of_row[0]) as usize));
        }
        let at = |row: usize| edges.indptr.get(row).or(edges.indptr.last()).map_or(0, |&at| at as usize);
        let per_hop = (0..num_hops).map(|hop| {
            let rows = hop_range(dst_offsets, hop);
            at(rows.end) - at(rows.start)
        });
        let attributes = edges.attributes;
        Self {
            per_hop: per_hop.collect(),
            ends,
            times: attributes.times,
            weights: attributes.weights,
            features: attributes.features,
            feature_dim: attributes.feature_dim,
        }
    }

    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        let num_edges = self.ends.len() / 2;
        set_matrix(&dict, "edge_index", 2, num_edges, self.ends)?;
        dict.set_item("num_sampled", self.per_hop)?;
        set_unless_empty(&dict, "edge_time", self.times)?;
        set_unless_empty(&dict, "edge_weight", self.weights)?;
        if !self.features.is_empty() {
            set_matrix(&dict, "edge_attr", num_edges, self.feature_dim, self.features)?;
        }
        Ok(dict)
    }
}

/// Returns the nodes that are exactly `hop` hops from the seeds.
fn hop_range(offsets: &[u32], hop: usize) -> std::ops::Range<usize> {
    let end = |hop: usize| offsets.get(hop).or(offsets.last()).map_or(0, |&end| end as usize);
    hop.checked_sub(1).map_or(0, end)..end(hop)
}

fn wide(ids: &[u32]) -> Vec<i64> {
    ids.iter().map(|&id| i64::from(id)).collect()
}

fn set_unless_empty<T: Element>(dict: &Bound<'_, PyDict>, name: &str, values: Vec<T>) -> PyResult<()> {
    if values.is_empty() { Ok(()) } else { dict.set_item(name, values.into_pyarray(dict.py())) }
}

/// Sets a matrix, also an empty one, but none of zero columns of rows that exist.
fn set_matrix<T: Element>(
    dict: &Bound<'_, PyDict>,
    name: &str,
    rows: usize,
    columns: usize,
    values: Vec<T>,
) -> PyResult<()> {
    if columns == 0 && name == "x" {
        return Ok(());
    }
    let matrix = Array2::from_shape_vec((rows, columns), values)
        .map_err(|error| crate::errors::EdgecutError::new_err(format!("{name}: {error}")))?;
    dict.set_item(name, matrix.into_pyarray(dict.py()))
}
