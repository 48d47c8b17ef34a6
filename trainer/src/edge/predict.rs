//! Outputs of a trained model for edges.

use super::batch::EdgeBatchMaker;
use super::config::check_fit;
use super::task::edge_config;
use crate::batch_input::BatchOptions;
use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::fit::SeedBatch;
use crate::inference::explanation::ExplainedBatch;
use crate::inference::with_own_neighborhoods;
use crate::metrics::host_rows;
use crate::models::{EdgeModel, EdgeModelConfig, Mode};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistEdgeNeighborLoader, EdgeSeeds, LabeledEdgeBatch, LoaderConfig};
use edgecut_dist_sampler::{DistGraph, SamplerConfig};
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::Split;
use std::sync::Arc;

/// A request for outputs of edges.
#[derive(Clone, Debug)]
pub struct EdgePredictionConfig {
    /// The labeled edges of this split, or all edges of the model's type.
    pub split: Option<Split>,
    /// The neighborhoods, as in the training.
    pub sampler: SamplerConfig,
    /// The number of edges of a batch on each rank.
    pub batch_size: usize,
    /// The random seed of sampling.
    pub seed: u64,
    /// The most bytes of batches that wait.
    pub prefetch_bytes: usize,
}

/// The outputs of some edges.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeOutputs {
    /// The source of each edge, as a global id.
    pub src: Vec<u32>,
    /// The destination of each edge, as a global id.
    pub dst: Vec<u32>,
    /// The position of each edge among the in-edges of its destination.
    pub positions: Vec<u32>,
    /// The time of each edge, empty if the type has no times.
    pub times: Vec<i64>,
    /// `[edges, num_outputs]`, row-major.
    pub outputs: Vec<f32>,
}

/// A batch as tensors, and its edges, whose outputs are not computed yet.
struct WithEdges<T> {
    batch: T,
    edges: EdgeOutputs,
}

/// Computes the outputs of edges, and calls `visit` with the edges of each batch of this rank. Every rank must call this with
/// the same arguments. Over all ranks, each edge is visited once. Its outputs depend neither on the batches nor on the parts and
/// processes, also if neighbors are sampled.
///
/// # Errors
/// A model that does not match the graph or the settings, an error of `visit`, or a failure of the job.
pub fn predict_edges<'s, B: GnnBackend>(
    (node, world): (&Arc<DistGraph>, &mut ProcessGroup),
    (model, model_config): (&EdgeModel<B>, &EdgeModelConfig),
    saved: impl Into<EmbeddingSource<'s>>,
    config: &EdgePredictionConfig,
    device: &B::Device,
    visit: &mut dyn FnMut(EdgeOutputs) -> Result<(), TrainError>,
) -> Result<(), TrainError> {
    let meta = node.part().meta();
    let edge_type = check_fit(meta, model_config, config.sampler.num_neighbors.num_hops())?;
    let options = BatchOptions::of_encoder(&model_config.encoder, false);
    let maker = EdgeBatchMaker::<B>::new(model_config, options, device);
    let saved = saved.into().read_by(&config.sampler)?;
    let mut embeddings = Embeddings::new(node, &maker.schema, model_config.encoder.hidden_channels, saved.seed())?;
    embeddings.load(saved, world)?;
    let loader_config = LoaderConfig {
        seed: config.seed,
        prefetch_bytes: config.prefetch_bytes,
        ..LoaderConfig::new(config.batch_size, options.wanted())
    };
    let mut edges = edge_config(meta, model_config, false)?;
    edges.attributes.times = true;
    let mut sampler = with_own_neighborhoods(config.sampler.clone());
    // Neighborhoods then lack their own edge only, so that its output does not depend on the other edges of a batch.
    sampler.disjoint |= edges.exclude_seed_edges;
    let sampler = maker.schema.sampler(node, sampler)?;
    let seeds = match config.split {
        Some(split) => EdgeSeeds::Labeled(split, edge_type),
        None => EdgeSeeds::Split(Split::Train, vec![edge_type]),
    };
    let loader = DistEdgeNeighborLoader::new(sampler, seeds, loader_config, edges, world)?.with_draws_by_seed();
    let ends = maker.schema.edge_ends()[edge_type.index()];
    let prepare = move |mut batch: LabeledEdgeBatch| {
        let ids = |node_type: usize, numbers: &[u32]| -> Vec<u32> {
            numbers.iter().map(|&number| batch.graph.nodes[node_type].input_nodes[number as usize]).collect()
        };
        let src = ids(ends.0, &batch.src);
        let dst = ids(ends.1, &batch.dst);
        let times = std::mem::take(&mut batch.attributes.times);
        let positions = std::mem::take(&mut batch.positions);
        let edges = EdgeOutputs { src, dst, positions, times, outputs: Vec::new() };
        Ok::<_, TrainError>(WithEdges { batch: maker.make(batch)?, edges })
    };
    for prepared in loader.epoch_map_from(0, 0, prepare) {
        let WithEdges { batch, edges } = prepared??;
        if let Some(outputs) = batch.filled(&embeddings, device)?.compute(model, Mode::Eval)? {
            visit(EdgeOutputs { outputs: host_rows(&outputs.values), ..edges })?;
        }
        // Ranks meet at each batch, which bounds the wait for a slow rank.
        world.barrier()?;
    }
    Ok(())
}
