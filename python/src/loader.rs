//! Loaders, and the iterators over their batches.

use crate::batch::{Layout, Prepared};
use crate::errors::{failed_in, invalid};
use crate::graph::Graph;
use edgecut_dist_loader::{DEFAULT_PREFETCH_BYTES, DistNeighborLoader, LoaderConfig, LoaderError, Seeds};
use edgecut_dist_sampler::{
    DistNeighborSampler, NumNeighbors, SamplerConfig, Temporal, TemporalStrategy, TimeAttr, Wanted, WantedOfEdges,
};
use edgecut_graph::{NodeTypeId, Split};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time between two checks for signals while a batch is awaited.
const SIGNALS: Duration = Duration::from_millis(50);

/// The settings of a loader.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct LoaderSettings<'py> {
    num_neighbors: String,
    node_type: Option<String>,
    /// Original ids. Without them the seeds are those of `split`, or all nodes.
    seeds: Option<PyReadonlyArray1<'py, i64>>,
    seed_times: Option<PyReadonlyArray1<'py, i64>>,
    split: Option<String>,
    batch_size: usize,
    shuffle: bool,
    even_batches: bool,
    seed: u64,
    concurrency: usize,
    replace: bool,
    weighted: bool,
    disjoint: bool,
    time_attr: Option<String>,
    temporal_strategy: String,
}

impl LoaderSettings<'_> {
    fn sampler(&self) -> PyResult<SamplerConfig> {
        let of = |name: &str, why: String| invalid(format!("`{name}`: {why}"));
        let num_neighbors: NumNeighbors = self.num_neighbors.parse().map_err(|why| of("num_neighbors", why))?;
        let strategy: TemporalStrategy = self.temporal_strategy.parse().map_err(|why| of("temporal_strategy", why))?;
        let attr = self.time_attr.as_deref().map(str::parse::<TimeAttr>).transpose();
        let attr = attr.map_err(|why| of("time_attr", why))?;
        Ok(SamplerConfig::new(num_neighbors)
            .with_replacement(self.replace)
            .with_weights(self.weighted)
            .with_times(attr.map(|attr| Temporal { attr, strategy }))
            .with_disjoint(self.disjoint))
    }

    /// Copies the seeds, so that threads without Python can use them.
    fn plan(&self, graph: &Graph, node_type: NodeTypeId) -> PyResult<Plan> {
        let given = self.seeds.as_ref().map(|seeds| original_ids(seeds.as_slice()?, graph, node_type)).transpose()?;
        let times = self.seed_times.as_ref().map(|times| times.as_slice().map(<[i64]>::to_vec)).transpose()?;
        let split = self.split.as_deref().map(split_named).transpose()?;
        let Self { batch_size, shuffle, even_batches, seed, concurrency, .. } = *self;
        Ok(Plan { given, times, split, batch_size, shuffle, even_batches, seed, concurrency })
    }
}

/// A loader of batches of nodes with their neighborhoods.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct Loader {
    graph: Py<Graph>,
    loader: Arc<DistNeighborLoader>,
    layout: Arc<Layout>,
}

#[pymethods]
impl Loader {
    /// Makes a loader. All ranks must call this. `seeds` are original ids, or else the seeds are those of `split`, or all
    /// nodes.
    #[new]
    fn new(py: Python<'_>, graph: Py<Graph>, settings: LoaderSettings<'_>) -> PyResult<Self> {
        let sampler = settings.sampler()?;
        let opened = graph.get();
        let layout = Layout {
            meta: opened.meta_data().clone(),
            num_hops: sampler.num_neighbors.num_hops(),
            is_disjoint: sampler.disjoint || sampler.temporal.is_some(),
        };
        let node_type = opened.node_type(settings.node_type.as_deref())?;
        let plan = settings.plan(opened, node_type)?;
        let loader = py.detach(|| plan.loader(opened, node_type, sampler))?;
        Ok(Self { graph, loader: Arc::new(loader), layout: Arc::new(layout) })
    }

    /// The number of batches of this rank in an epoch, including empty ones after its last seeds.
    fn __len__(&self) -> usize {
        self.loader.num_steps()
    }

