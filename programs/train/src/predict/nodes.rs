//! Predictions, probabilities, logits and embeddings of nodes.

use super::args::{Format, PredictArgs, Rows};
use super::checks::check_row_numbers;
use super::class_names::ClassNames;
use super::done::{Done, in_graph};
use super::files::{Columns, NamedColumns, USER_ID, create_rows, create_table, of_target, stem_of_rank, write_ids};
use super::model::{Opened, layer_wise, open};
use super::progress::Progress;
use super::request::{DATA, PARTS, Request, SAMPLING, WHOLE, on_backend};
use super::scratch_dir;
use super::selection::{Selection, Splits};
use super::values::{Form, Values};
use crate::exit::UsageError;
use crate::id_map_file::{UserColumn, UserIds};
use crate::job::graph_session::GraphSession;
use crate::job::process_role::Rank;
use crate::saved_model::{Predictor, positions};
use crate::tasks::node::{ForNodes, NODES, TargetOutputs};
use anyhow::{Context, bail};
use edgecut_cli::counted;
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{DistRows, NodeFields};
use edgecut_graph::{Meta, NodeTypeId, Split};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::{Neighborhoods, PredictionConfig, PredictionJob, WantedRows};
use edgecut_trainer::loss::{AnyLoss, OutputKind, Target};
use edgecut_trainer::metrics::{Decision, Metric, OutputRows};
use edgecut_trainer::multi::TargetLabel;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of nodes whose rows are written at once.
const BLOCK: usize = 1 << 14;

/// Rows of nodes.
pub(super) const REQUEST: Request = Request {
    reads: &[
        DATA,
        PARTS,
        WHOLE,
        SAMPLING,
        &["gather", "layer", "node_type", "nodes", "ogb_submission", "row_numbers", "scratch_dir", "target"],
    ],
    beside: &["node_ids.npy"],
    check,
    needs_all_ids: |args, is_first| is_first && args.gather && args.format != Format::Npy,
    ..Request::new(
        NODES,
        "rows of nodes (--output prediction, class, probability, logit or embedding)",
        |_| true,
        on_backend!(run),
    )
};

fn check(args: &PredictArgs) -> Result<(), &'static str> {
    let is_embedding = args.output == Rows::Embedding;
    let is_class = [Rows::Prediction, Rows::Class].contains(&args.output);
    if args.layer.is_some() && !is_embedding {
        Err("--layer selects the layer of embeddings: add --output embedding")
    } else if is_embedding && args.num_neighbors.is_some() {
        Err("--output embedding reads all neighbors: leave out --num-neighbors")
    } else if is_embedding && SAMPLING.iter().any(|flag| args.is_given(flag)) {
        Err(
            "--output embedding reads all neighbors at all times: leave out --time-attr, --seed-time, --batch-size and \
             --seed",
        )
    } else if args.ogb_submission.is_some() && !is_class {
        Err("--ogb-submission contains classes: leave out --output, or the submission")
    } else if args.ogb_submission.is_some() && args.nodes == "all" {
        Err("--ogb-submission contains test nodes: add --nodes test, or a .npy file with their ids")
    } else {
        check_row_numbers(args, &args.nodes)
    }
}

fn run<B: TrainingBackend>(args: &PredictArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    let selection = Selection::read(args)?;
    let scratch_dir = scratch_dir(args)?;
    in_graph(args, rank, selection.checksum(), |job| {
        let start = Instant::now();
        let computed = compute::<B>(args, &selection, scratch_dir, job, device)?;
        let time = start.elapsed();
        let mut written = Vec::with_capacity(computed.len());
        for target in computed {
            written.push(write_target(args, target, &selection, job)?);
        }
        Ok(done(written, time))
    })
}

/// The rows of all nodes of a type for a target of the model.
struct TargetRows {
    /// The full name of the target; `None` for the only one.
    name: Option<String>,
    rows: Arc<DistRows>,
    /// The columns of the target in the rows.
    range: Range<usize>,
    columns: Columns,
    /// The thresholds and the temperature of the model.
    decision: Decision,
    /// The meaning of the columns; `None` for embeddings.
    outputs: Option<OutputKind>,
    /// The label of one of several targets; `None` for the only target, and if the graph lacks the label.
    label: Option<TargetLabel>,
    /// The nodes of its type that a file lists.
    listed: Option<Vec<u32>>,
}

