//! Batches in the layout of PyG: edges as pairs of ends, numbers as 64-bit integers.

use crate::batches::PreparedBatch;
use edgecut_dist_loader::{EdgeBatch, LinkBatch, MiniBatch, Negatives, NodeBatch};
use edgecut_graph::{EdgeTypeMeta, Meta, NodeTypeMeta};
use numpy::ndarray::Array2;
use numpy::{Element, IntoPyArray};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A batch whose arrays become NumPy's without a copy.
pub(crate) struct Prepared {
    num_seeds: usize,
    /// The positions of the seeds in their list.
    seed_positions: Vec<i64>,
    labels: Vec<i64>,
    /// The targets of the seeds, row by row.
    targets: Vec<f32>,
    nodes: Vec<PreparedNodes>,
    edges: Vec<PreparedEdges>,
    links: Option<PreparedLinks>,
}

/// The edges of a batch of links, whose ends are numbers of nodes in the batch.
struct PreparedLinks {
    src: Vec<i64>,
    dst: Vec<i64>,
    /// The negative destinations of each edge, row by row.
    negatives: Vec<i64>,
    /// The number of edges without negatives, which are not in the batch.
    num_left_out: usize,
}

struct PreparedNodes {
    original_ids: Vec<i64>,
    /// The number of nodes that each hop added.
    per_hop: Vec<usize>,
    batch: Option<Vec<i64>>,
    times: Option<Vec<i64>>,
    features: Vec<f32>,
    feature_dim: usize,
}

struct PreparedEdges {
    /// All sources, then all destinations.
    ends: Vec<i64>,
    /// The number of edges that each hop added.
    per_hop: Vec<usize>,
    /// The position of each edge among the in-edges of its destination.
    positions: Option<Vec<i64>>,
    /// The position of each edge in the dataset.
    ids: Option<Vec<i64>>,
    times: Option<Vec<i64>>,
    weights: Option<Vec<f32>>,
    features: Vec<f32>,
    feature_dim: usize,
}

/// The layout that all batches of a loader share.
pub(crate) struct Layout {
    pub(crate) meta: Meta,
    pub(crate) num_hops: usize,
    pub(crate) is_disjoint: bool,
    pub(crate) has_positions: bool,
}

impl Prepared {
    /// Converts a batch. The sampling threads do this. The batch of a rank that has run out of seeds gets empty arrays.
    pub(crate) fn new(mut batch: MiniBatch, layout: &Layout) -> Self {
        let meta = &layout.meta;
        batch.nodes.resize_with(meta.node_types.len(), NodeBatch::default);
        batch.edges.resize_with(meta.edge_types.len(), EdgeBatch::default);
        let edges = batch.edges.into_iter().zip(&meta.edge_types).map(|(edges, of_type)| {
            let dst_type = meta.node_types.iter().position(|nodes| nodes.name == of_type.dst_type);
            let offsets = dst_type.map_or(&[][..], |t| &batch.nodes[t].hop_offsets);
            PreparedEdges::new(edges, offsets, of_type, layout)
        });
        let edges = edges.collect();
        let nodes = batch.nodes.into_iter().zip(&meta.node_types);
        let nodes = nodes.map(|(nodes, of_type)| PreparedNodes::new(nodes, of_type, layout)).collect();
        let seed_positions = wide(&batch.seed_positions);
        let MiniBatch { num_seeds, labels, targets, .. } = batch;
        Self { num_seeds, seed_positions, labels, targets, nodes, edges, links: None }
    }

    /// Converts a batch of edges of one type.
    pub(crate) fn of_links(batch: LinkBatch, layout: &Layout) -> Self {
        let negatives = match &batch.negatives {
            Negatives::OfEach { dst, .. } => wide(dst),
            // The loaders of this package do not share negatives.
            Negatives::Shared(_) => Vec::new(),
        };
        let num_left_out = batch.num_left_out;
        let links = PreparedLinks { src: wide(&batch.src), dst: wide(&batch.dst), negatives, num_left_out };
        Self { links: Some(links), ..Self::new(batch.graph, layout) }
    }
}

impl PreparedBatch for Prepared {
    fn into_python(self: Box<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("batch_size", self.num_seeds)?;
        dict.set_item("input_id", self.seed_positions.into_pyarray(py))?;
        dict.set_item("y", self.labels.into_pyarray(py))?;
        dict.set_item("targets", self.targets.into_pyarray(py))?;
        if let Some(PreparedLinks { src, dst, negatives, num_left_out }) = self.links {
            dict.set_item("src", src.into_pyarray(py))?;
            dict.set_item("dst", dst.into_pyarray(py))?;
            dict.set_item("negatives", negatives.into_pyarray(py))?;
            dict.set_item("num_left_out", num_left_out)?;
        }
        let nodes = self.nodes.into_iter().map(|nodes| nodes.into_python(py)).collect::<PyResult<Vec<_>>>()?;
        dict.set_item("nodes", PyList::new(py, nodes)?)?;
        let edges = self.edges.into_iter().map(|edges| edges.into_python(py)).collect::<PyResult<Vec<_>>>()?;
        dict.set_item("edges", PyList::new(py, edges)?)?;
        Ok(dict)
    }
}

