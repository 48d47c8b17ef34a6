//! Rows of whole graphs, computed by a trained model.

use crate::error::TrainError;
use crate::graph::{GraphBatchOptions, graph_batches};
use crate::models::{GraphClassifier, Mode, Network, NetworkConfig};
use edgecut_dist_loader::{GraphDataLoader, GraphLoaderConfig, Packing};
use edgecut_gnn::ops::{GnnBackend, consumed, host_values};
use edgecut_graph::GraphDataset;
use std::sync::Arc;

/// The number of batches that are made ahead.
const CONCURRENCY: usize = 2;
/// The largest number of nodes of a batch of several graphs.
const MAX_NODES: usize = 1 << 24;

/// The rows of graphs to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedGraphRows {
    /// The output: a row of logits.
    Logits,
    /// The pooled row, which the output layer reads.
    Pooled,
}

/// A request for rows of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphPredictionConfig {
    /// The rows to compute.
    pub wanted: WantedGraphRows,
    /// The memory for batches, in bytes. A graph that is larger is computed alone.
    pub memory_bytes: usize,
}

/// Computes rows of graphs of a set on this rank, in the order of `graphs`. No other rank takes part.
///
/// # Shapes
/// - output: `[graphs.len(), num_classes]`, or the columns of the pooled row
///
/// # Errors
/// A model that does not match the graphs, or a graph that does not exist.
pub fn predict_graphs<B: GnnBackend>(
    dataset: &Arc<GraphDataset>,
    graphs: &[u32],
    config: GraphPredictionConfig,
    (model, model_config): (&Network<B>, &NetworkConfig),
    device: &B::Device,
) -> Result<Vec<f32>, TrainError> {
    check_node_features(dataset, model_config)?;
    let loader_config = GraphLoaderConfig {
        packing: Packing::Nodes(nodes_per_batch(dataset, graphs, config.memory_bytes, model_config)),
        shuffle: false,
        concurrency: CONCURRENCY,
        prefetch_bytes: config.memory_bytes,
        ..GraphLoaderConfig::new(1)
    };
    let loader = GraphDataLoader::new(dataset.clone(), graphs.to_vec(), loader_config, 0, 1)?;
    let options = GraphBatchOptions::of_model(model_config, false);
    let mut values = Vec::new();
    for batch in graph_batches::<B>(&loader, 0, options, device) {
        let batch = batch??;
        let Some(input) = batch.input() else { continue };
        let rows = match config.wanted {
            WantedGraphRows::Logits => GraphClassifier::forward(model, input, Mode::Eval),
            WantedGraphRows::Pooled => model.pooled(input, Mode::Eval),
        };
        values.extend(host_values(rows.map_err(TrainError::batch)?));
        consumed();
    }
    Ok(values)
}

/// Checks that the nodes of graphs have as many features as a model reads.
///
/// # Errors
/// [`TrainError::Config`] if not.
pub(super) fn check_node_features(dataset: &GraphDataset, model: &NetworkConfig) -> Result<(), TrainError> {
    let in_channels = model.graph.node_types[0].feature_dim;
    if in_channels == dataset.feature_dim() {
        return Ok(());
    }
    let what = format!(
        "the model was trained for other graphs: it reads {in_channels} features per node, but the graphs of {} have {}",
        dataset.name(),
        dataset.feature_dim()
    );
    Err(TrainError::Config { what })
}

/// Returns the number of nodes of a batch, for batches within the memory. The largest graph always fits.
fn nodes_per_batch(dataset: &GraphDataset, graphs: &[u32], memory_bytes: usize, model: &NetworkConfig) -> usize {
    // A node holds its features, its rows after each layer, and about as much within a layer. An edge takes its source
    // and its place in the transposed block, and in models of edge features its features and its rows within a layer.
    const EDGE: usize = 16;
    let columns = model.graph.node_types[0].feature_dim + 2 * model.hidden_channels * (model.num_layers + 1);
    let edge_columns = if model.graph.has_edge_features() { dataset.edge_dim() + 3 * model.hidden_channels } else { 0 };
    let degree = dataset.num_edges().div_ceil(dataset.num_nodes().max(1));
    let of_node = columns * size_of::<f32>() + degree * (EDGE + edge_columns * size_of::<f32>());
    let largest = graphs.iter().map(|&graph| dataset.num_nodes_of(graph as usize)).max();
    (memory_bytes / (CONCURRENCY + 2) / of_node).clamp(1, MAX_NODES).max(largest.unwrap_or(1))
}
