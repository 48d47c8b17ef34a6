//! Predictions, probabilities and logits of edges.

use super::args::{Format, PredictArgs, Rows};
use super::class_names::ClassNames;
use super::done::{Done, in_graph};
use super::edge_names::EdgeNames;
use super::explain::{EXPLAINED, ExplanationFile, Targets, explanation, request};
use super::failure::Failure;
use super::files::{Columns, NamedColumns, RowsFile, USER_ID, create_table, stem_of_rank};
use super::model::open;
use super::progress::Progress;
use super::request::{DATA, PARTS, Request, SAMPLING, WHOLE, on_backend};
use super::values::Values;
use crate::id_map_file::{UserColumn, UserIds};
use crate::job::process_role::Rank;
use crate::tasks::edge::{EDGES, ForEdges};
use anyhow::{Context, bail};
use clap::Args;
use edgecut_cli::counted;
use edgecut_cluster::ReduceOp;
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{NodeTypeId, Split};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::edge::{EdgeOutputs, EdgePredictionConfig};
use edgecut_trainer::inference::PredictionJob;
use edgecut_trainer::loss::OutputKind;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// The error for an old model file.
const NO_FAN_OUTS: &str = "the model file does not say the fan-outs of its evaluation: add --num-neighbors";
/// The error for a split without edges.
const NO_EDGES: &str = "--edges: the graph has no such edges of the model's type: choose another split, or all";
/// The names of the columns of ids.
const IDS: &[&str] = &["src_id", "dst_id"];

/// The flags of rows of edges.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct EdgeFlags {
    /// Write a row per edge of the model's edge type, for models of `train edge`: all edges, or the labeled edges of a split
    #[arg(long, value_name = "all|train|valid|test", value_parser = ["all", "train", "valid", "test"])]
    edges: Option<String>,
}

impl EdgeFlags {
    /// Returns the split of the edges; `None` for all edges.
    fn split(&self) -> Option<Split> {
        Split::ALL.into_iter().find(|split| self.edges.as_deref() == Some(split.name()))
    }
}

/// Rows of edges.
pub(super) const REQUEST: Request = Request {
    reads: &[DATA, PARTS, WHOLE, SAMPLING, &["edges", "scratch_dir"]],
    check,
    needs_all_ids: |_, _| true,
    ..Request::new(
        EDGES,
        "rows of edges (--edges with --output prediction, class, probability or logit)",
        |args| args.own.edges.edges.is_some(),
        on_backend!(run),
    )
};

fn check(args: &PredictArgs) -> Result<(), &'static str> {
    if args.output == Rows::Embedding {
        return Err("--edges: a model for edges has embeddings of nodes and none of edges: use --output prediction, \
                    probability or logit");
    }
    if args.format == Format::Npy {
        return Err("--edges writes tables with both ends of each edge: add --format csv or parquet");
    }
    Ok(())
}

/// Computes and writes the rows of this rank's edges.
fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    in_graph(args, rank, None, |job| {
        let start = Instant::now();
        let graph = job.graph.clone();
        let meta = graph.part().meta();
        let opened = open::<B>(args, Some(meta), job.world, device)?;
        let (model, config) = opened.predictor::<ForEdges<B>>()?;
        let decision = opened.saved.decision();
        let edge_type = config.edge_type;
        let width = config.num_outputs;
        let columns = Columns::of_outputs(IDS, args.output, opened.outputs()?, width)?;
        let of_type = graph.part().edges(edge_type);
        let ends = [End::new(args, &graph, of_type.src_type)?, End::new(args, &graph, of_type.dst_type)?];
        let classes =
            if columns.has_classes() { ClassNames::of_edges(args, meta, edge_type, job.world)? } else { None };
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
        let stem = stem_of_rank(REQUEST.stem, job.world.rank(), job.world.size());
        let mut file = create_table(&stem, args, &columns, more)?;
        let mut num_edges = 0;
        let mut failure = Failure::default();
        let mut visit = |mut found: EdgeOutputs| {
            num_edges += found.src.len() as u64;
            let values = Values::of(std::mem::take(&mut found.outputs), width, columns.form, &decision);
            failure.keep(append(file.as_mut(), (&graph, &ends, names.as_ref()), found, classes.as_ref(), &values))
        };
        let request = EdgePredictionConfig {
            split: args.own.edges.split(),
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
        let [edges] = total;
        if edges == 0 {
            bail!(NO_EDGES);
        }
        file.commit()?;
        // All files are complete, or the job fails.
        job.world.barrier()?;
        Ok(Done::new(
            format!("predictions for {}", counted(edges, "edge", "edges")),
            json!({ "edges": edges }),
            Some(start.elapsed()),
        ))
    })
}

