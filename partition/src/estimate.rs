//! Estimates of memory, from the sizes of a graph.
//!
//! The constants are the sizes of the arrays that the code holds at the same time. `tests/plan.rs` compares the results
//! with the memory of real runs.
//!
//! The limit of memory and `--plan` use the same estimates.

use crate::{Method, PartitionOptions, methods::semi_external};
use edgecut_graph::HotnessRule;
use edgecut_graph::readers::GraphShape;

/// The memory of a process without a graph: code, stacks, and the pieces of files that are written at the same time.
pub(crate) const BASE_BYTES: u64 = 32 << 20;
/// The further memory of each thread.
const THREAD_BYTES: u64 = 4 << 20;
/// The memory of a thread that reads tables: a page of each column of a row group, and the batches that wait.
const TABLE_THREAD_BYTES: u64 = 16 << 20;
/// The most work bytes of a step. More would leave less of the memory to the page cache, without saving time.
const MAX_WORK_BYTES: u64 = 1 << 30;
/// The fewest work bytes of a step.
const MIN_WORK_BYTES: u64 = 2 << 20;
/// The smallest buffer of a range of a scratch file, of which two are used per bucket.
const RANGE_BYTES: u64 = 1 << 12;

/// The bytes that METIS allocates for each neighbor in the symmetric graph, without the graph that it is given.
pub(crate) const METIS_NEIGHBOR_BYTES: u64 = 58;
/// The bytes that METIS allocates for each node.
pub(crate) const METIS_NODE_BYTES: u64 = 110;

/// The bytes of an edge while edges with labels are divided: its position among them.
const POSITION_BYTES: u64 = 8;

/// The most balance constraints: nodes of four types, edges and training nodes.
const MAX_CONSTRAINTS: u64 = 6;

/// The sizes that estimates depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) num_nodes: u64,
    /// The edges as they are read.
    pub(crate) num_read: u64,
    /// The most edges after the addition of reverses.
    pub(crate) num_edges: u64,
    pub(crate) num_in_splits: u64,
    pub(crate) num_held_out: u64,
    /// The edges of types with labels.
    pub(crate) num_labeled: u64,
    pub(crate) num_constraints: u64,
    pub(crate) num_parts: u64,
    pub(crate) num_threads: u64,
    /// True if edges have weights, times or features.
    pub(crate) has_attributes: bool,
    /// The bytes of the labels, targets, times and weights that are read from files.
    pub(crate) value_bytes: u64,
    /// True if reverses of edges are added within edge types.
    pub(crate) is_made_undirected: bool,
    pub(crate) is_ranked: bool,
    pub(crate) is_given: bool,
    pub(crate) is_generated: bool,
    /// The bytes of features, labels, times, weights and ids that are generated.
    pub(crate) generated_bytes: u64,
    /// The sizes of the tables that the graph is read from.
    pub(crate) tables: Option<TableSizes>,
}

/// The sizes of tables in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSizes {
    /// The memory of the ids of nodes.
    pub(crate) ids: u64,
    /// The further memory that reading takes.
    pub(crate) fits: u64,
    /// The bytes of the files.
    pub(crate) input: u64,
    /// The bytes of features, labels, times and weights.
    pub(crate) arrays: u64,
}

/// The estimated memory of each phase in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhaseBytes {
    pub(crate) reading: u64,
    pub(crate) preparing: u64,
    pub(crate) assigning: u64,
    pub(crate) writing: u64,
}

impl PhaseBytes {
    /// Returns the memory of the phase that takes most.
    pub(crate) fn peak(self) -> u64 {
        self.reading.max(self.preparing).max(self.assigning).max(self.writing)
    }

    fn plus(self, bytes: u64) -> Self {
        let Self { reading, preparing, assigning, writing } = self;
        Self {
            reading: reading + bytes,
            preparing: preparing + bytes,
            assigning: assigning + bytes,
            writing: writing + bytes,
        }
    }
}

