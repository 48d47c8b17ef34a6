//! Graphs: a part of this process, and the other parts by the services of their processes.

use crate::at_exit::leave_at_exit;
use crate::errors::{failed, failed_in, invalid};
use crate::fork_guard::ForkGuard;
use crate::in_memory::{EdgeArrays, NodeArrays, part_of_arrays};
use crate::job::{JobSettings, leave, seconds};
use crate::signals::interruptible;
use edgecut_cluster::{ProcessGroup, ServiceConfig, Token, with_causes};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, SampleError, ServerList, share_dataset};
use edgecut_graph::readers::{DatasetSource, is_dataset, load_with_warnings, why_no_dataset};
use edgecut_graph::{GraphError, META_FILE, Meta, NodeTypeId, Part};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A graph that is open, and the membership of this process in its job.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct Graph(ForkGuard<OpenGraph>);

/// The graph of a [`Graph`], for threads without Python.
pub(crate) struct OpenGraph {
    graph: Arc<DistGraph>,
    world: Mutex<ProcessGroup>,
    /// The warnings of the reader of a dataset, in the process that has read it.
    warnings: Vec<String>,
}

/// The settings of an opened graph.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct OpenSettings {
    num_threads: Option<usize>,
    to_undirected: bool,
    split: Option<String>,
}

/// The settings of a graph at servers.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ConnectSettings {
    /// The most seconds to wait for the servers.
    timeout: f64,
    num_threads: Option<usize>,
}

/// The place from which a graph is opened.
enum Place<'a> {
    Parts(&'a Path),
    Dataset(&'a DatasetSource),
    Servers {
        servers: ServerList,
        patience: Duration,
    },
    /// The whole graph in the memory of this process.
    Memory(Part),
}

#[pymethods]
impl Graph {
    /// Opens the graph in `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, settings: OpenSettings, job: JobSettings) -> PyResult<Self> {
        let OpenSettings { num_threads, to_undirected, split } = settings;
        let mut source = DatasetSource::of_folder(path.clone());
        source.to_undirected = to_undirected;
        source.split = split;
        let open = move || {
            let is_parts = path.join(META_FILE).exists();
            if !is_parts && !is_dataset(&path) {
                let also = if path.is_dir() {
                    format!("; nor does it hold parts, because {META_FILE} is missing")
                } else {
                    String::new()
                };
                return Err(invalid(format!("{}{also}", why_no_dataset(&path))));
            }
            if is_parts && (source.to_undirected || source.split.is_some()) {
                return Err(invalid(format!(
                    "`to_undirected` and `split` are for a dataset, but {} holds parts: use them when you partition it",
                    path.display()
                )));
            }
            let (place, fingerprint) = if is_parts {
                (Place::Parts(&path), Meta::read(&path).map_err(|error| failed(&error))?.fingerprint())
            } else {
                // One process reads the dataset for all.
                let to_undirected = source.to_undirected;
                let split = source.split.as_deref().unwrap_or("none");
                let options = format!("to_undirected {to_undirected}, split {split}");
                (Place::Dataset(&source), format!("the dataset ({options}) in {}", path.display()))
            };
            OpenGraph::join(place, fingerprint, num_threads, &job)
        };
        Ok(Self(ForkGuard::new(interruptible(py, open)??)))
    }

    /// Connects to the `servers` that hold a graph, `HOST:PORT` with commas in between.
    #[staticmethod]
    fn connect(py: Python<'_>, servers: &str, settings: ConnectSettings, job: JobSettings) -> PyResult<Self> {
        let ConnectSettings { timeout, num_threads } = settings;
        let patience = seconds("timeout", timeout)?;
        let mut service = ServiceConfig::new(Token::from_env().map_err(|error| failed(&error))?);
        service.protection = job.protection();
        let servers = ServerList::parse(servers, service).map_err(|error| invalid(with_causes(&error)))?;
        let addresses: Vec<String> = servers.addresses().iter().map(ToString::to_string).collect();
        let fingerprint = format!("servers {}", addresses.join(","));
        let place = Place::Servers { servers, patience };
        let connect = move || OpenGraph::join(place, fingerprint, num_threads, &job);
        Ok(Self(ForkGuard::new(interruptible(py, connect)??)))
    }

    /// Makes a graph of arrays, for this process alone.
    #[staticmethod]
    fn in_memory(
        py: Python<'_>,
        nodes: Vec<NodeArrays<'_>>,
        edges: Vec<EdgeArrays<'_>>,
        num_threads: Option<usize>,
    ) -> PyResult<Self> {
        let part = part_of_arrays(py, nodes, edges)?;
        let open = move || OpenGraph::join(Place::Memory(part), String::new(), num_threads, &JobSettings::alone());
        Ok(Self(ForkGuard::new(interruptible(py, open)??)))
    }

    /// The number of this process in the job.
    #[getter]
    fn rank(&self) -> PyResult<usize> {
        Ok(self.0.get()?.graph.cluster().rank())
    }

    /// The number of processes of the job.
    #[getter]
    fn world_size(&self) -> PyResult<usize> {
        Ok(self.0.get()?.graph.cluster().world_size())
    }

    /// The number of parts of the graph, or of the servers that hold it.
    #[getter]
    fn num_parts(&self) -> PyResult<usize> {
        Ok(self.0.get()?.graph.num_parts())
    }

    /// The description of the graph, as the JSON text of META.json.
    fn meta(&self) -> PyResult<String> {
        serde_json::to_string(self.0.get()?.meta_data()).map_err(|error| failed(&error))
    }

    /// The warnings of the reader of a dataset, in the process that has read it.
    fn warnings(&self) -> PyResult<Vec<String>> {
        Ok(self.0.get()?.warnings.clone())
    }

    /// Leaves the job when all processes have called this.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        leave(py, self.0.get()?.graph.cluster())
    }

    /// Ends the job. The other processes fail with `reason`.
    fn abort(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        let graph = &self.0.get()?.graph;
        py.detach(|| graph.cluster().abort(reason));
        Ok(())
    }

    /// Leaves the job when the process ends, or fails it if the exit status is not 0.
    fn leave_at_exit(&self, last_error: Option<String>) -> PyResult<()> {
        let graph = &self.0.get()?.graph;
        leave_at_exit(graph.cluster().clone(), Some(graph.clone()), last_error);
        Ok(())
    }
}

