//! Predictions, probabilities, logits and embeddings of nodes.

use super::args::{Format, PredictArgs, Rows};
use super::class_names::ClassNames;
use super::files::{Columns, NamedColumns, RowsFile, Table, USER_ID, stem_of_rank, write_ids};
use super::model::{Opened, open};
use super::progress::Progress;
use super::selection::Selection;
use super::values::{Form, Values};
use super::{PredictFlags, prepare_out, print, scratch_dir};
use crate::exit::UsageError;
use crate::id_map_file::{UserColumn, UserIds};
use crate::job::graph_session::{self, GraphSession};
use crate::job::labels::WantedLabels;
use crate::job::process_role::Rank;
use crate::saved_model::OpenModel;
use anyhow::{Context, bail};
use edgecut_cluster::ReduceOp;
use edgecut_dist_sampler::{DistRows, NodeFields};
use edgecut_graph::{Meta, NodeTypeId, Split};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::{LayerWiseConfig, Neighborhoods, PredictionConfig, PredictionJob, WantedRows};
use edgecut_trainer::loss::{AnyLoss, OutputKind, Target};
use edgecut_trainer::metrics::{Decision, Metric, OutputRows};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The number of nodes whose rows are written at once.
const BLOCK: usize = 1 << 14;

pub(super) fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let selection = Selection::read(args)?;
    let scratch_dir = scratch_dir(args)?;
    let old = prepare_out(args, rank)?;
    let flags = PredictFlags { args, listed: selection.checksum() };
    let labels = WantedLabels::OfPrediction { target: args.target.as_deref(), model: &args.load_model };
    graph_session::run(&args.job, &args.part, rank, labels, &flags, |job| {
        let start = Instant::now();
        let Computed { rows, columns, decision, task, listed } =
            compute::<B>(args, &selection, scratch_dir, job, device)?;
        let compute_seconds = start.elapsed().as_secs_f64();
        // A submission has the order of the file.
        let submitted = listed.clone().filter(|_| args.ogb_submission.is_some());
        let selected = selection.ids(listed, rows.node(), rows.node_type(), job.world)?;
        if let Some(ids) = &selected
            && ids.is_empty()
        {
            bail!("--nodes {}: there are no such nodes", args.nodes);
        }
        if let Some(submission) = args.ogb_submission {
            let ids = submitted.as_deref().or(selected.as_deref()).unwrap_or_default();
            submission.check(ids.len(), &args.nodes)?;
            submission.write(&args.out, &rows, ids, job.world)?;
        }
        let num_nodes = write(args, (&rows, columns, &decision), selected.as_deref(), job)?;
        let mut scores = None;
        if let Some(outputs) = task {
            scores = scores_of(&rows, outputs, &decision, job)?;
        }
        if job.world.rank() == 0 {
            report(args, num_nodes, scores, compute_seconds)?;
        }
        Ok(())
    })?;
    old.remove()
}

/// The rows of all nodes.
struct Computed {
    rows: DistRows,
    columns: Columns,
    /// The thresholds and the temperature of the model.
    decision: Decision,
    /// The meaning of the rows; `None` for embeddings.
    task: Option<OutputKind>,
    /// The nodes that a file lists.
    listed: Option<Vec<u32>>,
}

