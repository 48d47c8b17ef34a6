//! Explanations of predictions of edges.

use super::batch::EdgeBatchMaker;
use super::config::check_fit;
use super::task::edge_config;
use crate::batch_input::BatchOptions;
use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::gradients::{flatten_parameters, load_parameters};
use crate::inference::explanation::{Neighborhood, explain_batches, options};
use crate::inference::{ExplanationConfig, ExplanationVisitor, PredictionJob};
use crate::models::{EdgeModel, EdgeModelConfig};
use burn::module::Module;
use bytemuck::{Pod, Zeroable};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistEdgeNeighborLoader, EdgeSeeds, LabeledEdgeBatch, SeedEdge};
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::AutodiffGnnBackend;
use edgecut_graph::{EdgeTypeId, SeedEdgeSet, Split};
use std::sync::Arc;

/// The number of edges that are read at once.
const BLOCK: usize = 1 << 16;

/// Explains the predictions of a model for the labeled edges of a split, or for all edges of its type. Every rank must call
/// this with the same arguments, and visits all explanations, in the order of sources and destinations. A rank holds 32 bytes
/// per edge.
///
/// # Errors
/// A model that does not match the graph or the settings, an error of `visit`, or a failure of the job.
pub fn explain_edges<'s, B: AutodiffGnnBackend>(
    job: PredictionJob<'_, '_, B::InnerBackend>,
    model: (&EdgeModel<B::InnerBackend>, &EdgeModelConfig),
    saved: impl Into<EmbeddingSource<'s>>,
    split: Option<Split>,
    config: &ExplanationConfig,
    visit: &mut ExplanationVisitor<'_>,
) -> Result<(), TrainError> {
    let graph = job.graph;
    let (model, model_config) = model;
    let meta = graph.part().meta();
    let edge_type = check_fit(meta, model_config, config.sampler.num_neighbors.num_hops())?;
    config.check_output(model_config.num_outputs)?;
    let model = load_parameters(model_config.init::<B>(0, job.device)?, &flatten_parameters(model))?.no_grad();
    let options = options(BatchOptions::of_encoder(&model_config.encoder, false));
    let maker = EdgeBatchMaker::<B>::new(model_config, options, job.device);
    let saved = saved.into().read_by(&config.sampler)?;
    let mut embeddings = Embeddings::new(graph, &maker.schema, model_config.encoder.hidden_channels, saved.seed())?;
    embeddings.load(saved, job.world)?;
    let set = match split {
        Some(split) => SeedEdgeSet::Labeled(split),
        None => SeedEdgeSet::Links(Split::Train),
    };
    let seeds = EdgeSeeds::Listed(all_edges(graph, edge_type, set, job.world)?);
    let sampler = maker.schema.sampler(graph, config.sampler.clone().with_disjoint(true))?;
    let edges = edge_config(meta, model_config, false)?;
    let loader = DistEdgeNeighborLoader::new(sampler, seeds, config.loader(options), edges, job.world)?;
    let loader = loader.with_draws_by_seed();
    let batches = loader.epoch_map(0, move |batch: LabeledEdgeBatch| {
        let neighborhood = Neighborhood::of(&batch.graph, &maker.schema);
        let neighborhood = neighborhood.with_target_edges(edge_type, &batch);
        Ok((neighborhood, maker.make(batch)?))
    });
    explain_batches(batches, &model, &embeddings, config, job.into(), visit)
}

/// An edge as ranks send it. The order of the fields orders edges independently of the parts.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
struct SentEdge {
    original_src: u32,
    original_dst: u32,
    position: u32,
    has_time: u32,
    time: [u32; 2],
    src: u32,
    dst: u32,
}

/// Returns the edges of all parts, ordered by the original ids of their ends. Every rank must call this.
fn all_edges(
    graph: &Arc<DistGraph>,
    edge_type: EdgeTypeId,
    set: SeedEdgeSet,
    world: &mut ProcessGroup,
) -> Result<Vec<SeedEdge>, TrainError> {
    let of_type = graph.part().edges(edge_type);
    let mut own = Vec::new();
    for part in graph.seed_share().parts {
        let num_edges = graph.num_seed_edges(part, edge_type, set)?;
        for first in (0..num_edges).step_by(BLOCK) {
            let positions = (first as u32..(first + BLOCK).min(num_edges) as u32).collect();
            let edges = graph.handle().block_on(graph.seed_edges(part, edge_type, set, positions))?;
            let sources = edges.iter().map(|edge| edge.src).collect();
            let destinations = edges.iter().map(|edge| edge.dst).collect();
            let sources = graph.handle().block_on(graph.original_ids(of_type.src_type, sources))?;
            let destinations = graph.handle().block_on(graph.original_ids(of_type.dst_type, destinations))?;
            for (edge, (original_src, original_dst)) in edges.iter().zip(sources.into_iter().zip(destinations)) {
                // Labeled edges and training edges carry messages, so that all of them have positions.
                let Some(position) = edge.position else { continue };
                let time = edge.time.unwrap_or_default();
                own.push(SentEdge {
                    original_src,
                    original_dst,
                    position,
                    has_time: u32::from(edge.time.is_some()),
                    time: [time as u32, (time >> 32) as u32],
                    src: edge.src,
                    dst: edge.dst,
                });
            }
        }
    }
    let mut all: Vec<SentEdge> = Vec::new();
    for of_rank in world.all_gather(bytemuck::cast_slice(&own))? {
        all.extend(bytemuck::pod_collect_to_vec::<u8, SentEdge>(&of_rank));
    }
    all.sort_unstable();
    // Ranks that share parts have sent the same edges.
    all.dedup();
    let mut edges = Vec::with_capacity(all.len());
    for SentEdge { position, has_time, time, src, dst, .. } in all {
        let time = i64::from(time[1] as i32) << 32 | i64::from(time[0]);
        let time = if has_time == 1 { Some(time) } else { None };
        edges.push(SeedEdge { edge_type, src, dst, time, position: Some(position) });
    }
    Ok(edges)
}
