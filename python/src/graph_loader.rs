//! Loaders of batches of whole graphs.

use crate::batch::{set_matrix, wide};
use crate::batches::{Batches, PreparedBatch};
use crate::errors::invalid;
use crate::fork_guard::ForkGuard;
use crate::graph_set::{GraphSet, OpenSet};
use crate::seeds::not_made;
use crate::signals::interruptible;
use edgecut_dist_loader::{
    DEFAULT_PREFETCH_BYTES, GraphBatch, GraphDataLoader, GraphLoaderConfig, Packing, SharedSettings,
};
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use std::sync::Arc;

/// The settings of a loader of graphs. Their serialisation has what must be equal in all processes.
#[derive(FromPyObject, Serialize)]
#[pyo3(from_item_all)]
struct GraphLoaderSettings<'py> {
    /// The numbers of the graphs, or else all graphs.
    #[serde(skip)]
    graphs: Option<PyReadonlyArray1<'py, i64>>,
    batch_size: usize,
    /// The most nodes per batch, in place of `batch_size`.
    #[serde(rename = "max_num_nodes")]
    max_nodes: Option<usize>,
    shuffle: bool,
    drop_last: bool,
    seed: u64,
    #[serde(skip)]
    concurrency: usize,
}

/// A loader of batches of whole graphs.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct GraphLoader(ForkGuard<OpenLoader>);

/// The loader of a [`GraphLoader`].
struct OpenLoader {
    set: Arc<OpenSet>,
    loader: GraphDataLoader,
}

#[pymethods]
impl GraphLoader {
    /// Makes a loader. All ranks must call this.
    #[new]
    fn new(py: Python<'_>, set: &Bound<'_, GraphSet>, settings: GraphLoaderSettings<'_>) -> PyResult<Self> {
        let opened = set.get().opened()?;
        let cluster = opened.cluster();
        let mut shared = SharedSettings::default().with_fields(&settings);
        if let Some(graphs) = &settings.graphs {
            shared = shared.with_list("graphs", graphs.as_array());
        }
        let of_set = opened.clone();
        // Before any error of one process, for which others would wait.
        let agreed = interruptible(py, move || shared.agree(&mut of_set.world()))?;
        agreed.map_err(|error| not_made(cluster, error))?;
        let num_graphs = opened.graphs().num_graphs();
        let graphs = match &settings.graphs {
            Some(graphs) => {
                let number = |&graph: &i64| match u32::try_from(graph) {
                    Ok(small) if (small as usize) < num_graphs => Ok(small),
                    _ => Err(invalid(format!("`graphs`: {graph} is not one of the {num_graphs} graphs"))),
                };
                graphs.as_slice()?.iter().map(number).collect::<PyResult<_>>()?
            }
            None => (0..num_graphs as u32).collect(),
        };
        let config = GraphLoaderConfig {
            packing: settings.max_nodes.map_or(Packing::Graphs(settings.batch_size), Packing::Nodes),
            shuffle: settings.shuffle,
            drop_last: settings.drop_last,
            seed: settings.seed,
            concurrency: settings.concurrency,
            prefetch_bytes: DEFAULT_PREFETCH_BYTES,
        };
        let loader =
            GraphDataLoader::new(opened.graphs().clone(), graphs, config, cluster.rank(), cluster.world_size());
        let loader = loader.map_err(|error| not_made(cluster, error))?;
        Ok(Self(ForkGuard::new(OpenLoader { set: opened.clone(), loader })))
    }

    /// Returns the number of batches of this rank in an epoch, including an empty one after its last graphs.
    fn num_batches(&self, epoch: u64) -> PyResult<usize> {
        Ok(self.0.get()?.loader.num_steps(epoch))
    }

    /// Starts to make the batches of an epoch.
    fn epoch(&self, epoch: u64) -> PyResult<Batches> {
        let OpenLoader { set, loader } = &**self.0.get()?;
        let batches = loader.epoch_map(epoch, PreparedGraphs::new);
        let num_steps = batches.size_hint().1.unwrap_or(0);
        Batches::start(set.cluster().clone(), num_steps, move || batches)
    }
}

/// A batch of graphs in the layout of PyG.
struct PreparedGraphs {
    graphs: Vec<i64>,
    /// The start of the nodes of each graph.
    ptr: Vec<i64>,
    /// The start of the edges of each graph.
    edge_ptr: Vec<i64>,
    /// The position of the graph of each node.
    batch: Vec<i64>,
    labels: Vec<i64>,
    /// The targets of the graphs, row by row, in place of labels.
    targets: Vec<f32>,
    target_dim: usize,
    features: Vec<f32>,
    feature_dim: usize,
    /// All sources, then all destinations.
    ends: Vec<i64>,
    /// The features of the edges, row by row.
    edge_features: Vec<f32>,
    edge_dim: usize,
}

impl PreparedGraphs {
    /// Converts a batch. The thread that makes it does this.
    fn new(batch: GraphBatch) -> Self {
        let num_edges = batch.num_edges();
        let mut ends = Vec::with_capacity(2 * num_edges);
        ends.extend(batch.indices.iter().map(|&source| i64::from(source)));
        for (row, of_row) in batch.indptr.windows(2).enumerate() {
            ends.extend(std::iter::repeat_n(row as i64, (of_row[1] - of_row[0]) as usize));
        }
        let mut graph_of = Vec::with_capacity(batch.num_nodes());
        for (graph, of_graph) in batch.node_offsets.windows(2).enumerate() {
            graph_of.extend(std::iter::repeat_n(graph as i64, (of_graph[1] - of_graph[0]) as usize));
        }
        let edge_ptr = batch.node_offsets.iter().map(|&node| i64::from(batch.indptr[node as usize])).collect();
        Self {
            graphs: wide(&batch.graphs),
            ptr: wide(&batch.node_offsets),
            edge_ptr,
            batch: graph_of,
            labels: batch.labels,
            targets: batch.targets,
            target_dim: batch.target_dim,
            features: batch.features,
            feature_dim: batch.feature_dim,
            ends,
            edge_features: batch.edge_features,
            edge_dim: batch.edge_dim,
        }
    }
}

impl PreparedBatch for PreparedGraphs {
    fn into_python(self: Box<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        let num_edges = self.ends.len() / 2;
        if self.feature_dim > 0 {
            set_matrix(&dict, "x", self.batch.len(), self.feature_dim, self.features)?;
        }
        set_matrix(&dict, "edge_index", 2, num_edges, self.ends)?;
        if self.edge_dim > 0 {
            set_matrix(&dict, "edge_attr", num_edges, self.edge_dim, self.edge_features)?;
        }
        match self.target_dim {
            0 => dict.set_item("y", self.labels.into_pyarray(py))?,
            dim => set_matrix(&dict, "y", self.graphs.len(), dim, self.targets)?,
        }
        dict.set_item("batch", self.batch.into_pyarray(py))?;
        dict.set_item("ptr", self.ptr.into_pyarray(py))?;
        dict.set_item("num_graphs", self.graphs.len())?;
        dict.set_item("input_id", self.graphs.into_pyarray(py))?;
        dict.set_item("edge_ptr", self.edge_ptr.into_pyarray(py))?;
        Ok(dict)
    }
}
