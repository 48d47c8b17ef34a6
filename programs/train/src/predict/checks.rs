//! Checks of the flags of `train predict` against each other.

use super::args::{Format, PredictArgs, Rows};
use super::model::unfit;
use super::request::Request::{self, Edges, Explanations, GraphExplanations, Graphs, Nodes, Pairs, Table, TopK};
use crate::exit::UsageError;
use crate::tasks::TaskEntry;
use anyhow::bail;
use edgecut_graph::Split;
use edgecut_trainer::model_file::NewEmbeddings;
use edgecut_trainer::model_file::{SavedTask, read_network};

/// A flag, whether it is given, and the requests that it applies to.
type Flag = (&'static str, bool, &'static [Request]);

/// Checks flags that contradict each other.
pub(super) fn check(args: &PredictArgs) -> anyhow::Result<()> {
    let request = Request::of(args);
    if let Some((flag, _, requests)) =
        flags(args).into_iter().find(|(_, is_given, of)| *is_given && !of.contains(&request))
    {
        let of: Vec<&str> = requests.iter().map(|request| request.flags()).collect();
        let what = format!("{flag} applies to {}: leave {flag} out, or change the other flags", of.join(", and to "));
        bail!(UsageError(what));
    }
    let wrong = if args.layer.is_some() && args.output != Rows::Embedding {
        "--layer selects the layer of embeddings: add --output embedding"
    } else if args.output == Rows::Embedding && args.num_neighbors.is_some() {
        "--output embedding reads all neighbors: leave out --num-neighbors"
    } else if args.output == Rows::Embedding && samples_neighbors(args) {
        "--output embedding reads all neighbors at all times: leave out --time-attr, --seed-time, --batch-size and --seed"
    } else if request == Edges && args.output == Rows::Embedding {
        "--edges: a model for edges has embeddings of nodes and none of edges: use --output prediction, probability or logit"
    } else if request == Edges && args.format == Format::Npy {
        "--edges writes tables with both ends of each edge: add --format csv or parquet"
    } else if args.explain && args.output != Rows::Prediction {
        "--explain explains the score of a prediction: leave out --output"
    } else if args.explain && args.format == Format::Npy {
        "--explain writes a table: add --format csv or parquet"
    } else if request == Explanations && args.edges.is_some() && args.nodes != "all" {
        "--explain explains nodes or edges: leave out --nodes or --edges"
    } else if args.explain && args.device.mixed_precision.is_some() {
        "--explain computes gradients in f32: leave out --mixed-precision"
    } else if request == Pairs && args.pairs.is_none() {
        "--pairs is missing: --output score needs a file of sources and destinations"
    } else if request == TopK && args.sources.is_none() {
        "--sources is missing: --output top-k needs all, or a file of ids"
    } else if request == TopK && args.top_k.is_none() {
        "--top-k is missing: --output top-k needs the number of destinations per source"
    } else if [Graphs, GraphExplanations].contains(&request) && args.part.dataset.is_none() {
        "--dataset is missing: --graphs needs the name of the set of graphs, as train graph does"
    } else if args.ogb_submission.is_some() && ![Rows::Prediction, Rows::Class].contains(&args.output) {
        "--ogb-submission contains classes: leave out --output, or the submission"
    } else if args.ogb_submission.is_some() && args.nodes == "all" {
        "--ogb-submission contains test nodes: add --nodes test, or a .npy file with their ids"
    } else if args.row_numbers && !names_a_file(args) {
        "--row-numbers has no effect, since no flag names a file of ids: leave it out"
    } else if args.gather && args.format == Format::Npy {
        "--gather: --format npy is always one file: leave out --gather, or use --format csv or parquet"
    } else if request.reads_parts() && args.part.server_list().is_some() {
        "--servers: predictions need the parts on the nodes that compute: give --dataset-root-dir"
    } else if request.reads_parts() {
        return check_task(args);
    } else {
        return Ok(());
    };
    bail!(UsageError(wrong.into()))
}

/// Checks that the task of the model reads a graph in parts. A process that cannot read the model finds out when rank 0 has
/// sent it.
fn check_task(args: &PredictArgs) -> anyhow::Result<()> {
    let saved = read_network(&args.load_model).and_then(|bytes| SavedTask::of_file(&bytes, &args.load_model));
    match saved.ok().and_then(|saved| TaskEntry::named(&saved.task)) {
        Some(task) if !task.reads_parts => bail!(unfit(args, task)),
        _ => Ok(()),
    }
}