/// Computes the rows of all nodes for each target.
fn compute<B: TrainingBackend>(
    args: &PredictArgs,
    selection: &Selection,
    scratch_dir: PathBuf,
    job: &mut GraphSession<'_>,
    device: &B::Device,
) -> anyhow::Result<Vec<TargetRows>> {
    let wanted = match args.output {
        Rows::Embedding => WantedRows::Layer(args.layer.map(|layer| layer as usize)),
        _ => WantedRows::Logits,
    };
    let meta = job.graph.part().meta().clone();
    let opened = open::<B>(args, Some(&meta), job.world, device)?;
    let files = layer_wise(args, opened.saved.trained_on.as_ref(), scratch_dir);
    let neighborhoods = match &opened.sampler {
        None => Neighborhoods::LayerWise(files),
        Some(sampler) => Neighborhoods::Sampled {
            sampler: sampler.clone(),
            time: args.seed_time,
            batch_size: args.batch_size.unwrap_or(1024) as usize,
            seed: args.seed.unwrap_or(0),
            files,
        },
    };
    let mut outputs = None;
    // Models of other items have embeddings of nodes, too.
    let mut encoder = opened.model.predictor.encoder();
    if wanted == WantedRows::Logits {
        let model = opened.predictor::<ForNodes<B>>()?;
        if !model.targets.is_empty() {
            return compute_targets(&opened, model, selection, &neighborhoods, job, device);
        }
        outputs = opened.model.outputs;
        encoder = model.encoder();
    }
    let Some((network, network_config)) = encoder else { bail!(opened.unfit()) };
    let config = PredictionConfig { wanted, node_type: args.node_type.clone(), neighborhoods };
    if let Some(outputs) = outputs {
        let form = Form::new(args.output, outputs)?;
        if args.ogb_submission.is_some() && form != Form::Class {
            let what = "--ogb-submission contains classes, which the model does not predict: leave it out";
            bail!(UsageError(what.into()));
        }
    }
    let mut listed = None;
    // Unknown ids are found before anything is computed. Another error follows if the node type is not known.
    if let Some(node_type) = node_type_of(args, &meta, network_config.outputs.first().map(|output| output.node_type)) {
        listed = selection.listed(node_type, args.part.dataset_root_dir.as_deref(), job)?;
    }
    if let (Some(submission), Some(listed)) = (args.ogb_submission, &listed) {
        // Before anything is computed.
        submission.check(listed.len(), &args.nodes)?;
    }
    let progress = Progress::new(&args.job, job.world.rank());
    let job = PredictionJob { graph: &job.graph, world: job.world, device, progress: &progress };
    let rows = Arc::new(B::predict_node(job, network, network_config, opened.embeddings(), &config)?);
    progress.finish();
    let columns = match outputs {
        Some(outputs) => Columns::of_outputs(&["node_id"], args.output, outputs, rows.dim())?,
        None => Columns::of_numbers(&["node_id"], "embedding", rows.dim()),
    };
    let range = 0..rows.dim();
    let decision = opened.saved.decision_of_nodes(outputs)?;
    Ok(vec![TargetRows { name: None, rows, range, columns, decision, outputs, label: None, listed }])
}

