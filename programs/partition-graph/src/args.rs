//! The command line, and its conversion to plain options.

mod commands;
mod fake_args;

pub(crate) use commands::{Command, FeaturesArgs, InfoArgs, UpdateArgs, UploadArgs, VerifyArgs};

use crate::stored_tables::StoredTables;
use anyhow::Context;
use clap::{Args, CommandFactory, Parser, ValueEnum, error::ErrorKind};
use edgecut_cli::{FlagNames, StoreArgs, parse_bytes};
use edgecut_graph::readers::DatasetSource;
use edgecut_graph::{FeatureDtypes, HoldOut, HotnessRule, NodeSplit, OverlapPolicy, is_folder_name};
use edgecut_partition::{Balance, MemoryLimit, Method, PartitionOptions};
use edgecut_tables::{OnBadRows, TableOptions, Transforms, Unsupported};
use fake_args::FakeArgs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  partition-graph --dataset ogbn-products --root-dir data --num-partitions 2
  partition-graph --dataset fake --num-partitions 4 --avg-num-nodes 100000 --method ldg
  partition-graph --conf shop/graph.json --dataset shop --num-partitions 2
  partition-graph verify data/partitions/ogbn-products/2-parts

Every option is also accepted with underscores, as in PyG: --num_partitions 2.
Exit status: 0 done, 1 an error, 2 a wrong command line, 130 interrupted.";

