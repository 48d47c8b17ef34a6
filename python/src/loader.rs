//! Loaders, and the iterators over their batches.

use crate::batch::{Layout, Prepared};
use crate::batches::Batches;
use crate::errors::{failed_in, invalid};
use crate::fan_outs::FanOuts;
use crate::fork_guard::ForkGuard;
use crate::graph::{Graph, OpenGraph};
use crate::links::{LinkSeeds, LinkSettings};
use crate::sampler::{labor, parsed};
use crate::seeds::{NodeSeeds, not_made, original_ids, split_named};
use crate::signals::interruptible;
use edgecut_cluster::{ProcessGroup, ReduceOp, with_causes};
use edgecut_dist_loader::{
    BatchIter, DEFAULT_PREFETCH_BYTES, DistLinkNeighborLoader, DistNeighborLoader, LoaderConfig, SharedSettings,
};
use edgecut_dist_sampler::{
    DistNeighborSampler, EdgeFields, NodeFields, SamplerConfig, Temporal, TemporalStrategy, TimeAttr,
};
use edgecut_graph::Meta;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use serde::Serialize;
use std::sync::Arc;

/// The settings of a loader. Their serialisation has what must be equal in all processes, with the names of the arguments in
/// Python.
#[derive(FromPyObject, Serialize)]
#[pyo3(from_item_all)]
struct LoaderSettings<'py> {
    num_neighbors: FanOuts,
    #[serde(skip)]
    node_type: Option<String>,
    /// Original ids. Without them the seeds are those of `split`, or all nodes.
    #[serde(skip)]
    seeds: Option<PyReadonlyArray1<'py, i64>>,
    #[serde(skip)]
    seed_times: Option<PyReadonlyArray1<'py, i64>>,
    /// The position of the first node of each cluster, and the number of nodes. Batches have whole clusters.
    #[serde(skip)]
    clusters: Option<PyReadonlyArray1<'py, i64>>,
    split: Option<String>,
    batch_size: usize,
    drop_last: bool,
    shuffle: bool,
    even_batches: bool,
    seed: u64,
    #[serde(skip)]
    concurrency: usize,
    sampler: String,
    batch_dependency: Option<u64>,
    replace: bool,
    #[serde(rename = "weight_attr")]
    weighted: bool,
    disjoint: bool,
    /// True to return the position of each edge among the in-edges of its destination.
    #[serde(rename = "edge_index")]
    edge_positions: bool,
    time_attr: Option<String>,
    temporal_strategy: String,
    /// The edges to load instead of nodes.
    #[serde(skip)]
    links: Option<LinkSettings<'py>>,
}

