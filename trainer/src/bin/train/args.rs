//! The command line.

use crate::device::{DeviceArgs, DeviceMemoryArgs, bytes};
use crate::graph_args::GraphArgs;
use crate::link_args::LinkArgs;
use crate::sampling_args::SamplingArgs;
use crate::training_args::TrainingArgs;
use clap::{Args, Parser, Subcommand};
use edgecut_dist_sampler::NumNeighbors;
use edgecut_graph::{HoldOut, OverlapPolicy};
use edgecut_trainer::metrics::Metric;
use std::net::IpAddr;
use std::path::PathBuf;

/// Trains graph neural networks, on one machine or on a graph that is spread over many.
///
/// Flags may be spelled with underscores as well: --num_neighbors.
#[derive(Debug, Parser)]
#[command(name = "train", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Trains a node classifier, or evaluates one.
    #[command(after_help = "Example, two processes on this machine:\n  \
        train node --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --model sage --num-neighbors 15,10,5\n\
        The same without partitioning first, on a dataset's own folder:\n  \
        train node --dataset-root-dir data/mygraph --nproc-per-node 2 --model sage --num-neighbors 15,10,5\n\n\
        Without --num-nodes, --node-rank and --ip-config, a process that torchrun, Slurm's srun, mpirun or an indexed\n\
        Kubernetes Job started is the rank that these made it; --nproc-per-node is then left out.\n\n\
        Exit status: 0 done, 1 an error of this process, 2 wrong flags, 3 another rank failed.")]
    Node(Box<NodeArgs>),
    /// Trains a model that predicts edges, or evaluates one.
    #[command(after_help = "Examples, on a graph with held-out edges:\n  \
        train link --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --num-neighbors 10,5 --metric roc-auc\n  \
        train link --dataset-root-dir data/partitions/wn18rr/2-parts --nproc-per-node 2 --model embedding --decoder distmult \\\n    \
        --loss softmax --num-negatives 1000 --shared-negatives --eval-negatives all\n\n\
        Exit status: 0 done, 1 an error of this process, 2 wrong flags, 3 another rank failed.")]
    Link(Box<LinkArgs>),
    /// Trains a classifier of whole graphs, evaluates one, or cross-validates.
    #[command(after_help = "Examples:\n  \
        train graph --dataset fake-graphs --nproc-per-node 2 --num-epochs 10\n  \
        train graph --dataset IMDB-BINARY --dataset-root-dir data/tu --folds 10 --protocol best-mean-epoch\n\n\
        Exit status: 0 done, 1 an error of this process, 2 wrong flags, 3 another rank failed.")]
    Graph(Box<GraphArgs>),
    /// Samples batches and writes them as .npz files, for programs in any language.
    #[command(after_help = "Example:\n  \
        train sample --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --num-neighbors 15,10,5 --num-batches 8 --out batches\n\n\
        Exit status: 0 done, 1 an error of this process, 2 wrong flags, 3 another rank failed.")]
    Sample(Box<SampleArgs>),
}

/// The place of this process in the job, and the limits of its waits.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArgs {
    /// Nodes of the job [default: as many as --ip-config lists, or 1; a launcher's place if none of these flags gives one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) num_nodes: Option<u32>,
    /// This node, counted from 0 [default: 0 in a job of one]
    #[arg(long, value_name = "K")]
    pub(crate) node_rank: Option<u32>,
    /// Processes that this node runs; they are started and watched by this one if more than 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) nproc_per_node: u32,
    /// Host name or address of node 0 [default: the first of --ip-config, or MASTER_ADDR, or the first node of the Slurm
    /// step, or 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    pub(crate) master_addr: Option<String>,
    /// The port of rank 0, its one port for everything [default: MASTER_PORT, or 10000 + the last four digits of the Slurm
    /// job's id, or 11111; where this process starts all ranks, a free one]
    #[arg(long, alias = "ddp-port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) master_port: Option<u16>,
    /// A file with the nodes' addresses, one `ip` or `ip port` a line, node 0 first
    #[arg(long, value_name = "FILE")]
    pub(crate) ip_config: Option<PathBuf>,
    /// The address to listen on [default: EDGECUT_LISTEN_ADDR, or the one that node 0 is reached from]
    #[arg(long, value_name = "IP")]
    pub(crate) listen_addr: Option<IpAddr>,
    /// The port to listen on; 0 lets the system choose. Rank 0 listens on the master port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) listen_port: u16,
    /// A file with the job's shared secret of at least 16 bytes, private to its owner (chmod 600) [default: EDGECUT_TOKEN, or the file that EDGECUT_TOKEN_FILE names]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Threads that sample and gather, per process [default: this process's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) num_workers: Option<u32>,
    /// Threads of the network, per process; each carries some 3 GB/s [default: one for every 16 begun of this process's cores,
    /// at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) num_network_threads: Option<u32>,
    /// Threads that compute, per process [default: this process's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) num_threads: Option<u32>,
    /// Seconds to wait for all ranks to join
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) rendezvous_timeout: u64,
    /// Seconds that a rank which is alive may keep the others waiting; one that has died is noticed at once
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) collective_timeout: u64,
    /// Seconds without a sign of life after which a rank, or the network between two ranks, counts as dead; the time in
    /// which the whole job is suspended does not count
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) heartbeat_timeout: u64,
}

