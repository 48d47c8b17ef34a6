//! Turns a mini-batch of plain arrays into what a training step takes.

use crate::models::{ModelInput, ModelKind, NodeModelConfig};
use crate::nn::GcnNorm;
use crate::ops::{BatchGraph, Block};
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use edgecut_dist_loader::{BatchIter, DistNeighborLoader, MiniBatch};
use edgecut_dist_sampler::Wanted;
use rayon::prelude::*;
use std::sync::Arc;

/// What of a batch is made into tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// What [`GcnConv`](crate::nn::GcnConv) needs; the loader has to fetch degrees for it.
    pub gcn_norm: bool,
    /// Whether feature rows are divided by their sums.
    pub normalize_features: bool,
    /// What only a backward pass reads.
    pub for_training: bool,
}

impl BatchOptions {
    /// What the model that `config` describes takes.
    pub fn of_model(config: &NodeModelConfig, for_training: bool) -> Self {
        let gcn_norm = matches!(config.kind, ModelKind::Gcn);
        Self { gcn_norm, normalize_features: config.normalize_features, for_training }
    }

    /// What the loader has to fetch of the nodes.
    pub fn wanted(self) -> Wanted {
        Wanted { labels: true, features: true, degrees: self.gcn_norm, ..Wanted::default() }
    }
}

/// The batches of an epoch, made into tensors on the loader's threads.
pub fn tensor_batches<B: Backend>(
    loader: &DistNeighborLoader,
    epoch: u64,
    options: BatchOptions,
    device: &B::Device,
) -> BatchIter<Result<TensorBatch<B>, TrainError>> {
    let device = device.clone();
    loader.epoch_map(epoch, move |batch| TensorBatch::new(batch, options, &device))
}

/// A batch as a training step takes it: tensors, and the edges as each layer reads them.
#[derive(Debug)]
pub struct TensorBatch<B: Backend> {
    /// What the model reads; nothing for a batch without seeds.
    pub(crate) input: Option<ModelInput<B>>,
    /// The label of each seed.
    pub(crate) labels: Vec<i64>,
}

impl<B: Backend> TensorBatch<B> {
    /// Moves a batch of a homogeneous graph to `device`. Does all that can be done without the model, so that a loader's
    /// threads can do it ahead of the trainer ([`tensor_batches`]).
    ///
    /// # Errors
    /// [`TrainError::Batch`] if the arrays contradict each other.
    pub fn new(batch: MiniBatch, options: BatchOptions, device: &B::Device) -> Result<Self, TrainError> {
        if batch.num_seeds == 0 {
            return Ok(Self { input: None, labels: Vec::new() });
        }
        let wrong = |what: String| TrainError::Batch { what };
        let MiniBatch { mut nodes, mut edges, labels, .. } = batch;
        let (Some(mut nodes), Some(edges)) = (nodes.pop(), edges.pop()) else {
            return Err(wrong("it has no nodes or no edges".into()));
        };
        let rows = nodes.input_nodes.len();
        let graph = BatchGraph::new(edges.indptr, edges.indices, rows).map_err(|e| wrong(e.to_string()))?;
        let graph = Arc::new(graph);
        let within_hop: Vec<usize> = nodes.hop_offsets.iter().map(|&n| n as usize).collect();
        let blocks = Block::layers(&graph, &within_hop).map_err(|e| wrong(e.to_string()))?;
        if options.for_training {
            // The first layer's input are the features, which need no gradient.
            blocks.par_iter().skip(1).for_each(Block::prepare_backward);
        }
        if options.normalize_features {
            normalize_rows(&mut nodes.features, nodes.feature_dim);
        }
        let features = Tensor::from_data(TensorData::new(nodes.features, [rows, nodes.feature_dim]), device);
        let mut input = ModelInput::new(features, blocks).map_err(|e| wrong(e.to_string()))?;
        if options.gcn_norm {
            let norm = GcnNorm::new(&graph, &nodes.degrees).map_err(|e| wrong(e.to_string()))?;
            input = input.with_gcn_norm(norm).map_err(|e| wrong(e.to_string()))?;
        }
        Ok(Self { input: Some(input), labels })
    }
}

fn normalize_rows(features: &mut [f32], dim: usize) {
    features.par_chunks_exact_mut(dim.max(1)).with_min_len(64).for_each(|row| {
        let sum = row.iter().sum::<f32>().max(1.0);
        row.iter_mut().for_each(|value| *value /= sum);
    });
}