impl LoaderSettings<'_> {
    /// Describes the settings for a comparison over all processes.
    fn shared(&self, graph: &OpenGraph) -> SharedSettings {
        let mut settings = SharedSettings::default().with_fields(self);
        if let Some(seeds) = &self.seeds {
            let name = if self.clusters.is_some() { "clusters" } else { "input_nodes" };
            settings = settings.with_list(name, seeds.as_array());
        }
        if let Some(times) = &self.seed_times {
            settings = settings.with_list("input_time", times.as_array());
        }
        if let Some(clusters) = &self.clusters {
            settings = settings.with_list("clusters.starts", clusters.as_array());
        }
        if let Some(links) = &self.links {
            settings = links.describe(graph.meta_data(), settings);
        } else if let Ok(node_type) = graph.node_type(self.node_type.as_deref()) {
            settings = settings.with("node_type", &graph.meta_data().node_types[node_type.index()].name);
        }
        let are_listed = self.seeds.is_some()
            || self.clusters.is_some()
            || self.links.as_ref().is_some_and(LinkSettings::are_listed);
        // The processes may have batches of their own sizes around the nodes of their own parts.
        if are_listed { settings } else { settings.without("batch_size") }
    }

    fn sampler(&self) -> PyResult<SamplerConfig> {
        let num_neighbors = self.num_neighbors.num_neighbors()?;
        let strategy: TemporalStrategy = parsed("temporal_strategy", &self.temporal_strategy)?;
        let attr: Option<TimeAttr> = self.time_attr.as_deref().map(|attr| parsed("time_attr", attr)).transpose()?;
        Ok(SamplerConfig::new(num_neighbors)
            .with_replacement(self.replace)
            .with_weights(self.weighted)
            .with_labor(labor(&self.sampler, self.batch_dependency)?)
            .with_times(attr.map(|attr| Temporal { attr, strategy }))
            .with_disjoint(self.disjoint)
            .with_positions(self.edge_positions))
    }

    /// Copies the seeds, so that threads without Python can use them.
    fn seeds(&self, graph: &OpenGraph) -> PyResult<NodeSeeds> {
        let node_type = graph.node_type(self.node_type.as_deref())?;
        let given = self.seeds.as_ref().map(|seeds| original_ids(seeds.as_slice()?, graph, node_type)).transpose()?;
        let times = self.seed_times.as_ref().map(|times| times.as_slice().map(<[i64]>::to_vec)).transpose()?;
        let split = self.split.as_deref().map(split_named).transpose()?;
        let clusters = self.clusters.as_ref().map(positions).transpose()?;
        Ok(NodeSeeds { node_type, given, times, split, clusters })
    }

    /// Returns the configuration of the loader, without labels.
    fn config(&self, meta: &Meta) -> LoaderConfig {
        let wanted = NodeFields {
            features: meta.node_types.iter().any(|nodes| nodes.feature_dim > 0),
            original_ids: true,
            times: meta.node_types.iter().any(|nodes| nodes.has_times),
            ..NodeFields::default()
        };
        LoaderConfig {
            batch_size: self.batch_size,
            even_batches: self.even_batches,
            shuffle: self.shuffle,
            seed: self.seed,
            concurrency: self.concurrency,
            prefetch_bytes: DEFAULT_PREFETCH_BYTES,
            wanted,
            cache: None,
        }
    }
}

/// Converts positions of nodes.
fn positions(given: &PyReadonlyArray1<'_, i64>) -> PyResult<Vec<u32>> {
    let mut positions = Vec::new();
    for &position in given.as_slice()? {
        let small = u32::try_from(position);
        positions.push(small.map_err(|_| invalid(format!("`clusters` has the position {position}")))?);
    }
    Ok(positions)
}

/// The seeds of a loader.
enum SourceSeeds {
    Nodes(NodeSeeds),
    Links(LinkSeeds),
}

/// A loader of batches of nodes or edges.
enum Source {
    Nodes(DistNeighborLoader),
    Links(DistLinkNeighborLoader),
}

impl Source {
    fn num_steps(&self) -> usize {
        match self {
            Self::Nodes(loader) => loader.num_steps(),
            Self::Links(loader) => loader.num_steps(),
        }
    }

    fn num_full_batches(&self) -> usize {
        match self {
            Self::Nodes(loader) => loader.num_full_batches(),
            Self::Links(loader) => loader.num_full_batches(),
        }
    }

    /// Agrees with all ranks on the number of batches of an epoch, without those that some rank does not fill if
    /// `drop_last` is true.
    fn agree_on_steps(&self, drop_last: bool, graph: &OpenGraph, world: &mut ProcessGroup) -> PyResult<usize> {
        if !drop_last {
            return Ok(self.num_steps());
        }
        let mut steps = [self.num_full_batches() as u64];
        let agreed = world.all_reduce(&mut steps, ReduceOp::Min);
        agreed.map_err(|error| failed_in(graph.node().cluster(), &error))?;
        Ok(steps[0] as usize)
    }

    fn epoch(&self, epoch: u64, layout: Arc<Layout>) -> BatchIter<Prepared> {
        match self {
            Self::Nodes(loader) => loader.epoch_map(epoch, move |batch| Prepared::new(batch, &layout)),
            Self::Links(loader) => loader.epoch_map(epoch, move |batch| Prepared::of_links(batch, &layout)),
        }
    }
}