impl Sizes {
    /// Takes the sizes from those of the dataset in its files.
    pub(crate) fn new(shape: &GraphShape, options: &PartitionOptions, is_given: bool) -> Self {
        let mut stored = shape.clone();
        if options.to_undirected {
            stored = stored.undirected();
        }
        if options.add_reverse_edges {
            stored = stored.with_reverse_types();
        }
        let share = options.hold_out_edges.map_or(0.0, |hold_out| hold_out.valid_fraction + hold_out.test_fraction);
        let held_out = (share * shape.num_edges() as f64) as u64;
        let num_types = shape.node_types.iter().filter(|nodes| nodes.num_nodes > 0).count() as u64;
        let labeled = shape.edge_types.iter().filter(|edges| edges.label_bytes > 0);
        let node_bytes = shape.node_types.iter().map(|nodes| {
            let of_node =
                8 * u64::from(nodes.has_labels) + 8 * u64::from(nodes.has_times) + 4 * nodes.target_dim as u64;
            nodes.num_nodes * of_node
        });
        let edge_bytes = stored.edge_types.iter().map(|edges| {
            let of_edge = 4 * u64::from(edges.has_weights) + 8 * u64::from(edges.has_times);
            let of_edge = of_edge + edges.label_bytes + edges.id_bytes;
            edges.num_edges * of_edge
        });
        Self {
            num_nodes: shape.num_nodes(),
            num_read: shape.num_edges(),
            num_edges: stored.num_edges(),
            num_in_splits: shape.node_types.iter().map(|nodes| nodes.num_in_splits).sum(),
            num_held_out: shape.edge_types.iter().map(|edges| edges.num_held_out).sum::<u64>() + held_out,
            num_labeled: labeled.map(|edges| edges.num_edges).sum(),
            num_constraints: num_types.clamp(1, MAX_CONSTRAINTS - 2) + 2,
            num_parts: u64::from(options.num_parts),
            num_threads: rayon::current_num_threads() as u64,
            has_attributes: shape
                .edge_types
                .iter()
                .any(|e| e.has_weights || e.has_times || e.features.is_some() || e.label_bytes + e.id_bytes > 0),
            value_bytes: node_bytes.sum::<u64>() + edge_bytes.sum::<u64>(),
            is_made_undirected: options.to_undirected,
            is_ranked: options.hotness.is_some(),
            is_given,
            is_generated: false,
            generated_bytes: 0,
            tables: None,
        }
    }

    /// Returns the memory of a run in scratch files besides the work bytes, which every phase but assigning takes.
    fn fixed(&self, method: Method) -> PhaseBytes {
        let n = self.num_nodes;
        // Splits are lists of ids, which are copied once. Held-out edges have two ids, perhaps a time, and entries in an index.
        // A labeled edge has the code of its split.
        let held =
            8 * self.num_in_splits + 48 * self.num_held_out + self.num_labeled + if self.is_given { 4 * n } else { 0 };
        let base = BASE_BYTES + THREAD_BYTES * self.num_threads + self.tables.map_or(0, |tables| tables.ids);
        let c = self.num_constraints;
        let has_graph = !self.is_given && method != Method::Random && self.num_parts > 1;
        // Grouping counts the edges of each node, and balance constraints are made column by column.
        let constraints = if has_graph { (8 + 8 * c) * n } else { 0 };
        // Degrees and marks of halo nodes, of the parts that are measured at the same time.
        let at_once = self.num_threads.min(self.num_parts).max(1);
        let measures = 16 * n / self.num_parts.max(1) * at_once + n / 8 * at_once;
        let ranked = if self.is_ranked { 20 * n * self.num_parts.min(4) } else { 0 };
        PhaseBytes {
            // The generator has classes, weights and tables of nodes to draw from.
            reading: if self.is_generated { 48 * n } else { 8 * n }
                + self.table_bytes()
                + POSITION_BYTES * self.num_labeled,
            preparing: (8 * n).max(constraints),
            assigning: if self.is_given { 4 * n } else { self.method_bytes(method) },
            // The assignment, and both directions of the new numbering.
            writing: 12 * n + 4 * self.num_in_splits + 16 * self.num_held_out + measures + ranked,
        }
        .plus(held + base)
    }

    /// Returns the memory that reading tables takes besides arrays: pieces of files, and fits.
    fn table_bytes(&self) -> u64 {
        self.tables.map_or(0, |tables| tables.fits + TABLE_THREAD_BYTES * self.num_threads)
    }

    /// Returns the memory of the assignment, with its constraints, for a graph in scratch files that has both directions of
    /// every edge.
    fn method_bytes(&self, method: Method) -> u64 {
        let n = self.num_nodes;
        let constraints = 4 * self.num_constraints * n;
        match method {
            Method::Metis { .. } => constraints + metis_bytes(n, self.num_edges) + 4 * n,
            Method::SemiExternal => constraints + self.semi_external_bytes(),
            // The parts and the order; the parts of each type are copied at the end.
            Method::Random => 12 * n,
            Method::Ldg => constraints + 12 * n,
        }
    }