/// Returns true if a flag of sampled neighbors is given.
fn samples_neighbors(args: &PredictArgs) -> bool {
    let is_random_start = args.new_embeddings == Some(NewEmbeddings::Random);
    let samples_by_seed = args.seed.is_some() && !is_random_start;
    args.time_attr.is_some() || args.seed_time.is_some() || args.batch_size.is_some() || samples_by_seed
}

/// Returns true if a flag names a file of node ids.
fn names_a_file(args: &PredictArgs) -> bool {
    args.pairs.is_some() || is_file(&args.nodes) || args.sources.as_deref().is_some_and(is_file)
}

/// Returns true if the value of a flag is the name of a file.
fn is_file(text: &str) -> bool {
    text != "all" && Split::ALL.iter().all(|split| split.name() != text)
}

fn flags(args: &PredictArgs) -> Vec<Flag> {
    const READ_PARTS: &[Request] = &[Nodes, Edges, Explanations, Pairs, TopK];
    const EXPLAINED: &[Request] = &[Explanations, GraphExplanations];
    const DATA: &[Request] = &[Nodes, Edges, Pairs, TopK, Graphs, Explanations, GraphExplanations];
    let part = &args.part;
    let is_random_start = args.new_embeddings == Some(NewEmbeddings::Random);
    let whole = &part.whole;
    vec![
        ("--ogb-submission", args.ogb_submission.is_some(), &[Nodes]),
        ("--nodes", args.nodes != "all", &[Nodes, Explanations]),
        ("--node-type", args.node_type.is_some(), &[Nodes, Table]),
        ("--target", !args.target.is_empty(), &[Nodes, Explanations]),
        ("--layer", args.layer.is_some(), &[Nodes]),
        ("--num-neighbors", args.num_neighbors.is_some(), &[Nodes, Edges, Explanations]),
        ("--time-attr", args.time_attr.is_some(), &[Nodes, Edges, Explanations]),
        ("--seed-time", args.seed_time.is_some(), &[Nodes, Edges, Explanations]),
        ("--batch-size", args.batch_size.is_some(), &[Nodes, Edges, Explanations, GraphExplanations]),
        ("--seed", args.seed.is_some() && !is_random_start, &[Nodes, Edges, Explanations]),
        ("--explain-top", args.explain_top.is_some(), EXPLAINED),
        ("--explain-steps", args.explain_steps.is_some(), EXPLAINED),
        ("--explain-output", args.explain_output.is_some(), EXPLAINED),
        ("--graphs", args.graphs.is_some(), &[Graphs, GraphExplanations]),
        ("--edges", args.edges.is_some(), &[Edges, Explanations]),
        ("--pairs", args.pairs.is_some(), &[Pairs]),
        ("--sources", args.sources.is_some(), &[TopK]),
        ("--row-numbers", args.row_numbers, &[Nodes, Pairs, TopK, Explanations]),
        ("--top-k", args.top_k.is_some(), &[TopK]),
        ("--exclude-known", args.exclude_known.is_some(), &[TopK]),
        ("--edge-type", args.edge_type.is_some(), &[Pairs, TopK]),
        ("--gather", args.gather, &[Nodes, Graphs, Pairs, TopK]),
        ("--new-embeddings", args.new_embeddings.is_some(), READ_PARTS),
        ("--scratch-dir", args.scratch_dir.is_some(), &[Nodes, Edges, Pairs, TopK]),
        ("--servers", part.servers.is_some(), READ_PARTS),
        ("--dataset-root-dir", part.dataset_root_dir.is_some(), DATA),
        ("--dataset", part.dataset.is_some(), DATA),
        ("--feature-dtype", part.feature_dtype.is_some(), READ_PARTS),
        ("--map-edges", part.map_edges, READ_PARTS),
        ("--copy-edges", part.copy_edges, READ_PARTS),
        ("--verify", part.verify, READ_PARTS),
        ("--split", whole.split.is_some(), READ_PARTS),
        ("--to-undirected", whole.to_undirected, READ_PARTS),
        ("--add-reverse-edges", whole.add_reverse_edges, READ_PARTS),
        ("--hold-out-edges", whole.hold_out_edges.is_some(), READ_PARTS),
        ("--overlap", whole.overlap.is_some(), READ_PARTS),
    ]
}
