//! Conversion of a mini-batch of plain arrays into the input of a training step.

use crate::drop_edges::{DropEdges, keep_rows};
use crate::error::TrainError;
use crate::loss::Target;
use crate::memory::feature_cache::FeatureCache;
use crate::memory::feature_rows::{normalize_rows, place_rows};
use crate::models::{GraphSchema, ModelInput, NetworkConfig, NodeInput};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_dist_loader::{BatchIter, DistNeighborLoader, EdgeBatch, MiniBatch, NodeBatch};
use edgecut_dist_sampler::{NodeFields, SampledEdgeAttributes};
use edgecut_gnn::nn::{EdgeWeighting, GcnNorm};
use edgecut_gnn::ops::{BatchGraph, Block, EdgeBlocks, GnnBackend, GnnKernels, Precision};
use edgecut_graph::NodeTypeId;
use rayon::prelude::*;
use std::sync::Arc;

/// Returns the error of a GCN whose neighbors are not drawn uniformly from all edges, as its normalization assumes.
pub(crate) fn gcn_fault(is_temporal: bool, is_isolated: bool, is_weighted: bool) -> Option<&'static str> {
    if is_temporal {
        Some(
            "a GCN scales messages by in-degrees of the whole graph, which count edges that are later than the seed: leave \
             out the times (`temporal`), or choose another model (`kind` sage, gat or gatv2)",
        )
    } else if is_isolated {
        Some(
            "a GCN scales messages by in-degrees of the whole graph, which count edges between parts: draw from all edges \
             (`isolated`), or choose another model (`kind` sage, gat or gatv2)",
        )
    } else if is_weighted {
        Some(
            "a GCN multiplies messages by the in-degree over the number of sampled neighbors, which is unbiased only if \
             neighbors are sampled uniformly: leave out the weights (`weighted`), or choose another model (`kind` sage, gat \
             or gatv2)",
        )
    } else {
        None
    }
}

/// The parts of a batch to convert into tensors, and their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// True to include the targets of the seeds.
    pub labels: bool,
    /// True to compute the normalization weights of [`GcnConv`](edgecut_gnn::nn::GcnConv). The loader must then fetch
    /// degrees, and sample neighbors uniformly from all edges: neither by weight nor by time nor within parts.
    pub gcn_norm: bool,
    /// The factors of messages to compute from the weights of edges, for the edge types whose weights the schema has.
    pub edge_weighting: EdgeWeighting,
    /// The blocks of edges to prepare for edge types without features.
    pub edge_blocks: EdgeBlocks,
    /// The blocks of edges to prepare for edge types with features.
    pub edge_blocks_with_features: EdgeBlocks,
    /// True to divide feature rows by their sums.
    pub normalize_features: bool,
    /// True to prepare the data that only a backward pass reads.
    pub for_training: bool,
    /// True if the model transforms features before the first convolution, which then has a backward pass as well.
    pub maps_features: bool,
    /// The type in which features are copied to a device with its own memory.
    pub precision: Precision,
    /// The random removal of edges; `None` keeps all edges.
    pub drop_edges: Option<DropEdges>,
}

impl Default for BatchOptions {
    /// Returns options for evaluation: unchanged features, and targets.
    fn default() -> Self {
        Self {
            labels: true,
            gcn_norm: false,
            edge_weighting: EdgeWeighting::None,
            edge_blocks: EdgeBlocks::None,
            edge_blocks_with_features: EdgeBlocks::All,
            normalize_features: false,
            for_training: false,
            maps_features: false,
            precision: Precision::default(),
            drop_edges: None,
        }
    }
}

impl BatchOptions {
    /// Returns the options for a model whose encoder `config` describes, which reads no targets of nodes.
    pub(crate) fn of_encoder(config: &NetworkConfig, for_training: bool) -> Self {
        Self { labels: false, ..Self::of_model(config, for_training) }
    }

    /// Returns the options for the model that `config` describes.
    pub fn of_model(config: &NetworkConfig, for_training: bool) -> Self {
        Self {
            labels: true,
            gcn_norm: config.kind.needs_gcn_norm(),
            edge_weighting: if config.graph.has_edge_weights() {
                config.kind.edge_weighting()
            } else {
                EdgeWeighting::None
            },
            edge_blocks: config.kind.edge_blocks(false),
            edge_blocks_with_features: config.kind.edge_blocks(true),
            normalize_features: config.normalize_features,
            for_training,
            maps_features: config.encoders,
            ..Self::default()
        }
    }

