//! Turns a mini-batch of plain arrays into what a training step takes.

use crate::feature_cache::FeatureCache;
use crate::models::{GraphSchema, ModelConfig, ModelInput, ModelKind, NodeInput};
use crate::nn::GcnNorm;
use crate::ops::{BatchGraph, Block, GnnBackend, Precision};
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorPrimitive};
use edgecut_dist_loader::{BatchIter, DistNeighborLoader, EdgeBatch, MiniBatch, NodeBatch};
use edgecut_dist_sampler::Wanted;
use edgecut_graph::NodeTypeId;
use rayon::prelude::*;
use std::sync::Arc;

/// Why a GCN takes no neighbors that are drawn by weight.
pub(crate) const WEIGHTED_GCN: &str = "a GCN multiplies messages by the in-degree over the number of drawn neighbors, which is \
    unbiased only for neighbors that are drawn uniformly: leave out the weights (--weighted), or take another model (--model sage, gat or gatv2)";

/// What of a batch is made into tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Whether the seeds' labels are wanted.
    pub labels: bool,
    /// The weights that [`GcnConv`](crate::nn::GcnConv) needs. The loader has to fetch degrees for it, and to draw neighbors uniformly:
    /// neither by weights nor by times.
    pub gcn_norm: bool,
    /// Whether feature rows are divided by their sums.
    pub normalize_features: bool,
    /// What only a backward pass reads.
    pub for_training: bool,
    /// Whether the first convolution reads what the model has made of the features, so that it has a backward pass as well.
    pub maps_features: bool,
    /// In what features get to a device with memory of its own.
    pub precision: Precision,
}

impl Default for BatchOptions {
    /// Features and labels as they are, for evaluation.
    fn default() -> Self {
        let (gcn_norm, normalize_features, for_training, maps_features, precision) = Default::default();
        Self { labels: true, gcn_norm, normalize_features, for_training, maps_features, precision }
    }
}

impl BatchOptions {
    /// What the model that `config` describes takes.
    pub fn of_model(config: &ModelConfig, for_training: bool) -> Self {
        Self {
            labels: true,
            gcn_norm: matches!(config.kind(), ModelKind::Gcn),
            normalize_features: config.normalize_features(),
            for_training,
            maps_features: matches!(config, ModelConfig::Relational(_)),
            precision: Precision::default(),
        }
    }

    /// What the loader has to fetch of the nodes.
    pub fn wanted(self) -> Wanted {
        Wanted { labels: self.labels, features: true, degrees: self.gcn_norm, ..Wanted::default() }
    }
}

/// The batches of an epoch of a graph of these types, made into tensors on the loader's threads.
pub fn tensor_batches<B: GnnBackend>(
    loader: &DistNeighborLoader,
    epoch: u64,
    schema: &Arc<GraphSchema>,
    options: BatchOptions,
    device: &B::Device,
) -> BatchIter<Result<TensorBatch<B>, TrainError>> {
    cached_tensor_batches(loader, epoch, schema, options, None, device)
}

/// As [`tensor_batches`] of a loader that leaves out the features in `cache`.
pub fn cached_tensor_batches<B: GnnBackend>(
    loader: &DistNeighborLoader,
    epoch: u64,
    schema: &Arc<GraphSchema>,
    options: BatchOptions,
    cache: Option<&FeatureCache<B>>,
    device: &B::Device,
) -> BatchIter<Result<TensorBatch<B>, TrainError>> {
    let (device, schema, cache) = (device.clone(), Arc::clone(schema), cache.cloned());
    let biased = options.gcn_norm && loader.sampler().is_weighted();
    loader.epoch_map(epoch, move |batch| {
        if biased {
            return Err(TrainError::Config { what: WEIGHTED_GCN.into() });
        }
        TensorBatch::with_cache(batch, &schema, options, cache.as_ref(), &device)
    })
}

/// A batch as a training step takes it: tensors, and the edges as each layer reads them.
#[derive(Debug)]
pub struct TensorBatch<B: Backend> {
    /// What the model reads; nothing for a batch without seeds.
    pub(crate) input: Option<ModelInput<B>>,
    /// The label of each seed.
    pub(crate) labels: Vec<i64>,
    /// The global ids of the nodes of types without features.
    embedded: Vec<(NodeTypeId, Vec<u32>)>,
}

impl<B: GnnBackend> TensorBatch<B> {
    /// Moves a batch of a graph of these types to `device`. Does all that can be done without the model, so that a loader's
    /// threads can do it ahead of the trainer ([`tensor_batches`]).
    ///
    /// # Errors
    /// [`TrainError::Batch`] if the arrays contradict each other or the types.
    pub fn new(
        batch: MiniBatch,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        Self::with_cache(batch, schema, options, None, device)
    }