/// A loader of batches with neighborhoods.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct Loader(ForkGuard<OpenLoader>);

/// The loader of a [`Loader`].
struct OpenLoader {
    graph: Arc<OpenGraph>,
    loader: Arc<Source>,
    num_steps: usize,
    layout: Arc<Layout>,
    /// Notes about the settings, for Python's warnings.
    warnings: Vec<String>,
}

#[pymethods]
impl Loader {
    /// Makes a loader. All ranks must call this. `seeds` are original ids, or else the seeds are those of `split`, or all
    /// nodes.
    #[new]
    fn new(py: Python<'_>, graph: &Bound<'_, Graph>, settings: LoaderSettings<'_>) -> PyResult<Self> {
        let opened = graph.get().opened()?;
        let shared = settings.shared(opened);
        let of_graph = opened.clone();
        // Before any error of one process and any request, for which others would wait.
        let agreed = interruptible(py, move || shared.agree(&mut of_graph.world()))?;
        agreed.map_err(|error| not_made(opened.node().cluster(), error))?;
        let sampler = settings.sampler()?;
        let layout = Layout {
            meta: opened.meta_data().clone(),
            num_hops: sampler.num_neighbors.num_hops(),
            is_disjoint: sampler.disjoint || sampler.temporal.is_some(),
            has_positions: sampler.positions,
        };
        let config = settings.config(&layout.meta);
        let seeds = match &settings.links {
            Some(links) => SourceSeeds::Links(links.seeds(opened)?),
            None => SourceSeeds::Nodes(settings.seeds(opened)?),
        };
        let drop_last = settings.drop_last;
        let graph = opened.clone();
        let make = move || {
            let world = &mut *graph.world();
            let sampler = new_sampler(&graph, sampler)?;
            let mut warnings = Vec::new();
            let source = match seeds {
                SourceSeeds::Nodes(seeds) => Source::Nodes(seeds.loader(&graph, sampler, config, world)?),
                SourceSeeds::Links(seeds) => {
                    let (loader, found) = seeds.loader(&graph, sampler, config, world)?;
                    warnings = found;
                    Source::Links(loader)
                }
            };
            let num_steps = source.agree_on_steps(drop_last, &graph, world)?;
            Ok::<_, PyErr>((Arc::new(source), num_steps, warnings))
        };
        // The ranks agree on the number of steps, so this waits for them.
        let (loader, num_steps, warnings) = interruptible(py, make)??;
        let layout = Arc::new(layout);
        Ok(Self(ForkGuard::new(OpenLoader { graph: opened.clone(), loader, num_steps, layout, warnings })))
    }

    /// Notes about the settings.
    fn warnings(&self) -> PyResult<Vec<String>> {
        Ok(self.0.get()?.warnings.clone())
    }

    /// The number of batches of each rank in an epoch, including empty ones after its last seeds.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.0.get()?.num_steps)
    }

    /// Starts to make the batches of an epoch.
    fn epoch(&self, epoch: u64) -> PyResult<Batches> {
        let OpenLoader { graph, loader, num_steps, layout, .. } = &**self.0.get()?;
        let loader = loader.clone();
        let layout = layout.clone();
        Batches::start(graph.node().cluster().clone(), *num_steps, move || loader.epoch(epoch, layout))
    }
}

/// Makes a sampler that also fetches the attributes of edges.
fn new_sampler(graph: &OpenGraph, config: SamplerConfig) -> PyResult<Arc<DistNeighborSampler>> {
    let of_edges = EdgeFields::of_batches(graph.meta_data());
    let graph = graph.node();
    // The errors of a sampler are settings that do not fit the graph.
    let sampler = DistNeighborSampler::new(graph.clone(), config.with_edge_attributes(of_edges));
    Ok(Arc::new(sampler.map_err(|error| invalid(with_causes(&error)))?))
}
