//! The memory, disk space and time that a job takes, before it runs.

use crate::estimate::{Sizes, TableSizes, batches_of};
use crate::{Method, PartitionError, PartitionOptions};
use edgecut_graph::readers::{EdgeShape, GraphShape, NodeShape};
use edgecut_graph::{FeatureDtype, FeatureDtypes};
use serde::Serialize;

/// The time constants, in nanoseconds per edge or node, of two cores at 2.5 GHz with the files in the page cache.
mod nanoseconds {
    pub(super) const READ_EDGE: f64 = 6.0;
    /// For all passes over a table.
    pub(super) const TABLE_BYTE: f64 = 20.0;
    pub(super) const UNDIRECTED_EDGE: f64 = 60.0;
    pub(super) const GROUP_EDGE: f64 = 25.0;
    pub(super) const SYMMETRIC_EDGE: f64 = 15.0;
    pub(super) const METIS_EDGE: f64 = 250.0;
    /// For each of the five passes.
    pub(super) const LDG_EDGE: f64 = 30.0;
    pub(super) const LDG_NODE: f64 = 200.0;
    pub(super) const SEMI_EXTERNAL_EDGE: f64 = 170.0;
    pub(super) const SEMI_EXTERNAL_NODE: f64 = 1500.0;
    pub(super) const RANDOM_NODE: f64 = 20.0;
    pub(super) const WRITE_EDGE: f64 = 12.0;
    pub(super) const BYTE: f64 = 2.0;
}

/// The default of `train --prefetch-bytes`.
const PREFETCH_BYTES: u64 = 1 << 30;

/// The inputs of a plan.
#[derive(Clone, Debug)]
pub struct PlanInput<'a> {
    /// The sizes of the dataset in its files.
    pub shape: &'a GraphShape,
    /// The options of the job.
    pub options: &'a PartitionOptions,
    /// True if the assignment of nodes to parts is given.
    pub is_given: bool,
    /// True if the graph is generated, which takes memory for each node.
    pub is_generated: bool,
    /// The stored types of node features, if not those of the dataset.
    pub feature_dtypes: &'a FeatureDtypes,
    /// The sizes of the tables that the graph is read from, if it is not read from arrays.
    pub tables: Option<TableBytes>,
}

/// The sizes of the tables that a graph is read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableBytes {
    /// The memory of the ids of nodes, which are kept until the parts are written.
    pub ids: u64,
    /// The further memory that reading takes, for fits of transforms.
    pub fits: u64,
    /// The bytes of the files.
    pub input: u64,
}

/// The memory, disk space and time that a job takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The number of nodes of all types.
    pub num_nodes: u64,
    /// The most edges of all types, after reverses were added.
    pub num_edges: u64,
    /// The number of parts.
    pub num_parts: u32,
    /// The method that will assign nodes to parts, `given` for an assignment that is given.
    pub method: String,
    /// The limit of memory in bytes, if there is one.
    pub memory_limit: Option<u64>,
    /// The bytes that a step takes besides arrays with an entry per node, with a limit of memory.
    pub work_bytes: Option<u64>,
    /// The phases in their order.
    pub phases: Vec<PhasePlan>,
    /// The memory of the phase that takes most, in bytes.
    pub peak_memory_bytes: u64,
    /// The most bytes of scratch files at the same time.
    pub scratch_bytes: u64,
    /// The bytes of the parts.
    pub output_bytes: u64,
    /// The memory of a process that trains on one part.
    pub rank: RankPlan,
    /// The method that replaces METIS, if METIS does not fit into the limit.
    #[serde(skip)]
    pub instead: Option<Method>,
}

/// The memory and the time of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhasePlan {
    /// The name of the phase.
    pub phase: &'static str,
    /// The anonymous memory in bytes.
    pub memory_bytes: u64,
    /// The time in seconds.
    pub seconds: f64,
}