impl Graph {
    /// Returns the graph.
    ///
    /// # Errors
    /// In a forked process.
    pub(crate) fn opened(&self) -> PyResult<&Arc<OpenGraph>> {
        self.0.get()
    }
}

impl OpenGraph {
    /// Joins the job. Opens the part of this process or the dataset that the processes of this machine share, or connects
    /// to servers.
    fn join(place: Place<'_>, fingerprint: String, num_threads: Option<usize>, job: &JobSettings) -> PyResult<Self> {
        if num_threads == Some(0) {
            return Err(invalid("`num_threads` must be at least 1"));
        }
        let cluster = job.join(fingerprint)?;
        let start = || -> PyResult<Self> {
            let in_job = |error: SampleError| failed_in(&cluster, &error);
            let mut world = cluster.world().map_err(|error| failed_in(&cluster, &error))?;
            let mut config = DistGraphConfig::default();
            config.num_workers =
                num_threads.unwrap_or_else(|| config.num_workers.div_ceil(cluster.local_world_size().max(1)));
            let mut warnings = Vec::new();
            let graph = match place {
                Place::Parts(dir) => {
                    let part = DistGraph::open_part(dir, cluster.rank(), cluster.world_size(), false);
                    let part = part.map_err(|error| failed(&error))?;
                    DistGraph::start(Arc::new(part), cluster.clone(), config).map_err(in_job)?
                }
                Place::Dataset(source) => {
                    let load = || {
                        let loaded = load_with_warnings(source)?;
                        warnings = loaded.warnings;
                        Ok::<_, GraphError>(loaded.dataset)
                    };
                    let part = share_dataset(&cluster, load).map_err(in_job)?;
                    let part = part.with_to_undirected(source.to_undirected);
                    DistGraph::start(Arc::new(part), cluster.clone(), config).map_err(in_job)?
                }
                Place::Memory(part) => DistGraph::start(Arc::new(part), cluster.clone(), config).map_err(in_job)?,
                Place::Servers { servers, patience } => {
                    DistGraph::connect(servers, cluster.clone(), config, patience).map_err(in_job)?
                }
            };
            graph.handle().block_on(graph.wait_until_connected()).map_err(in_job)?;
            // No rank may send a request before all ranks serve.
            world.barrier().map_err(|error| failed_in(&cluster, &error))?;
            Ok(Self { graph, world: Mutex::new(world), warnings })
        };
        // The other ranks need not wait for the deadline.
        start().inspect_err(|error| cluster.abort(&error.to_string()))
    }

    pub(crate) fn node(&self) -> &Arc<DistGraph> {
        &self.graph
    }

    pub(crate) fn meta_data(&self) -> &Meta {
        self.graph.part().meta()
    }

    /// Returns the process group, for calls that all ranks make in the same order.
    pub(crate) fn world(&self) -> MutexGuard<'_, ProcessGroup> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the node type of this name. `None` stands for the only type.
    pub(crate) fn node_type(&self, name: Option<&str>) -> PyResult<NodeTypeId> {
        let types = &self.meta_data().node_types;
        let names = || types.iter().map(|nodes| nodes.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = match name {
            Some(name) => types.iter().position(|nodes| nodes.name == name),
            None => (types.len() == 1).then_some(0),
        };
        found.map(|at| NodeTypeId(at as u16)).ok_or_else(|| match name {
            Some(name) => invalid(format!("`input_nodes`: there is no node type {name:?}, only {}", names())),
            None => invalid(format!("`input_nodes` must name one of the node types {}", names())),
        })
    }
}
