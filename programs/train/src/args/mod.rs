//! The flags that commands share.

pub(crate) mod checkpoints;
pub(crate) mod conv;
pub(crate) mod device;
pub(crate) mod dialect;
pub(crate) mod distinct_files;
pub(crate) mod graph;
pub(crate) mod objective;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod sampling;
pub(crate) mod start;
pub(crate) mod training;

use crate::exit::UsageError;
use crate::settings::shared_flags::{hold_out_text, is_given, or_default};
use anyhow::Context;
use clap::Args;
use edgecut_cli::StoreArgs;
use edgecut_cluster::Protection;
use edgecut_dist_sampler::NumNeighbors;
use edgecut_graph::{FeatureDtypes, HoldOut, META_FILE, OverlapPolicy};
use edgecut_output::check_output;
use edgecut_trainer::link::LinkMetric;
use edgecut_trainer::metrics::Metric;
use serde::Serialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

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
    /// File with the nodes' addresses: one `ip` or `ip port` per line, node 0 first, or YAML with a list of hosts. Servers in it are
    /// left out
    #[arg(long, value_name = "FILE")]
    pub(crate) ip_config: Option<PathBuf>,
    /// Address to listen on [default: EDGECUT_LISTEN_ADDR, or in a job on several nodes that of this node in --ip-config, of the
    /// interface GLOO_SOCKET_IFNAME, or the local address of the connection to node 0]
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
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
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
        if self.servers.is_some() || self.dataset_root_dir.is_some() {
            return self.servers.clone();
        }
        std::env::var("EDGECUT_SERVERS").ok().filter(|list| !list.is_empty())
    }

    /// Returns the flags of a dataset that is not partitioned. Existing parts were made with flags of their own.
    pub(crate) fn whole_if_read(&self) -> Option<&WholeArgs> {
        let dir = self.dataset_root_dir.as_ref()?;
        if dir.join(META_FILE).exists() { None } else { Some(&self.whole) }
    }
}

/// Flags that control how a dataset that is not partitioned is read. `partition-graph` has the same flags.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Graph that is not partitioned")]
pub(crate) struct WholeArgs {
    /// Split scheme to use if the dataset has several
    #[arg(long, value_name = "SCHEME")]
    pub(crate) split: Option<String>,
    /// Add the reverse of each edge, unless the graph has it. Of several edges from one node to another, the first
    /// stays with its weight, time and features, or with `--hold-out-edges latest:…` the latest
    #[arg(long)]
    pub(crate) to_undirected: bool,
    /// For each edge type add a type `rev_NAME` with its edges reversed; for graphs with several node or edge types
    #[arg(long)]
    pub(crate) add_reverse_edges: bool,
    /// Hold out these fractions of the edges for validation and test of link prediction. They are chosen at random, as
    /// partition-graph does with --seed 0; with the prefix `latest:`, the latest edges by edge time are held out. 0 trains
    /// on all edges without validation, and keeps the model of the last epoch
    #[arg(long, value_name = "[latest:]VALID,TEST|0", value_parser = hold_out)]
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

pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(format!("{text} is not a finite number > 0")) }
}

/// Flags for the files that a run writes and reads.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write metrics as JSON Lines to this file: one object per epoch, then one with the result. A restarted attempt appends.
    /// --metric chooses the metrics
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
    /// second, traffic, waiting time and memory. Rank 0 also serves a page of the job at http://HOST:PORT/: progress,
    /// curves, traffic and the slowest ranks. Process K of a node uses the port K above PORT. Listens on --listen-addr,
    /// or on all addresses
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
        if let Some(metrics) = self.metrics.as_ref().and_then(|path| path.to_str())
            && metrics.split(',').all(|name| name.parse::<Metric>().is_ok() || name.parse::<LinkMetric>().is_ok())
        {
            let what = format!(
                "--metrics names the file of the metrics of each epoch, and {metrics} looks like metrics: give them by \
                 --metric {metrics}, or name the file ./{metrics}"
            );
            return Err(UsageError(what).into());
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