    /// Returns the node data that the loader must fetch.
    pub fn wanted(self) -> NodeFields {
        NodeFields {
            labels: self.labels,
            features: true,
            degrees: self.gcn_norm,
            in_weights: self.edge_weighting == EdgeWeighting::GcnNorm,
            original_ids: self.drop_edges.is_some(),
            ..NodeFields::default()
        }
    }
}

/// Returns the batches of an epoch as tensors. `schema` lists the types of the graph. The conversion runs on the
/// loader's threads.
pub fn tensor_batches<B: GnnBackend>(
    loader: &DistNeighborLoader,
    epoch: u64,
    schema: &Arc<GraphSchema>,
    options: BatchOptions,
    device: &B::Device,
) -> BatchIter<Result<TensorBatch<B>, TrainError>> {
    tensor_batches_from(loader, (epoch, 0), schema, options, None, device)
}

/// Like [`tensor_batches`], from a step of the epoch on, and for a loader that does not fetch the features in `cache`.
pub(crate) fn tensor_batches_from<B: GnnBackend>(
    loader: &DistNeighborLoader,
    (epoch, first_step): (u64, usize),
    schema: &Arc<GraphSchema>,
    options: BatchOptions,
    cache: Option<&FeatureCache<B>>,
    device: &B::Device,
) -> BatchIter<Result<TensorBatch<B>, TrainError>> {
    let device = device.clone();
    let schema = Arc::clone(schema);
    let cache = cache.cloned();
    let sampler = loader.sampler();
    let fault = gcn_fault(sampler.temporal().is_some(), sampler.is_isolated(), sampler.is_weighted());
    let fault = fault.filter(|_| options.gcn_norm);
    loader.epoch_map_from(epoch, first_step, move |batch| {
        if let Some(what) = fault {
            return Err(TrainError::config(what));
        }
        TensorBatch::with_cache(batch, &schema, options, cache.as_ref(), &device)
    })
}

/// The input of a training step: tensors, and the edges that each layer reads.
#[derive(Debug)]
pub struct TensorBatch<B: Backend> {
    /// The model's input; `None` for a batch without seeds.
    pub(crate) input: Option<ModelInput<B>>,
    /// The targets of the seeds.
    pub(crate) target: Target,
    /// The global ids of the nodes of each type with learned embeddings.
    embedded: Vec<(NodeTypeId, Vec<u32>)>,
}

impl<B: GnnBackend> TensorBatch<B> {
    /// Moves a batch to `device`. `schema` lists the types of the graph. Performs all work that does not depend on the
    /// model, so that the loader's threads can run it ahead of the trainer ([`tensor_batches`]).
    ///
    /// # Errors
    /// [`TrainError::Batch`] if the arrays are inconsistent or do not match the types.
    pub fn new(
        batch: MiniBatch,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        Self::with_cache(batch, schema, options, None, device)
    }

