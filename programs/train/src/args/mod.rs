//! The command line of `train`.

pub(crate) mod checkpoints;
pub(crate) mod conv;
pub(crate) mod dialect;
pub(crate) mod edge;
pub(crate) mod graph;
pub(crate) mod link;
pub(crate) mod objective;
pub(crate) mod sampling;
pub(crate) mod start;
pub(crate) mod training;

use crate::args::checkpoints::CheckpointArgs;
use crate::args::edge::EdgeArgs;
use crate::args::graph::GraphArgs;
use crate::args::link::LinkArgs;
use crate::args::objective::ObjectiveArgs;
use crate::args::sampling::SamplingArgs;
use crate::args::training::TrainingArgs;
use crate::exit::UsageError;
use crate::job::device::{DeviceArgs, DeviceMemoryArgs, bytes};
use crate::predict::args::PredictArgs;
use crate::report::ReportArgs;
use crate::settings::given_flags::GivenFlags;
use crate::settings::shared_flags::{hold_out_text, is_given, or_default};
use crate::sweep::SweepArgs;
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use edgecut_cluster::Protection;
use edgecut_dist_sampler::NumNeighbors;
use edgecut_graph::{FeatureDtypes, HoldOut, OverlapPolicy};
use edgecut_output::check_output;
use serde::Serialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Trains graph neural networks on one machine, or on a graph that is partitioned over several.
///
/// Underscores in flags are accepted too: --num_neighbors.
#[derive(Debug, Parser)]
#[command(name = "train", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Trains or evaluates a node classifier.
    #[command(after_help = "Example with two processes on this machine:\n  \
        train node --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --model sage --num-neighbors 15,10,5\n\
        The same on a dataset that is not partitioned:\n  \
        train node --dataset-root-dir data/mygraph --nproc-per-node 2 --model sage --num-neighbors 15,10,5\n\n\
        A process that torchrun, Slurm's srun, mpirun or an indexed Kubernetes Job started takes its rank from their\n\
        environment variables. In this case leave out --num-nodes, --node-rank, --ip-config and --nproc-per-node.\n\n\
        Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank failed, 75 SIGTERM after a\n\
        checkpoint, 130 interrupted.")]
    Node(Box<NodeArgs>),
    /// Trains or evaluates a link prediction model.
    #[command(after_help = "Examples on graphs with held-out edges:\n  \
        train link --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --num-neighbors 10,5 --metric roc-auc\n  \
        train link --dataset-root-dir data/partitions/wn18rr/2-parts --nproc-per-node 2 --model embedding --decoder distmult \\\n    \
        --loss softmax --num-negatives 1000 --shared-negatives --eval-negatives all\n\n\
        Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank failed, 75 ended by SIGTERM after a\n\
        checkpoint, 130 interrupted.")]
    Link(Box<LinkArgs>),
    /// Trains or evaluates a model of the classes or numbers of edges.
    #[command(after_help = "Examples on graphs with labels of edges:\n  \
        train edge --dataset-root-dir data/partitions/payments/2-parts --nproc-per-node 2 --num-neighbors 10,5 --metric roc-auc\n  \
        train edge --dataset-root-dir data/ratings --edge-type user__rates__film --loss mse --time-attr edge_time\n\n\
        Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank failed, 75 ended by SIGTERM after a\n\
        checkpoint, 130 interrupted.")]
    Edge(Box<EdgeArgs>),
    /// Trains, evaluates or cross-validates a classifier of whole graphs.
    #[command(after_help = "Examples:\n  \
        train graph --dataset fake-graphs --nproc-per-node 2 --num-epochs 10\n  \
        train graph --dataset IMDB-BINARY --dataset-root-dir data/tu --folds 10 --protocol best-mean-epoch\n\n\
        Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank failed, 75 ended by SIGTERM after a\n\
        checkpoint, 130 interrupted.")]
    Graph(Box<GraphArgs>),
    /// Samples mini-batches and writes them as .npz files for other programs.
    #[command(after_help = "Example:\n  \
        train sample --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --num-neighbors 15,10,5 --num-batches 8 --out batches\n\n\
        Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank failed, 130 interrupted.")]
    Sample(Box<SampleArgs>),
    /// Writes predictions of a saved model: for the nodes or edges of a graph, for pairs of nodes, or for whole graphs.
    #[command(after_help = "Examples:\n  \
        train predict --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --load-model model.safetensors --out predictions\n  \
        train predict --dataset-root-dir data/mygraph --load-model model.safetensors --output embedding --format csv --out embeddings\n  \
        train predict --dataset-root-dir data/mygraph --load-model links.safetensors --output top-k --sources all --top-k 10 --out top\n  \
        train predict --dataset-root-dir data/payments --load-model fraud.safetensors --edges test --num-neighbors 10,5 --format csv --out scores\n  \
        train predict --dataset fake-graphs --graphs all --load-model gin.safetensors --out classes\n\n\
        Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank failed, 130 interrupted.")]
    Predict(Box<PredictArgs>),
    /// Writes an HTML file about one or several runs, from the files of --metrics.
    #[command(after_help = "Example:\n  train report sage.jsonl gat.jsonl --out comparison.html")]
    Report(ReportArgs),
    /// Trains with many combinations of flags, one after the other, and prints a table of the scores.
    #[command(after_help = "Examples:\n  \
        train sweep --set 'lr=0.01 0.003' --set 'hidden-channels=32 64' -- node --dataset-root-dir data/mygraph\n  \
        train sweep --random 20 --set 'lr=0.0001..0.1' --set 'dropout=0.0..0.6' --launcher 'launch --ip-config ip_config.yaml' \\\n    \
        -- node --dataset-root-dir data/partitions/mygraph/2-parts\n\n\
        Exit status: 0 done, 1 a run failed, 2 invalid flags, 130 interrupted.")]
    Sweep(Box<SweepArgs>),
}

