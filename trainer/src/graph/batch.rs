//! Turns graphs side by side into what a training step takes.

use crate::batch_input::place;
use crate::data_parallel::{ClassifiedBatch, Logits};
use crate::models::{GraphClassifier, GraphInput, Mode};
use crate::nn::GcnNorm;
use crate::ops::{BatchGraph, Block, GnnBackend, Precision, Segments};
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use edgecut_dist_loader::{GraphBatch, GraphBatchIter, GraphDataLoader};
use std::sync::Arc;

/// What of a batch of graphs is made into tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphBatchOptions {
    /// What [`GcnConv`](crate::nn::GcnConv) needs.
    pub gcn_norm: bool,
    /// What only a backward pass reads.
    pub for_training: bool,
    /// In what features get to a device with memory of its own.
    pub precision: Precision,
}

/// The batches of an epoch made into tensors, on the loader's thread.
pub fn graph_batches<B: GnnBackend>(
    loader: &GraphDataLoader,
    epoch: u64,
    options: GraphBatchOptions,
    device: &B::Device,
) -> GraphBatchIter<Result<GraphTensorBatch<B>, TrainError>> {
    let device = device.clone();
    loader.epoch_map(epoch, move |batch| GraphTensorBatch::new(batch, options, &device))
}

/// Graphs as a training step takes them.
#[derive(Debug)]
pub struct GraphTensorBatch<B: Backend> {
    /// What the model reads; nothing for a batch without graphs.
    input: Option<GraphInput<B>>,
    /// The class of each graph.
    labels: Vec<i64>,
}

impl<B: GnnBackend> GraphTensorBatch<B> {
    /// Moves a batch to `device`. Does all that can be done without the model, so that a loader's thread can do it ahead of the
    /// trainer ([`graph_batches`]).
    ///
    /// # Errors
    /// [`TrainError::Batch`] if the arrays contradict each other.
    pub fn new(batch: GraphBatch, options: GraphBatchOptions, device: &B::Device) -> Result<Self, TrainError> {
        if batch.graphs.is_empty() {
            return Ok(Self { input: None, labels: Vec::new() });
        }
        let wrong = |what: String| TrainError::Batch { what };
        let num_nodes = batch.num_nodes();
        let GraphBatch { node_offsets, indptr, indices, features, feature_dim, labels, .. } = batch;
        let degrees: Vec<u32> = match options.gcn_norm {
            true => indptr.windows(2).map(|ends| ends[1] - ends[0]).collect(),
            false => Vec::new(),
        };
        let graph = Arc::new(BatchGraph::new(indptr, indices, num_nodes).map_err(|e| wrong(e.to_string()))?);
        let block = Block::new(graph, num_nodes, num_nodes).map_err(|e| wrong(e.to_string()))?;
        let segments = Segments::new(node_offsets).map_err(|e| wrong(e.to_string()))?;
        rayon::join(
            || B::gnn_prepare_block(&block, options.for_training, device),
            || B::gnn_prepare_block(segments.block(), options.for_training, device),
        );
        if features.len() != num_nodes * feature_dim {
            return Err(wrong(format!("{} features of {num_nodes} nodes", features.len())));
        }
        let features = place::<B>(features, ([num_nodes, feature_dim], options.precision), None, device);
        let norm = options.gcn_norm.then(|| GcnNorm::new(block.graph(), &degrees)).transpose();
        if let Ok(Some(norm)) = &norm {
            B::gnn_prepare_weights(norm.weights(), device);
        }
        let mut input = GraphInput::new(features, block, segments).map_err(|e| wrong(e.to_string()))?;
        if let Some(norm) = norm.map_err(|e| wrong(e.to_string()))? {
            input = input.with_gcn_norm(norm).map_err(|e| wrong(e.to_string()))?;
        }
        Ok(Self { input: Some(input), labels })
    }

    /// What the model reads; nothing for a batch without graphs.
    pub fn input(&self) -> Option<&GraphInput<B>> {
        self.input.as_ref()
    }

    /// The class of each graph.
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }
}

impl<B: GnnBackend, M: GraphClassifier<B>> ClassifiedBatch<B, M> for GraphTensorBatch<B> {
    fn classify(self, model: &M, mode: Mode) -> Result<Option<Logits<B>>, TrainError> {
        let Some(input) = self.input else { return Ok(None) };
        let logits = model.forward(&input, mode).map_err(|e| TrainError::Batch { what: e.to_string() })?;
        Ok(Some((logits, self.labels)))
    }
}