    /// Like [`TensorBatch::new`], for a batch whose loader did not fetch the features in `cache`.
    ///
    /// # Errors
    /// The errors of [`TensorBatch::new`].
    pub fn with_cache(
        batch: MiniBatch,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        cache: Option<&FeatureCache<B>>,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        if batch.num_seeds == 0 {
            return Ok(Self { input: None, target: Target::default(), embedded: Vec::new() });
        }
        let MiniBatch { key, nodes, mut edges, labels, targets, target_dim, seed_times, .. } = batch;
        if let Some(drop) = options.drop_edges {
            drop_edges(drop.in_epoch(key.epoch), schema, &nodes, &mut edges)?;
        }
        let EdgesByType { graphs, features: edge_features, ages, mut weights } =
            graphs(schema, &nodes, edges, &seed_times)?;
        let within_hop = |nodes: &NodeBatch| nodes.hop_offsets.iter().map(|&n| n as usize).collect::<Vec<_>>();
        let within_hop: Vec<Vec<usize>> = nodes.iter().map(within_hop).collect();
        let layers = |(graph, (src, dst)): (&Arc<BatchGraph>, (usize, usize))| match within_hop[dst].len() {
            // Zero hops: the batch consists of the seeds alone.
            1 => Ok(Vec::new()),
            _ => Block::layers_between(graph, &within_hop[dst], &within_hop[src]),
        };
        let blocks = graphs.iter().zip(schema.edge_ends()).map(layers).collect::<Result<Vec<_>, _>>();
        let blocks: Vec<Vec<Block>> = blocks.map_err(TrainError::batch)?;
        // Features need no gradient. If the first convolution reads them directly, its block needs no backward
        // structures, so the blocks from layer `trained` on are prepared for a backward pass.
        let trained = if options.for_training { usize::from(!options.maps_features) } else { usize::MAX };
        blocks.par_iter().for_each(|blocks| {
            let prepare = |(layer, block): (usize, &Block)| B::Kernels::prepare_block(block, layer >= trained, device);
            blocks.par_iter().enumerate().for_each(prepare);
        });
        for (edges, blocks) in schema.edge_types.iter().zip(&blocks) {
            let which = if edges.encoded_width() > 0 { options.edge_blocks_with_features } else { options.edge_blocks };
            // Rows that the layer computes depend on its weights, so that all of them have gradients. Given rows have
            // gradients only if they encode times.
            let has_gradients = which.have_gradients() || edges.time_dim > 0;
            let of_edges =
                blocks.par_iter().flat_map_iter(|block| block.blocks_of_edges(which, B::Kernels::FUSES_HEADS));
            of_edges.for_each(|block| B::Kernels::prepare_block(block, options.for_training && has_gradients, device));
        }
        let (mut inputs, mut embedded, mut degrees) = (Vec::new(), Vec::new(), Vec::new());
        let mut in_weights = Vec::new();
        for ((nodes, within_hop), number) in nodes.into_iter().zip(within_hop).zip(0..) {
            let NodeBatch { input_nodes, degrees: of_type, mut features, feature_dim, cache_slots, .. } = nodes;
            in_weights.push(nodes.in_weights);
            let cached = cache_slots.iter().filter(|&&slot| slot != NodeBatch::NOT_CACHED).count();
            let rows = input_nodes.len() - cached;
            let described = &schema.node_types[usize::from(number)];
            if described.embedding_width(1) > 0 {
                embedded.push((NodeTypeId(number), input_nodes));
            }
            if described.feature_dim == 0 {
                inputs.push(NodeInput { features: None, within_hop });
            } else {
                if features.len() != rows * feature_dim {
                    let name = &described.name;
                    return Err(TrainError::batch(format!(
                        "{} features for {rows} nodes of type {name}",
                        features.len()
                    )));
                }
                if options.normalize_features {
                    normalize_rows(&mut features, feature_dim);
                }
                let table = cache.and_then(|cache| cache.table(usize::from(number)));
                let kept = match (table, cached) {
                    (_, 0) => None,
                    (Some(table), _) => Some((table, &cache_slots[..])),
                    (None, _) => {
                        let what =
                            format!("the features of {cached} nodes are missing: the loader took them as cached");
                        return Err(TrainError::batch(what));
                    }
                };
                let features = place_rows::<B>(features, ([rows, feature_dim], options.precision), kept, device);
                inputs.push(NodeInput { features: Some(features), within_hop });
            }
            degrees.push(of_type);
        }
        let mut input = ModelInput::typed(Arc::clone(schema), inputs, blocks).map_err(TrainError::batch)?;
        if schema.has_edge_features() {
            let mut rows = Vec::with_capacity(edge_features.len());
            for (edges, values) in schema.edge_types.iter().zip(edge_features) {
                let dim = edges.edge_dim;
                let num_edges = values.len().checked_div(dim);
                let shape = num_edges.map(|num_edges| [num_edges, dim]);
                rows.push(shape.map(|shape| place_rows::<B>(values, (shape, options.precision), None, device)));
            }
            input = input.with_edge_features(rows).map_err(TrainError::batch)?;
        }
        if schema.time_dim() > 0 {
            let mut placed = Vec::with_capacity(ages.len());
            for of_type in ages {
                // Differences of times exceed the range of 16-bit numbers.
                let rows = of_type.map(|ages| {
                    let shape = [ages.len(), 1];
                    place_rows::<B>(ages, (shape, Precision::F32), None, device)
                });
                placed.push(rows);
            }
            input = input.with_edge_ages(placed).map_err(TrainError::batch)?;
        }
        if !matches!(options.edge_weighting, EdgeWeighting::None | EdgeWeighting::GcnNorm) {
            let mut factors = Vec::with_capacity(graphs.len());
            for (graph, of_type) in graphs.iter().zip(&mut weights) {
                let of_type = of_type.take().map(|weights| options.edge_weighting.factors(graph, weights));
                let of_type = of_type.transpose().map_err(TrainError::batch)?;
                if let Some(factors) = &of_type {
                    B::Kernels::prepare_weights(factors, device);
                }
                factors.push(of_type.map(Arc::new));
            }
            input = input.with_edge_factors(factors).map_err(TrainError::batch)?;
        }
        if options.gcn_norm {
            let norm = match &weights[0] {
                Some(weights) => GcnNorm::weighted(&graphs[0], &degrees[0], &in_weights[0], weights),
                None => GcnNorm::new(&graphs[0], &degrees[0]),
            };
            let norm = norm.map_err(TrainError::batch)?;
            B::Kernels::prepare_weights(norm.weights(), device);
            input = input.with_gcn_norm(norm).map_err(TrainError::batch)?;
        }
        Ok(Self { input: Some(input), target: Target::new(labels, targets, target_dim), embedded })
    }
}

