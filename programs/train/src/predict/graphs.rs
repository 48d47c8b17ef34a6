//! Predictions, probabilities, logits and embeddings of whole graphs.

use super::args::{Format, PredictArgs, Rows};
use super::class_names::ClassNames;
use super::done::{Done, in_job};
use super::explain::{self, EXPLAINED, ExplanationFile, Targets, explanation, request};
use super::feature_names::FeatureNames;
use super::files::{Columns, write_ids};
use super::ids::{Ids, check_ids};
use super::model::{Opened, open};
use super::ordered_rows::OrderedRows;
use super::progress::Progress;
use super::request::{DATA, Request, on_backend};
use super::values::class_or_none;
use crate::job::Job;
use crate::job::process_role::Rank;
use crate::run_page::percent;
use crate::tasks::graph::{ForGraphs, GRAPHS, load};
use anyhow::Context;
use clap::Args;
use edgecut_cli::counted;
use edgecut_cluster::{Cluster, ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{Fanout, SamplerConfig, share_graphs};
use edgecut_graph::small_graphs::GraphSource;
use edgecut_graph::{GraphDataset, NodeTypeId};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::{ExplanationRun, GraphPredictionConfig, WantedGraphRows};
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::metrics::Decision;
use serde::Serialize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The number of graphs whose rows are written at once.
const BLOCK: usize = 1 << 12;
/// The default of `--dataset-root-dir`, that of `train graph`.
const DEFAULT_DIR: &str = "data";

/// The flags of rows of whole graphs.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct GraphFlags {
    /// Write a row per graph of a set of graphs, for models of `train graph`: all, or a .npy file of graph ids. The set
    /// is --dataset NAME in --dataset-root-dir [default: data], as in `train graph`
    #[arg(long, value_name = "all|FILE")]
    graphs: Option<String>,
}

/// The result that `--json` prints.
#[derive(Serialize)]
struct GraphsResult {
    graphs: usize,
    /// The accuracy over the written graphs.
    acc: Option<f64>,
}

/// The graphs that the flags select.
struct SelectedGraphs {
    ids: Ids,
    /// The value of `--graphs`.
    text: String,
    /// The value of `--dataset`.
    name: String,
    source: GraphSource,
}

/// A set of graphs, and a saved model for them.
struct OpenGraphs<'a, B: TrainingBackend> {
    dataset: Arc<GraphDataset>,
    opened: Opened<'a, B>,
}

impl SelectedGraphs {
    /// Reads the flags and the ids that they name.
    fn read(args: &PredictArgs) -> anyhow::Result<Self> {
        let text = args.own.graphs.graphs.clone().context("--graphs is missing")?;
        let name = args.part.dataset.clone().context("--dataset is missing")?;
        let ids = Ids::read("--graphs", &text, "graph id")?;
        let dir = args.part.dataset_root_dir.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR));
        let source = GraphSource::new(&name, dir);
        Ok(Self { ids, text, name, source })
    }

    /// Returns the description of the set for the identity of the job.
    fn description(&self) -> String {
        format!("graphs {}", self.name)
    }

    /// Reads the set and the model. Every rank must call this.
    ///
    /// # Errors
    /// A model that is not for graphs, or not for these, and graphs that do not exist.
    fn open<'a, B: TrainingBackend>(
        &self,
        args: &'a PredictArgs,
        cluster: &Cluster,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> anyhow::Result<OpenGraphs<'a, B>> {
        let dataset = Arc::new(share_graphs(cluster, || load(&self.source))?);
        let opened = open::<B>(args, None, world, device)?;
        opened.saved.check_graphs(&dataset, None, &opened.predictor::<ForGraphs<B>>()?.1, world)?;
        let listed = self.ids.listed().unwrap_or_default();
        check_ids(&format!("--graphs {}", self.text), listed, "graph", dataset.num_graphs())?;
        Ok(OpenGraphs { dataset, opened })
    }
}

/// Rows of whole graphs.
pub(super) const REQUEST: Request = Request {
    reads: &[DATA, &["gather", "graphs"]],
    beside: &["graph_ids.npy"],
    check,
    ..Request::new(
        GRAPHS,
        "rows of graphs (--graphs with --output prediction, class, probability, logit or embedding)",
        |args| args.own.graphs.graphs.is_some(),
        on_backend!(run),
    )
};

/// Checks that the set of the graphs is named.
fn check(args: &PredictArgs) -> Result<(), &'static str> {
    match args.part.dataset {
        Some(_) => Ok(()),
        None => Err("--dataset is missing: --graphs needs the name of the set of graphs, as train graph does"),
    }
}

fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let selection = SelectedGraphs::read(args)?;
    let selected = &selection.ids;
    in_job(args, rank, selection.description(), selected.checksum(), |Job { cluster, world, .. }| {
        let start = Instant::now();
        let OpenGraphs { dataset, opened } = selection.open::<B>(args, cluster, world, device)?;
        let (model, config) = opened.predictor::<ForGraphs<B>>()?;
        let outputs = opened.outputs()?;
        let num_graphs = selected.len(dataset.num_graphs());
        let (wanted, width) = match args.output {
            Rows::Embedding => (WantedGraphRows::Pooled, config.pooled_channels().context("the model is too large")?),
            _ => (WantedGraphRows::Logits, config.num_outputs()),
        };
        let is_classified = args.output != Rows::Embedding && outputs == OutputKind::Classes(dataset.classes().len());
        let names = if is_classified { ClassNames::of_graphs(&dataset) } else { None };
        let columns = Columns::of_outputs(&["graph_id"], args.output, outputs, width)?;
        let (columns, classes) = columns.named_by(names);
        let output = OrderedRows {
            args,
            stem: REQUEST.stem,
            columns,
            decision: opened.saved.decision(),
            num_rows: num_graphs,
            width,
            block: BLOCK,
            ids: &|rows| vec![selected.range(rows)],
            named: Vec::new(),
            more: &|_| Ok(Vec::new()),
            classes,
        };
        let prediction = GraphPredictionConfig { wanted, memory_bytes: args.memory_bytes as usize };
        let mut right = 0;
        output.write(world, |rows: Range<usize>| {
            let graphs = selected.range(rows);
            let values = B::predict_graphs(&dataset, &graphs, prediction, (model, config), device)?;
            if is_classified {
                right += num_right(&dataset, &graphs, &values, width, &output.decision);
            }
            Ok(values)
        })?;
        if let (Some(ids), Format::Npy, 0) = (selected.listed(), args.format, world.rank()) {
            write_ids(&args.out.join("graph_ids.npy"), ids)?;
        }
        let mut right = [right];
        world.all_reduce(&mut right, ReduceOp::Sum)?;
        let acc = is_classified.then(|| right[0] as f64 / num_graphs as f64);
        let result = GraphsResult { graphs: num_graphs, acc };
        let mut done = Done::new(
            format!("predictions for {}", counted(num_graphs, "graph", "graphs")),
            result,
            Some(start.elapsed()),
        );
        if acc.is_some() {
            done.lines.push(format!("accuracy: {}", percent(acc)));
        }
        Ok(done)
    })
}

/// Explanations of predictions of whole graphs.
pub(super) const EXPLAINED_GRAPHS: Request = Request {
    reads: &[DATA, EXPLAINED, &["batch_size", "graphs"]],
    check: |args| explain::check(args).and_then(|()| check(args)),
    ..explanation(Request::new(
        GRAPHS,
        "--explain --graphs",
        |args| args.own.explain.explain && args.own.graphs.graphs.is_some(),
        on_backend!(run_explanations),
    ))
};

fn run_explanations<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let selected = SelectedGraphs::read(args)?;
    in_job(args, rank, selected.description(), selected.ids.checksum(), |Job { cluster, world, .. }| {
        let start = Instant::now();
        let progress = Progress::new(&args.job, world.rank());
        let OpenGraphs { dataset, opened } = selected.open::<B>(args, cluster, world, device)?;
        let graphs = selected.ids.range(0..selected.ids.len(dataset.num_graphs()));
        let classes = match opened.outputs()? {
            OutputKind::Classes(number) if number == dataset.classes().len() => ClassNames::of_graphs(&dataset),
            _ => None,
        };
        // Nodes of small graphs have no ids besides their numbers, and all of them have one type.
        let targets = Targets {
            ids: &["graph_id", "output", "rank"],
            names: vec![("graph", NodeTypeId(0))],
            edges: None,
            classes,
        };
        let features = FeatureNames::of_graphs(&dataset);
        let mut file = ExplanationFile::new(args, targets, features, vec![None], vec![[NodeTypeId(0); 2]], world)?;
        let (model, config) = opened.predictor::<ForGraphs<B>>()?;
        let request = request(args, SamplerConfig::new(Vec::<Fanout>::new()), opened.saved.decision());
        let run = ExplanationRun { world, device, progress: &progress };
        file.fill(|visit| B::explain_graphs(&dataset, graphs, (model, config), &request, run, visit))?;
        let found = file.finish(world)?;
        progress.finish();
        Ok(found.done("graphs", start.elapsed()))
    })
}

/// Returns the number of graphs whose class is predicted.
fn num_right(dataset: &GraphDataset, graphs: &[u32], logits: &[f32], width: usize, decision: &Decision) -> u64 {
    let mut right = 0;
    for (&graph, logits) in graphs.iter().zip(logits.chunks_exact(width)) {
        right += u64::from(class_or_none(logits, decision) == i64::from(dataset.class(graph as usize)));
    }
    right
}
