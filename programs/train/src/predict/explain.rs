//! The inputs that predictions of nodes rest on, and the flags and the file of all explanations.

use super::args::{Format, PredictArgs, Rows};
use super::checks::check_row_numbers;
use super::class_names::ClassNames;
use super::done::{Done, in_graph};
use super::edge_names::EdgeNames;
use super::failure::Failure;
use super::feature_names::FeatureNames;
use super::files::{Columns, NamedColumns, RowsFile, USER_ID, ValueShape, create_table};
use super::model::{all_neighbors, open};
use super::node_names::{FoundNames, NodeNames};
use super::progress::Progress;
use super::request::{DATA, PARTS, Request, SAMPLING, WHOLE, on_backend};
use super::selection::{Selection, Splits};
use super::values::{Form, Values};
use crate::exit::UsageError;
use crate::id_map_file::UserColumn;
use crate::job::process_role::Rank;
use crate::tasks::node::{ForNodes, NODES};
use anyhow::{Context, bail};
use clap::Args;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, SamplerConfig};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::inference::{
    Contribution, ExplainedInput, Explanation, ExplanationConfig, ExplanationVisitor, PredictionJob,
};
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::metrics::Decision;
use edgecut_trainer::{TrainError, TrainingBackend};
use parquet::data_type::ByteArray;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of the file, without its format.
const STEM: &str = "explanations";
/// The columns of numbers.
const NUMBERS: &[&str] = &["score", "baseline", "value", "contribution"];
/// The error of the sum of contributions, relative to the largest change of a score, above which a note is printed.
const LARGE_GAP: f64 = 0.02;

/// The flags of explanations.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct ExplainFlags {
    /// Write the inputs that each prediction of a node, with --edges of an edge, or with --graphs of a graph, rests on, instead
    /// of predictions: features and learned embeddings of the nodes of its neighborhood, and features of edges, with their
    /// contributions (integrated gradients). Neighborhoods are the same as in predictions, unless neighbors are sampled
    /// (--num-neighbors, models of --time-attr or --weighted): then they are drawn anew
    #[arg(long)]
    pub(crate) explain: bool,
    /// --explain: the most rows of each kind per node, edge or graph: nodes, features of nodes, edges, features of edges [default:
    /// 10]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) explain_top: Option<u32>,
    /// --explain: points of the numerical integration. More points are more exact [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) explain_steps: Option<u32>,
    /// --explain: the output to explain, by its number from 0: a class, a label or a number [default: the greatest one of
    /// each node, edge or graph]
    #[arg(long, value_name = "N")]
    pub(crate) explain_output: Option<u32>,
}

/// The flags that only explanations read.
pub(super) const EXPLAINED: &[&str] = &["explain_output", "explain_steps", "explain_top"];

/// Returns a request for explanations.
pub(super) const fn explanation(request: Request) -> Request {
    Request { stem: STEM, check, ..request }
}

/// Checks the flags of explanations.
pub(super) fn check(args: &PredictArgs) -> Result<(), &'static str> {
    if args.output != Rows::Prediction {
        Err("--explain explains the score of a prediction: leave out --output")
    } else if args.format == Format::Npy {
        Err("--explain writes a table: add --format csv or parquet")
    } else if args.device.mixed_precision.is_some() {
        Err("--explain computes gradients in f32: leave out --mixed-precision")
    } else {
        Ok(())
    }
}

/// Explanations of predictions of nodes.
pub(super) const REQUEST: Request = Request {
    reads: &[DATA, PARTS, WHOLE, SAMPLING, EXPLAINED, &["nodes", "row_numbers", "target"]],
    check: |args| check(args).and_then(|()| check_row_numbers(args, &args.nodes)),
    ..explanation(Request::new(NODES, "--explain", |args| args.own.explain.explain, on_backend!(run)))
};