    /// As [`TensorBatch::new`] of a batch whose loader has left out the features in `cache`.
    ///
    /// # Errors
    /// As [`TensorBatch::new`].
    pub fn with_cache(
        batch: MiniBatch,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        cache: Option<&FeatureCache<B>>,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        if batch.num_seeds == 0 {
            return Ok(Self { input: None, labels: Vec::new(), embedded: Vec::new() });
        }
        let wrong = |what: String| TrainError::Batch { what };
        let MiniBatch { nodes, edges, labels, .. } = batch;
        let graphs = graphs(schema, &nodes, edges).map_err(wrong)?;
        let within_hop = |nodes: &NodeBatch| nodes.hop_offsets.iter().map(|&n| n as usize).collect::<Vec<_>>();
        let within_hop: Vec<Vec<usize>> = nodes.iter().map(within_hop).collect();
        let layers = |(graph, (src, dst)): (&Arc<BatchGraph>, (usize, usize))| match within_hop[dst].len() {
            // Nothing but the seeds was sampled.
            1 => Ok(Vec::new()),
            _ => Block::layers_between(graph, &within_hop[dst], &within_hop[src]),
        };
        let blocks = graphs.iter().zip(schema.edge_ends()).map(layers).collect::<Result<Vec<_>, _>>();
        let blocks: Vec<Vec<Block>> = blocks.map_err(|e| wrong(e.to_string()))?;
        // Features need no gradient, so neither does a convolution that reads them as they are.
        let trained = if options.for_training { usize::from(!options.maps_features) } else { usize::MAX };
        blocks.par_iter().for_each(|blocks| {
            let prepare = |(layer, block): (usize, &Block)| B::gnn_prepare_block(block, layer >= trained, device);
            blocks.par_iter().enumerate().for_each(prepare);
        });
        let (mut inputs, mut embedded, mut degrees) = (Vec::new(), Vec::new(), Vec::new());
        for ((nodes, within_hop), number) in nodes.into_iter().zip(within_hop).zip(0..) {
            let NodeBatch { input_nodes, degrees: of_type, mut features, feature_dim, cache_slots, .. } = nodes;
            let cached = cache_slots.iter().filter(|&&slot| slot != NodeBatch::NOT_CACHED).count();
            let rows = input_nodes.len() - cached;
            if schema.node_types[usize::from(number)].feature_dim == 0 {
                embedded.push((NodeTypeId(number), input_nodes));
                inputs.push(NodeInput { features: None, within_hop });
            } else {
                if features.len() != rows * feature_dim {
                    let name = &schema.node_types[usize::from(number)].name;
                    return Err(wrong(format!("{} features for {rows} nodes of type {name}", features.len())));
                }
                if options.normalize_features {
                    normalize_rows(&mut features, feature_dim);
                }
                let table = cache.and_then(|cache| cache.table(usize::from(number)));
                let kept = match (table, cached) {
                    (_, 0) => None,
                    (Some(table), _) => Some((table, &cache_slots[..])),
                    (None, _) => return Err(wrong(format!("the features of {cached} nodes were left out"))),
                };
                let features = place::<B>(features, ([rows, feature_dim], options.precision), kept, device);
                inputs.push(NodeInput { features: Some(features), within_hop });
            }
            degrees.push(of_type);
        }
        let mut input = ModelInput::typed(Arc::clone(schema), inputs, blocks).map_err(|e| wrong(e.to_string()))?;
        if options.gcn_norm {
            let norm = GcnNorm::new(&graphs[0], &degrees[0]).map_err(|e| wrong(e.to_string()))?;
            B::gnn_prepare_weights(norm.weights(), device);
            input = input.with_gcn_norm(norm).map_err(|e| wrong(e.to_string()))?;
        }
        Ok(Self { input: Some(input), labels, embedded })
    }
}

impl<B: Backend> TensorBatch<B> {
    /// What the model reads; nothing for a batch without seeds.
    pub fn input(&self) -> Option<&ModelInput<B>> {
        self.input.as_ref()
    }

    /// The label of each seed.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// The global ids of the nodes of each type without features, in the order of the batch: whose embeddings the model reads.
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

    /// Puts the embeddings of a node type in the place of its features, see [`ModelInput::with_embeddings`]. A batch without
    /// seeds has no place for any.
    ///
    /// # Errors
    /// [`TrainError::Batch`] if there is no such type, or not a row for each of its nodes.
    pub fn with_embeddings(mut self, node_type: NodeTypeId, rows: Tensor<B, 2>) -> Result<Self, TrainError> {
        let put = |input: ModelInput<B>| input.with_embeddings(node_type, rows);
        self.input = self.input.map(put).transpose().map_err(|e| TrainError::Batch { what: e.to_string() })?;
        Ok(self)
    }
}

/// A batch's features on `device`: the given rows, which get there in `precision`, and those that are there already.
pub(crate) fn place<B: GnnBackend>(
    values: Vec<f32>,
    (shape, precision): ([usize; 2], Precision),
    kept: Option<(&Tensor<B, 2>, &[u32])>,
    device: &B::Device,
) -> Tensor<B, 2> {
    let rows = B::gnn_place(values, shape, precision, device);
    let kept = kept.map(|(table, slots)| (table.clone().into_primitive().tensor(), slots));
    Tensor::from_primitive(TensorPrimitive::Float(B::gnn_assemble(rows, kept)))
}

/// The edges of each type, if there are as many as nodes and edges of a graph of these types.
fn graphs(schema: &GraphSchema, nodes: &[NodeBatch], edges: Vec<EdgeBatch>) -> Result<Vec<Arc<BatchGraph>>, String> {
    let (given, expected) = ((nodes.len(), edges.len()), (schema.node_types.len(), schema.edge_types.len()));
    if given != expected || schema.validate().is_err() {
        return Err(format!(
            "it has {} node types and {} edge types, the graph {} and {}",
            given.0, given.1, expected.0, expected.1
        ));
    }
    let graph = |(edges, (src, _)): (EdgeBatch, (usize, usize))| {
        let graph = BatchGraph::new(edges.indptr, edges.indices, nodes[src].input_nodes.len());
        graph.map(Arc::new).map_err(|e| e.to_string())
    };
    edges.into_iter().zip(schema.edge_ends()).map(graph).collect()
}

/// Divides each row by its sum.
pub(crate) fn normalize_rows(features: &mut [f32], dim: usize) {
    features.par_chunks_exact_mut(dim.max(1)).with_min_len(64).for_each(|row| {
        let sum = row.iter().sum::<f32>().max(1.0);
        row.iter_mut().for_each(|value| *value /= sum);
    });
}