/// The memory of a process that trains on one part, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankPlan {
    /// The edges, which are copied into memory, and the arrays of nodes except for features.
    pub part_bytes: u64,
    /// The features, which stay in a mapped file.
    pub mapped_feature_bytes: u64,
    /// A cache of a tenth of the features of other parts, `--cache-ratio 0.1`.
    pub cache_bytes: u64,
    /// A batch, at most: distinct nodes with features, and edges.
    pub batch_bytes: u64,
    /// The bound of batches that are sampled ahead.
    pub prefetch_bytes: u64,
}

impl Plan {
    /// Plans a job.
    ///
    /// # Errors
    /// [`PartitionError::MemoryLimit`] if the limit is too small, also for the method that was chosen by the user.
    pub fn new(input: &PlanInput) -> Result<Self, PartitionError> {
        let PlanInput { shape, options, is_given, is_generated, .. } = *input;
        let generated_bytes = if is_generated { array_bytes(&stored_shape(input)) } else { 0 };
        let sizes =
            Sizes { is_generated, generated_bytes, tables: tables_of(input), ..Sizes::new(shape, options, is_given) };
        let mut method = options.method;
        let mut instead = None;
        let mut work_bytes = None;
        if let Some(limit) = options.memory_limit {
            let too_small = |needed: u64| PartitionError::MemoryLimit { needed, limit: limit.bytes };
            let is_metis = matches!(method, Method::Metis { .. }) && !is_given && options.num_parts > 1;
            let [better, smaller] = Method::BEYOND_METIS;
            let fits = |method| sizes.work_bytes(method, limit.bytes).is_ok();
            match sizes.work_bytes(method, limit.bytes) {
                Err(_) if is_metis && limit.replaces_metis => {
                    method = if fits(better) { better } else { smaller };
                    instead = Some(method);
                }
                Err(needed) if is_metis && (fits(better) || fits(smaller)) => {
                    return Err(PartitionError::MetisMemory { needed, limit: limit.bytes });
                }
                _ => {}
            }
            work_bytes = Some(sizes.work_bytes(method, limit.bytes).map_err(too_small)?);
        }
        let memory = work_bytes.map_or_else(|| sizes.in_memory(method), |work| sizes.in_scratch(method, work));
        let output_bytes = output_bytes(input);
        let seconds = seconds(&sizes, method, is_given, output_bytes);
        let phase = |phase, memory_bytes, seconds| PhasePlan { phase, memory_bytes, seconds };
        Ok(Self {
            num_nodes: sizes.num_nodes,
            num_edges: sizes.num_edges,
            num_parts: options.num_parts,
            method: if is_given { "given".into() } else { method.to_string() },
            memory_limit: options.memory_limit.map(|limit| limit.bytes),
            work_bytes,
            phases: vec![
                phase("reading", memory.reading, seconds[0]),
                phase("preparing", memory.preparing, seconds[1]),
                phase("assigning", memory.assigning, seconds[2]),
                phase("writing", memory.writing, seconds[3]),
            ],
            peak_memory_bytes: memory.peak(),
            scratch_bytes: if work_bytes.is_some() { scratch_bytes(&sizes, input) } else { 0 },
            output_bytes,
            rank: rank(input),
            instead,
        })
    }
}

/// Returns the sizes of tables, with the memory of the arrays that are in mapped files in other layouts.
fn tables_of(input: &PlanInput) -> Option<TableSizes> {
    let TableBytes { ids, fits, input: files } = input.tables?;
    Some(TableSizes { ids, fits, input: files, arrays: array_bytes(input.shape) })
}

/// Returns the bytes of the arrays of nodes and of the attributes of edges.
fn array_bytes(shape: &GraphShape) -> u64 {
    let mut bytes = 0;
    for nodes in &shape.node_types {
        let features = nodes.features.map_or(0, |(dim, dtype)| dtype.row_bytes(dim) as u64);
        bytes += nodes.num_nodes * (features + node_bytes(nodes));
    }
    for edges in &shape.edge_types {
        bytes += edges.num_edges * attribute_bytes(edges);
    }
    bytes
}

