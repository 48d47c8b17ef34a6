//! The flags of `train sample`.

use crate::args::sampling::SamplingArgs;
use crate::args::{JobArgs, NumNeighborsArg, PartArgs, num_neighbors};
use clap::Args;
use edgecut_cli::parse_bytes;
use serde::Serialize;
use std::path::PathBuf;

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
    #[arg(long, alias = "channel-size", value_name = "BYTES", default_value = "1GiB", value_parser = parse_bytes)]
    #[serde(skip)]
    pub(crate) prefetch_bytes: u64,
    // Each process has its own rank, addresses, threads and timeouts.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) job: JobArgs,
}
