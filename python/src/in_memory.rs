//! Graphs from the arrays of a Python program.

use crate::errors::invalid;
use edgecut_cluster::with_causes;
use edgecut_graph::{EdgesInMemory, NodeTypeId, NodesInMemory, Part};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

/// The nodes of a type.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct NodeArrays<'py> {
    num_nodes: usize,
    times: Option<PyReadonlyArray1<'py, i64>>,
}

/// The edges of a type, grouped by destination.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EdgeArrays<'py> {
    /// The numbers of the node types of sources and destinations.
    src_type: u16,
    dst_type: u16,
    /// The start of the in-edges of each destination, and the number of edges.
    colptr: PyReadonlyArray1<'py, i64>,
    /// The source of each edge.
    row: PyReadonlyArray1<'py, i64>,
    weights: Option<PyReadonlyArray1<'py, f32>>,
    times: Option<PyReadonlyArray1<'py, i64>>,
}

/// The slices of [`EdgeArrays`], for a thread that does not hold Python's lock.
struct EdgeSlices<'a> {
    src_type: NodeTypeId,
    dst_type: NodeTypeId,
    colptr: &'a [i64],
    row: &'a [i64],
    weights: Option<&'a [f32]>,
    times: Option<&'a [i64]>,
}

/// Copies the arrays of a graph. An edge takes 4 bytes, and as many as its weight and its times.
pub(crate) fn part_of_arrays(py: Python<'_>, nodes: Vec<NodeArrays<'_>>, edges: Vec<EdgeArrays<'_>>) -> PyResult<Part> {
    let nodes: Vec<NodesInMemory> = nodes.iter().map(NodeArrays::copied).collect::<PyResult<_>>()?;
    let edges: Vec<EdgeSlices<'_>> = edges.iter().map(EdgeArrays::slices).collect::<PyResult<_>>()?;
    py.detach(move || {
        let edges = edges.iter().map(EdgeSlices::copied).collect::<Result<_, String>>()?;
        Part::in_memory("data", nodes, edges).map_err(|error| with_causes(&error))
    })
    .map_err(|why| invalid(format!("`data`: {why}")))
}

impl NodeArrays<'_> {
    fn copied(&self) -> PyResult<NodesInMemory> {
        let times = self.times.as_ref().map(|times| times.as_slice()).transpose()?;
        Ok(NodesInMemory { num_nodes: self.num_nodes, times: times.map(|times| times.to_vec().into()) })
    }
}

impl EdgeArrays<'_> {
    fn slices(&self) -> PyResult<EdgeSlices<'_>> {
        Ok(EdgeSlices {
            src_type: NodeTypeId(self.src_type),
            dst_type: NodeTypeId(self.dst_type),
            colptr: self.colptr.as_slice()?,
            row: self.row.as_slice()?,
            weights: self.weights.as_ref().map(|weights| weights.as_slice()).transpose()?,
            times: self.times.as_ref().map(|times| times.as_slice()).transpose()?,
        })
    }
}

impl EdgeSlices<'_> {
    fn copied(&self) -> Result<EdgesInMemory, String> {
        let starts = self.colptr.iter().map(|&start| u64::try_from(start));
        let starts =
            starts.collect::<Result<_, _>>().map_err(|_| "the start of a node's edges is negative".to_owned())?;
        let sources = self.row.iter().map(|&source| {
            u32::try_from(source).map_err(|_| format!("`edge_index` has the source {source}, which is not a node"))
        });
        Ok(EdgesInMemory {
            src_type: self.src_type,
            dst_type: self.dst_type,
            indptr: starts,
            indices: sources.collect::<Result<_, _>>()?,
            weights: self.weights.map(|weights| weights.to_vec().into()),
            times: self.times.map(|times| times.to_vec().into()),
        })
    }
}
