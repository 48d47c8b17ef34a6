//! Turns a mini-batch of plain arrays into what a model takes.

use crate::models::{ModelInput, ModelKind, NodeModelConfig};
use crate::nn::GcnNorm;
use crate::ops::{BatchGraph, Block};
use crate::train_error::TrainError;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use edgecut_dist_loader::MiniBatch;
use edgecut_dist_sampler::Wanted;
use rayon::prelude::*;
use std::sync::Arc;

/// What a model of `kind` needs of a batch's nodes.
pub fn wanted_by(kind: &ModelKind) -> Wanted {
    let degrees = matches!(kind, ModelKind::Gcn);
    Wanted { labels: true, features: true, degrees, original_ids: false }
}

/// Moves a batch of a homogeneous graph, with at least one seed, to `device`, as the model that `config` describes takes
/// it; gives the labels of the seeds as well.
///
/// # Errors
/// [`TrainError::Batch`] if the arrays contradict each other.
pub fn model_input<B: Backend>(
    batch: MiniBatch,
    config: &NodeModelConfig,
    device: &B::Device,
) -> Result<(ModelInput<B>, Vec<i64>), TrainError> {
    let wrong = |what: String| TrainError::Batch { what };
    let MiniBatch { mut nodes, mut edges, labels, .. } = batch;
    let (Some(mut nodes), Some(edges)) = (nodes.pop(), edges.pop()) else {
        return Err(wrong("it is empty".into()));
    };
    let rows = nodes.input_nodes.len();
    let graph = BatchGraph::new(edges.indptr, edges.indices, rows).map_err(|e| wrong(e.to_string()))?;
    let graph = Arc::new(graph);
    let within_hop: Vec<usize> = nodes.hop_offsets.iter().map(|&n| n as usize).collect();
    let blocks = Block::layers(&graph, &within_hop).map_err(|e| wrong(e.to_string()))?;
    if config.normalize_features {
        normalize_rows(&mut nodes.features, nodes.feature_dim);
    }
    let features = Tensor::<B, 2>::from_data(TensorData::new(nodes.features, [rows, nodes.feature_dim]), device);
    let mut input = ModelInput::new(features, blocks).map_err(|e| wrong(e.to_string()))?;
    if matches!(config.kind, ModelKind::Gcn) {
        let norm = GcnNorm::new(&graph, &nodes.degrees).map_err(|e| wrong(e.to_string()))?;
        input = input.with_gcn_norm(norm).map_err(|e| wrong(e.to_string()))?;
    }
    Ok((input, labels))
}

fn normalize_rows(features: &mut [f32], dim: usize) {
    features.par_chunks_exact_mut(dim.max(1)).with_min_len(64).for_each(|row| {
        let sum = row.iter().sum::<f32>().max(1.0);
        row.iter_mut().for_each(|value| *value /= sum);
    });
}
