//! Conversion of a batch of graphs into the input of a training step.

use crate::drop_edges::{DropEdges, keep_rows};
use crate::error::TrainError;
use crate::fit::{Outputs, SeedBatch};
use crate::loss::Target;
use crate::memory::feature_rows::place_rows;
use crate::models::{GraphClassifier, GraphInput, Mode, NetworkConfig};
use burn::tensor::backend::Backend;
use edgecut_dist_loader::{BatchIter, GraphBatch, GraphDataLoader};
use edgecut_gnn::nn::GcnNorm;
use edgecut_gnn::ops::{BatchGraph, Block, EdgeBlocks, GnnBackend, GnnKernels, Precision, Segments};
use std::sync::Arc;

/// The parts of a batch of graphs to convert into tensors, and their form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphBatchOptions {
    /// True to compute the normalization weights of [`GcnConv`](edgecut_gnn::nn::GcnConv).
    pub gcn_norm: bool,
    /// True to include the features of edges.
    pub edge_features: bool,
    /// The blocks of edges to prepare.
    pub edge_blocks: EdgeBlocks,
    /// True to prepare the data that only a backward pass reads.
    pub for_training: bool,
    /// The type in which features are copied to a device with its own memory.
    pub precision: Precision,
    /// The random removal of edges in an epoch; `None` keeps all edges.
    pub drop_edges: Option<DropEdges>,
}

impl GraphBatchOptions {
    /// Returns the options for the model that `config` describes.
    pub fn of_model(config: &NetworkConfig, for_training: bool) -> Self {
        let edge_features = config.graph.has_edge_features();
        Self {
            gcn_norm: config.kind.needs_gcn_norm(),
            edge_features,
            edge_blocks: config.kind.edge_blocks(edge_features),
            for_training,
            ..Self::default()
        }
    }
}

/// Returns the batches of an epoch as tensors. The conversion runs on the loader's thread.
pub fn graph_batches<B: GnnBackend>(
    loader: &GraphDataLoader,
    epoch: u64,
    options: GraphBatchOptions,
    device: &B::Device,
) -> BatchIter<Result<GraphTensorBatch<B>, TrainError>> {
    graph_batches_from(loader, (epoch, 0), options, device)
}

/// Like [`graph_batches`], from a step of the epoch on.
pub(crate) fn graph_batches_from<B: GnnBackend>(
    loader: &GraphDataLoader,
    (epoch, first_step): (u64, usize),
    options: GraphBatchOptions,
    device: &B::Device,
) -> BatchIter<Result<GraphTensorBatch<B>, TrainError>> {
    let device = device.clone();
    let drop_edges = options.drop_edges.map(|drop| drop.in_epoch(epoch));
    let options = GraphBatchOptions { drop_edges, ..options };
    loader.epoch_map_from(epoch, first_step, move |batch| GraphTensorBatch::new(batch, options, &device))
}

/// The input of a training step: a batch of graphs as tensors.
#[derive(Debug)]
pub struct GraphTensorBatch<B: Backend> {
    /// The model's input; `None` for a batch without graphs.
    input: Option<GraphInput<B>>,
    /// The targets of the graphs.
    target: Target,
}

impl<B: GnnBackend> GraphTensorBatch<B> {
    /// Moves a batch to `device`. Performs all work that does not depend on the model, so that the loader's thread can
    /// run it ahead of the trainer ([`graph_batches`]).
    ///
    /// # Errors
    /// [`TrainError::Batch`] if the arrays are inconsistent.
    pub fn new(batch: GraphBatch, options: GraphBatchOptions, device: &B::Device) -> Result<Self, TrainError> {
        if batch.graphs.is_empty() {
            return Ok(Self { input: None, target: Target::default() });
        }
        let num_nodes = batch.num_nodes();
        let GraphBatch { graphs, node_offsets, mut indptr, mut indices, features, feature_dim, .. } = batch;
        let GraphBatch { mut edge_features, edge_dim, .. } = batch;
        if let Some(drop) = options.drop_edges {
            let num_edges = indices.len();
            let id = |node| id_in_set(&graphs, &node_offsets, node);
            let kept = drop.apply(0, (&mut indptr, &mut indices), id, id);
            keep_rows(&mut edge_features, &kept, num_edges);
        }
        let target = Target::new(batch.labels, batch.targets, batch.target_dim);
        let degrees: Vec<u32> =
            if options.gcn_norm { indptr.windows(2).map(|ends| ends[1] - ends[0]).collect() } else { Vec::new() };
        let graph = Arc::new(BatchGraph::new(indptr, indices, num_nodes).map_err(TrainError::batch)?);
        let block = Block::new(graph, num_nodes, num_nodes).map_err(TrainError::batch)?;
        let segments = Segments::new(node_offsets).map_err(TrainError::batch)?;
        rayon::join(
            || B::Kernels::prepare_block(&block, options.for_training, device),
            || B::Kernels::prepare_block(segments.block(), options.for_training, device),
        );
        for of_edges in block.blocks_of_edges(options.edge_blocks, B::Kernels::FUSES_HEADS) {
            // Given rows of edges have no gradients.
            let has_gradients = options.edge_blocks.have_gradients();
            B::Kernels::prepare_block(of_edges, options.for_training && has_gradients, device);
        }
        if features.len() != num_nodes * feature_dim {
            let given = features.len();
            return Err(TrainError::batch(format!(
                "{given} feature values for {num_nodes} nodes with {feature_dim} features each"
            )));
        }
        let features = place_rows::<B>(features, ([num_nodes, feature_dim], options.precision), None, device);
        let norm = options.gcn_norm.then(|| GcnNorm::new(block.graph(), &degrees)).transpose();
        if let Ok(Some(norm)) = &norm {
            B::Kernels::prepare_weights(norm.weights(), device);
        }
        let mut input = GraphInput::new(features, block, segments).map_err(TrainError::batch)?;
        if let Some(norm) = norm.map_err(TrainError::batch)? {
            input = input.with_gcn_norm(norm).map_err(TrainError::batch)?;
        }
        if options.edge_features && edge_dim > 0 {
            let shape = [edge_features.len() / edge_dim, edge_dim];
            let rows = place_rows::<B>(edge_features, (shape, options.precision), None, device);
            input = input.with_edge_features(rows).map_err(TrainError::batch)?;
        }
        Ok(Self { input: Some(input), target })
    }

    /// Returns the model's input; `None` for a batch without graphs.
    pub fn input(&self) -> Option<&GraphInput<B>> {
        self.input.as_ref()
    }

    /// Returns the targets of the graphs.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

/// Returns the id of a node of a batch in the whole set: the number of its graph, and its number in the graph.
fn id_in_set(graphs: &[u32], node_offsets: &[u32], node: u32) -> u64 {
    let graph = node_offsets.partition_point(|&start| start <= node) - 1;
    u64::from(graphs[graph]) << 32 | u64::from(node - node_offsets[graph])
}

impl<B: GnnBackend, M: GraphClassifier<B>> SeedBatch<B, M> for GraphTensorBatch<B> {
    fn compute(self, model: &M, mode: Mode) -> Result<Option<Outputs<B>>, TrainError> {
        let Some(input) = self.input else {
            model.forward_without_seeds(mode);
            return Ok(None);
        };
        let values = model.forward(&input, mode).map_err(TrainError::batch)?;
        Ok(Some(Outputs { values, target: self.target }))
    }
}