impl<B: Backend> TensorBatch<B> {
    /// Returns the model's input; `None` for a batch without seeds.
    pub fn input(&self) -> Option<&ModelInput<B>> {
        self.input.as_ref()
    }

    /// Returns the targets of the seeds.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the global ids of the nodes of each type with learned embeddings, in the order of the batch.
    pub fn embedded(&self) -> &[(NodeTypeId, Vec<u32>)] {
        &self.embedded
    }

    pub(crate) fn take_input(&mut self) -> Option<ModelInput<B>> {
        self.input.take()
    }

    pub(crate) fn take_embedded(&mut self, node_type: NodeTypeId) -> Vec<u32> {
        let found = self.embedded.iter_mut().find(|(t, _)| *t == node_type);
        found.map(|(_, nodes)| std::mem::take(nodes)).unwrap_or_default()
    }

    /// Adds the embeddings of a node type to its features, see [`ModelInput::with_embeddings`]. Does nothing for a
    /// batch without seeds.
    ///
    /// # Errors
    /// [`TrainError::Batch`] if the type does not exist, or the number of rows differs from the number of its nodes.
    pub fn with_embeddings(mut self, node_type: NodeTypeId, rows: Tensor<B, 2>) -> Result<Self, TrainError> {
        let put = |input: ModelInput<B>| input.with_embeddings(node_type, rows);
        self.input = self.input.map(put).transpose().map_err(TrainError::batch)?;
        Ok(self)
    }
}

/// Returns the first row of each node type's seeds in the output of an encoder, which holds the seeds of one type after the
/// other. The loader numbers the seeds of each type from 0.
pub(crate) fn seed_starts(batch: &MiniBatch) -> Vec<u32> {
    let mut starts = Vec::with_capacity(batch.nodes.len());
    let mut end = 0;
    for nodes in &batch.nodes {
        starts.push(end);
        end += nodes.hop_offsets.first().copied().unwrap_or(0);
    }
    starts
}

/// Removes edges from a batch, whose nodes have original ids.
fn drop_edges(
    drop: DropEdges,
    schema: &GraphSchema,
    nodes: &[NodeBatch],
    edges: &mut [EdgeBatch],
) -> Result<(), TrainError> {
    if let Some(at) = nodes.iter().position(|nodes| nodes.original_ids.len() != nodes.input_nodes.len()) {
        let what = format!("nodes of type {at} have no original ids: fetch the data of `BatchOptions::wanted`");
        return Err(TrainError::batch(what));
    }
    let of_types = edges.iter_mut().zip(schema.edge_ends());
    for (edge_type, (edges, (src, dst))) in of_types.enumerate() {
        let num_edges = edges.indices.len();
        let kept = drop.apply(
            edge_type,
            (&mut edges.indptr, &mut edges.indices),
            |number| u64::from(nodes[src].original_ids[number as usize]),
            |number| u64::from(nodes[dst].original_ids[number as usize]),
        );
        let SampledEdgeAttributes { times, weights, features, labels, targets, .. } = &mut edges.attributes;
        for values in [weights, features, targets] {
            keep_rows(values, &kept, num_edges);
        }
        for values in [times, labels] {
            keep_rows(values, &kept, num_edges);
        }
        keep_rows(&mut edges.positions, &kept, num_edges);
    }
    Ok(())
}

