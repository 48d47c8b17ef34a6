//! Graphs: a part of this process, and the other parts by the services of their processes.

use crate::errors::{failed, failed_in, invalid};
use edgecut_cluster::{Cluster, ClusterConfig, DEFAULT_MASTER_PORT, EnvRanks, ProcessGroup};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, share_dataset};
use edgecut_graph::readers::{DatasetSource, is_dataset, load_with_warnings, why_no_dataset};
use edgecut_graph::{META_FILE, Meta, NodeTypeId};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A graph that is open, and the membership of this process in its job.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct Graph {
    node: Arc<DistGraph>,
    world: Mutex<ProcessGroup>,
}

/// The settings of an opened graph.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct OpenSettings {
    /// True to join the job of the launcher.
    is_distributed: bool,
    /// The port of rank 0.
    port: Option<u16>,
    /// The number of graphs that this process has opened in its job. Each has a port of its own.
    num_opened: u16,
    /// The most seconds to wait for the other ranks to join.
    timeout: f64,
    num_threads: Option<usize>,
    to_undirected: bool,
    split: Option<String>,
}

#[pymethods]
impl Graph {
    /// Opens the graph in `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, settings: OpenSettings) -> PyResult<Self> {
        let OpenSettings { is_distributed, port, num_opened, timeout, num_threads, to_undirected, split } = settings;
        let timeout =
            Duration::try_from_secs_f64(timeout).map_err(|_| invalid("`timeout` must be a number of seconds"))?;
        if num_threads == Some(0) {
            return Err(invalid("`num_threads` must be at least 1"));
        }
        let mut source = DatasetSource::of_folder(path.clone());
        source.to_undirected = to_undirected;
        source.split = split;
        py.detach(|| {
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
            let fingerprint = if is_parts {
                Meta::read(&path).map_err(|error| failed(&error))?.fingerprint()
            } else {
                format!("the dataset in {}", path.display())
            };
            let cluster = if is_distributed {
                Cluster::join(job(port, num_opened, timeout, fingerprint)?).map_err(|error| failed(&error))?
            } else {
                Cluster::join_local(1, |_| {}).map_err(|error| failed(&error))?.remove(0)
            };
            Self::join(&cluster, is_parts.then_some(&path), &source, num_threads)
        })
    }

    /// The number of this process in the job.
    #[getter]
    fn rank(&self) -> usize {
        self.node.cluster().rank()
    }

    /// The number of processes of the job.
    #[getter]
    fn world_size(&self) -> usize {
        self.node.cluster().world_size()
    }

    /// The description of the graph, as the JSON text of META.json.
    fn meta(&self) -> PyResult<String> {
        serde_json::to_string(&**self.node.part().meta()).map_err(|error| failed(&error))
    }

    /// Leaves the job when all processes have called this.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let cluster = self.node.cluster();
        py.detach(|| cluster.clone().shutdown()).map_err(|error| failed_in(cluster, &error))
    }

    /// Ends the job. The other processes fail with `reason`.
    fn abort(&self, py: Python<'_>, reason: &str) {
        py.detach(|| self.node.cluster().abort(reason));
    }
}

impl Graph {
    /// Opens the part of this process, or the dataset that the processes of this machine share.
    fn join(
        cluster: &Cluster,
        parts: Option<&PathBuf>,
        source: &DatasetSource,
        num_threads: Option<usize>,
    ) -> PyResult<Self> {
        let start = || -> PyResult<Self> {
            let mut world = cluster.world().map_err(|error| failed_in(cluster, &error))?;
            let part = match parts {
                Some(dir) => open_part(dir, cluster)?,
                None => share_dataset(cluster, || load_with_warnings(source).map(|loaded| loaded.dataset))
                    .map_err(|error| failed_in(cluster, &error))?,
            };
            let mut config = DistGraphConfig::default();
            config.num_workers =
                num_threads.unwrap_or_else(|| config.num_workers.div_ceil(cluster.local_world_size().max(1)));
            let node = DistGraph::start(Arc::new(part), cluster.clone(), config)
                .map_err(|error| failed_in(cluster, &error))?;
            node.handle().block_on(node.wait_until_connected()).map_err(|error| failed_in(cluster, &error))?;
            // No rank may send a request before all ranks serve.
            world.barrier().map_err(|error| failed_in(cluster, &error))?;
            Ok(Self { node, world: Mutex::new(world) })
        };
        // The other ranks need not wait for the deadline.
        start().inspect_err(|error| cluster.abort(&error.to_string()))
    }

    pub(crate) fn node(&self) -> &Arc<DistGraph> {
        &self.node
    }

    pub(crate) fn meta_data(&self) -> &Meta {
        self.node.part().meta()
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

fn open_part(dir: &Path, cluster: &Cluster) -> PyResult<edgecut_graph::Part> {
    DistGraph::open_part(dir, cluster.rank(), cluster.world_size(), false).map_err(|error| failed(&error))
}

/// Returns the configuration of the job that a launcher has set in the environment.
fn job(port: Option<u16>, num_opened: u16, timeout: Duration, fingerprint: String) -> PyResult<ClusterConfig> {
    let env = EnvRanks::read().map_err(|error| failed(&error))?;
    if env.rank.is_none() {
        return Err(invalid(
            "no launcher has set RANK and WORLD_SIZE: start the program with torchrun, srun, mpirun or launch, or do not \
             call `edgecut.distributed.init`",
        ));
    }
    let mut config = ClusterConfig::from_env().map_err(|error| failed(&error))?;
    // PyTorch listens on MASTER_PORT itself.
    let first = port.or(env.master_port.map(|port| port.saturating_add(1))).unwrap_or(DEFAULT_MASTER_PORT);
    config.master_port =
        first.checked_add(num_opened).filter(|&port| Some(port) != env.master_port).ok_or_else(|| {
            invalid(format!("port {first} has no free port after it: set `master_port` of `edgecut.distributed.init`"))
        })?;
    config.fingerprint = fingerprint;
    config.rendezvous_timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    config.report_panics = false;
    Ok(config)
}