/// Explains the predictions of the selected nodes.
fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let selection = Selection::read(args)?;
    in_graph(args, rank, selection.checksum(), |job| {
        let start = Instant::now();
        let progress = Progress::new(&args.job, job.world.rank());
        let graph = job.graph.clone();
        let meta = graph.part().meta();
        let opened = open::<B>(args, Some(meta), job.world, device)?;
        let ForNodes { network, config, targets } = opened.predictor::<ForNodes<B>>()?;
        if let [first, _, ..] = &targets[..] {
            bail!(UsageError(format!(
                "--explain explains the predictions of one target: choose one of the model {} by --target, such as {}",
                args.load_model.display(),
                first.saved.name
            )));
        }
        let node_type = config.outputs.first().context("the model has no outputs")?.node_type;
        let root = args.part.dataset_root_dir.as_deref();
        let listed = selection.listed(node_type, root, job)?;
        let ids = match selection.ids(listed, &graph, node_type, Splits::OfGraph, job.world)? {
            Some(ids) => ids,
            None => (0..meta.node_types[node_type.index()].book.num_nodes() as u32).collect(),
        };
        if ids.is_empty() {
            bail!("--nodes {}: there are no such nodes", args.nodes);
        }
        let nodes = graph.handle().block_on(graph.find_originals(node_type, &ids))?;
        let sampler = match &opened.sampler {
            Some(sampler) => sampler.clone(),
            None => SamplerConfig::new(all_neighbors(opened.saved.trained_on.as_ref(), config.num_layers)),
        };
        let outputs = opened.model.outputs;
        let classes = match outputs {
            Some(OutputKind::Classes(_)) => ClassNames::of_nodes(args, meta, node_type, job.world)?,
            _ => None,
        };
        let targets =
            Targets { ids: &["node_id", "output", "rank"], names: vec![(USER_ID, node_type)], edges: None, classes };
        let mut file = ExplanationFile::create(args, &graph, targets, job.world)?;
        let request = request(args, sampler, opened.saved.decision_of_nodes(outputs)?);
        let prediction = PredictionJob { graph: &graph, world: &mut *job.world, device, progress: &progress };
        let model = (network, config);
        file.fill(|visit| B::explain_nodes(prediction, model, opened.embeddings(), nodes, &request, visit))?;
        let found = file.finish(job.world)?;
        progress.finish();
        Ok(found.done("nodes", start.elapsed()))
    })
}

/// Returns the request that the flags describe.
pub(super) fn request(args: &PredictArgs, sampler: SamplerConfig, decision: Decision) -> ExplanationConfig {
    let flags = &args.own.explain;
    let mut request = ExplanationConfig::new(sampler);
    request.decision = decision;
    request.time = args.seed_time;
    request.output = flags.explain_output.map(|output| output as usize);
    request.steps = flags.explain_steps.map_or(request.steps, |steps| steps as usize);
    request.top = flags.explain_top.map_or(request.top, |top| top as usize);
    request.batch_size = args.batch_size.map_or(request.batch_size, |size| size as usize);
    request.seed = args.seed.unwrap_or(0);
    request.prefetch_bytes = args.memory_bytes as usize;
    request
}

/// The nodes, edges or graphs whose predictions are explained.
pub(super) struct Targets {
    /// The names of the columns of original ids, of the output and of the rank.
    pub(super) ids: &'static [&'static str],
    /// By original id of a target, the column of table ids and the node type.
    pub(super) names: Vec<(&'static str, NodeTypeId)>,
    /// The table ids of edges, if they have ids.
    pub(super) edges: Option<EdgeNames>,
    pub(super) classes: Option<ClassNames>,
}

/// The only file of explanations, which rank 0 writes, and the names in it.
pub(super) struct ExplanationFile {
    targets: Targets,
    features: FeatureNames,
    /// The table ids of nodes by node type; `None` for types whose ids are row numbers.
    nodes: Vec<Option<NodeNames>>,
    /// The node types of the sources and destinations of each edge type.
    ends: Vec<[NodeTypeId; 2]>,
    table: Option<Box<dyn RowsFile>>,
    pub(super) found: Found,
}

