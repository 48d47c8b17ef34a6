//! Sets of small graphs.

use crate::at_exit::leave_at_exit;
use crate::errors::{failed_in, invalid};
use crate::fork_guard::ForkGuard;
use crate::job::{JobSettings, leave};
use crate::signals::interruptible;
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_sampler::share_graphs;
use edgecut_graph::small_graphs::{
    FAKE_GRAPHS_NAME, FakeGraphsOptions, GraphSource, load_graphs, split_dataset, stratified_folds,
};
use edgecut_graph::{GraphDataset, GraphError};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers of graphs.
type Numbers<'py> = Bound<'py, PyArray1<i64>>;

/// A set of small graphs, and the membership of this process in its job.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct GraphSet(ForkGuard<OpenSet>);

/// The graphs of a [`GraphSet`].
pub(crate) struct OpenSet {
    graphs: Arc<GraphDataset>,
    cluster: Cluster,
    world: Mutex<ProcessGroup>,
}

/// A set of graphs to generate.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct FakeSettings {
    num_graphs: usize,
    avg_num_nodes: usize,
    num_classes: usize,
    seed: u64,
}

#[pymethods]
impl GraphSet {
    /// Reads the set in the folder `path`.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, degrees_as_features: bool, job: JobSettings) -> PyResult<Self> {
        let path = std::path::absolute(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(invalid(format!("{} is not the folder of a set of graphs", path.display())));
        };
        if !path.is_dir() {
            return Err(invalid(format!("there is no folder {}", path.display())));
        }
        let mut source = GraphSource::new(name.to_string_lossy(), parent);
        if source.name == FAKE_GRAPHS_NAME {
            // Such a folder would not be read, since this name stands for generated graphs.
            return Err(invalid(format!("{}: the name {FAKE_GRAPHS_NAME} is reserved: rename it", path.display())));
        }
        source.fake = FakeGraphsOptions::default();
        let fingerprint = format!("graphs {} (degrees_as_features {degrees_as_features})", source.name);
        let read = move || OpenSet::share(&source, degrees_as_features, fingerprint, &job);
        Ok(Self(ForkGuard::new(interruptible(py, read)??)))
    }

    /// Generates a set.
    #[staticmethod]
    fn generate(py: Python<'_>, settings: FakeSettings, job: JobSettings) -> PyResult<Self> {
        let FakeSettings { num_graphs, avg_num_nodes, num_classes, seed } = settings;
        let mut source = GraphSource::new(FAKE_GRAPHS_NAME, "");
        source.fake = FakeGraphsOptions { num_graphs, avg_num_nodes, num_classes, seed };
        let fingerprint =
            format!("{num_graphs} graphs of {avg_num_nodes} nodes and {num_classes} classes by the seed {seed}");
        let generate = move || OpenSet::share(&source, true, fingerprint, &job);
        Ok(Self(ForkGuard::new(interruptible(py, generate)??)))
    }

    /// The number of this process in the job.
    #[getter]
    fn rank(&self) -> PyResult<usize> {
        Ok(self.0.get()?.cluster.rank())
    }

    /// The number of processes of the job.
    #[getter]
    fn world_size(&self) -> PyResult<usize> {
        Ok(self.0.get()?.cluster.world_size())
    }

    /// The name of the set.
    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(self.0.get()?.graphs.name())
    }

    /// The number of nodes of all graphs.
    #[getter]
    fn num_nodes(&self) -> PyResult<usize> {
        Ok(self.0.get()?.graphs.num_nodes())
    }

    /// The number of edges of all graphs.
    #[getter]
    fn num_edges(&self) -> PyResult<usize> {
        Ok(self.0.get()?.graphs.num_edges())
    }

    /// The number of features per node.
    #[getter]
    fn num_features(&self) -> PyResult<usize> {
        Ok(self.0.get()?.graphs.feature_dim())
    }

    /// The number of features per edge, 0 without features.
    #[getter]
    fn num_edge_features(&self) -> PyResult<usize> {
        Ok(self.0.get()?.graphs.edge_dim())
    }

    /// A hash of all graphs and features.
    #[getter]
    fn fingerprint(&self) -> PyResult<u64> {
        Ok(self.0.get()?.graphs.fingerprint())
    }

    /// The original label of each class.
    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Numbers<'py>> {
        Ok(self.0.get()?.graphs.classes().to_vec().into_pyarray(py))
    }

    /// The class of each graph.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Numbers<'py>> {
        Ok(numbers(py, self.0.get()?.graphs.labels()))
    }

    /// The numbers to predict for each graph, `[num_graphs, num_targets]`; none for graphs with classes.
    #[getter]
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        let Some(targets) = self.0.get()?.graphs.targets() else { return Ok(None) };
        let flat = targets.values.to_vec().into_pyarray(py);
        Ok(Some(flat.reshape([targets.values.len() / targets.dim, targets.dim])?))
    }

    /// Splits the graphs at random into sets for training, validation and test.
    fn split<'py>(&self, py: Python<'py>, shares: [f64; 3], seed: u64) -> PyResult<Vec<Numbers<'py>>> {
        let sets = split_dataset(self.0.get()?.graphs.num_graphs(), shares, seed).map_err(invalid)?;
        Ok(sets.into_iter().map(|set| numbers(py, &set)).collect())
    }

    /// Splits the graphs into folds, each with graphs for training and for test.
    fn folds<'py>(&self, py: Python<'py>, num_folds: usize, seed: u64) -> PyResult<Vec<(Numbers<'py>, Numbers<'py>)>> {
        let folds = stratified_folds(self.0.get()?.graphs.labels(), num_folds, seed).map_err(invalid)?;
        Ok(folds.into_iter().map(|fold| (numbers(py, &fold.train), numbers(py, &fold.test))).collect())
    }

    /// Leaves the job when all processes have called this.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        leave(py, &self.0.get()?.cluster)
    }

    /// Ends the job. The other processes fail with `reason`.
    fn abort(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        let cluster = &self.0.get()?.cluster;
        py.detach(|| cluster.abort(reason));
        Ok(())
    }

    /// Leaves the job when the process ends, or fails it if the exit status is not 0.
    fn leave_at_exit(&self, last_error: Option<String>) -> PyResult<()> {
        leave_at_exit(self.0.get()?.cluster.clone(), None, last_error);
        Ok(())
    }
}

