//! The arguments of the subcommands.

use super::pair;
use clap::{Args, Subcommand};
use edgecut_cli::StoreArgs;
use edgecut_graph::OverlapPolicy;
use edgecut_tables::{OnBadRows, Unsupported};
use std::path::PathBuf;

const UPDATE_EXAMPLES: &str = "\
Examples:
  partition-graph update data/partitions/shop/2-parts --conf shop/tuesday.json
  partition-graph update data/partitions/shop/2-parts --conf shop/tuesday.json --output-dir data/partitions/shop/tuesday";

const FEATURES_EXAMPLES: &str = "\
Examples:
  partition-graph features --dataset-root-dir data/partitions/shop/2-parts --conf shop/graph.json --part 0
  launch --copy-parts -- partition-graph features --dataset-root-dir data/partitions/shop/2-parts --conf shop/graph.json";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check the checksums and every invariant of the format, without the source graph.
    Verify(VerifyArgs),
    /// Show the metadata of a partitioned graph and its report.
    Info(InfoArgs),
    /// Build the node features of one part from the tables, on the machine that holds it.
    Features(FeaturesArgs),
    /// Add, change and remove nodes and edges of existing parts from tables, without partitioning again.
    Update(UpdateArgs),
    /// Upload parts to an object store.
    Upload(UploadArgs),
}

impl Command {
    pub(crate) fn stores(&self) -> &StoreArgs {
        match self {
            Self::Verify(args) => &args.stores,
            Self::Info(args) => &args.stores,
            Self::Features(args) => &args.stores,
            Self::Update(args) => &args.stores,
            Self::Upload(args) => &args.stores,
        }
    }
}

/// Uploads the files of parts, META.json last, so that nobody reads parts that are not complete.
#[derive(Debug, Args)]
pub(crate) struct UploadArgs {
    /// The N-parts folder, which holds META.json.
    pub(crate) dir: PathBuf,
    /// The folder in the store: s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY.
    pub(crate) url: String,
    /// Replace parts at the URL.
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}

/// Adds the nodes and edges of new tables to existing parts, changes nodes that a table lists again, and removes nodes and
/// edges. Nodes of the parts stay in their part, and new nodes go to the part of most of their neighbors. Transforms and classes
/// are those of the parts. The parts change in one step, when the new ones are complete.
#[derive(Debug, Args)]
#[command(after_help = UPDATE_EXAMPLES)]
pub(crate) struct UpdateArgs {
    /// The N-parts folder, which holds META.json.
    pub(crate) dir: PathBuf,
    /// The description of the new tables, with the keys of the configuration of the parts, and removed_nodes and removed_edges.
    #[arg(long, value_name = "FILE")]
    pub(crate) conf: PathBuf,
    /// The folder of the updated parts [default: the parts are replaced].
    #[arg(long, aliases = ["output_dir", "out"], value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
    /// Replace parts in --output-dir.
    #[arg(long, requires = "output_dir")]
    pub(crate) overwrite: bool,
    /// The treatment of rows that cannot be used: fail at the first one (error), or leave them out and count them (drop).
    #[arg(long, alias = "on_bad_rows", value_name = "error|drop", default_value_t = OnBadRows::Error)]
    pub(crate) on_bad_rows: OnBadRows,
    /// The treatment of features and labels that are not supported: fail (error), or leave them out with a warning (skip).
    #[arg(long, value_name = "error|skip", default_value_t = Unsupported::Error)]
    pub(crate) unsupported: Unsupported,
    /// The treatment of held-out edges that are training edges as well: fail (error), drop these training edges (remove), or
    /// keep them (allow) [default: that of the parts].
    #[arg(long, value_name = "error|remove|allow")]
    pub(crate) overlap: Option<OverlapPolicy>,
    /// Further pairs of edge types that are each other's reverse, beside the pairs that the parts were made with: --overlap also
    /// treats the reverses of held-out edges of one type that are training edges of the other.
    #[arg(long, alias = "reverse_types", value_name = "LIST", value_delimiter = ',', value_parser = pair)]
    pub(crate) reverse_types: Vec<(String, String)>,
    /// A folder on a disk with space for all arrays of the graph, which are then not in memory.
    #[arg(long, alias = "scratch_dir", value_name = "DIR")]
    pub(crate) scratch_dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The N-parts folder, which holds META.json.
    pub(crate) dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The N-parts folder, which holds META.json.
    pub(crate) dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write an HTML report with the balance of the parts and the edges between them.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}

/// Builds the node features of a part of which --defer-features has made the rest. The features appear when they are complete;
/// those of a node type that are complete stay as they are.
#[derive(Debug, Args)]
#[command(after_help = FEATURES_EXAMPLES)]
pub(crate) struct FeaturesArgs {
    /// The N-parts folder, which holds META.json.
    #[arg(long, alias = "dataset_root_dir", value_name = "DIR")]
    pub(crate) dataset_root_dir: PathBuf,
    /// The description of the tables that the parts were made from.
    #[arg(long, value_name = "FILE")]
    pub(crate) conf: PathBuf,
    /// The number of the part, from 0 [default: NODE_RANK, which `launch` sets].
    #[arg(long, env = "NODE_RANK", hide_env = true, value_name = "K")]
    pub(crate) part: u32,
    /// The treatment of rows that cannot be used, which must be that of the parts.
    #[arg(long, alias = "on_bad_rows", value_name = "error|drop", default_value_t = OnBadRows::Error)]
    pub(crate) on_bad_rows: OnBadRows,
    /// The treatment of features and labels that are not supported, which must be that of the parts.
    #[arg(long, value_name = "error|skip", default_value_t = Unsupported::Error)]
    pub(crate) unsupported: Unsupported,
    /// A folder with space for the features, in which they are built [default: the folder of the parts].
    #[arg(long, alias = "scratch_dir", value_name = "DIR")]
    pub(crate) scratch_dir: Option<PathBuf>,
    /// Build features again that are complete.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}