/// Flags that set this process's rank in the job, its threads and its timeouts.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArgs {
    /// Number of nodes (machines) in the job [default: the nodes in --ip-config, or 1. A launcher's variables apply
    /// only if --num-nodes, --node-rank and --ip-config are all absent]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) num_nodes: Option<u32>,
    /// Number of this node, from 0. Required if the job has several nodes
    #[arg(long, value_name = "K")]
    pub(crate) node_rank: Option<u32>,
    /// Processes to run on this node. If more than 1, this process starts and monitors them. A job with fewer processes than
    /// parts joins consecutive parts in memory
    #[arg(long, alias = "num-training-procs", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) nproc_per_node: u32,
    /// Host name or IP address of node 0 [default: the first node in --ip-config, or MASTER_ADDR, or the first node of
    /// the Slurm step, or 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    pub(crate) master_addr: Option<String>,
    /// Port of rank 0, used for all of its connections [default: MASTER_PORT, or 10000 + the last four digits of the
    /// Slurm job ID, or 11111. A free port if this process starts all ranks]
    #[arg(long, alias = "ddp-port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) master_port: Option<u16>,
    /// File with the nodes' addresses: one `ip` or `ip port` per line, node 0 first
    #[arg(long, value_name = "FILE")]
    pub(crate) ip_config: Option<PathBuf>,
    /// Address to listen on [default: EDGECUT_LISTEN_ADDR, or in a job on several nodes that of the interface
    /// GLOO_SOCKET_IFNAME, or the local address of the connection to node 0]
    #[arg(long, value_name = "IP")]
    pub(crate) listen_addr: Option<IpAddr>,
    /// Port of the first process of this node to listen on. Process K of the node uses the port K above it, and rank 0
    /// always --master-port. 0 lets the system choose
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) listen_port: u16,
    /// File with the job's shared secret of at least 16 bytes, readable only by its owner (chmod 600) [default:
    /// EDGECUT_TOKEN, or the file that EDGECUT_TOKEN_FILE names]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Encrypt all connections of the job, and those to servers. Needs a shared secret, except for processes that one command
    /// starts on one machine. Must be equal on all processes and servers
    #[arg(long)]
    pub(crate) encrypt: bool,
    /// Detect bytes that a fault of the network has modified, by checksums, on all connections of the job and those to
    /// servers. Protects from accidents only, not from people. Must be equal on all processes and servers. --encrypt
    /// detects such bytes as well
    #[arg(long)]
    pub(crate) check_traffic: bool,
    /// Threads per process that sample neighbors and gather features [default: the cores of this process]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) num_workers: Option<u32>,
    /// Network threads per process; each transfers about 3 GB/s [default: the cores of this process / 16, rounded up,
    /// at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) num_network_threads: Option<u32>,
    /// Threads per process that compute the model [default: the cores of this process]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) num_threads: Option<u32>,
    /// YAML file with flags: a line `num-epochs: 20` for each. Those on the command line take precedence. A run with
    /// --metrics or --save-model writes its flags beside these files, as FILE.config.yaml
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) config: Option<PathBuf>,
    /// Print only warnings, errors and the result
    #[arg(long, help_heading = "Output", conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also print the times of sampling by hop, and the memory of rank 0, after each epoch
    #[arg(long, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Without a terminal, print the progress of long epochs every S seconds; 0 prints a line per epoch only
    #[arg(long, value_name = "S", default_value_t = 10, help_heading = "Output")]
    pub(crate) log_every: u64,
    /// Seconds to wait for all ranks to join
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) rendezvous_timeout: u64,
    /// Seconds to wait in a collective operation for a rank that is alive. The death of a rank ends the wait at once
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) collective_timeout: u64,
    /// Seconds without a heartbeat after which a rank, or the network between two ranks, counts as failed. The time for
    /// which the whole job is suspended does not count
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) heartbeat_timeout: u64,
}