/// Computes the outputs of a model for several targets. The targets of a node type share its rows.
fn compute_targets<B: TrainingBackend>(
    opened: &Opened<'_, B>,
    model: &ForNodes<B>,
    selection: &Selection,
    neighborhoods: &Neighborhoods,
    job: &mut GraphSession<'_>,
    device: &B::Device,
) -> anyhow::Result<Vec<TargetRows>> {
    let Opened { args, saved, .. } = opened;
    if args.ogb_submission.is_some() {
        let what = "--ogb-submission contains the classes of a model of `train node`: leave it out, and predict the target by --target";
        bail!(UsageError(what.into()));
    }
    let meta = job.graph.part().meta().clone();
    let names: Vec<String> = model.targets.iter().map(|target| target.saved.name.clone()).collect();
    let mut chosen = positions(&args.target, &names, &args.load_model)?;
    chosen.sort_unstable();
    let targets: Vec<&TargetOutputs> = chosen.iter().map(|&at| &model.targets[at]).collect();
    let mut node_types: Vec<NodeTypeId> = Vec::new();
    let mut files = BTreeSet::new();
    for TargetOutputs { saved, .. } in &targets {
        if !files.insert(of_target(&saved.name)) {
            bail!("the target {} has the file of another one: predict one of them by --target", saved.name);
        }
        Form::new(args.output, saved.outputs).map_err(|UsageError(why)| {
            UsageError(format!("{why}. Choose targets by --target: {} has none", saved.name))
        })?;
        if !node_types.contains(&saved.node_type) {
            node_types.push(saved.node_type);
        }
    }
    if let Some(name) = &args.node_type {
        bail!(UsageError(format!(
            "--node-type {name} selects the nodes of embeddings: choose the predictions of a model for several targets by \
             --target"
        )));
    }
    let mut labels = Vec::with_capacity(targets.len());
    for TargetOutputs { saved, .. } in &targets {
        labels.push(TargetLabel::find(&meta, &saved.name));
    }
    // Unknown ids are found before anything is computed.
    let mut listed = Vec::with_capacity(node_types.len());
    for node_type in &node_types {
        listed.push(selection.listed(*node_type, args.part.dataset_root_dir.as_deref(), job)?);
    }
    let progress = Progress::new(&args.job, job.world.rank());
    let prediction = PredictionJob { graph: &job.graph, world: job.world, device, progress: &progress };
    let mut rows = Vec::with_capacity(node_types.len());
    let ForNodes { network, config, .. } = model;
    let embeddings = opened.embeddings();
    for of_type in B::predict_outputs(prediction, network, config, embeddings, &node_types, neighborhoods)? {
        rows.push(Arc::new(of_type));
    }
    progress.finish();
    let mut computed = Vec::with_capacity(targets.len());
    for (TargetOutputs { saved: target, columns: range }, label) in targets.into_iter().zip(labels) {
        let at = node_types.iter().position(|node_type| *node_type == target.node_type).context("rows of a target")?;
        computed.push(TargetRows {
            rows: rows[at].clone(),
            columns: Columns::of_outputs(&["node_id"], args.output, target.outputs, range.len())?,
            range: range.clone(),
            decision: saved.decision_of(&target.name, target.outputs)?,
            outputs: Some(target.outputs),
            name: Some(target.name.clone()),
            label,
            listed: listed[at].clone(),
        });
    }
    Ok(computed)
}

/// The nodes of a target that are written, and their scores.
struct Written {
    target: Option<String>,
    nodes: usize,
    scores: Option<Scores>,
}

/// Writes the rows of the selected nodes for a target, and computes its scores. Every rank must call this.
fn write_target(
    args: &PredictArgs,
    target: TargetRows,
    selection: &Selection,
    job: &mut GraphSession<'_>,
) -> anyhow::Result<Written> {
    let rows = &target.rows;
    let selected = selection.ids(target.listed.clone(), rows.node(), rows.node_type(), target.splits(), job.world)?;
    if let Some(ids) = &selected
        && ids.is_empty()
    {
        let of_target = target.name.as_ref().map(|name| format!(" of the target {name}")).unwrap_or_default();
        bail!("--nodes {}: there are no such nodes{of_target}", args.nodes);
    }
    if let Some(submission) = args.ogb_submission {
        // A submission has the order of the file.
        let ids = target.listed.as_deref().or(selected.as_deref()).unwrap_or_default();
        submission.check(ids.len(), &args.nodes)?;
        submission.write(&args.out, rows, ids, job.world)?;
    }
    let nodes = write(args, &target, selected.as_deref(), job)?;
    let scores = if target.outputs.is_some() { scores_of(&target, job)? } else { None };
    Ok(Written { target: target.name, nodes, scores })
}