    /// Returns the memory of semi-external partitioning, with its result.
    fn semi_external_bytes(&self) -> u64 {
        let n = self.num_nodes;
        semi_external::memory_bytes(n, self.num_edges, self.num_constraints, self.num_parts) + 8 * n
    }

    /// Returns the bytes of the arrays that are copied from files of arrays, or generated.
    pub(crate) fn copied_bytes(&self) -> u64 {
        if self.is_generated {
            return self.generated_bytes;
        }
        if self.tables.is_some() { 0 } else { self.value_bytes }
    }

    /// Returns the memory of a run whose arrays are in memory.
    pub(crate) fn in_memory(&self, method: Method) -> PhaseBytes {
        let e = self.num_edges;
        let positions = if self.has_attributes { 8 * e } else { 0 };
        let fixed = self.fixed(method);
        let offsets = 8 * self.num_nodes;
        // Both directions of an edge are grouped by source: ids, or ids with positions.
        let undirected = if self.is_made_undirected {
            8 * self.num_read + if self.has_attributes { 28 } else { 12 } * 2 * self.num_read + 3 * offsets
        } else {
            0
        };
        let has_graph = !self.is_given && method != Method::Random && self.num_parts > 1;
        let graph = if has_graph { 4 * e + offsets } else { 0 };
        let arrays = self.tables.map_or(self.copied_bytes(), |tables| tables.arrays);
        // A growing array is copied when it is full.
        let growing = if self.tables.is_some() { arrays.max(8 * e) } else { 0 };
        PhaseBytes {
            reading: fixed.reading + arrays + growing + (8 * e).max(undirected),
            preparing: fixed.preparing
                + arrays
                + (12 * e + positions + offsets).max(4 * e + positions + graph + offsets),
            assigning: fixed.assigning + arrays + 4 * e + positions + graph + offsets,
            writing: fixed.writing + arrays + 8 * e + 2 * positions + 3 * offsets,
        }
    }

    /// Returns the memory of a run in scratch files whose steps take `work_bytes`.
    pub(crate) fn in_scratch(&self, method: Method, work_bytes: u64) -> PhaseBytes {
        let fixed = self.fixed(method);
        PhaseBytes {
            reading: fixed.reading + work_bytes,
            preparing: fixed.preparing + work_bytes,
            assigning: fixed.assigning,
            writing: fixed.writing + work_bytes,
        }
    }

    /// Returns the bytes that a step may take within `limit`, or the smallest possible limit.
    pub(crate) fn work_bytes(&self, method: Method, limit: u64) -> Result<u64, u64> {
        let fixed = self.fixed(method);
        let with_work = fixed.reading.max(fixed.preparing).max(fixed.writing);
        // Every bucket that edges are sorted in has two buffers, which together must not exceed the work bytes.
        let buckets = |work: u64| 16 * self.num_edges * self.num_threads.min(16) / work.max(1);
        let mut least = MIN_WORK_BYTES;
        while buckets(least) * 2 * RANGE_BYTES > least {
            least *= 2;
        }
        let needed = (with_work + least).max(fixed.assigning);
        if needed > limit {
            return Err(needed);
        }
        Ok((limit - with_work).min(limit / 4).clamp(least, MAX_WORK_BYTES.max(least)))
    }
}

/// Returns the bytes that METIS allocates for a symmetric graph, including its copy of the neighbors.
pub(crate) fn metis_bytes(num_nodes: u64, num_neighbors: u64) -> u64 {
    METIS_NEIGHBOR_BYTES * num_neighbors + METIS_NODE_BYTES * num_nodes
}

/// Returns the method that replaces METIS within a limit of memory, for the exact number of neighbors in the symmetric graph.
pub(crate) fn beyond_metis(num_nodes: u64, num_neighbors: u64, num_parts: u32, limit: u64) -> Method {
    let num_threads = rayon::current_num_threads() as u64;
    let num_parts = u64::from(num_parts);
    let num_constraints = MAX_CONSTRAINTS;
    let sizes =
        Sizes { num_nodes, num_edges: num_neighbors, num_parts, num_constraints, num_threads, ..Sizes::default() };
    let [better, smaller] = Method::BEYOND_METIS;
    if sizes.fixed(better).assigning <= limit { better } else { smaller }
}

/// Returns the fan-outs and the batch size of a ranking, or those of the defaults of `train`.
pub(crate) fn batches_of(hotness: Option<&HotnessRule>) -> (Vec<i64>, usize) {
    match hotness {
        Some(HotnessRule::Presample { num_neighbors, batch_size }) => (num_neighbors.clone(), *batch_size),
        _ => (vec![15, 10, 5], 1024),
    }
}