    /// Starts to make the batches of an epoch.
    fn epoch(&self, py: Python<'_>, epoch: u64) -> PyResult<Batches> {
        let (sender, receiver) = sync_channel(0);
        let loader = self.loader.clone();
        let layout = self.layout.clone();
        // The thread ends with the epoch, or when the receiver is dropped.
        let run = move || {
            let prepare = move |batch| Prepared::new(batch, &layout);
            for batch in loader.epoch_map(epoch, prepare) {
                if sender.send(batch).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("edgecut batches".into()).spawn(run)?;
        Ok(Batches { graph: self.graph.clone_ref(py), receiver: Mutex::new(receiver) })
    }
}

/// An iterator over the batches of an epoch, as dictionaries of arrays.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct Batches {
    graph: Py<Graph>,
    receiver: Mutex<Receiver<Result<Prepared, LoaderError>>>,
}

#[pymethods]
impl Batches {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        loop {
            let received = py.detach(|| {
                let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
                receiver.recv_timeout(SIGNALS)
            });
            match received {
                Ok(Ok(batch)) => return batch.into_python(py).map(Some),
                Ok(Err(error)) => return Err(failed_in(self.graph.get().node().cluster(), &error)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }
}

/// The seeds of a loader, and their division into batches.
struct Plan {
    given: Option<Vec<u32>>,
    times: Option<Vec<i64>>,
    split: Option<Split>,
    batch_size: usize,
    shuffle: bool,
    even_batches: bool,
    seed: u64,
    concurrency: usize,
}

impl Plan {
    fn loader(self, graph: &Graph, node_type: NodeTypeId, sampler: SamplerConfig) -> PyResult<DistNeighborLoader> {
        let node = graph.node();
        let cluster = node.cluster();
        let world = &mut *graph.world();
        let meta = graph.meta_data();
        let seeds = match (self.given, self.times, self.split) {
            (Some(given), times, _) => {
                node.make_directory(node_type, false, world).map_err(|error| failed_in(cluster, &error))?;
                let ids = node.handle().block_on(node.find_originals(node_type, &given));
                let ids = ids.map_err(|error| failed_in(cluster, &error))?;
                match times {
                    Some(times) if times.len() != ids.len() => {
                        let what = format!("`input_time` has {} entries for {} input nodes", times.len(), ids.len());
                        return Err(invalid(what));
                    }
                    Some(times) => Seeds::Timed(ids.into_iter().zip(times).collect()),
                    None => Seeds::Listed(ids),
                }
            }
            (None, Some(_), _) => return Err(invalid("`input_time` needs a list of ids in `input_nodes`")),
            (None, None, Some(split)) => Seeds::Split(split),
            (None, None, None) => Seeds::Owned,
        };
        let has_attributes = |e: &edgecut_graph::EdgeTypeMeta| e.has_times || e.has_weights || e.feature_dim > 0;
        let all = WantedOfEdges { times: true, weights: true, features: true };
        let of_edges = if meta.edge_types.iter().any(has_attributes) { all } else { WantedOfEdges::default() };
        let sampler = DistNeighborSampler::new(node.clone(), sampler.with_edge_attributes(of_edges));
        let sampler = Arc::new(sampler.map_err(|error| failed_in(cluster, &error))?);
        let wanted = Wanted {
            labels: meta.node_types[node_type.index()].has_labels,
            features: meta.node_types.iter().any(|nodes| nodes.feature_dim > 0),
            original_ids: true,
            times: meta.node_types.iter().any(|nodes| nodes.has_times),
            ..Wanted::default()
        };
        let config = LoaderConfig {
            batch_size: self.batch_size,
            even_batches: self.even_batches,
            shuffle: self.shuffle,
            seed: self.seed,
            concurrency: self.concurrency,
            prefetch_bytes: DEFAULT_PREFETCH_BYTES,
            wanted,
            cache: None,
        };
        DistNeighborLoader::new(sampler, node_type, seeds, config, world).map_err(|error| match error {
            LoaderError::Config { what } => invalid(what),
            error => failed_in(cluster, &error),
        })
    }
}

/// Converts ids of nodes.
fn original_ids(ids: &[i64], graph: &Graph, node_type: NodeTypeId) -> PyResult<Vec<u32>> {
    let nodes = &graph.meta_data().node_types[node_type.index()];
    let num_nodes = nodes.book.num_nodes();
    let checked = ids.iter().map(|&id| match u32::try_from(id) {
        Ok(small) if (small as usize) < num_nodes => Ok(small),
        _ => Err(invalid(format!("`input_nodes`: {id} is not one of the {num_nodes} nodes of type {}", nodes.name))),
    });
    checked.collect()
}

fn split_named(name: &str) -> PyResult<Split> {
    match name {
        "train" => Ok(Split::Train),
        "valid" => Ok(Split::Valid),
        "test" => Ok(Split::Test),
        _ => Err(invalid(format!("{name:?} is not a split: choose from train, valid and test"))),
    }
}