impl JobArgs {
    /// Returns the protection of the bytes on all connections.
    pub(crate) fn protection(&self) -> Protection {
        Protection::of_flags(self.encrypt, self.check_traffic)
    }
}

/// Flags that select the graph and the way this process holds its part of it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Graph")]
pub(crate) struct PartArgs {
    /// The N-parts folder that partition-graph wrote. If all processes run on this machine, also the folder of a
    /// dataset that is not partitioned: .npy arrays, OGB's raw CSV files, or triples
    #[arg(long, value_name = "DIR")]
    pub(crate) dataset_root_dir: Option<PathBuf>,
    /// Sampling servers that hold the graph, instead of --dataset-root-dir: HOST:PORT,HOST:PORT in the order in which
    /// they were started, the same list as theirs. They sample, and this process only trains. Waits up to
    /// --rendezvous-timeout seconds for them [default: EDGECUT_SERVERS, unless --dataset-root-dir is given]
    #[arg(long, value_name = "LIST")]
    pub(crate) servers: Option<String>,
    /// Name of the dataset. If given, it is compared with that of the parts
    #[arg(long, alias = "graph-name", value_name = "NAME", hide = true)]
    pub(crate) dataset: Option<String>,
    #[command(flatten)]
    pub(crate) whole: WholeArgs,
    /// Convert node features to this type at the start, for all node types, or as TYPE=DTYPE,TYPE=DTYPE for some. Smaller
    /// types take less memory and network: int8 a quarter of f32, with a scale per row. Computation stays in f32
    /// [default: the type in the files]
    #[arg(long, value_name = "f32|f16|bf16|int8")]
    pub(crate) feature_dtype: Option<FeatureDtypes>,
    /// Sample from the memory-mapped files instead of copying the edges into memory. Slower, but saves 4 bytes per
    /// edge. Default if processes of this node share a part: they then share one copy of its files in memory
    #[arg(long, conflicts_with = "copy_edges")]
    pub(crate) map_edges: bool,
    /// Copy the edges into the memory of each process, even if processes of this node share a part
    #[arg(long)]
    pub(crate) copy_edges: bool,
    /// Verify the checksums of features too, which reads the part's files completely. Sizes and structure, and the
    /// checksums of all other files, are always verified
    #[arg(long)]
    pub(crate) verify: bool,
    /// Seconds to wait for a reply from another part
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) rpc_timeout: u64,
}

impl PartArgs {
    /// Returns the list of servers, from `--servers` or a launcher, unless there is a folder of data.
    pub(crate) fn server_list(&self) -> Option<String> {
        let launched = || std::env::var("EDGECUT_SERVERS").ok().filter(|list| !list.is_empty());
        self.servers.clone().or_else(|| if self.dataset_root_dir.is_none() { launched() } else { None })
    }
}

