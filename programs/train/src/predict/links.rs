//! The rows of both ends of an edge type, for scores and best destinations.

use super::args::PredictArgs;
use super::model::open_link;
use super::progress::Progress;
use super::request::Request;
use crate::job::graph_session::GraphSession;
use crate::tasks::Open;
use anyhow::Context;
use edgecut_graph::{EdgeTypeId, Part};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::{LayerWiseConfig, LinkEnds, PredictionJob, link_edge_type};
use edgecut_trainer::models::LinkModel;
use std::path::PathBuf;

/// Returns the edge type of `--edge-type`, and the numbers of its sources and destinations.
pub(super) fn edge_type(args: &PredictArgs, part: &Part) -> anyhow::Result<(EdgeTypeId, [usize; 2])> {
    let edge_type = link_edge_type(part.meta(), args.edge_type.as_deref()).context("--edge-type")?;
    let edges = part.edges(edge_type);
    let ends = [edges.src_type, edges.dst_type];
    Ok((edge_type, ends.map(|end| part.meta().node_types[end.index()].book.num_nodes())))
}

/// Opens the model and computes the rows of the nodes that an edge type connects. Every rank must call this.
pub(super) fn encode<B: TrainingBackend>(
    args: &PredictArgs,
    edge_type: EdgeTypeId,
    scratch_dir: PathBuf,
    progress: &Progress,
    job: &mut GraphSession<'_>,
    device: &B::Device,
) -> anyhow::Result<(LinkModel<B>, LinkEnds)> {
    let meta = job.graph.part().meta();
    let Open { model, config, embeddings, .. } =
        open_link::<B>(args, Request::of(args).flags(), Some(meta), job.world, device)?;
    let limits = LayerWiseConfig { memory_bytes: args.memory_bytes as usize, scratch_dir };
    let prediction = PredictionJob { graph: &job.graph, world: job.world, device, progress };
    let ends = B::encode_link_ends(prediction, &model, &config, (&embeddings).into(), edge_type, &limits)?;
    Ok((model, ends))
}