/// Computes the rows of all nodes.
fn compute<B: TrainingBackend>(
    args: &PredictArgs,
    selection: &Selection,
    scratch_dir: PathBuf,
    job: &mut GraphSession<'_>,
    device: &B::Device,
) -> anyhow::Result<Computed> {
    let files = LayerWiseConfig { memory_bytes: args.memory_bytes as usize, scratch_dir };
    let wanted = match args.output {
        Rows::Embedding => WantedRows::Layer(args.layer.map(|layer| layer as usize)),
        _ => WantedRows::Logits,
    };
    let Opened { saved, model, sampler } = open::<B>(args, Some(job.graph.part().meta()), job.world, device)?;
    let neighborhoods = match sampler {
        None => Neighborhoods::LayerWise(files),
        Some(sampler) => Neighborhoods::Sampled {
            sampler,
            time: args.seed_time,
            batch_size: args.batch_size.unwrap_or(1024) as usize,
            seed: args.seed.unwrap_or(0),
            files,
        },
    };
    let config = PredictionConfig { wanted, node_type: args.node_type.clone(), neighborhoods };
    if let Some(why) = model.refuses_nodes(&config.wanted) {
        bail!(UsageError(format!("--load-model {}: {why}", args.load_model.display())));
    }
    let task = if args.output == Rows::Embedding { None } else { model.outputs() };
    if let Some(outputs) = task {
        let form = Form::new(args.output, outputs)?;
        if args.ogb_submission.is_some() && form != Form::Class {
            let what = "--ogb-submission contains classes, which the model does not predict: leave it out";
            bail!(UsageError(what.into()));
        }
    }
    let mut listed = None;
    // Unknown ids are found before anything is computed. Another error follows if the node type is not known.
    if let Some(node_type) = node_type_of(args, job.graph.part().meta(), &*model) {
        listed = selection.listed(node_type, args.part.dataset_root_dir.as_deref(), job)?;
    }
    if let (Some(submission), Some(listed)) = (args.ogb_submission, &listed) {
        // Before anything is computed.
        submission.check(listed.len(), &args.nodes)?;
    }
    let progress = Progress::new(&args.job, job.world.rank());
    let job = PredictionJob { graph: &job.graph, world: job.world, device, progress: &progress };
    let rows = model.node_rows(job, &config)?;
    progress.finish();
    let columns = match task {
        Some(outputs) => Columns::of_outputs(&["node_id"], args.output, outputs, rows.dim())?,
        None => Columns::of_numbers(&["node_id"], "embedding", rows.dim()),
    };
    Ok(Computed { rows, columns, decision: saved.decision(), task, listed })
}

/// Returns the node type of `--node-type`, or that which the model classifies, or the only one.
pub(super) fn node_type_of<B: TrainingBackend>(
    args: &PredictArgs,
    meta: &Meta,
    model: &dyn OpenModel<B>,
) -> Option<NodeTypeId> {
    match &args.node_type {
        Some(name) => meta.node_types.iter().position(|nodes| nodes.name == *name).map(|at| NodeTypeId(at as u16)),
        None => model.classified().or((meta.node_types.len() == 1).then_some(NodeTypeId(0))),
    }
}

