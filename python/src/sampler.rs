//! Neighborhoods of seeds that a Python program gives, one call per batch.

use crate::batch::{edges_per_hop, ends, hop_range, wide};
use crate::errors::{failed_in, invalid};
use crate::fan_outs::FanOuts;
use crate::fork_guard::ForkGuard;
use crate::graph::{Graph, OpenGraph};
use crate::seeds::original_ids;
use edgecut_cluster::with_causes;
use edgecut_dist_sampler::{
    BatchKey, DistNeighborSampler, ExcludedEdge, Labor, SampleError, SampleSeeds, SampledEdges, SampledNodes,
    SampledSubgraph, SamplerConfig, SamplingMethod, Temporal, TemporalStrategy, TimeAttr,
};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

/// The settings of a sampler.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SamplerSettings {
    num_neighbors: FanOuts,
    sampler: String,
    batch_dependency: Option<u64>,
    replace: bool,
    disjoint: bool,
    weighted: bool,
    time_attr: Option<String>,
    temporal_strategy: String,
}

/// The seeds of a batch.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct BatchSeeds<'py> {
    /// Ids by node type. Distinct unless neighborhoods are disjoint.
    nodes: Vec<PyReadonlyArray1<'py, i64>>,
    /// The time of each seed, type by type, in temporal sampling.
    times: Option<PyReadonlyArray1<'py, i64>>,
    /// The edges that no hop follows, by edge type.
    excluded: Vec<ExcludedEdges<'py>>,
    /// The key of all random numbers.
    seed: u64,
    batch: u64,
}

/// Edges of a type that no hop follows.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ExcludedEdges<'py> {
    src: PyReadonlyArray1<'py, i64>,
    dst: PyReadonlyArray1<'py, i64>,
    /// The seed in whose neighborhood each edge is excluded, numbered over all node types. All neighborhoods if not given.
    batch: Option<PyReadonlyArray1<'py, i64>>,
}

/// A sampler of a graph in memory. Each seed has a neighborhood of its own if neighborhoods are disjoint.
#[pyclass(frozen, module = "edgecut._edgecut")]
pub(crate) struct Sampler(ForkGuard<OpenSampler>);

/// The sampler of a [`Sampler`].
struct OpenSampler {
    graph: Arc<OpenGraph>,
    sampler: Arc<DistNeighborSampler>,
}

#[pymethods]
impl Sampler {
    #[new]
    fn new(graph: &Bound<'_, Graph>, settings: SamplerSettings) -> PyResult<Self> {
        let graph = graph.get().opened()?.clone();
        let sampler = DistNeighborSampler::new(graph.node().clone(), settings.config()?);
        // The errors of a sampler are settings that do not fit the graph.
        let sampler = Arc::new(sampler.map_err(|error| invalid(with_causes(&error)))?);
        Ok(Self(ForkGuard::new(OpenSampler { graph, sampler })))
    }

    /// Samples the neighborhoods of seeds. Threads may call this at the same time.
    fn sample<'py>(&self, py: Python<'py>, seeds: BatchSeeds<'py>) -> PyResult<Bound<'py, PyDict>> {
        let OpenSampler { graph, sampler } = &**self.0.get()?;
        let key = BatchKey { seed: seeds.seed, epoch: 0, batch: seeds.batch };
        let seeds = seeds.checked(graph)?;
        let node = graph.node();
        let sampled = py.detach(|| {
            let sampled = node.handle().block_on(sampler.sample(seeds, key))?;
            Ok::<_, SampleError>(Prepared::new(sampled, graph, sampler.num_hops()))
        });
        sampled.map_err(|error| failed_in(node.cluster(), &error))?.into_python(py)
    }
}

impl SamplerSettings {
    fn config(&self) -> PyResult<SamplerConfig> {
        let strategy: TemporalStrategy = parsed("temporal_strategy", &self.temporal_strategy)?;
        let attr: Option<TimeAttr> = self.time_attr.as_deref().map(|attr| parsed("time_attr", attr)).transpose()?;
        Ok(SamplerConfig::new(self.num_neighbors.num_neighbors()?)
            .with_replacement(self.replace)
            .with_weights(self.weighted)
            .with_labor(labor(&self.sampler, self.batch_dependency)?)
            .with_times(attr.map(|attr| Temporal { attr, strategy }))
            .with_disjoint(self.disjoint)
            .with_positions(true))
    }
}

/// Returns the settings of layer-neighbor sampling that the arguments `sampler` and `batch_dependency` describe.
pub(crate) fn labor(sampler: &str, batch_dependency: Option<u64>) -> PyResult<Option<Labor>> {
    let method: SamplingMethod = parsed("sampler", sampler)?;
    let number = batch_dependency.and_then(|given| u32::try_from(given).ok()).and_then(NonZeroU32::new);
    if let (None, Some(given)) = (number, batch_dependency) {
        return Err(invalid(format!("`batch_dependency` is {given}, which is not a number from 1 to 2^32 - 1")));
    }
    method.labor(number).map_err(|why| invalid(format!("`batch_dependency`: {why}")))
}