/// Splits a graph into parts for distributed training.
///
/// Writes N parts to {root-dir}/partitions/{dataset}/{N}-parts: META.json and one folder per part. The folder appears
/// only when it is complete. The report goes to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(name = "partition-graph", version, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) partition: PartitionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PartitionArgs {
    /// The dataset's name: a folder below --root-dir, or `fake` or `fake-hetero` for a generated graph.
    #[arg(long, required = true, value_name = "NAME")]
    dataset: Option<String>,
    /// The folder that holds datasets; parts are written below it.
    #[arg(long, alias = "root_dir", value_name = "DIR", default_value = "data")]
    root_dir: PathBuf,
    /// The number of parts.
    #[arg(long, aliases = ["num_partitions", "num-parts", "num_parts"], required = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    num_partitions: Option<u32>,
    /// The dataset's own folder, instead of a search below --root-dir.
    #[arg(long, alias = "dataset_dir", value_name = "DIR")]
    dataset_dir: Option<PathBuf>,
    /// Read the nodes and edges from CSV and Parquet tables, which this JSON or YAML file describes in GraphStorm's format
    /// gconstruct-v0.1. --dataset then only names the parts.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dataset_dir", "split"])]
    conf: Option<PathBuf>,
    /// With --conf, the treatment of rows that cannot be used: fail at the first one (error), or leave them out and count
    /// them (drop). These are rows with values that are not finite numbers, without an id or with the id of an earlier row,
    /// and edges to nodes that do not exist.
    #[arg(long, alias = "on_bad_rows", value_name = "error|drop", default_value_t = OnBadRows::Error, requires = "conf")]
    on_bad_rows: OnBadRows,
    /// With --conf, the treatment of features and labels that are not supported, such as those of language models: fail
    /// (error), or leave them out with a warning (skip).
    #[arg(long, value_name = "error|skip", default_value_t = Unsupported::Error, requires = "conf")]
    unsupported: Unsupported,
    /// With --conf, the transforms.json of other parts, or their folder. Its transforms and classes are applied instead of
    /// new ones, so that a model of those parts can be used.
    #[arg(long, value_name = "FILE", requires = "conf")]
    transforms: Option<PathBuf>,
    /// With --conf, leave out the features of nodes. `partition-graph features` builds those of each part from the tables
    /// later, on the machine that holds the part.
    #[arg(long, alias = "defer_features", requires = "conf", conflicts_with = "hotness")]
    defer_features: bool,
    /// The output folder [default: {root-dir}/partitions/{dataset}/{N}-parts].
    #[arg(long, alias = "output_dir", value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The method that assigns nodes to parts: metis has the smallest cut; semi-external has a cut close to it and takes less
    /// memory, which does not grow with the edges, and has no size limit; ldg has a larger cut. With --memory-limit, the
    /// first of semi-external and ldg that fits replaces METIS if that does not fit [default: metis].
    #[arg(long, value_enum)]
    method: Option<MethodName>,
    /// Let METIS bisect recursively, with a tighter balance, instead of finding all parts at once.
    #[arg(long)]
    recursive: bool,
    /// The part of each node, as another program has assigned it: a .npy file of whole numbers, or text with a number per
    /// line, as METIS and KaHIP write it. For several node types, a folder with TYPE.npy or TYPE.txt for each.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "recursive", "balance"])]
    assignment: Option<PathBuf>,
    /// The seed of every random choice.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The quantities to spread evenly: nodes, edges and train (training nodes).
    #[arg(long, value_delimiter = ',', default_value = "nodes,edges,train", value_name = "LIST")]
    balance: Vec<Balance>,
    /// The split scheme, if the dataset has several.
    #[arg(long, value_name = "SCHEME")]
    split: Option<String>,
    /// Divide the labeled nodes of all types into training, validation and test nodes, for datasets without masks: at random,
    /// or with the prefix `by-time:` by their times, so that the earliest train. SEED is that of --seed by default. Tables have
    /// keys for this.
    #[arg(long, alias = "split_nodes", value_name = "[by-time:]TRAIN,VALID,TEST[,SEED]", value_parser = NodeSplit::parse)]
    #[arg(conflicts_with_all = ["conf", "split"])]
    split_nodes: Option<NodeSplit>,
    /// Add the missing reverse of every edge. Of several edges from one node to another, the first
    /// stays with its weight, time and features, or with `--hold-out-edges latest:…` the latest.
    #[arg(long, aliases = ["to_undirected", "undirected"])]
    to_undirected: bool,
    /// Add a reversed edge type named `rev_NAME` for each edge type NAME: for heterogeneous graphs.
    #[arg(long, alias = "add_reverse_edges")]
    add_reverse_edges: bool,
    /// Hold out these fractions of the edges for validation and test of link prediction: at random, or with the prefix
    /// `latest:` the latest by edge time. Both directions of an edge are held out together. Reverse edge types are
    /// added afterwards.
    #[arg(long, alias = "hold_out_edges", value_name = "[latest:]VALID,TEST", value_parser = hold_out)]
    hold_out_edges: Option<HoldOut>,
    /// The treatment of held-out edges that are training edges as well, and of nodes in two splits: fail (error), drop
    /// these training edges and keep each node in its last split only (remove), or keep them (allow). With
    /// --to-undirected, an edge and its reverse are the same edge.
    #[arg(long, value_name = "error|remove|allow", default_value_t = OverlapPolicy::Error)]
    overlap: OverlapPolicy,
    /// Pairs of edge types that are each other's reverse, in addition to those named with `rev_`: --overlap also treats the
    /// reverses of held-out edges of one type that are training edges of the other.
    #[arg(long, alias = "reverse_types", value_name = "LIST", value_delimiter = ',', value_parser = pair)]
    reverse_types: Vec<(String, String)>,
    /// Store the position of each edge in the dataset as its id, in 8 bytes. An added reverse has the position of its edge.
    /// Batches of Python's loaders have the positions as `e_id`. Tables have `edge_id_col` for ids.
    #[arg(long, alias = "edge_ids", conflicts_with = "conf")]
    edge_ids: bool,
    /// The type in which node features are stored and sent, for all node types, or as TYPE=DTYPE,TYPE=DTYPE for some:
    /// f32, f16, bf16, or int8 with a scale per row. Computation stays in f32 [default: the type in the dataset's files].
    #[arg(long, alias = "feature_dtype", value_name = "f32|f16|bf16|int8")]
    feature_dtype: Option<FeatureDtypes>,
    /// Rank, for each part, the nodes of other parts whose features its batches will read: by the expected number of
    /// batches that contain them with --num-neighbors and --batch-size (presample), or by in-degree. `train` with
    /// --cache-ratio or --cache-bytes then needs no sampling to fill its cache.
    #[arg(long, value_enum, value_name = "RANKING", group = "batches")]
    hotness: Option<Hotness>,
    /// For --hotness presample and --plan: the number of neighbors per hop, from the seeds outwards; -1 for all.
    #[arg(long, aliases = ["num_neighbors", "fanout"], value_name = "LIST", value_delimiter = ',', requires = "batches")]
    #[arg(allow_hyphen_values = true, default_value = "15,10,5")]
    num_neighbors: Vec<i64>,
    /// For --hotness presample and --plan: the number of seeds of a training batch.
    #[arg(long, alias = "batch_size", requires = "batches", default_value_t = 1024)]
    batch_size: usize,
    /// Keep the anonymous memory of the process below this size, for example 16GiB, by working in scratch files. The parts
    /// are the same as without a limit. For .npy arrays, tables, OGB's data.npz, MAG240M's arrays and --dataset fake.
    #[arg(long, alias = "memory_limit", value_name = "BYTES", value_parser = parse_bytes)]
    memory_limit: Option<u64>,
    /// A folder on a disk with space for several times the edges. With --memory-limit, it is the folder of the scratch files,
    /// which have no names and end with the process [default: the folder that the output folder is in, or will be]. Without
    /// --memory-limit, METIS keeps its larger graphs in files there, and takes half as much memory.
    #[arg(long, alias = "scratch_dir", value_name = "DIR")]
    scratch_dir: Option<PathBuf>,
    /// Print the memory, disk space and time that the job takes, from the headers of its files and the first rows of tables,
    /// and end.
    #[arg(long, group = "batches")]
    pub(crate) plan: bool,
    /// Replace an existing partitioned graph.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write an HTML report with the balance of the parts and the edges between them.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
    #[command(flatten)]
    fake: FakeArgs,
}