impl GraphSet {
    /// Returns the graphs.
    ///
    /// # Errors
    /// In a forked process.
    pub(crate) fn opened(&self) -> PyResult<&Arc<OpenSet>> {
        self.0.get()
    }
}

impl OpenSet {
    /// Joins the job and shares one copy of the set with the processes of this machine. All must have the same `fingerprint`,
    /// since one of them reads the set.
    fn share(
        source: &GraphSource,
        degrees_as_features: bool,
        fingerprint: String,
        job: &JobSettings,
    ) -> PyResult<Self> {
        let cluster = job.join(fingerprint)?;
        let load = || -> Result<GraphDataset, GraphError> {
            let graphs = load_graphs(source)?;
            let needs_features = degrees_as_features && graphs.feature_dim() == 0;
            Ok(if needs_features { graphs.with_degrees_as_labels() } else { graphs })
        };
        let graphs = share_graphs(&cluster, load).map_err(|error| {
            let error = failed_in(&cluster, &error);
            // The other ranks need not wait for the deadline.
            cluster.abort(&error.to_string());
            error
        })?;
        let world = cluster.world().map_err(|error| failed_in(&cluster, &error))?;
        Ok(Self { graphs: Arc::new(graphs), cluster, world: Mutex::new(world) })
    }

    /// Returns the process group, for calls that all ranks make in the same order.
    pub(crate) fn world(&self) -> MutexGuard<'_, ProcessGroup> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn graphs(&self) -> &Arc<GraphDataset> {
        &self.graphs
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

/// Converts numbers of graphs or classes.
fn numbers<'py>(py: Python<'py>, graphs: &[u32]) -> Numbers<'py> {
    graphs.iter().map(|&graph| i64::from(graph)).collect::<Vec<_>>().into_pyarray(py)
}