/// Parses a word that an argument of Python has.
pub(crate) fn parsed<T: FromStr<Err = String>>(argument: &str, word: &str) -> PyResult<T> {
    word.parse().map_err(|why| invalid(format!("`{argument}`: {why}")))
}

impl BatchSeeds<'_> {
    /// Copies the seeds, and numbers the neighborhoods of all types one after the other.
    fn checked(&self, graph: &OpenGraph) -> PyResult<SampleSeeds> {
        let mut seeds = SampleSeeds::default();
        let mut num_seeds = 0;
        for (t, nodes) in self.nodes.iter().enumerate() {
            let ids = original_ids(nodes.as_slice()?, graph, NodeTypeId(t as u16))?;
            let first = num_seeds;
            num_seeds += ids.len() as u32;
            seeds.batch.push((first..num_seeds).collect());
            seeds.nodes.push(ids);
        }
        if let Some(times) = &self.times {
            seeds.times = times.as_slice()?.to_vec();
        }
        for (e, excluded) in self.excluded.iter().enumerate() {
            seeds.excluded.push(excluded.of_type(graph, EdgeTypeId(e as u16))?);
        }
        Ok(seeds)
    }
}

impl ExcludedEdges<'_> {
    fn of_type(&self, graph: &OpenGraph, edge_type: EdgeTypeId) -> PyResult<Vec<ExcludedEdge>> {
        let edges = graph.node().part().edges(edge_type);
        let src = original_ids(self.src.as_slice()?, graph, edges.src_type)?;
        let dst = original_ids(self.dst.as_slice()?, graph, edges.dst_type)?;
        let batch = match &self.batch {
            Some(batch) => batch.as_slice()?.iter().map(|&seed| Some(seed as u32)).collect(),
            None => vec![None; src.len()],
        };
        if dst.len() != src.len() || batch.len() != src.len() {
            return Err(invalid("`excluded` has arrays of different lengths"));
        }
        let ends = src.into_iter().zip(dst).zip(batch);
        Ok(ends.map(|((src, dst), batch)| ExcludedEdge { src, dst, batch }).collect())
    }
}

/// A neighborhood whose arrays become NumPy's without a copy.
struct Prepared {
    nodes: Vec<PreparedNodes>,
    edges: Vec<PreparedEdges>,
}

struct PreparedNodes {
    ids: Vec<i64>,
    batch: Vec<i64>,
    per_hop: Vec<usize>,
}

struct PreparedEdges {
    /// All sources, then all destinations, as numbers in the batch.
    ends: Vec<i64>,
    /// The position of each edge in the arrays of the graph.
    positions: Vec<i64>,
    per_hop: Vec<usize>,
}

impl Prepared {
    fn new(sampled: SampledSubgraph, graph: &OpenGraph, num_hops: usize) -> Self {
        let part = graph.node().part();
        let edges = sampled.edges.iter().enumerate().map(|(e, edges)| {
            let of_type = part.edges(EdgeTypeId(e as u16));
            PreparedEdges::new(edges, &sampled.nodes[of_type.dst_type.index()], of_type.csc.indptr(), num_hops)
        });
        let edges = edges.collect();
        let nodes = sampled.nodes.iter().map(|nodes| PreparedNodes {
            ids: wide(&nodes.ids),
            batch: wide(&nodes.batch),
            per_hop: (0..=num_hops).map(|hop| hop_range(&nodes.hop_offsets, hop).len()).collect(),
        });
        Self { nodes: nodes.collect(), edges }
    }

    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let nodes = PyList::empty(py);
        for PreparedNodes { ids, batch, per_hop } in self.nodes {
            nodes.append((ids.into_pyarray(py), batch.into_pyarray(py), per_hop))?;
        }
        let edges = PyList::empty(py);
        for PreparedEdges { ends, positions, per_hop } in self.edges {
            edges.append((ends.into_pyarray(py), positions.into_pyarray(py), per_hop))?;
        }
        let dict = PyDict::new(py);
        dict.set_item("nodes", nodes)?;
        dict.set_item("edges", edges)?;
        Ok(dict)
    }
}

impl PreparedEdges {
    fn new(edges: &SampledEdges, destinations: &SampledNodes, starts: &[u64], num_hops: usize) -> Self {
        let mut positions = Vec::with_capacity(edges.positions.len());
        for (row, of_row) in edges.indptr.windows(2).enumerate() {
            let first = starts[destinations.ids[row] as usize] as i64;
            let of_row = &edges.positions[of_row[0] as usize..of_row[1] as usize];
            positions.extend(of_row.iter().map(|&position| first + i64::from(position)));
        }
        Self {
            ends: ends(&edges.indptr, &edges.indices),
            positions,
            per_hop: edges_per_hop(&edges.indptr, &destinations.hop_offsets, num_hops),
        }
    }
}