/// Writes the rows of the selected nodes, all if there is no list. Returns their number.
fn write(
    args: &PredictArgs,
    (rows, columns, decision): (&DistRows, Columns, &Decision),
    selected: Option<&[u32]>,
    job: &mut GraphSession<'_>,
) -> anyhow::Result<usize> {
    let num_nodes = job.graph.part().meta().node_types[rows.node_type().index()].book.num_nodes();
    let num_rows = selected.map_or(num_nodes, <[u32]>::len);
    let rank = job.world.rank();
    let classes = ClassNames::of_nodes(args, job.graph.part().meta(), rows.node_type(), columns.form)?;
    let classes = classes.as_ref();
    if args.format != Format::Npy && !args.gather {
        let users = user_ids(args, rows, rows.own_nodes())?;
        let stem = stem_of_rank("predictions", rank, job.world.size());
        let mut file = Table::create(&stem, args, columns, named(users.as_ref(), classes))?;
        let mut own = rows.own_nodes();
        let mut steps = [own.len().div_ceil(BLOCK) as u64];
        job.world.all_reduce(&mut steps, ReduceOp::Max)?;
        for _ in 0..steps[0] {
            let nodes: Vec<u32> = own.by_ref().take(BLOCK).collect();
            let (ids, nodes) = selected_of(rows, selected, nodes)?;
            let values = values_of(columns, rows, &nodes, decision)?;
            file.push(&[&ids], &more_of(users.as_ref(), classes, &nodes, &values)?, &values)?;
            // Meeting at every block bounds the wait for a slow rank to the time of one block.
            job.world.barrier()?;
        }
        file.commit()?;
        // All files are complete, or the job fails.
        job.world.barrier()?;
        return Ok(num_rows);
    }
    // Rank 0 reads all rows. The other ranks meet it at every block, so that no wait is longer than one block.
    let mut users = None;
    let mut file = None;
    if rank == 0 {
        if args.format != Format::Npy {
            users = user_ids(args, rows, 0..num_nodes as u32).context(
                "--gather: node 0 needs the ids of all parts: copy their id_map.parquet to it, or leave out --gather",
            )?;
        }
        let named = named(users.as_ref(), classes);
        file = Some(RowsFile::create("predictions", args, columns, named, num_rows)?);
    }
    for first in (0..num_rows).step_by(BLOCK) {
        let end = (first + BLOCK).min(num_rows);
        if let Some(file) = &mut file {
            let ids: Vec<u32> = match selected {
                Some(ids) => ids[first..end].to_vec(),
                None => (first as u32..end as u32).collect(),
            };
            let graph = rows.node();
            let nodes = graph.handle().block_on(graph.find_originals(rows.node_type(), &ids))?;
            let values = values_of(columns, rows, &nodes, decision)?;
            file.push(&[&ids], &more_of(users.as_ref(), classes, &nodes, &values)?, &values)?;
        }
        job.world.barrier()?;
    }
    if let Some(file) = file {
        if let (Some(ids), Format::Npy) = (selected, args.format) {
            write_ids(&args.out.join("node_ids.npy"), ids)?;
        }
        file.commit()?;
    }
    job.world.barrier()?;
    Ok(num_rows)
}

/// Returns the empty columns of the ids that users know and of the names of classes, if there are any.
fn named(users: Option<&UserIds>, classes: Option<&ClassNames>) -> NamedColumns {
    let mut columns: NamedColumns = users.map(|users| (USER_ID, users.empty())).into_iter().collect();
    ClassNames::add_to(classes, &mut columns);
    columns
}

/// Returns the values of these columns for nodes, which are global ids.
fn more_of(
    users: Option<&UserIds>,
    classes: Option<&ClassNames>,
    nodes: &[u32],
    values: &Values,
) -> anyhow::Result<Vec<UserColumn>> {
    let mut columns = Vec::new();
    if let Some(users) = users {
        columns.push(users.of(nodes)?);
    }
    columns.extend(classes.map(|classes| classes.of(values)));
    Ok(columns)
}

/// Returns the ids that users know of `nodes`, which are global ids, if the graph has such ids.
fn user_ids(args: &PredictArgs, rows: &DistRows, nodes: impl Iterator<Item = u32>) -> anyhow::Result<Option<UserIds>> {
    let Some(root) = args.part.dataset_root_dir.as_deref() else { return Ok(None) };
    UserIds::open(root, rows.node().part(), rows.node_type(), nodes)
}

/// Returns the ids in the dataset of those of `nodes`, which are global ids, that are selected, and these nodes.
fn selected_of(rows: &DistRows, selected: Option<&[u32]>, nodes: Vec<u32>) -> anyhow::Result<(Vec<u32>, Vec<u32>)> {
    let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
    let graph = rows.node();
    let all = graph.handle().block_on(graph.fetch(rows.node_type(), nodes.clone(), wanted))?.original_ids;
    let Some(selected) = selected else { return Ok((all, nodes)) };
    Ok(all.into_iter().zip(nodes).filter(|(id, _)| selected.binary_search(id).is_ok()).unzip())
}

/// Returns the values to write for nodes, which are global ids.
fn values_of(columns: Columns, rows: &DistRows, nodes: &[u32], decision: &Decision) -> anyhow::Result<Values> {
    let values = rows.node().handle().block_on(rows.pull(nodes))?;
    Ok(Values::of(values, rows.dim(), columns.form, decision))
}

