//! The nodes and edges of an opened graph, in the ids of the dataset.

use crate::errors::{failed_in, invalid};
use crate::graph::Graph;
use crate::seeds::{original_ids, split_named};
use crate::signals::interruptible;
use edgecut_dist_sampler::{NodeFields, SampleError};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns an attribute of nodes: `x`, `y` or `time`. They are given by distinct ids in the dataset; without ids, returns
/// that of all nodes.
#[pyfunction]
pub(crate) fn node_attribute<'py>(
    py: Python<'py>,
    graph: &Bound<'py, Graph>,
    node_type: u16,
    name: &str,
    ids: Option<PyReadonlyArray1<'py, i64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let graph = graph.get().opened()?;
    let node_type = NodeTypeId(node_type);
    let num_nodes = graph.meta_data().node_types[node_type.index()].book.num_nodes() as u32;
    let ids = match ids {
        Some(ids) => original_ids(ids.as_slice()?, graph, node_type)?,
        None => (0..num_nodes).collect(),
    };
    let wanted = match name {
        "x" => NodeFields { features: true, ..NodeFields::default() },
        "y" => NodeFields { labels: true, ..NodeFields::default() },
        "time" => NodeFields { times: true, ..NodeFields::default() },
        _ => return Err(invalid(format!("{name:?} is not an attribute of nodes: choose from x, y and time"))),
    };
    let graph = graph.node();
    let num_rows = ids.len();
    let fetching = graph.clone();
    let fetched = interruptible(py, move || {
        fetching.handle().block_on(async {
            let global = fetching.find_originals(node_type, &ids).await?;
            fetching.fetch(node_type, global, wanted).await
        })
    })?;
    let fetched = fetched.map_err(|error| failed_in(graph.cluster(), &error))?;
    let matrix = |values: Vec<f32>, dim: usize| {
        let matrix = Array2::from_shape_vec((num_rows, dim), values);
        Ok::<_, PyErr>(matrix.map_err(|error| invalid(format!("{name}: {error}")))?.into_pyarray(py).into_any())
    };
    Ok(match name {
        "x" => matrix(fetched.features, fetched.feature_dim)?,
        "y" if fetched.target_dim > 0 => matrix(fetched.targets, fetched.target_dim)?,
        "y" => fetched.labels.into_pyarray(py).into_any(),
        _ => fetched.times.into_pyarray(py).into_any(),
    })
}

/// Returns the nodes of a split that this process takes its input nodes from, or else the nodes that all processes take them from, as ids in
/// the dataset, ascending.
#[pyfunction]
pub(crate) fn split_nodes<'py>(
    py: Python<'py>,
    graph: &Bound<'py, Graph>,
    node_type: u16,
    split: &str,
    of_all: bool,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let graph = graph.get().opened()?.node();
    let node_type = NodeTypeId(node_type);
    let split = split_named(split)?;
    let fetching = graph.clone();
    let found = interruptible(py, move || {
        let nodes = if of_all {
            fetching.split_nodes_of_all_parts(node_type, split)?
        } else {
            fetching.split_nodes(node_type, split)?
        };
        let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
        let fetched = fetching.handle().block_on(fetching.fetch(node_type, nodes, wanted))?;
        let mut ids: Vec<i64> = fetched.original_ids.into_iter().map(i64::from).collect();
        ids.sort_unstable();
        Ok::<_, SampleError>(ids)
    })?;
    Ok(found.map_err(|error| failed_in(graph.cluster(), &error))?.into_pyarray(py))
}

/// Returns the edges of a type that carry messages, of a process that holds the whole graph: the start of each
/// destination's edges and the source of each edge, both in the order of the ids in the dataset.
#[pyfunction]
pub(crate) fn whole_edges<'py>(
    py: Python<'py>,
    graph: &Bound<'py, Graph>,
    edge_type: u16,
) -> PyResult<Bound<'py, PyDict>> {
    let graph = graph.get().opened()?;
    let part = graph.node().part();
    let edges = part.edges(EdgeTypeId(edge_type));
    let sources = part.nodes(edges.src_type);
    let destinations = part.nodes(edges.dst_type);
    let meta = graph.meta_data();
    let num_destinations = meta.node_types[edges.dst_type.index()].book.num_nodes();
    let num_sources = meta.node_types[edges.src_type.index()].book.num_nodes();
    if destinations.original_ids.len() != num_destinations || sources.original_ids.len() != num_sources {
        return Err(invalid(
            "this process holds a part of the edges only: open the graph in a process without \
             `edgecut.distributed.init`, not at servers",
        ));
    }
    let (starts, row) = py.detach(|| {
        let mut starts = Vec::with_capacity(num_destinations + 1);
        let mut row = Vec::with_capacity(edges.csc.num_edges());
        starts.push(0);
        for id in 0..num_destinations {
            let neighbors = edges.csc.neighbors(destinations.row_at(id));
            row.extend(neighbors.iter().map(|&source| i64::from(sources.original_ids[source as usize])));
            starts.push(row.len() as i64);
        }
        (starts, row)
    });
    let dict = PyDict::new(py);
    dict.set_item("colptr", starts.into_pyarray(py))?;
    dict.set_item("row", row.into_pyarray(py))?;
    Ok(dict)
}