/// Flags that control how a dataset that is not partitioned is read. `partition-graph` has the same flags.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Graph that is not partitioned")]
pub(crate) struct WholeArgs {
    /// Split scheme to use if the dataset has several
    #[arg(long, value_name = "SCHEME")]
    pub(crate) split: Option<String>,
    /// Add the reverse of each edge, unless the graph has it
    #[arg(long)]
    pub(crate) to_undirected: bool,
    /// For each edge type add a type `rev_NAME` with its edges reversed; for graphs with several node or edge types
    #[arg(long)]
    pub(crate) add_reverse_edges: bool,
    /// Hold out these fractions of the edges for validation and test of link prediction. They are chosen at random, as
    /// partition-graph does with --seed 0; with the prefix `latest:`, the latest edges by edge time are held out
    #[arg(long, value_name = "[latest:]VALID,TEST", value_parser = hold_out)]
    #[serde(serialize_with = "hold_out_text")]
    pub(crate) hold_out_edges: Option<HoldOut>,
    /// Action if a held-out edge is also a training edge, or a node is in two splits: fail (error), drop those training
    /// edges and keep each node in its last split only (remove), or continue (allow). With --to-undirected, an edge and
    /// its reverse count as the same edge [default: error]
    #[arg(long, value_name = "error|remove|allow")]
    #[serde(serialize_with = "or_default")]
    pub(crate) overlap: Option<OverlapPolicy>,
}

fn hold_out(text: &str) -> Result<HoldOut, String> {
    HoldOut::parse(text, 0)
}

/// Fan-outs by hop and edge type: the text of the flag and its parsed value.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct NumNeighborsArg {
    text: String,
    // The text already determines the value.
    #[serde(skip)]
    pub(crate) value: NumNeighbors,
}

impl NumNeighborsArg {
    /// Returns true if edge types are named.
    pub(crate) fn names_types(&self) -> bool {
        self.text.contains('=')
    }
}

pub(crate) fn num_neighbors(text: &str) -> Result<NumNeighborsArg, String> {
    Ok(NumNeighborsArg { text: text.to_owned(), value: text.parse()? })
}

pub(crate) fn ratio(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(format!("{text} is not in 0 ≤ ratio ≤ 1")) }
}

pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(format!("{text} is not a finite number ≥ 0")) }
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct NodeArgs {
    // The first field, so that it sees all flags.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) given: GivenFlags,
    // The paths of nodes may differ. The data is compared by its fingerprint, or by `DatasetFlags`.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) part: PartArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) training: TrainingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) objective: ObjectiveArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) checkpoints: CheckpointArgs,
    // Nodes may have different devices.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) device: DeviceArgs,
    // GPUs may have different amounts of memory.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) memory: DeviceMemoryArgs,
    // Each process has its own rank, addresses, threads and timeouts.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) job: JobArgs,
}

/// Flags for the files that a run writes and reads.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write metrics as JSON Lines: one object per epoch, then one with the result. A restarted attempt appends
    // Only rank 0 writes it.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) metrics: Option<PathBuf>,
    /// Write an HTML file about the run at its end: curves, times by phase and rank, traffic, memory and flags. `train
    /// report` makes one about several runs
    // Only rank 0 writes it.
    #[arg(long, value_name = "FILE", requires = "metrics")]
    #[serde(skip)]
    pub(crate) report: Option<PathBuf>,
    /// Write an event file for TensorBoard to this folder, with the loss, the metric and the times of each epoch
    // Only rank 0 writes it.
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Serve the state of this process as Prometheus text at http://HOST:PORT/metrics: epoch, step, loss, seeds per
    /// second, traffic, waiting time and memory. Process K of a node uses the port K above PORT. Listens on
    /// --listen-addr, or on all addresses
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    #[serde(skip)]
    pub(crate) metrics_port: Option<u16>,
    /// Save the model as safetensors whenever an epoch is the best so far. Embeddings go to the folder FILE.embeddings.
    /// A restarted attempt replaces the model of an earlier attempt only by a better one
    // Ranks may have different paths, but all of them take part in saving.
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "is_given")]
    pub(crate) save_model: Option<PathBuf>,
    /// Evaluate this saved model instead of training
    // Ranks may have different paths, but either all ranks evaluate, or all of them train.
    #[arg(long, value_name = "FILE", conflicts_with = "save_model")]
    #[serde(serialize_with = "is_given")]
    pub(crate) load_model: Option<PathBuf>,
    /// Print the result as JSON on standard output
    // Only rank 0 prints.
    #[arg(long)]
    #[serde(skip)]
    pub(crate) json: bool,
}