impl TargetRows {
    fn splits(&self) -> Splits<'_> {
        match (&self.name, &self.label) {
            (None, _) => Splits::OfGraph,
            (Some(_), Some(label)) => Splits::OfLabel(label),
            (Some(_), None) => Splits::Unknown,
        }
    }

    /// Returns the end of the names of its files.
    fn ending(&self) -> String {
        self.name.as_deref().map(of_target).unwrap_or_default()
    }

    /// Returns the outputs for nodes, which are global ids, row by row.
    fn pull(&self, nodes: &[u32]) -> anyhow::Result<Vec<f32>> {
        let all = self.rows.node().handle().block_on(self.rows.pull(nodes))?;
        let dim = self.rows.dim();
        if self.range == (0..dim) {
            return Ok(all);
        }
        Ok(all.chunks_exact(dim).flat_map(|row| row[self.range.clone()].iter().copied()).collect())
    }

    /// Returns the values to write for nodes, which are global ids.
    fn values(&self, nodes: &[u32]) -> anyhow::Result<Values> {
        Ok(Values::of(self.pull(nodes)?, self.range.len(), self.columns.form, &self.decision))
    }

    /// Returns the names of the classes that are written, if the tables have them. Every rank must call this.
    fn classes(&self, args: &PredictArgs, meta: &Meta, world: &mut ProcessGroup) -> anyhow::Result<Option<ClassNames>> {
        let node_type = self.rows.node_type();
        if !self.columns.has_classes() {
            return Ok(None);
        }
        let Some(label) = &self.label else {
            return match self.name {
                None => ClassNames::of_nodes(args, meta, node_type, world),
                Some(_) => Ok(None),
            };
        };
        let name = Some(label.meta.name.as_str()).filter(|name| !name.is_empty());
        ClassNames::of_label(args, meta, (node_type, name), world)
    }
}

/// Returns the node type of `--node-type`, or that which the model classifies, or the only one.
fn node_type_of(args: &PredictArgs, meta: &Meta, classified: Option<NodeTypeId>) -> Option<NodeTypeId> {
    match &args.node_type {
        Some(name) => meta.node_types.iter().position(|nodes| nodes.name == *name).map(|at| NodeTypeId(at as u16)),
        None => classified.or((meta.node_types.len() == 1).then_some(NodeTypeId(0))),
    }
}