/// Returns the seconds of each phase.
fn seconds(sizes: &Sizes, method: Method, is_given: bool, output_bytes: u64) -> [f64; 4] {
    use nanoseconds::*;
    let e = sizes.num_edges as f64;
    let n = sizes.num_nodes as f64;
    let read = sizes.num_read as f64;
    let tables = TABLE_BYTE * sizes.tables.map_or(0, |tables| tables.input) as f64;
    let reading = tables + READ_EDGE * read + if sizes.is_made_undirected { UNDIRECTED_EDGE * read } else { 0.0 };
    let has_graph = !is_given && method != Method::Random && sizes.num_parts > 1;
    let grouped = if sizes.has_attributes { 2.0 } else { 1.0 };
    let preparing = GROUP_EDGE * e * grouped + if has_graph { SYMMETRIC_EDGE * e } else { 0.0 };
    let assigning = match method {
        _ if is_given || sizes.num_parts == 1 => 0.0,
        Method::Metis { .. } => METIS_EDGE * e,
        Method::Random => RANDOM_NODE * n,
        Method::SemiExternal => SEMI_EXTERNAL_EDGE * e + SEMI_EXTERNAL_NODE * n,
        Method::Ldg => 5.0 * (LDG_EDGE * e + LDG_NODE * n),
    };
    let writing = WRITE_EDGE * e + BYTE * output_bytes as f64;
    [reading, preparing, assigning, writing].map(|nanoseconds| nanoseconds / 1e9)
}

/// Returns the most bytes of scratch files that exist at the same time.
fn scratch_bytes(sizes: &Sizes, input: &PlanInput) -> u64 {
    let e = sizes.num_edges;
    let read = sizes.num_read;
    let offsets = 8 * sizes.num_nodes;
    let attributed = |bytes: u64| if sizes.has_attributes { bytes } else { 0 };
    // The arrays of tables may be joined or converted once.
    let of_tables = sizes.tables.map_or(0, |tables| 2 * tables.arrays + 8 * read);
    // The lists of edges, their splits, and the positions and attributes of those that stay.
    let held_out = if input.options.hold_out_edges.is_some() { 9 * read + attributed(20 * read) } else { 0 };
    let mut kept = input.shape.unpacked_bytes + sizes.copied_bytes() + of_tables;
    // Node features of another stored type, and edge features in another order, are in scratch files from reading on.
    for nodes in &input.shape.node_types {
        if let (Some((dim, from)), Some(to)) = (nodes.features, input.feature_dtypes.of(&nodes.name))
            && from != to
        {
            kept += nodes.num_nodes * to.row_bytes(dim) as u64;
        }
    }
    if sizes.is_made_undirected {
        kept += input.shape.edge_types.iter().map(|edges| 2 * edges.num_edges * attribute_bytes(edges)).sum::<u64>();
    }
    // The edges, the buckets of both directions, and the sorted rows.
    let value = if sizes.has_attributes { 12 } else { 4 };
    let undirected = if sizes.is_made_undirected { 8 * read + 2 * read * (4 + 2 * value) + offsets } else { 0 };
    let grouping = 8 * e + 4 * e + 8 * e + attributed(8 * e + 12 * e) + 2 * offsets;
    // The grouped edges, the neighbors, their reverses in buckets and sorted, and both directions.
    let symmetric = 4 * e + attributed(8 * e) + 4 * e + 12 * e + 8 * e + 4 * offsets;
    let writing = 8 * e + attributed(16 * e) + 2 * offsets;
    let has_graph = !input.is_given && input.options.method != Method::Random && sizes.num_parts > 1;
    kept + undirected.max(held_out).max(grouping).max(if has_graph { symmetric } else { 0 }).max(writing)
}