/// The number of explanations, and their quality.
#[derive(Default)]
pub(super) struct Found {
    pub(super) targets: u64,
    rows: u64,
    /// The number of targets whose score or contributions are not finite.
    not_finite: u64,
    /// The largest difference between a score and its baseline.
    largest_change: f64,
    /// The largest difference between such a change and the sum of its contributions.
    largest_error: f64,
}

impl ExplanationFile {
    /// Creates the file on rank 0. Every rank must call this.
    pub(super) fn create(
        args: &PredictArgs,
        graph: &Arc<DistGraph>,
        targets: Targets,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Self> {
        let part = graph.part();
        let mut nodes = Vec::new();
        for node_type in (0..part.meta().node_types.len() as u16).map(NodeTypeId) {
            nodes.push(NodeNames::open(args, graph, node_type, world)?);
        }
        let ends = part.edge_type_ids().map(|e| [part.edges(e).src_type, part.edges(e).dst_type]).collect();
        let features = FeatureNames::read(args, part.meta(), world.rank() == 0)?;
        Self::new(args, targets, features, nodes, ends, world)
    }

    /// Creates the file on rank 0 for inputs with these names. `nodes` are by node type, `ends` by edge type.
    pub(super) fn new(
        args: &PredictArgs,
        targets: Targets,
        features: FeatureNames,
        nodes: Vec<Option<NodeNames>>,
        ends: Vec<[NodeTypeId; 2]>,
        world: &ProcessGroup,
    ) -> anyhow::Result<Self> {
        let mut file = Self { targets, features, nodes, ends, table: None, found: Found::default() };
        if world.rank() == 0 {
            let shape = ValueShape::Named(NUMBERS.iter().map(ToString::to_string).collect());
            let columns = Columns { ids: file.targets.ids, value: "", shape, form: Form::Numbers };
            file.table = Some(create_table(STEM, args, &columns, file.empty_columns())?);
        }
        Ok(file)
    }

    /// Returns the columns between the ids and the numbers, without rows.
    fn empty_columns(&self) -> NamedColumns {
        let mut columns = NamedColumns::new();
        columns.extend(self.targets.edges.as_ref().map(|names| (USER_ID, names.empty())));
        for (column, node_type) in &self.targets.names {
            columns.extend(self.nodes[node_type.index()].as_ref().map(|names| (*column, names.empty())));
        }
        ClassNames::add_to(self.targets.classes.as_ref(), &mut columns);
        columns.extend(["kind", "type"].map(|name| (name, UserColumn::Texts(Vec::new()))));
        for [id, name] in [["input_id", "input"], ["input_dst_id", "input_dst"]] {
            columns.push((id, UserColumn::Numbers(Vec::new())));
            if self.has_names() {
                columns.push((name, UserColumn::Texts(Vec::new())));
            }
        }
        columns.push(("feature", UserColumn::Texts(Vec::new())));
        columns
    }

    fn has_names(&self) -> bool {
        self.nodes.iter().any(Option::is_some)
    }

    /// Appends the rows of the explanations that `explain` gives to its visitor. Every rank must call this.
    pub(super) fn fill(
        &mut self,
        explain: impl FnOnce(&mut ExplanationVisitor<'_>) -> Result<(), TrainError>,
    ) -> anyhow::Result<()> {
        let mut failure = Failure::default();
        let done = explain(&mut |found, world| failure.keep(self.push(&found, world)));
        failure.or(done)
    }

    /// Appends the rows of explanations. Every rank must call this with the same explanations.
    fn push(&mut self, explanations: &[Explanation], world: &mut ProcessGroup) -> anyhow::Result<()> {
        let found = self.find_names(explanations, world)?;
        for explanation in explanations {
            self.found.add(explanation);
        }
        let Some(mut table) = self.table.take() else { return Ok(()) };
        let ExplanationColumns { ids, more, numbers } = self.columns(explanations, &found)?;
        let ids: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
        table.push(&ids, &more, &Values::Numbers(numbers))?;
        self.table = Some(table);
        Ok(())
    }

    /// Finds the table ids of all nodes of explanations, by node type.
    fn find_names(
        &self,
        explanations: &[Explanation],
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Vec<Option<FoundNames>>> {
        let mut wanted = vec![Vec::new(); self.nodes.len()];
        for explanation in explanations {
            for ((_, node_type), &id) in self.targets.names.iter().zip(&explanation.target) {
                wanted[node_type.index()].push(id);
            }
            for contribution in &explanation.contributions {
                for (node_type, id) in self.nodes_of(contribution.input).into_iter().flatten() {
                    wanted[node_type.index()].push(id);
                }
            }
        }
        let mut found = Vec::with_capacity(wanted.len());
        for (names, nodes) in self.nodes.iter().zip(wanted) {
            found.push(match names {
                Some(names) => Some(names.of(nodes, world)?),
                None => None,
            });
        }
        Ok(found)
    }

    /// Returns a node, or the source and the destination of an edge.
    fn nodes_of(&self, input: ExplainedInput) -> [Option<(NodeTypeId, u32)>; 2] {
        match input {
            ExplainedInput::Node(node_type, id) => [Some((node_type, id)), None],
            ExplainedInput::Edge(edge_type, src, dst) => {
                let [of_src, of_dst] = self.ends[edge_type.index()];
                [Some((of_src, src)), Some((of_dst, dst))]
            }
        }
    }

    fn columns(
        &self,
        explanations: &[Explanation],
        found: &[Option<FoundNames>],
    ) -> anyhow::Result<ExplanationColumns> {
        let num_targets = self.targets.names.len();
        let mut ids = vec![Vec::new(); num_targets + 2];
        let mut outputs = Vec::new();
        let mut inputs = Vec::new();
        let mut numbers = Vec::new();
        for explanation in explanations {
            for contribution in &explanation.contributions {
                for (column, &id) in ids.iter_mut().zip(&explanation.target) {
                    column.push(id);
                }
                ids[num_targets].push(explanation.output as u32);
                ids[num_targets + 1].push(contribution.rank);
                outputs.push(explanation.output as i64);
                inputs.push(*contribution);
                numbers.extend([explanation.score, explanation.baseline]);
                numbers.extend([contribution.value, contribution.contribution]);
            }
        }
        let mut more = Vec::new();
        more.extend(self.ids_of_edges(explanations)?);
        for ((_, node_type), ids) in self.targets.names.iter().zip(&ids) {
            if let Some(names) = &found[node_type.index()] {
                more.push(names.column(ids)?);
            }
        }
        more.extend(self.targets.classes.as_ref().map(|classes| classes.of(&Values::Classes(outputs))));
        more.push(texts(&inputs, |contribution| kind(contribution).to_owned()));
        more.push(texts(&inputs, |contribution| self.features.type_of(contribution.input).to_owned()));
        for end in 0..2 {
            let mut numbers = Vec::with_capacity(inputs.len());
            let mut names = Vec::with_capacity(inputs.len());
            for contribution in &inputs {
                // A node has no destination.
                let node = self.nodes_of(contribution.input)[end];
                numbers.push(node.map_or(-1, |(_, id)| i64::from(id)));
                let of_type = node.and_then(|(node_type, id)| Some((found[node_type.index()].as_ref()?, id)));
                names.push(ByteArray::from(match of_type {
                    Some((of_type, id)) => of_type.column(&[id])?.text(0).into_bytes(),
                    None => Vec::new(),
                }));
            }
            more.push(UserColumn::Numbers(numbers));
            if self.has_names() {
                more.push(UserColumn::Texts(names));
            }
        }
        more.push(texts(&inputs, |contribution| self.features.column(contribution.input, contribution.column)));
        Ok(ExplanationColumns { ids, more, numbers })
    }

    /// Returns the table id of the edge of each contribution, if edges have ids.
    fn ids_of_edges(&self, explanations: &[Explanation]) -> anyhow::Result<Option<UserColumn>> {
        let Some(names) = &self.targets.edges else { return Ok(None) };
        let mut destinations = Vec::with_capacity(explanations.len());
        let mut positions = Vec::with_capacity(explanations.len());
        let mut rows = Vec::new();
        for (at, explanation) in explanations.iter().enumerate() {
            let [destination, position] = explanation.edge.context("an explanation names no edge")?;
            destinations.push(destination);
            positions.push(position);
            rows.extend(explanation.contributions.iter().map(|_| at));
        }
        Ok(Some(names.of(&destinations, &positions)?.rows(&rows)))
    }

    /// Completes the file. Every rank must call this.
    pub(super) fn finish(self, world: &mut ProcessGroup) -> anyhow::Result<Found> {
        if let Some(table) = self.table {
            table.commit()?;
        }
        world.barrier()?;
        Ok(self.found)
    }
}

/// The columns of explanations.
struct ExplanationColumns {
    ids: Vec<Vec<u32>>,
    /// The ids of tables, classes and other texts.
    more: Vec<UserColumn>,
    /// The other columns, row by row.
    numbers: Vec<f32>,
}

/// Returns a column with a text for each contribution.
fn texts(contributions: &[Contribution], text: impl Fn(&Contribution) -> String) -> UserColumn {
    let texts = contributions.iter().map(|contribution| ByteArray::from(text(contribution).into_bytes()));
    UserColumn::Texts(texts.collect())
}

/// Returns the kind of a contribution.
fn kind(contribution: &Contribution) -> &'static str {
    match (contribution.input, contribution.column) {
        (ExplainedInput::Node(..), None) => "node",
        (ExplainedInput::Node(..), Some(_)) => "node-feature",
        (ExplainedInput::Edge(..), None) => "edge",
        (ExplainedInput::Edge(..), Some(_)) => "edge-feature",
    }
}

/// The result that `--json` prints.
#[derive(Serialize)]
pub(super) struct ExplainResult {
    explained: u64,
    rows: u64,
    /// The largest error of the sum of the contributions to a score, relative to the largest change of a score.
    largest_gap: f64,
}

impl Found {
    fn add(&mut self, explanation: &Explanation) {
        self.targets += 1;
        self.rows += explanation.contributions.len() as u64;
        let change = f64::from(explanation.score) - f64::from(explanation.baseline);
        if !change.is_finite() || !explanation.sum.is_finite() {
            self.not_finite += 1;
            return;
        }
        self.largest_change = self.largest_change.max(change.abs());
        self.largest_error = self.largest_error.max((explanation.sum - change).abs());
    }

    /// Returns the result for targets of a kind.
    pub(super) fn done(&self, what: &str, time: Duration) -> Done<ExplainResult> {
        let Self { targets, rows, not_finite, largest_change, largest_error } = *self;
        let largest_gap = if largest_change > 0.0 { largest_error / largest_change } else { 0.0 };
        let result = ExplainResult { explained: targets, rows, largest_gap };
        let mut done = Done::new(format!("explanations of {targets} {what}"), result, Some(time));
        done.details = format!(", {rows} rows");
        if largest_gap > LARGE_GAP {
            done.notes.push(format!(
                "contributions add up to the changes of scores with errors of up to {:.1} % of the largest change: \
                 raise --explain-steps",
                100.0 * largest_gap
            ));
        }
        if not_finite > 0 {
            done.notes.push(format!("the scores or contributions of {not_finite} {what} are not finite numbers"));
        }
        done
    }
}