/// Explanations of predictions of edges.
pub(super) const EXPLAINED_EDGES: Request = Request {
    reads: &[DATA, PARTS, WHOLE, SAMPLING, EXPLAINED, &["edges"]],
    ..explanation(Request::new(
        EDGES,
        "--explain --edges",
        |args| args.own.explain.explain && args.own.edges.edges.is_some(),
        on_backend!(run_explanations),
    ))
};

/// Explains the predictions of the edges of a split, or of all edges.
fn run_explanations<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    in_graph(args, rank, None, |job| {
        let start = Instant::now();
        let progress = Progress::new(&args.job, job.world.rank());
        let graph = job.graph.clone();
        let meta = graph.part().meta();
        let opened = open::<B>(args, Some(meta), job.world, device)?;
        let (model, config) = opened.predictor::<ForEdges<B>>()?;
        let edge_type = config.edge_type;
        let classes = match opened.model.outputs {
            Some(OutputKind::Classes(_)) => ClassNames::of_edges(args, meta, edge_type, job.world)?,
            _ => None,
        };
        let of_type = graph.part().edges(edge_type);
        let names = vec![("src", of_type.src_type), ("dst", of_type.dst_type)];
        let edges = EdgeNames::of_type(&graph, edge_type);
        let targets = Targets { ids: &["src_id", "dst_id", "output", "rank"], names, edges, classes };
        let mut file = ExplanationFile::create(args, &graph, targets, job.world)?;
        let request = request(args, opened.sampler.clone().context(NO_FAN_OUTS)?, opened.saved.decision());
        let split = args.own.edges.split();
        let prediction = PredictionJob { graph: &graph, world: &mut *job.world, device, progress: &progress };
        let model = (model, config);
        file.fill(|visit| B::explain_edges(prediction, model, opened.embeddings(), split, &request, visit))?;
        if file.found.targets == 0 {
            bail!(NO_EDGES);
        }
        let found = file.finish(job.world)?;
        progress.finish();
        Ok(found.done("edges", start.elapsed()))
    })
}

/// An end of the edges.
struct End {
    node_type: NodeTypeId,
    /// The ids that users know, if there are any.
    users: Option<UserIds>,
}

impl End {
    /// Reads the ids that users know of all nodes of a type: an end of an edge can be in any part.
    fn new(args: &PredictArgs, graph: &DistGraph, node_type: NodeTypeId) -> anyhow::Result<Self> {
        let Some(root) = args.part.dataset_root_dir.as_deref() else { return Ok(Self { node_type, users: None }) };
        let num_nodes = graph.part().meta().node_types[node_type.index()].book.num_nodes() as u32;
        let users = UserIds::open(root, graph.part(), node_type, 0..num_nodes)
            .context("--edges: each node needs the ids of all parts: copy their id_map.parquet to it")?;
        Ok(Self { node_type, users })
    }

    /// Returns the ids of nodes in the dataset. `nodes` are global ids.
    fn original_ids(&self, graph: &Arc<DistGraph>, nodes: &[u32]) -> anyhow::Result<Vec<u32>> {
        Ok(graph.handle().block_on(graph.original_ids(self.node_type, nodes.to_vec()))?)
    }
}

/// Appends the rows of edges.
fn append(
    file: &mut dyn RowsFile,
    (node, ends, names): (&Arc<DistGraph>, &[End; 2], Option<&EdgeNames>),
    edges: EdgeOutputs,
    classes: Option<&ClassNames>,
    values: &Values,
) -> anyhow::Result<()> {
    let EdgeOutputs { src, dst, positions, times, .. } = edges;
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
