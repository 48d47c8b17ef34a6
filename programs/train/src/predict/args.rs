//! The flags of `train predict`.

use super::RequestFlags;
use super::submission::Submission;
use crate::args::device::DeviceArgs;
use crate::args::{JobArgs, NumNeighborsArg, PartArgs, num_neighbors};
use crate::settings::given_flags::GivenFlags;
use clap::{Args, ValueEnum};
use edgecut_cli::parse_bytes;
use edgecut_dist_sampler::TimeAttr;
use edgecut_trainer::model_file::NewEmbeddings;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Clone, Debug, Args, Serialize)]
// Servers compute no predictions, and `checks` refuses the flag with a remedy.
#[command(mut_arg("servers", |arg| arg.hide(true)))]
pub(crate) struct PredictArgs {
    // The first field, so that it sees all flags.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) given: GivenFlags,
    // The paths of nodes may differ. The data is compared by its fingerprint, or by `DatasetFlags`.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) part: PartArgs,
    /// The saved model: of `train node`, `train multi`, `train link`, `train edge` or `train graph`
    // Ranks may have different paths: rank 0 reads it.
    #[arg(long, value_name = "FILE", help_heading = "Prediction")]
    #[serde(skip)]
    pub(crate) load_model: PathBuf,
    /// Rows to write. For nodes and graphs: prediction, which is the class with the greatest logit, 1 or 0 for each of
    /// several labels, or the predicted numbers; class, the same for classes only; probability and logit, a column per class
    /// or label; embedding, the output of a hidden layer. For models of `train link` also score, the scores of --pairs;
    /// top-k, the best destinations of --sources; relation, the decoder's vector of each edge type. table: the learned
    /// embeddings of --node-type
    #[arg(long, value_enum, value_name = "prediction|class|probability|logit|embedding|score|top-k|table|relation", default_value_t = Rows::Prediction, help_heading = "Prediction")]
    pub(crate) output: Rows,
    /// Nodes to write: all, train, valid, test, or a CSV, Parquet or .npy file of ids of the tables, or of row numbers of
    /// other graphs: the only column, or of several columns the one named id (node_id with --row-numbers)
    #[arg(long, value_name = "all|train|valid|test|FILE", default_value = "all", help_heading = "Prediction")]
    pub(crate) nodes: String,
    #[command(flatten, next_help_heading = "Prediction")]
    #[serde(flatten)]
    pub(crate) own: RequestFlags,
    /// Node type to write [default: the type that the model classifies, or the only one. --output table: the only one
    /// with a table]
    #[arg(long, value_name = "TYPE", help_heading = "Prediction")]
    pub(crate) node_type: Option<String>,
    /// Targets to predict, of a model of `train multi`, separated by commas: TYPE:LABEL, or LABEL. Several ones have files of
    /// their own, such as predictions-target-TYPE__LABEL.csv [default: all targets]
    #[arg(long, value_name = "[TYPE:]LABEL,…", value_delimiter = ',', help_heading = "Prediction")]
    pub(crate) target: Vec<String>,
    /// The ids in the file of --nodes, --pairs or --sources are row numbers, also for graphs from tables with ids
    #[arg(long, help_heading = "Prediction")]
    pub(crate) row_numbers: bool,
    /// --output score or top-k: edge type of the scores, a relation or SRC__RELATION__DST [default: the only one that the
    /// model predicts, or that the graph has]
    #[arg(long, value_name = "NAME", help_heading = "Prediction")]
    pub(crate) edge_type: Option<String>,
    /// Layer whose output is the embedding, from 1; 0 are the encoded features of models with encoders [default: the
    /// last layer before the logits]
    #[arg(long, value_name = "N", help_heading = "Prediction")]
    pub(crate) layer: Option<u32>,
    /// Sample neighbors with these fan-outs, the hop at the nodes first, instead of reading all neighbors layer by layer
    /// [default: for models that were trained with --time-attr or --weighted, and with --edges, the fan-outs of their
    /// evaluation]
    #[arg(long, alias = "fanout", value_name = "LIST", value_parser = num_neighbors, allow_hyphen_values = true, help_heading = "Prediction")]
    pub(crate) num_neighbors: Option<NumNeighborsArg>,
    /// Read nothing later than the time of a node or edge: no edge, no node, or (none) read all times [default: as in the
    /// training of the model]
    #[arg(long, value_name = "edge_time|node_time|none", value_parser = time_limit, help_heading = "Prediction")]
    pub(crate) time_attr: Option<TimeLimit>,
    /// With times: predict for all nodes as of this time, in the unit of the graph's times [default: the time of each node]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Prediction")]
    pub(crate) seed_time: Option<i64>,
    /// Start of the embeddings of nodes that the saved model has no rows for: zero, the mean of the saved rows, the
    /// mean of the saved rows of their neighbors, or random
    /// [default: mean]
    #[arg(long, value_name = "zero|mean|neighbors|random", help_heading = "Prediction")]
    pub(crate) new_embeddings: Option<NewEmbeddings>,
    /// With sampled neighbors or --explain: nodes, edges or graphs per batch [default: 1024, with --explain 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Prediction")]
    pub(crate) batch_size: Option<u32>,
    /// With sampled neighbors or --new-embeddings random: random seed [default: 0]
    #[arg(long, value_name = "N", help_heading = "Prediction")]
    pub(crate) seed: Option<u64>,
    /// Memory of each process for the nodes, graphs or scores in progress, for example 1GiB or 500MB. More memory means less traffic
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = parse_bytes, help_heading = "Prediction")]
    #[serde(skip)]
    pub(crate) memory_bytes: u64,
    /// Folder for the outputs of layers, which take 4 bytes per node and column for two layers [default: the system's
    /// temporary folder, TMPDIR]
    #[arg(long, value_name = "DIR", help_heading = "Prediction")]
    #[serde(skip)]
    pub(crate) scratch_dir: Option<PathBuf>,
    /// Folder to write to; created if missing
    // Each node writes to its own folder.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    #[serde(skip)]
    pub(crate) out: PathBuf,
    /// Format of the files. npy: predictions.npy on node 0, a row per node in the order of their ids, and node_ids.npy if
    /// not all nodes are written; scores.npy for pairs; destinations.npy, scores.npy and source_ids.npy for top-k.
    /// parquet, csv: a file per process with columns of ids
    #[arg(long, value_enum, value_name = "npy|parquet|csv", default_value_t = Format::Npy, help_heading = "Output")]
    pub(crate) format: Format,
    /// With --format parquet or csv: write one file on node 0, such as predictions.parquet or scores.csv
    #[arg(long, help_heading = "Output")]
    pub(crate) gather: bool,
    /// Also write the file that OGB's large-scale challenge accepts, y_pred_mag240m*.npz, with the classes of --nodes in
    /// the order of the file
    #[arg(
        long,
        value_enum,
        value_name = "mag240m-test-dev|mag240m-test-challenge|mag240m-test-whole",
        help_heading = "Output"
    )]
    pub(crate) ogb_submission: Option<Submission>,
    /// Replace the predictions of an earlier run in --out, once all new ones are written
    #[arg(long, help_heading = "Output")]
    #[serde(skip)]
    pub(crate) overwrite: bool,
    /// Print the result as JSON on standard output
    // Only rank 0 prints.
    #[arg(long, help_heading = "Output")]
    #[serde(skip)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) device: DeviceArgs,
    // Each process has its own rank, addresses, threads and timeouts.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) job: JobArgs,
}

impl PredictArgs {
    /// Returns true if a flag is given with an effect.
    pub(super) fn is_given(&self, id: &str) -> bool {
        match id {
            "nodes" => self.nodes != "all",
            // Random embeddings take the seed of any request.
            "seed" => self.seed.is_some() && self.new_embeddings != Some(NewEmbeddings::Random),
            _ => self.given.is_given(id),
        }
    }
}

/// The value of `--time-attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum TimeLimit {
    /// Neighbors of all times are read.
    None,
    Attr(TimeAttr),
}

fn time_limit(text: &str) -> Result<TimeLimit, String> {
    if text == "none" { Ok(TimeLimit::None) } else { text.parse().map(TimeLimit::Attr) }
}

/// The rows to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rows {
    Prediction,
    Class,
    Probability,
    Logit,
    Embedding,
    Score,
    TopK,
    Table,
    Relation,
}

impl Rows {
    /// Returns true for rows that a model predicts for nodes or graphs.
    pub(crate) fn is_prediction(self) -> bool {
        matches!(self, Self::Prediction | Self::Class | Self::Probability | Self::Logit)
    }
}

/// The format of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    Npy,
    Parquet,
    Csv,
}
