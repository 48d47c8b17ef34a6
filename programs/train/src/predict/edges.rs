//! Predictions, probabilities and logits of edges.

use super::args::{EdgeSelection, PredictArgs};
use super::class_names::ClassNames;
use super::done::{Done, in_graph};
use super::edge_names::EdgeNames;
use super::failure::Failure;
use super::files::{Columns, NamedColumns, Table, USER_ID, stem_of_rank};
use super::model::open;
use super::values::Values;
use crate::id_map_file::{UserColumn, UserIds};
use crate::job::graph_session::GraphSession;
use crate::job::process_role::Rank;
use anyhow::{Context, bail};
use edgecut_cluster::ReduceOp;
use edgecut_dist_sampler::{DistGraph, NodeFields};
use edgecut_graph::{EdgeTypeId, NodeTypeId, Part};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::edge::{EdgeOutputs, EdgePredictionConfig};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The error for an old model file.
pub(super) const NO_FAN_OUTS: &str = "the model file does not say the fan-outs of its evaluation: add --num-neighbors";
/// The names of the columns of ids.
const IDS: &[&str] = &["src_id", "dst_id"];

pub(super) fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    in_graph(args, rank, None, |job| {
        let start = Instant::now();
        let edges = write::<B>(args, job, device)?;
        Ok(Done::new(format!("predictions for {edges} edges"), json!({ "edges": edges }), Some(start.elapsed())))
    })
}

/// Computes and writes the rows of this rank's edges. Returns the number of edges over all ranks.
fn write<B: TrainingBackend>(
    args: &PredictArgs,
    job: &mut GraphSession<'_>,
    device: &B::Device,
) -> anyhow::Result<u64> {
    let graph = job.graph.clone();
    let meta = graph.part().meta();
    let opened = open::<B>(args, Some(meta), job.world, device)?;
    let (model, config) = opened.of_edges()?;
    let decision = opened.saved.decision();
    let edge_type = config.edge_type;
    let width = config.num_outputs;
    let columns = Columns::of_outputs(IDS, args.output, opened.outputs()?, width)?;
    let ends = End::of_edges(args, &graph, edge_type)?;
    let classes = if columns.has_classes() { ClassNames::of_edges(args, meta, edge_type)? } else { None };
    let (columns, classes) = columns.named_by(classes);
    let mut more: NamedColumns = Vec::new();
    let names = EdgeNames::of_type(&graph, edge_type);
    more.extend(names.as_ref().map(|names| (USER_ID, names.empty())));
    for (end, name) in ends.iter().zip(["src", "dst"]) {
        more.extend(end.users.as_ref().map(|users| (name, users.empty())));
    }
    if meta.edge_types[edge_type.index()].has_times {
        more.push(("time", UserColumn::Numbers(Vec::new())));
    }
    ClassNames::add_to(classes.as_ref(), &mut more);
    let stem = stem_of_rank("predictions", job.world.rank(), job.world.size());
    let mut file = Table::create(&stem, args, &columns, more)?;
    let mut num_edges = 0;
    let mut failure = Failure::default();
    let mut visit = |found: EdgeOutputs| {
        num_edges += found.src.len() as u64;
        let values = Values::of(found.outputs, width, columns.form, &decision);
        let rows = EdgeRows { src: found.src, dst: found.dst, positions: found.positions, times: found.times };
        failure.keep(append(&mut file, (&graph, &ends, names.as_ref()), rows, classes.as_ref(), &values))
    };
    let request = EdgePredictionConfig {
        split: args.edges.and_then(EdgeSelection::split),
        sampler: opened.sampler.clone().context(NO_FAN_OUTS)?,
        batch_size: args.batch_size.unwrap_or(1024) as usize,
        seed: args.seed.unwrap_or(0),
        prefetch_bytes: args.memory_bytes as usize,
    };
    let job_of = (&graph, &mut *job.world);
    let done = B::predict_edges(job_of, (model, config), opened.embeddings(), &request, device, &mut visit);
    failure.or(done)?;
    let mut total = [num_edges];
    job.world.all_reduce(&mut total, ReduceOp::Sum)?;
    if total[0] == 0 {
        bail!("--edges: the graph has no such edges of the model's type: choose another split, or all");
    }
    file.commit()?;
    // All files are complete, or the job fails.
    job.world.barrier()?;
    Ok(total[0])
}

/// An end of the edges.
struct End {
    node_type: NodeTypeId,
    /// The ids that users know, if there are any.
    users: Option<UserIds>,
}

impl End {
    /// Returns the sources and the destinations of the model's edges.
    fn of_edges(args: &PredictArgs, graph: &DistGraph, edge_type: EdgeTypeId) -> anyhow::Result<[Self; 2]> {
        let edges = graph.part().edges(edge_type);
        Ok([Self::new(args, graph, edges.src_type)?, Self::new(args, graph, edges.dst_type)?])
    }

    fn new(args: &PredictArgs, graph: &DistGraph, node_type: NodeTypeId) -> anyhow::Result<Self> {
        let mut users = None;
        if let Some(root) = args.part.dataset_root_dir.as_deref() {
            users = user_ids(root, graph.part(), node_type)?;
        }
        Ok(Self { node_type, users })
    }

    /// Returns the ids of nodes in the dataset. `nodes` are global ids.
    fn original_ids(&self, graph: &Arc<DistGraph>, nodes: &[u32]) -> anyhow::Result<Vec<u32>> {
        let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
        Ok(graph.handle().block_on(graph.fetch(self.node_type, nodes.to_vec(), wanted))?.original_ids)
    }
}

/// Reads the ids that users know of all nodes of a type: an end of an edge can be in any part.
fn user_ids(root: &Path, part: &Part, node_type: NodeTypeId) -> anyhow::Result<Option<UserIds>> {
    let num_nodes = part.meta().node_types[node_type.index()].book.num_nodes() as u32;
    UserIds::open(root, part, node_type, 0..num_nodes)
        .context("--edges: each node needs the ids of all parts: copy their id_map.parquet to it")
}

/// The edges of some rows.
struct EdgeRows {
    src: Vec<u32>,
    dst: Vec<u32>,
    /// See [`EdgeOutputs::positions`].
    positions: Vec<u32>,
    times: Vec<i64>,
}

/// Appends the rows of edges.
fn append(
    file: &mut Table,
    (node, ends, names): (&Arc<DistGraph>, &[End; 2], Option<&EdgeNames>),
    edges: EdgeRows,
    classes: Option<&ClassNames>,
    values: &Values,
) -> anyhow::Result<()> {
    let EdgeRows { src, dst, positions, times } = edges;
    let mut more = Vec::new();
    more.extend(names.map(|names| names.of(&dst, &positions)).transpose()?);
    for (end, nodes) in ends.iter().zip([&src, &dst]) {
        more.extend(end.users.as_ref().map(|users| users.of(nodes)).transpose()?);
    }
    if !times.is_empty() {
        more.push(UserColumn::Numbers(times));
    }
    more.extend(classes.map(|classes| classes.of(values)));
    let ids = [ends[0].original_ids(node, &src)?, ends[1].original_ids(node, &dst)?];
    file.push(&[&ids[0], &ids[1]], &more, values)
}
