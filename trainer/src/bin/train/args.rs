//! The command line.

use crate::sampling_args::SamplingArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use edgecut_dist_sampler::NumNeighbors;
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::models::{GatSettings, ModelKind};
use edgecut_trainer::nn::{Aggregation, Decomposition, RelationAggregation};
use edgecut_trainer::ops::AttentionVersion;
use serde::Serialize;
use std::net::IpAddr;
use std::path::PathBuf;

/// Trains graph neural networks on a partitioned graph, on one node or many.
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
        train node --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --model sage --num-neighbors 15,10,5\n\n\
        Without --num-nodes, --node-rank and --ip-config, a process that torchrun, Slurm's srun, mpirun or an indexed\n\
        Kubernetes Job started is the rank that these made it; --nproc-per-node is then left out.\n\n\
        Exit status: 0 done, 1 an error of this process, 2 wrong flags, 3 another rank failed.")]
    Node(Box<NodeArgs>),
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
    /// The N-parts folder that partition-graph wrote
    #[arg(long, value_name = "DIR")]
    pub(crate) dataset_root_dir: PathBuf,
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
    /// A file with the job's shared secret [default: EDGECUT_TOKEN, or the file that EDGECUT_TOKEN_FILE names]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Threads that sample and gather, per process [default: this process's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) num_workers: Option<u32>,
    /// Threads that compute, per process [default: this process's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) num_threads: Option<u32>,
    /// Seconds to wait for all ranks to join
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) rendezvous_timeout: u64,
    /// Seconds that a rank which is alive may keep the others waiting; one that has died is noticed at once
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) collective_timeout: u64,
    /// Seconds to wait for a reply of another part
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) rpc_timeout: u64,
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
}

/// Fan-outs by hop and edge type, as they were given and as they are meant.
#[derive(Clone, Debug)]
pub(crate) struct NumNeighborsArg {
    pub(crate) text: String,
    pub(crate) value: NumNeighbors,
}

fn num_neighbors(text: &str) -> Result<NumNeighborsArg, String> {
    Ok(NumNeighborsArg { text: text.to_owned(), value: text.parse()? })
}

fn probability(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err(format!("{text} is not in 0 ≤ p < 1")) }
}

fn not_negative(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(format!("{text} is not a finite number ≥ 0")) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModelName {
    /// GraphSAGE
    Sage,
    /// Graph convolutional network, of homogeneous graphs
    Gcn,
    /// Graph attention network
    Gat,
    /// Graph attention network whose attention depends on both ends of an edge
    Gatv2,
    /// Relational graph convolutional network
    Rgcn,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) training: TrainingArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What is written, and what is read back.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write metrics as JSON Lines: an object per epoch, then one for the result
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Save the best model as safetensors, each time that one is better
    #[arg(long, value_name = "FILE")]
    pub(crate) save_model: Option<PathBuf>,
    /// Do not train: evaluate this model
    #[arg(long, value_name = "FILE", conflicts_with = "save_model")]
    pub(crate) load_model: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is trained; equal on all ranks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Training")]
pub(crate) struct TrainingArgs {
    /// The model
    #[arg(long, value_enum, default_value_t = ModelName::Sage)]
    pub(crate) model: ModelName,
    /// How GraphSAGE combines neighbors
    #[arg(long, value_name = "mean|sum|max", default_value_t = Aggregation::Mean)]
    pub(crate) aggregation: Aggregation,
    /// Attention heads of gat and gatv2; they divide the hidden channels
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) heads: u32,
    /// Dropout of the weights of attention
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub(crate) attention_dropout: f64,
    /// Matrices that the weights of rgcn's edge types are sums of [default: each has its own]
    #[arg(long, value_name = "N", conflicts_with = "num_blocks", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) num_bases: Option<u32>,
    /// Diagonal blocks that the weights of rgcn's edge types consist of; they divide the hidden channels
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) num_blocks: Option<u32>,
    /// Add a layer's input to its output
    #[arg(long)]
    pub(crate) residual: bool,
    /// Normalise the input of each layer
    #[arg(long)]
    pub(crate) layer_norm: bool,
    /// How a node combines what it hears over several edge types; rgcn sums
    #[arg(long, value_name = "sum|mean", default_value_t = RelationAggregation::Sum)]
    pub(crate) relation_aggregation: RelationAggregation,
    /// Width of the hidden layers
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hidden_channels: u32,
    /// Layers [default: as many as --num-neighbors has fan-outs, which it must equal]
    #[arg(long, value_name = "N")]
    pub(crate) num_layers: Option<usize>,
    /// In-neighbors drawn per node, a number per layer, seeds' hop first; -1 takes all. By edge type: "cites=15,10;writes=10,0",
    /// and "cites=15,10;5,5" for all others
    #[arg(long, value_name = "LIST", default_value = "15,10,5", value_parser = num_neighbors, allow_hyphen_values = true)]
    pub(crate) num_neighbors: NumNeighborsArg,
    /// The same for validation and test [default: --num-neighbors]
    #[arg(long, value_name = "LIST", value_parser = num_neighbors, allow_hyphen_values = true)]
    pub(crate) eval_num_neighbors: Option<NumNeighborsArg>,
    /// Seeds per batch and rank, at most; a rank's seeds are spread evenly over the steps of an epoch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Epochs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) num_epochs: u64,
    /// Adam's learning rate
    #[arg(long, value_name = "X", default_value_t = 0.0004, value_parser = not_negative)]
    pub(crate) lr: f64,
    /// The learning rate of the embeddings of node types without features [default: --lr]
    #[arg(long, value_name = "X", value_parser = not_negative)]
    pub(crate) embedding_lr: Option<f64>,
    /// L2 penalty on all parameters
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative)]
    pub(crate) weight_decay: f64,
    /// Dropout between layers
    #[arg(long, value_name = "P", default_value_t = 0.5, value_parser = probability)]
    pub(crate) dropout: f64,
    /// Dropout on the input features
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub(crate) input_dropout: f64,
    /// Divide each feature row by its sum
    #[arg(long)]
    pub(crate) normalize_features: bool,
    /// The seed of everything random
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Batches that are made at the same time, ahead of the trainer; each takes memory. 0 makes a batch when it is asked for
    /// [default: half of the threads that sample, from 2 to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) concurrency: Option<u32>,
    /// Epochs between validations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) eval_every: u64,
    /// What chooses the epoch
    #[arg(long, value_name = "accuracy|roc-auc|micro-f1|macro-f1", default_value_t = Metric::Accuracy)]
    pub(crate) metric: Metric,
}

impl TrainingArgs {
    pub(crate) fn kind(&self) -> ModelKind {
        match self.model {
            ModelName::Sage => ModelKind::Sage { aggregation: self.aggregation },
            ModelName::Gcn => ModelKind::Gcn,
            ModelName::Gat => self.gat(AttentionVersion::V1),
            ModelName::Gatv2 => self.gat(AttentionVersion::V2),
            ModelName::Rgcn => ModelKind::Rgcn {
                decomposition: match (self.num_bases, self.num_blocks) {
                    (Some(num_bases), _) => Decomposition::Basis { num_bases: num_bases as usize },
                    (_, Some(num_blocks)) => Decomposition::BlockDiagonal { num_blocks: num_blocks as usize },
                    (None, None) => Decomposition::None,
                },
            },
        }
    }

    fn gat(&self, version: AttentionVersion) -> ModelKind {
        ModelKind::Gat(GatSettings { heads: self.heads as usize, version, attention_dropout: self.attention_dropout })
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
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
}