impl PreparedNodes {
    fn new(nodes: NodeBatch, of_type: &NodeTypeMeta, layout: &Layout) -> Self {
        let per_hop = (0..=layout.num_hops).map(|hop| hop_range(&nodes.hop_offsets, hop).len()).collect();
        Self {
            original_ids: wide(&nodes.original_ids),
            per_hop,
            batch: layout.is_disjoint.then(|| wide(&nodes.batch)),
            times: of_type.has_times.then_some(nodes.times),
            features: nodes.features,
            feature_dim: of_type.feature_dim,
        }
    }

    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        let rows = self.original_ids.len();
        dict.set_item("n_id", self.original_ids.into_pyarray(py))?;
        dict.set_item("num_sampled", self.per_hop)?;
        if self.feature_dim > 0 {
            set_matrix(&dict, "x", rows, self.feature_dim, self.features)?;
        }
        set_if_given(&dict, "batch", self.batch)?;
        set_if_given(&dict, "time", self.times)?;
        Ok(dict)
    }
}

impl PreparedEdges {
    fn new(edges: EdgeBatch, dst_offsets: &[u32], of_type: &EdgeTypeMeta, layout: &Layout) -> Self {
        let attributes = edges.attributes;
        Self {
            per_hop: edges_per_hop(&edges.indptr, dst_offsets, layout.num_hops),
            ends: ends(&edges.indptr, &edges.indices),
            positions: layout.has_positions.then(|| wide(&edges.positions)),
            ids: layout.meta.provenance.edge_ids.then_some(attributes.ids),
            times: of_type.has_times.then_some(attributes.times),
            weights: of_type.has_weights.then_some(attributes.weights),
            features: attributes.features,
            feature_dim: of_type.feature_dim,
        }
    }

    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        let num_edges = self.ends.len() / 2;
        set_matrix(&dict, "edge_index", 2, num_edges, self.ends)?;
        dict.set_item("num_sampled", self.per_hop)?;
        set_if_given(&dict, "position", self.positions)?;
        set_if_given(&dict, "e_id", self.ids)?;
        set_if_given(&dict, "edge_time", self.times)?;
        set_if_given(&dict, "edge_weight", self.weights)?;
        if self.feature_dim > 0 {
            set_matrix(&dict, "edge_attr", num_edges, self.feature_dim, self.features)?;
        }
        Ok(dict)
    }
}

/// Returns the sources of all edges of a CSR, then the destinations.
pub(crate) fn ends(indptr: &[u32], indices: &[u32]) -> Vec<i64> {
    let mut ends = Vec::with_capacity(2 * indices.len());
    ends.extend(indices.iter().map(|&source| i64::from(source)));
    for (row, of_row) in indptr.windows(2).enumerate() {
        ends.extend(std::iter::repeat_n(row as i64, (of_row[1] - of_row[0]) as usize));
    }
    ends
}

/// Returns the number of edges that each hop added to a CSR, whose rows are the nodes with these `offsets`.
pub(crate) fn edges_per_hop(indptr: &[u32], offsets: &[u32], num_hops: usize) -> Vec<usize> {
    let mut per_hop = Vec::with_capacity(num_hops);
    for hop in 0..num_hops {
        let rows = hop_range(offsets, hop);
        per_hop.push(start_of(indptr, rows.end) - start_of(indptr, rows.start));
    }
    per_hop
}

/// Returns the first edge of a row, or the number of edges for a row past the last.
fn start_of(indptr: &[u32], row: usize) -> usize {
    indptr.get(row).or(indptr.last()).map_or(0, |&start| start as usize)
}

/// Returns the nodes that are exactly `hop` hops from the seeds.
pub(crate) fn hop_range(offsets: &[u32], hop: usize) -> std::ops::Range<usize> {
    let end = |hop: usize| offsets.get(hop).or(offsets.last()).map_or(0, |&end| end as usize);
    hop.checked_sub(1).map_or(0, end)..end(hop)
}

pub(crate) fn wide(ids: &[u32]) -> Vec<i64> {
    ids.iter().map(|&id| i64::from(id)).collect()
}

fn set_if_given<T: Element>(dict: &Bound<'_, PyDict>, name: &str, values: Option<Vec<T>>) -> PyResult<()> {
    values.map_or(Ok(()), |values| dict.set_item(name, values.into_pyarray(dict.py())))
}

pub(crate) fn set_matrix<T: Element>(
    dict: &Bound<'_, PyDict>,
    name: &str,
    rows: usize,
    columns: usize,
    values: Vec<T>,
) -> PyResult<()> {
    let matrix = Array2::from_shape_vec((rows, columns), values)
        .map_err(|error| crate::errors::EdgecutError::new_err(format!("{name}: {error}")))?;
    dict.set_item(name, matrix.into_pyarray(dict.py()))
}