/// A metric on the training, validation and test nodes.
struct Scores {
    metric: Metric,
    values: [Option<f64>; 3],
}

/// Computes the default metric of outputs on the training, validation and test nodes; `None` if the nodes have no such
/// targets. Every rank must call this.
fn scores_of(
    rows: &DistRows,
    outputs: OutputKind,
    decision: &Decision,
    job: &mut GraphSession<'_>,
) -> anyhow::Result<Option<Scores>> {
    let graph = rows.node().clone();
    let node_type = rows.node_type();
    let Some(targets) = OutputKind::of_nodes(&graph.part().meta().node_types[node_type.index()]) else {
        return Ok(None);
    };
    // Classes that the model does not know are wrong predictions. Labels can be predicted as numbers.
    let fits = match (targets, outputs) {
        (OutputKind::Classes(_), OutputKind::Classes(_)) => true,
        _ => targets == outputs || targets.as_numbers() == Some(outputs),
    };
    let loss = AnyLoss::all_for(outputs).next().filter(|_| fits);
    let Some(loss) = loss else { return Ok(None) };
    let metric: Metric = loss.default_metric().parse()?;
    let mut values = [None; 3];
    for (split, value) in Split::ALL.into_iter().zip(&mut values) {
        let mut state = metric.start(outputs);
        // Ranks that share parts find the same nodes. Each counts those whose rows it holds.
        let nodes = graph.split_nodes(node_type, split)?;
        let nodes: Vec<u32> = nodes.into_iter().filter(|&node| rows.holds(node)).collect();
        let wanted = NodeFields { labels: true, ..NodeFields::default() };
        for nodes in nodes.chunks(BLOCK) {
            let target = Target::of_nodes(graph.handle().block_on(graph.fetch(node_type, nodes.to_vec(), wanted))?);
            let found = graph.handle().block_on(rows.pull(nodes))?;
            state.add(&OutputRows::new(&found, rows.dim()).decided_by(decision), &target);
        }
        *value = state.over_all_ranks(job.world)?;
    }
    Ok(Some(Scores { metric, values }))
}

/// The result that `--json` prints.
#[derive(Serialize)]
struct PredictResult<'a> {
    out: &'a Path,
    nodes: usize,
    train_acc: Option<f64>,
    valid_acc: Option<f64>,
    test_acc: Option<f64>,
    /// The metric of labels or numbers.
    #[serde(flatten)]
    of_metric: Option<OfMetric>,
    compute_seconds: f64,
}

#[derive(Serialize)]
struct OfMetric {
    metric: Metric,
    train_metric: Option<f64>,
    valid_metric: Option<f64>,
    test_metric: Option<f64>,
}

fn report(args: &PredictArgs, nodes: usize, scores: Option<Scores>, compute_seconds: f64) -> anyhow::Result<()> {
    let mut result = PredictResult {
        out: args.given_out(),
        nodes,
        train_acc: None,
        valid_acc: None,
        test_acc: None,
        of_metric: None,
        compute_seconds,
    };
    if let Some(Scores { metric, values: [train, valid, test] }) = &scores {
        if metric.name() == "accuracy" {
            result.train_acc = *train;
            result.valid_acc = *valid;
            result.test_acc = *test;
        } else {
            let [train_metric, valid_metric, test_metric] = [*train, *valid, *test];
            result.of_metric = Some(OfMetric { metric: *metric, train_metric, valid_metric, test_metric });
        }
    }
    let mut text =
        format!("predictions for {nodes} nodes in {}, computed in {compute_seconds:.2} s", args.given_out().display());
    if let Some(Scores { metric, values }) = scores
        && values.iter().any(Option::is_some)
    {
        let [train, valid, test] = values.map(|value| metric.shown(value));
        text += &format!("\n{metric}: train {train}, validation {valid}, test {test}");
    }
    print(args, &result, &text)
}
