//! Exact inference, layer by layer.
//!
//! Invariant: the rows equal the rows of an evaluation with all neighbors, for every model and layout
//! (`programs/train/tests/predict.rs`). Edge types with a fan-out of 0 in all hops are not read by either.

use crate::batch_input::{BatchOptions, TensorBatch};
use crate::embeddings::Embeddings;
use crate::error::ModelError;
use crate::error::TrainError;
use crate::inference_progress::{InferenceProgress, InferenceStep};
use crate::models::{GraphSchema, LayeredModel, ModelInput, NodeTypeSchema};
use burn::tensor::Tensor;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{BatchIter, DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraph, DistRows, Fanout, NumNeighbors, RowsWriter, SamplerConfig};
use edgecut_gnn::nn::EdgeWeighting;
use edgecut_gnn::ops::{GnnBackend, consumed, host_values};
use edgecut_graph::{Meta, NodeTypeId};
use std::path::PathBuf;
use std::sync::Arc;

/// The number of batches that are made at the same time.
const CONCURRENCY: usize = 2;
/// The number of batches in memory: those in the making, one that waits, and one that the model reads.
const BATCHES_HELD: usize = CONCURRENCY + 2;
/// The memory of a batch over the memory of its arrays: replies of other processes, and memory that the allocator keeps.
const OVERHEAD: f64 = 1.4;
/// The largest number of nodes whose rows are computed at once.
const MAX_BLOCK: usize = 1 << 16;

/// The limits of a layer-wise inference, and the edges that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerWiseConfig {
    /// The memory for batches, in bytes. More memory means larger blocks of nodes, which request fewer rows twice. The
    /// number of nodes of a block is estimated from the mean degree, so hubs may exceed the limit.
    pub memory_bytes: usize,
    /// The folder of the files of layer outputs. Each process writes the rows of its nodes, for two layers at a time.
    pub scratch_dir: PathBuf,
    /// The fan-outs of the model's evaluation. A fan-out of 0 leaves out the edges of a type in the layer of its hop, and all
    /// other fan-outs mean all neighbors. `None` leaves out none.
    pub num_neighbors: Option<NumNeighbors>,
}

impl Default for LayerWiseConfig {
    /// Returns 512 MiB of memory, the system's temporary folder, and all edges.
    fn default() -> Self {
        Self { memory_bytes: 512 << 20, scratch_dir: std::env::temp_dir(), num_neighbors: None }
    }
}

/// The data that the first pass reads.
pub struct LayerWiseInput<'a> {
    /// The graph.
    pub graph: &'a Arc<DistGraph>,
    /// The schema of the model.
    pub schema: &'a GraphSchema,
    /// The form of the batches.
    pub options: BatchOptions,
    /// The embeddings of nodes without features.
    pub embeddings: &'a Embeddings,
    /// The receiver of the progress.
    pub progress: &'a dyn InferenceProgress,
}