/// The edges of each type, and their values that the model reads, row by row.
struct EdgesByType {
    graphs: Vec<Arc<BatchGraph>>,
    features: Vec<Vec<f32>>,
    /// The times between edges and their seeds.
    ages: Vec<Option<Vec<f32>>>,
    weights: Vec<Option<Vec<f32>>>,
}

/// Builds the graph of each edge type. Fails if the number of node types or edge types differs from the schema's.
fn graphs(
    schema: &GraphSchema,
    nodes: &[NodeBatch],
    edges: Vec<EdgeBatch>,
    seed_times: &[i64],
) -> Result<EdgesByType, TrainError> {
    let (given, expected) = ((nodes.len(), edges.len()), (schema.node_types.len(), schema.edge_types.len()));
    if given != expected || schema.validate().is_err() {
        return Err(TrainError::batch(format!(
            "it has {} node types and {} edge types, but the graph has {} and {}",
            given.0, given.1, expected.0, expected.1
        )));
    }
    let mut graphs = Vec::with_capacity(edges.len());
    let mut features = Vec::with_capacity(edges.len());
    let mut ages = Vec::with_capacity(edges.len());
    let mut weights = Vec::with_capacity(edges.len());
    for ((edges, (src, dst)), of_type) in edges.into_iter().zip(schema.edge_ends()).zip(&schema.edge_types) {
        let graph = BatchGraph::new(edges.indptr, edges.indices, nodes[src].input_nodes.len());
        let graph = graph.map_err(TrainError::batch)?;
        let rows = if of_type.edge_dim > 0 { edges.attributes.features } else { Vec::new() };
        if rows.len() != graph.num_edges() * of_type.edge_dim {
            return Err(TrainError::batch(format!(
                "{} features for {} edges of type {}, of which the model reads {} each: set `edge_attributes` of the sampler",
                rows.len(),
                graph.num_edges(),
                of_type.relation,
                of_type.edge_dim
            )));
        }
        let times = (of_type.time_dim > 0).then_some(&edges.attributes.times);
        ages.push(match times {
            Some(times) => Some(ages_of(&graph, times, &nodes[dst].batch, seed_times, &of_type.relation)?),
            None => None,
        });
        if of_type.weighted && edges.attributes.weights.len() != graph.num_edges() {
            return Err(TrainError::batch(format!(
                "{} weights for {} edges of type {}: set `edge_attributes` of the sampler",
                edges.attributes.weights.len(),
                graph.num_edges(),
                of_type.relation
            )));
        }
        weights.push(of_type.weighted.then_some(edges.attributes.weights));
        graphs.push(Arc::new(graph));
        features.push(rows);
    }
    Ok(EdgesByType { graphs, features, ages, weights })
}

/// Returns the time from each edge to the seed in whose neighborhood it is. `batch` has the seed of each destination.
fn ages_of(
    graph: &BatchGraph,
    times: &[i64],
    batch: &[u32],
    seed_times: &[i64],
    relation: &str,
) -> Result<Vec<f32>, TrainError> {
    if times.len() != graph.num_edges() || batch.len() < graph.num_rows() {
        let what = format!("{} times for {} edges of type {relation}", times.len(), graph.num_edges());
        return Err(TrainError::batch(format!("{what}: sample by time, with times of edges in `edge_attributes`")));
    }
    let mut ages = Vec::with_capacity(times.len());
    for (ends, &seed) in graph.indptr().windows(2).zip(batch) {
        for &time in &times[ends[0] as usize..ends[1] as usize] {
            let Some(age) = seed_times.get(seed as usize).map(|seed_time| seed_time.saturating_sub(time)) else {
                return Err(TrainError::batch(format!("seed {seed} has no time")));
            };
            if age < 0 {
                return Err(TrainError::batch(format!("an edge of type {relation} is later than its seed")));
            }
            ages.push(age as f32);
        }
    }
    Ok(ages)
}