/// Writes the rows of the selected nodes, all if there is no list. Returns their number.
fn write(
    args: &PredictArgs,
    target: &TargetRows,
    selected: Option<&[u32]>,
    job: &mut GraphSession<'_>,
) -> anyhow::Result<usize> {
    let TargetRows { rows, columns, .. } = target;
    let num_nodes = job.graph.part().meta().node_types[rows.node_type().index()].book.num_nodes();
    let num_rows = selected.map_or(num_nodes, <[u32]>::len);
    let rank = job.world.rank();
    let classes = target.classes(args, job.graph.part().meta(), job.world)?;
    let (columns, classes) = columns.clone().named_by(classes);
    let columns = &columns;
    let classes = classes.as_ref();
    let stem = format!("{}{}", REQUEST.stem, target.ending());
    if args.format != Format::Npy && !args.gather {
        let users = user_ids(args, rows, rows.own_nodes())?;
        let stem = stem_of_rank(&stem, rank, job.world.size());
        let mut file = create_table(&stem, args, columns, named(users.as_ref(), classes))?;
        let mut own = rows.own_nodes();
        let mut steps = [own.len().div_ceil(BLOCK) as u64];
        job.world.all_reduce(&mut steps, ReduceOp::Max)?;
        for _ in 0..steps[0] {
            let nodes: Vec<u32> = own.by_ref().take(BLOCK).collect();
            let (ids, nodes) = selected_of(rows, selected, nodes)?;
            let values = target.values(&nodes)?;
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
        file = Some(create_rows(&stem, args, columns, named, num_rows)?);
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
            let values = target.values(&nodes)?;
            file.push(&[&ids], &more_of(users.as_ref(), classes, &nodes, &values)?, &values)?;
        }
        job.world.barrier()?;
    }
    if let Some(file) = file {
        if let (Some(ids), Format::Npy) = (selected, args.format) {
            write_ids(&args.out.join(format!("node_ids{}.npy", target.ending())), ids)?;
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
    let graph = rows.node();
    let all = graph.handle().block_on(graph.original_ids(rows.node_type(), nodes.clone()))?;
    let Some(selected) = selected else { return Ok((all, nodes)) };
    Ok(all.into_iter().zip(nodes).filter(|(id, _)| selected.binary_search(id).is_ok()).unzip())
}

/// A metric on the training, validation and test nodes.
struct Scores {
    metric: Metric,
    values: [Option<f64>; 3],
}

/// Computes the default metric of outputs on the training, validation and test nodes; `None` if the nodes have no such
/// targets. Every rank must call this.
fn scores_of(target: &TargetRows, job: &mut GraphSession<'_>) -> anyhow::Result<Option<Scores>> {
    let rows = &target.rows;
    let graph = rows.node().clone();
    let node_type = rows.node_type();
    let labels = match target.splits() {
        Splits::OfGraph => OutputKind::of_nodes(&graph.part().meta().node_types[node_type.index()]),
        Splits::OfLabel(label) => label.outputs(),
        Splits::Unknown => None,
    };
    let (Some(labels), Some(outputs)) = (labels, target.outputs) else { return Ok(None) };
    // Classes that the model does not know are wrong predictions. Labels can be predicted as numbers.
    let fits = match (labels, outputs) {
        (OutputKind::Classes(_), OutputKind::Classes(_)) => true,
        _ => labels == outputs || labels.as_numbers() == Some(outputs),
    };
    let loss = AnyLoss::all_for(outputs).next().filter(|_| fits);
    let Some(loss) = loss else { return Ok(None) };
    let metric: Metric = loss.default_metric().parse()?;
    let mut values = [None; 3];
    for (split, value) in Split::ALL.into_iter().zip(&mut values) {
        let mut state = metric.start(outputs);
        // Ranks that share parts find the same nodes. Each counts those whose rows it holds.
        let nodes = target.splits().nodes(&graph, node_type, split)?;
        let nodes: Vec<u32> = nodes.into_iter().filter(|&node| rows.holds(node)).collect();
        let wanted = NodeFields { labels: true, ..NodeFields::default() };
        for nodes in nodes.chunks(BLOCK) {
            let mut known =
                Target::of_nodes(graph.handle().block_on(graph.fetch(node_type, nodes.to_vec(), wanted))?);
            if let Splits::OfLabel(label) = target.splits() {
                // All of these nodes are in the split.
                known = label.known(&known, split).map(|known| known.target).unwrap_or_default();
            }
            let found = target.pull(nodes)?;
            state.add(&OutputRows::new(&found, target.range.len()).decided_by(&target.decision), &known);
        }
        *value = state.over_all_ranks(job.world)?;
    }
    Ok(Some(Scores { metric, values }))
}

/// The result that `--json` prints.
#[derive(Serialize)]
struct PredictResult {
    #[serde(flatten)]
    only: Option<TargetResult>,
    /// The results of several targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<TargetResult>,
}

/// The result for a target.
#[derive(Serialize)]
struct TargetResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    nodes: usize,
    train_acc: Option<f64>,
    valid_acc: Option<f64>,
    test_acc: Option<f64>,
    /// The metric of labels or numbers.
    #[serde(flatten)]
    of_metric: Option<OfMetric>,
}

#[derive(Serialize)]
struct OfMetric {
    metric: Metric,
    train_metric: Option<f64>,
    valid_metric: Option<f64>,
    test_metric: Option<f64>,
}

impl TargetResult {
    fn new(written: &Written) -> Self {
        let (accuracies, of_metric) = match written.scores {
            Some(Scores { metric, values }) if metric.name() == "accuracy" => (values, None),
            Some(Scores { metric, values: [train_metric, valid_metric, test_metric] }) => {
                ([None; 3], Some(OfMetric { metric, train_metric, valid_metric, test_metric }))
            }
            None => ([None; 3], None),
        };
        let [train_acc, valid_acc, test_acc] = accuracies;
        Self { target: written.target.clone(), nodes: written.nodes, train_acc, valid_acc, test_acc, of_metric }
    }
}

fn done(written: Vec<Written>, time: Duration) -> Done<PredictResult> {
    let mut targets: Vec<TargetResult> = written.iter().map(TargetResult::new).collect();
    let only = if written.iter().all(|written| written.target.is_none()) { targets.pop() } else { None };
    let counts: Vec<String> = written.iter().map(count_of).collect();
    let what = format!("predictions for {}", counts.join(", "));
    let mut done = Done::new(what, PredictResult { only, targets }, Some(time));
    for Written { target, scores, .. } in written {
        let Some(Scores { metric, values }) = scores else { continue };
        if values.iter().any(Option::is_some) {
            let [train, valid, test] = values.map(|value| metric.shown(value));
            let name = target.map(|target| format!("{target} ")).unwrap_or_default();
            done.lines.push(format!("{name}{metric}: train {train}, validation {valid}, test {test}"));
        }
    }
    done
}

/// Returns the number of nodes of a target.
fn count_of(written: &Written) -> String {
    let nodes = counted(written.nodes, "node", "nodes");
    match &written.target {
        Some(target) => format!("{nodes} ({target})"),
        None => nodes,
    }
}