impl OutputArgs {
    /// Checks that the files can be written. Nothing is changed.
    ///
    /// # Errors
    /// The first file that cannot be written.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.save_model {
            check_output(path).with_context(|| format!("--save-model: write {}", path.display()))?;
        }
        // Devices and pipes, such as /dev/stdout, are opened when training starts.
        if let Some(path) = self.metrics.as_ref().filter(|path| !path.exists() || path.is_file()) {
            check_output(path).with_context(|| format!("--metrics: write {}", path.display()))?;
        }
        if let Some(path) = &self.report {
            // A report is read from the metrics.
            if self.metrics.as_ref().is_some_and(|metrics| metrics.exists() && !metrics.is_file()) {
                let what = "--report needs a regular file for --metrics: name one, not a device or a pipe";
                return Err(UsageError(what.into()).into());
            }
            check_output(path).with_context(|| format!("--report: write {}", path.display()))?;
        }
        if let Some(dir) = &self.tensorboard {
            let exists = dir.ancestors().find(|dir| dir.exists() && !dir.as_os_str().is_empty());
            check_output(&exists.unwrap_or(Path::new(".")).join("events"))
                .with_context(|| format!("--tensorboard: write to {}", dir.display()))?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct SampleArgs {
    // The paths of nodes may differ. The data is compared by its fingerprint, or by `DatasetFlags`.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) part: PartArgs,
    /// Fan-outs: in-neighbors to sample per node, one number per hop, the hop at the seeds first; -1 takes all
    /// neighbors. Per edge type: "cites=15,10;writes=10,0"; a list without a name is for all other types:
    /// "cites=15,10;5,5"
    #[arg(long, value_name = "LIST", default_value = "15,10,5", value_parser = num_neighbors, allow_hyphen_values = true)]
    pub(crate) num_neighbors: NumNeighborsArg,
    /// Node type of the seeds [default: the only type with training nodes]
    #[arg(long, value_name = "TYPE")]
    pub(crate) seed_type: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Seeds per batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Batches to write in total, over all ranks [default: one epoch]
    #[arg(long, value_name = "K")]
    pub(crate) num_batches: Option<u64>,
    /// Random seed of shuffling and sampling
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Nodes to use as seeds, in order: a CSV, Parquet or .npy file of ids of the tables, or of row numbers of other graphs
    /// [default: the training nodes, shuffled]
    // Ranks may have different paths. `SampleFlags` compares the contents of both files.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) seeds: Option<PathBuf>,
    /// The ids in the file of --seeds are row numbers, also for graphs from tables with ids
    #[arg(long, requires = "seeds")]
    pub(crate) row_numbers: bool,
    /// .npy file with one time per seed in --seeds [default: the times of the nodes]
    #[arg(long, value_name = "FILE", requires = "seeds", requires = "time_attr")]
    #[serde(skip)]
    pub(crate) seed_times: Option<PathBuf>,
    /// Folder to write batch_00000.npz, batch_00001.npz, … to; created if missing
    // Each node writes to its own folder.
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub(crate) out: PathBuf,
    /// Replace the batches of an earlier run in --out, once all new ones are written
    #[arg(long)]
    #[serde(skip)]
    pub(crate) overwrite: bool,
    /// Batches to sample concurrently
    // This limit and the next one bound the memory of a process and do not change its batches.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    #[serde(skip)]
    pub(crate) concurrency: u32,
    /// Maximum memory of prefetched batches, for example 1GiB or 500MB. A single batch may exceed it
    #[arg(long, alias = "channel-size", value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    #[serde(skip)]
    pub(crate) prefetch_bytes: u64,
    // Each process has its own rank, addresses, threads and timeouts.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) job: JobArgs,
}