/// Computes the rows of all nodes of type `target` after the first `num_passes` passes of a model, with all neighbors.
/// Every rank computes the rows of its own nodes, in blocks, and fetches the rows of other nodes that a block reads.
/// Every rank must call this with the same arguments.
///
/// # Errors
/// [`TrainError::Config`] on a client of servers, an error of the files of rows, a batch that does not match the model,
/// or a failure of the job.
pub fn layer_wise<B: GnnBackend>(
    input: &LayerWiseInput<'_>,
    model: &dyn LayeredModel<B>,
    (target, num_passes): (NodeTypeId, usize),
    config: &LayerWiseConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<DistRows, TrainError> {
    let mut rows = layer_wise_types(input, model, (&[target], num_passes), config, world, device)?;
    rows.pop().ok_or_else(rows_are_missing)
}

/// Computes the rows of all nodes of several types as [`layer_wise`] does, in the order of `targets`, which are
/// distinct. The types share the passes before.
pub(crate) fn layer_wise_types<B: GnnBackend>(
    input: &LayerWiseInput<'_>,
    model: &dyn LayeredModel<B>,
    (targets, num_passes): (&[NodeTypeId], usize),
    config: &LayerWiseConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<Vec<DistRows>, TrainError> {
    let graph = input.graph;
    if graph.is_client() || num_passes == 0 {
        let what = if num_passes == 0 {
            "layers are counted from 1"
        } else {
            "servers compute no layers: give the parts (`dataset_root_dir`)"
        };
        return Err(TrainError::config(what));
    }
    let meta = graph.part().meta();
    let needed = needed_types(meta, targets, num_passes, |pass| model.reads_neighbors(pass));
    let features = Arc::new(GraphSchema::read_by(input.schema, meta)?);
    let mut rows: Vec<Option<Arc<DistRows>>> = Vec::new();
    for (pass, needed) in needed.iter().enumerate() {
        let schema = if pass == 0 { features.clone() } else { Arc::new(schema_of_rows(&features, &rows)) };
        let mut next: Vec<Option<Arc<DistRows>>> = vec![None; meta.node_types.len()];
        for &node_type in needed {
            let of_type = Pass { model, number: pass, num_passes, node_type, schema: &schema, rows: &rows, config };
            next[node_type.index()] = Some(Arc::new(of_type.run(input, world, device)?));
        }
        // All ranks have written their rows. Nobody reads the rows of the pass before any more.
        world.barrier()?;
        rows = next;
    }
    let mut found = |target: &NodeTypeId| rows[target.index()].take().and_then(Arc::into_inner);
    targets.iter().map(|target| found(target).ok_or_else(rows_are_missing)).collect()
}

fn rows_are_missing() -> TrainError {
    TrainError::Config { what: "the rows of the last pass are still read".into() }
}

/// Returns the node types whose rows each pass computes: those that the targets read.
fn needed_types(
    meta: &Meta,
    targets: &[NodeTypeId],
    num_passes: usize,
    reads_neighbors: impl Fn(usize) -> bool,
) -> Vec<Vec<NodeTypeId>> {
    let id = |name: &str| meta.node_types.iter().position(|nodes| nodes.name == name);
    let mut is_needed = vec![false; meta.node_types.len()];
    targets.iter().for_each(|target| is_needed[target.index()] = true);
    let mut passes = Vec::new();
    for pass in (0..num_passes).rev() {
        let types = (0..is_needed.len()).filter(|&t| is_needed[t]).map(|t| NodeTypeId(t as u16));
        passes.push(types.collect());
        if reads_neighbors(pass) {
            let before = is_needed.clone();
            for edges in &meta.edge_types {
                if let (Some(src), Some(dst)) = (id(&edges.src_type), id(&edges.dst_type)) {
                    is_needed[src] |= before[dst];
                }
            }
        }
    }
    passes.reverse();
    passes
}

/// Returns the schema of a graph whose features are rows. Types without rows have no features, and no nodes in batches.
fn schema_of_rows(features: &GraphSchema, rows: &[Option<Arc<DistRows>>]) -> GraphSchema {
    let mut schema = features.clone();
    for (nodes, rows) in schema.node_types.iter_mut().zip(rows) {
        let dim = rows.as_ref().map_or(0, |rows| rows.dim());
        *nodes = NodeTypeSchema::new(std::mem::take(&mut nodes.name), dim);
    }
    schema
}

/// One pass over the nodes of one type.
struct Pass<'a, B: GnnBackend> {
    model: &'a dyn LayeredModel<B>,
    number: usize,
    num_passes: usize,
    node_type: NodeTypeId,
    schema: &'a Arc<GraphSchema>,
    /// The rows of the pass before, by node type. Empty for the first pass, which reads features.
    rows: &'a [Option<Arc<DistRows>>],
    config: &'a LayerWiseConfig,
}

impl<B: GnnBackend> Pass<'_, B> {
    fn run(
        &self,
        input: &LayerWiseInput<'_>,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> Result<DistRows, TrainError> {
        let reads_features = self.number == 0;
        let reads_neighbors = self.model.reads_neighbors(self.number);
        let width = self.model.width(self.number, self.node_type);
        let fanouts = if reads_neighbors { self.fanouts() } else { Vec::new().into() };
        let sampler = self.schema.sampler(input.graph, SamplerConfig::new(fanouts))?;
        let options = BatchOptions {
            labels: false,
            normalize_features: input.options.normalize_features && reads_features,
            gcn_norm: input.options.gcn_norm && reads_neighbors,
            edge_weighting: if reads_neighbors { input.options.edge_weighting } else { EdgeWeighting::None },
            for_training: false,
            ..input.options
        };
        let loader_config = LoaderConfig {
            concurrency: CONCURRENCY,
            prefetch_bytes: self.config.memory_bytes,
            ..LoaderConfig::new(self.block_size(input.graph.part().meta(), width, reads_neighbors), options.wanted())
        };
        let mut loader = DistNeighborLoader::new(sampler, self.node_type, Seeds::Owned, loader_config, world)?;
        if !reads_features {
            loader = loader.with_rows(self.rows.to_vec());
        }
        let writer = RowsWriter::create(input.graph, self.node_type, width, &self.config.scratch_dir)?;
        let schema = self.schema.clone();
        let tensors_on = device.clone();
        let batches = loader.epoch_map(0, move |batch| TensorBatch::<B>::new(batch, &schema, options, &tensors_on));
        let first = InferenceStep {
            pass: self.number + 1,
            num_passes: self.num_passes,
            step: 1,
            num_steps: loader.num_steps(),
        };
        let compute = |tensors| self.model.run_pass(self.number, self.node_type, &tensors);
        write_rows((input.embeddings, device), batches, compute, writer, (input.progress, first), world)
    }

    /// Returns the fan-outs of a pass that reads neighbors. The last of these passes reads the first hop.
    fn fanouts(&self) -> NumNeighbors {
        let after = self.number + 1..self.model.num_passes();
        let hop = after.filter(|&pass| self.model.reads_neighbors(pass)).count();
        match &self.config.num_neighbors {
            Some(fanouts) if hop < fanouts.num_hops() => fanouts.exhaustive().of_hop(hop),
            _ => vec![Fanout::All].into(),
        }
    }

    /// Returns the number of nodes whose rows are computed at once, for blocks within the memory.
    fn block_size(&self, meta: &Meta, width: usize, reads_neighbors: bool) -> usize {
        const F32: f64 = size_of::<f32>() as f64;
        // An edge takes its source, a weight, and its place in the transposed block.
        const EDGE: f64 = 16.0;
        let width_of = |t: usize| self.schema.node_types[t].input_width() as f64;
        let t = self.node_type.index();
        // The output is held as a tensor and as bytes to write.
        let mut bytes = F32 * (width_of(t) + 2.0 * width as f64);
        if reads_neighbors {
            let num_nodes = meta.node_types[t].book.num_nodes().max(1) as f64;
            let entering = self.schema.edge_types.iter().zip(&meta.edge_types);
            for (ends, edges) in entering.filter(|(ends, _)| ends.dst == self.node_type) {
                let degree = edges.num_edges as f64 / num_nodes;
                bytes += degree * (F32 * (width_of(ends.src.index()) + ends.encoded_width() as f64) + EDGE);
            }
        }
        let of_batch = self.config.memory_bytes as f64 / BATCHES_HELD as f64;
        ((of_batch / (bytes * OVERHEAD)) as usize).clamp(1, MAX_BLOCK)
    }
}

/// Computes the rows of batches and writes them in order. All ranks take the same number of steps. `first` is the first
/// of them.
pub(crate) fn write_rows<B: GnnBackend>(
    (embeddings, device): (&Embeddings, &B::Device),
    batches: BatchIter<Result<TensorBatch<B>, TrainError>>,
    compute: impl Fn(ModelInput<B>) -> Result<Tensor<B, 2>, ModelError>,
    mut writer: RowsWriter,
    (progress, first): (&dyn InferenceProgress, InferenceStep),
    world: &mut ProcessGroup,
) -> Result<DistRows, TrainError> {
    for (step, batch) in (1..).zip(batches) {
        // Batches that read rows in place of features have no nodes with embeddings.
        let mut batch = embeddings.fill(batch??, device)?;
        if let Some(input) = batch.take_input() {
            let rows = compute(input).map_err(TrainError::batch)?;
            let rows = host_values(rows);
            consumed();
            writer.push(&rows)?;
        }
        // Meeting at every step bounds the wait for a slow rank to the time of one batch.
        world.barrier()?;
        progress.step(InferenceStep { step, ..first });
    }
    Ok(writer.finish()?)
}