/// The graph, and how this process holds its part of it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Graph")]
pub(crate) struct PartArgs {
    /// The N-parts folder that partition-graph wrote; or, where all processes run on this machine, the folder of a dataset
    /// that is not partitioned: .npy arrays, OGB's raw CSV files, or triples
    #[arg(long, value_name = "DIR")]
    pub(crate) dataset_root_dir: PathBuf,
    #[command(flatten)]
    pub(crate) whole: WholeArgs,
    /// Sample from the mapped files instead of from a copy of the edges in memory: slower, but without its 4 bytes an edge
    /// [default: where processes of this node share a part, whose files are then in memory once for all]
    #[arg(long, conflicts_with = "copy_edges")]
    pub(crate) map_edges: bool,
    /// Copy the edges into memory, in each of the processes that share a part as well
    #[arg(long)]
    pub(crate) copy_edges: bool,
    /// Read the part's files whole before using them, and compare their checksums; else sizes and structure are checked
    #[arg(long)]
    pub(crate) verify: bool,
    /// Seconds to wait for a reply of another part
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) rpc_timeout: u64,
}

/// How a dataset is read that is not partitioned; partition-graph has the same flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Graph that is not partitioned")]
pub(crate) struct WholeArgs {
    /// The split scheme, where the dataset has several
    #[arg(long, value_name = "SCHEME")]
    pub(crate) split: Option<String>,
    /// Add the reverse of every edge that is not there
    #[arg(long)]
    pub(crate) to_undirected: bool,
    /// Add to each edge type another one with its edges reversed, `rev_` and its name: for graphs with several types
    #[arg(long)]
    pub(crate) add_reverse_edges: bool,
    /// Hold out these shares of the edges for validation and test of link prediction, chosen as partition-graph does with
    /// its seed 0: at random, or with `latest:` before the shares, the latest by edge time
    #[arg(long, value_name = "[latest:]VALID,TEST", value_parser = hold_out)]
    pub(crate) hold_out_edges: Option<HoldOut>,
    /// If held-out edges are training edges as well, or nodes are in two splits: fail, remove the training edges and keep
    /// each node in its last split, or allow it. With --to-undirected, an edge and its reverse are the same edge [default:
    /// error]
    #[arg(long, value_name = "error|remove|allow")]
    pub(crate) overlap: Option<OverlapPolicy>,
}

fn hold_out(text: &str) -> Result<HoldOut, String> {
    HoldOut::parse(text, 0)
}

/// Fan-outs by hop and edge type, as they were given and as they are meant.
#[derive(Clone, Debug)]
pub(crate) struct NumNeighborsArg {
    pub(crate) text: String,
    pub(crate) value: NumNeighbors,
}

pub(crate) fn num_neighbors(text: &str) -> Result<NumNeighborsArg, String> {
    Ok(NumNeighborsArg { text: text.to_owned(), value: text.parse()? })
}

pub(crate) fn probability(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err(format!("{text} is not in 0 ≤ p < 1")) }
}

pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(format!("{text} is not a finite number ≥ 0")) }
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) memory: DeviceMemoryArgs,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    #[command(flatten)]
    pub(crate) training: TrainingArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// What chooses the epoch
    #[arg(long, help_heading = "Training", value_name = "accuracy|roc-auc|micro-f1|macro-f1", default_value_t = Metric::Accuracy)]
    pub(crate) metric: Metric,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What is written, and what is read back.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write metrics as JSON Lines: an object per epoch, then one for the result. A restarted attempt appends
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Save the best model as safetensors, each time that one is better; embeddings go to the folder FILE.embeddings. A
    /// restarted attempt replaces the model of its run only by a better one
    #[arg(long, value_name = "FILE")]
    pub(crate) save_model: Option<PathBuf>,
    /// Do not train: evaluate this model
    #[arg(long, value_name = "FILE", conflicts_with = "save_model")]
    pub(crate) load_model: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    /// In-neighbors drawn per node, a number per hop, seeds' hop first; -1 takes all. By edge type: "cites=15,10;writes=10,0",
    /// and "cites=15,10;5,5" for all others
    #[arg(long, value_name = "LIST", default_value = "15,10,5", value_parser = num_neighbors, allow_hyphen_values = true)]
    pub(crate) num_neighbors: NumNeighborsArg,
    /// The type of the seeds, where a graph has several [default: the one with training nodes]
    #[arg(long, value_name = "TYPE")]
    pub(crate) seed_type: Option<String>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Seeds per batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Batches to write, over all ranks [default: one epoch]
    #[arg(long, value_name = "K")]
    pub(crate) num_batches: Option<u64>,
    /// The seed of shuffles and sampling
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// A .npy file of original node ids, cut into batches in order [default: the training nodes, shuffled]
    #[arg(long, value_name = "FILE")]
    pub(crate) seeds: Option<PathBuf>,
    /// A .npy file with a time for each of --seeds [default: the times of the nodes]
    #[arg(long, value_name = "FILE", requires = "seeds", requires = "time_attr")]
    pub(crate) seed_times: Option<PathBuf>,
    /// The folder for batch_00000.npz and so on; made if absent
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Remove the batches that --out holds already
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Batches that are made at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: u32,
    /// Memory of the batches that are made ahead or wait, at most: 1GiB, 500MB. A larger batch passes alone
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    pub(crate) prefetch_bytes: u64,
}