/// Returns the bytes of an edge's features, weight, time, label and id.
fn attribute_bytes(edges: &EdgeShape) -> u64 {
    let features = edges.features.map_or(0, |(dim, dtype)| dtype.row_bytes(dim) as u64);
    features
        + edges.label_bytes
        + edges.id_bytes
        + if edges.has_weights { 4 } else { 0 }
        + if edges.has_times { 8 } else { 0 }
}

/// Returns the shape after reverses were added.
fn stored_shape(input: &PlanInput) -> GraphShape {
    let mut stored = input.shape.clone();
    if input.options.to_undirected {
        stored = stored.undirected();
    }
    if input.options.add_reverse_edges {
        stored = stored.with_reverse_types();
    }
    stored
}

/// Returns the bytes of a node's features in the parts.
fn feature_bytes(nodes: &NodeShape, dtypes: &FeatureDtypes) -> u64 {
    nodes.features.map_or(0, |(dim, dtype)| dtypes.of(&nodes.name).unwrap_or(dtype).row_bytes(dim) as u64)
}

/// Returns the bytes of a node's other arrays.
fn node_bytes(nodes: &NodeShape) -> u64 {
    4 + 4 * nodes.target_dim as u64 + if nodes.has_labels { 8 } else { 0 } + if nodes.has_times { 8 } else { 0 }
}

/// Returns the bytes of all edges with their offsets.
fn edge_bytes(shape: &GraphShape, num_parts: u64) -> u64 {
    let mut bytes = 0;
    for edges in &shape.edge_types {
        let src_times = if shape.node_types[edges.src_type].has_times { 8 } else { 0 };
        let rows = shape.node_types[edges.dst_type].num_nodes + num_parts;
        bytes += edges.num_edges * (4 + src_times + attribute_bytes(edges)) + 8 * rows + 16 * edges.num_held_out;
    }
    bytes
}

/// Returns the bytes of the parts.
fn output_bytes(input: &PlanInput) -> u64 {
    let stored = stored_shape(input);
    let mut bytes = edge_bytes(&stored, u64::from(input.options.num_parts));
    for nodes in &stored.node_types {
        let row_bytes = node_bytes(nodes) + feature_bytes(nodes, input.feature_dtypes);
        bytes += nodes.num_nodes * row_bytes + 4 * nodes.num_in_splits;
    }
    bytes
}

/// Returns the memory of a process that trains on a part of the mean size.
fn rank(input: &PlanInput) -> RankPlan {
    let stored = stored_shape(input);
    let num_parts = u64::from(input.options.num_parts.max(1));
    let mut nodes = 0;
    let mut features = 0;
    // Features of a batch are f32.
    let mut widest = 0;
    for of_type in &stored.node_types {
        nodes += of_type.num_nodes * node_bytes(of_type) + 4 * of_type.num_in_splits;
        features += of_type.num_nodes * feature_bytes(of_type, input.feature_dtypes);
        if let Some((dim, _)) = of_type.features {
            widest = widest.max(FeatureDtype::F32.row_bytes(dim) as u64);
        }
    }
    let (fan_outs, batch_size) = batches_of(input.options.hotness.as_ref());
    let num_nodes = stored.num_nodes().max(1);
    let degree = (stored.num_edges() / num_nodes).max(1);
    let mut frontier = batch_size as u64;
    let mut batch_nodes = frontier;
    let mut batch_edges = 0;
    for fan_out in fan_outs {
        let drawn = if fan_out < 0 { degree } else { (fan_out as u64).min(degree) };
        let edges = frontier.saturating_mul(drawn);
        batch_edges += edges.min(stored.num_edges());
        frontier = edges.min(num_nodes.saturating_sub(batch_nodes));
        batch_nodes = (batch_nodes + frontier).min(num_nodes);
    }
    RankPlan {
        part_bytes: (nodes + edge_bytes(&stored, num_parts)) / num_parts,
        mapped_feature_bytes: features / num_parts,
        cache_bytes: (features - features / num_parts) / 10,
        batch_bytes: batch_nodes * (widest + 16) + batch_edges * 4,
        prefetch_bytes: PREFETCH_BYTES,
    }
}