/// Parses the held-out fractions. The seed comes from another argument.
fn hold_out(text: &str) -> Result<HoldOut, String> {
    HoldOut::parse(text, 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Hotness {
    Presample,
    InDegree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MethodName {
    Metis,
    SemiExternal,
    Ldg,
    Random,
}

/// The tables to read.
pub(crate) struct Tables {
    pub(crate) conf: PathBuf,
    pub(crate) options: TableOptions,
}

/// A run that the arguments ask for.
pub(crate) struct Job {
    pub(crate) source: DatasetSource,
    /// The configuration of tables, if the graph is read from tables.
    pub(crate) tables: Option<Tables>,
    /// The file or the folder with the part of each node, if a method need not find it.
    pub(crate) assignment: Option<PathBuf>,
    pub(crate) options: PartitionOptions,
    /// The stored types of node features, if not those of the dataset.
    pub(crate) feature_dtypes: FeatureDtypes,
    pub(crate) out_dir: PathBuf,
    /// The folder of scratch files, with a limit of memory.
    pub(crate) scratch_dir: PathBuf,
}

impl PartitionArgs {
    /// Converts the arguments. Ends the process with status 2 if they contradict each other.
    pub(crate) fn job(&self) -> anyhow::Result<Job> {
        let (Some(dataset), Some(num_parts)) = (&self.dataset, self.num_partitions) else {
            usage(ErrorKind::MissingRequiredArgument, "--dataset and --num-partitions are required");
        };
        if !is_folder_name(dataset) {
            usage(ErrorKind::InvalidValue, "--dataset takes a name, not a path: give a folder with --dataset-dir");
        }
        let method = match self.method.unwrap_or(MethodName::Metis) {
            MethodName::Metis => Method::Metis { recursive: self.recursive },
            _ if self.recursive => usage(ErrorKind::ArgumentConflict, "--recursive needs --method metis"),
            MethodName::SemiExternal => Method::SemiExternal,
            MethodName::Ldg => Method::Ldg,
            MethodName::Random => Method::Random,
        };
        let is_metis = matches!(method, Method::Metis { .. }) && self.assignment.is_none();
        if self.scratch_dir.is_some() && self.memory_limit.is_none() && !is_metis {
            usage(ErrorKind::ArgumentConflict, "--scratch-dir needs --memory-limit or --method metis");
        }
        let mut source = DatasetSource::new(dataset, &self.root_dir);
        source.folder = self.dataset_dir.clone();
        source.split = self.split.clone();
        source.split_nodes = self.split_nodes.map(|split| split.with_seed(self.seed));
        source.to_undirected = self.to_undirected;
        source.add_reverse_edges = self.add_reverse_edges;
        source.overlap = self.overlap;
        source.reverse_types = self.reverse_types.clone();
        source.edge_ids = self.edge_ids;
        source.hold_out_edges =
            self.hold_out_edges.and_then(HoldOut::if_any).map(|hold_out| HoldOut { seed: self.seed, ..hold_out });
        source.fake = self.fake.options();
        if let Some(flag) = self.fake.first_given()
            && (self.conf.is_some() || !source.is_generated())
        {
            usage(
                ErrorKind::ArgumentConflict,
                &format!("{flag} is for --dataset fake and fake-hetero, which are generated: leave it out"),
            );
        }
        let hotness = self.hotness.map(|hotness| match hotness {
            Hotness::InDegree => HotnessRule::InDegree,
            Hotness::Presample => {
                HotnessRule::Presample { num_neighbors: self.num_neighbors.clone(), batch_size: self.batch_size }
            }
        });
        if let Some(Err(why)) = hotness.as_ref().map(HotnessRule::check) {
            usage(ErrorKind::InvalidValue, &with_flags(&why));
        }
        let default_dir = || self.root_dir.join("partitions").join(dataset).join(format!("{num_parts}-parts"));
        let options = PartitionOptions {
            num_parts,
            method,
            seed: self.seed,
            balance: self.balance.clone(),
            split: self.split.clone().or(source.split_nodes.map(|split| split.to_string())),
            to_undirected: self.to_undirected,
            add_reverse_edges: self.add_reverse_edges,
            hold_out_edges: source.hold_out_edges,
            overlap: self.overlap,
            reverse_types: self.reverse_types.clone(),
            edge_ids: self.edge_ids,
            hotness,
            scratch_dir: self.scratch_dir.clone(),
            overwrite: self.overwrite,
            memory_limit: self
                .memory_limit
                .map(|bytes| MemoryLimit { bytes, replaces_metis: self.method.is_none() && !self.recursive }),
        };
        let feature_dtypes = self.feature_dtype.clone().unwrap_or_default();
        let tables = self.tables()?;
        if let Some(path) = &self.assignment {
            // Before the graph is read, which can take long.
            path.metadata().with_context(|| format!("--assignment: {}", path.display()))?;
        }
        let out_dir = self.output_dir.clone().unwrap_or_else(default_dir);
        let absolute = std::path::absolute(&out_dir).unwrap_or_default();
        // The nearest folder that exists, so that a run that fails creates none.
        let beside = absolute.ancestors().skip(1).find(|dir| dir.is_dir()).map(PathBuf::from);
        Ok(Job {
            scratch_dir: self.scratch_dir.clone().or(beside).unwrap_or_else(|| PathBuf::from(".")),
            source,
            tables,
            assignment: self.assignment.clone(),
            options,
            feature_dtypes,
            out_dir,
        })
    }

    /// Returns the tables to read. Reads the saved transforms.
    fn tables(&self) -> anyhow::Result<Option<Tables>> {
        let Some(conf) = self.conf.clone() else { return Ok(None) };
        let transforms = self.transforms.as_deref().map(Transforms::read).transpose().context("--transforms")?;
        let options = TableOptions {
            seed: self.seed,
            on_bad_rows: self.on_bad_rows,
            unsupported: self.unsupported,
            transforms,
            defers_features: self.defer_features,
            remote: Some(StoredTables::of_conf(&self.stores)?),
            ..TableOptions::default()
        };
        Ok(Some(Tables { conf, options }))
    }
}

/// Parses a pair of edge types.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((one, other)) => Ok((one.to_owned(), other.to_owned())),
        None => Err(format!("{text:?} is not a pair of edge types: write ONE=OTHER, such as writes=written_by")),
    }
}

/// Replaces the settings that errors of the libraries name by the flags of this program.
pub(crate) fn with_flags(text: &str) -> String {
    FlagNames::new(Cli::command(), &[]).written_into(text)
}

fn usage(kind: ErrorKind, message: &str) -> ! {
    Cli::command().error(kind, message).exit()
}

#[cfg(test)]
mod tests;
