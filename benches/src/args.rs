//! The command line of `bench`.

use clap::{Args, Parser, Subcommand};
use edgecut_dist_sampler::{Fanout, SamplerConfig, SamplingMethod, parse_num_neighbors};
use edgecut_gnn::ops::Precision;
use std::num::NonZeroU32;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example with a graph of 600 000 nodes and 30 million edges, as one part and as two parts:
  for parts in 1 2; do
    partition-graph --dataset fake --avg-num-nodes 600000 --avg-degree 50 --num-channels 100 \\
      --num-classes 47 --method ldg --num-partitions $parts --root-dir data
  done
  bench --json bench.json sampling --data data/partitions/fake/1-parts
  bench all --data data/partitions/fake/1-parts --data-2 data/partitions/fake/2-parts

Run benchmarks on an otherwise idle machine.";

/// Benchmarks Edgecut's hot paths and compares each with the limits of the machine.
#[derive(Debug, Parser)]
#[command(name = "bench", version = edgecut_cli::version(), after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The flags of all benchmarks.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Also write the records as a JSON array
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Repetitions; the median and the minimum are shown [default: 7; 1 for partition and csv]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reps: Option<u32>,
    /// Number of threads that sample, compute and copy [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Size of the arrays for the memory limits in MiB; must be well above the cache sizes
    #[arg(long, global = true, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=16384))]
    array_mib: u32,
}

impl Common {
    /// Returns the repetitions of a benchmark that takes at most seconds.
    pub(crate) fn reps(&self) -> usize {
        self.reps.unwrap_or(7) as usize
    }

    /// Returns the repetitions of a benchmark that takes minutes.
    pub(crate) fn long_reps(&self) -> usize {
        self.reps.unwrap_or(1) as usize
    }

    pub(crate) fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or(cores, |threads| threads as usize)
    }

    pub(crate) fn array_bytes(&self) -> usize {
        (self.array_mib as usize) << 20
    }

    /// Returns these flags as arguments of another process.
    pub(crate) fn as_args(&self) -> Vec<String> {
        let mut args = vec![format!("--threads={}", self.threads()), format!("--array-mib={}", self.array_mib)];
        args.extend(self.reps.map(|reps| format!("--reps={reps}")));
        args
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Limits of the machine: random reads, copies, loopback, matrix products
    Limits,
    /// Multi-hop sampling on one part
    Sampling(BatchArgs),
    /// Sampling with features in memory, and gathering of features alone
    Gather(BatchArgs),
    /// Caches for the features of other parts: bytes saved by rows chosen in advance and by replacement
    Cache(CacheArgs),
    /// Fetching feature rows from a peer in another process
    Rpc(RpcArgs),
    /// Batches whose nodes are spread over many ranks, each in its own process
    ManyRanks(ManyRanksArgs),
    /// Ring all-reduce between processes
    AllReduce(AllReduceArgs),
    /// All-reduce and features over checked and encrypted connections, compared with connections without protection
    Protection(ProtectionArgs),
    /// Fused aggregation, compared with gather and scatter-add
    Aggregation(AggregationArgs),
    /// Dense layers of the models, compared with burn's operations
    Linear(LinearArgs),
    /// A training step alone, and overlapped with sampling
    Step(StepArgs),
    /// Epochs of the program `train` on one or more ranks
    Epoch(EpochArgs),
    /// Batches of small graphs, and training on them
    Graphs(GraphsArgs),
    /// The program `partition-graph`
    Partition(PartitionArgs),
    /// Reading of OGB's CSV files, compared with decompression alone
    Csv(CsvArgs),
    /// Reading of tables with text ids, compared with random reads
    Tables(TablesArgs),
    /// Time from the start to the first batch
    Startup(BatchArgs),
    /// All benchmarks that the given data permits, each in its own process
    All(AllArgs),
    #[command(hide = true)]
    Peer(PeerArgs),
}

/// A comma-separated list of fan-outs.
#[derive(Clone, Debug)]
pub(crate) struct Fanouts(pub(crate) Vec<Fanout>);

impl Fanouts {
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(Fanout::to_string).collect::<Vec<_>>().join(",")
    }
}

fn fanouts(text: &str) -> Result<Fanouts, String> {
    parse_num_neighbors(text).map(Fanouts)
}

/// The flags of sampled batches.
#[derive(Clone, Debug, Args)]
pub(crate) struct DrawArgs {
    /// Fan-outs: in-neighbors to sample per node, one number per hop, the hop at the seeds first; -1 takes all
    /// neighbors
    #[arg(long, value_name = "LIST", default_value = "15,10,5", value_parser = fanouts, allow_hyphen_values = true)]
    pub(crate) num_neighbors: Fanouts,
    /// Method of sampling, as in `train`
    #[arg(long, value_name = "neighbor|labor", default_value = "neighbor")]
    sampler: SamplingMethod,
    /// With --sampler labor: batches over which the random numbers turn into new ones
    #[arg(long, value_name = "K")]
    batch_dependency: Option<NonZeroU32>,
    /// Seeds per batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Batches per repetition
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batches: u32,
}

impl DrawArgs {
    /// Returns the configuration of the sampler.
    pub(crate) fn sampler(&self) -> anyhow::Result<SamplerConfig> {
        let labor = self.sampler.labor(self.batch_dependency).map_err(anyhow::Error::msg)?;
        Ok(SamplerConfig::new(self.num_neighbors.0.clone()).with_labor(labor))
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BatchArgs {
    /// Folder with 1 part, written by partition-graph
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Folder with 2 or more parts, written by partition-graph
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
    /// Sizes of the caches, as fractions of the rows of other parts
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0.05,0.2,0.5")]
    pub(crate) ratios: Vec<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct RpcArgs {
    /// Folder with 2 parts [default: a generated graph with 100 features]
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Rows per fetch
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000,10000")]
    pub(crate) rows: Vec<usize>,
    /// Numbers of fetches in flight
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4")]
    pub(crate) in_flight: Vec<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ManyRanksArgs {
    /// Number of processes
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) ranks: u32,
    /// Seeds per batch
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) batch_size: u32,
}

#[derive(Debug, Args)]
pub(crate) struct AllReduceArgs {
    /// Number of processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) ranks: u32,
    /// Bytes per call
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4096,100000,1000000,10000000,100000000")]
    pub(crate) bytes: Vec<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ProtectionArgs {
    /// Folder with 2 parts [default: a generated graph with 100 features]
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Rows per fetch
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000,10000")]
    pub(crate) rows: Vec<usize>,
    /// Bytes per all-reduce
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4096,100000,1000000,10000000,100000000")]
    pub(crate) bytes: Vec<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct AggregationArgs {
    /// Folder with 1 part; the first sampled batch is used [default: a generated block with 500 000 random edges]
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
    /// Features per node
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) width: u32,
    /// Source nodes of the generated block, which has 2.5 edges and a quarter of a destination per source node
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(8..))]
    pub(crate) num_src: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LinearArgs {
    /// Shapes of the layers: ROWSxINPUTSxOUTPUTS
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "50000x100x256,50000x256x256,110000x200x256", value_parser = shape)]
    pub(crate) shapes: Vec<Shape>,
}

/// A product of `[rows, inputs]` and `[inputs, outputs]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

fn shape(text: &str) -> Result<Shape, String> {
    let sizes: Vec<usize> = text.split('x').filter_map(|size| size.parse().ok()).filter(|&size| size > 0).collect();
    match sizes[..] {
        [rows, inputs, outputs] if text.split('x').count() == 3 => Ok(Shape { rows, inputs, outputs }),
        _ => Err(format!("{text:?} is not of the form ROWSxINPUTSxOUTPUTS, such as 50000x100x256")),
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct StepArgs {
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    /// Width of the hidden layers
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hidden: u32,
    /// Type of products, as in `train`. The step alone is also measured with products in f32, in turns
    #[arg(long, value_name = "bf16")]
    pub(crate) mixed_precision: Option<Precision>,
    /// Batches that the loader prefetches
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: u32,
}

#[derive(Debug, Args)]
pub(crate) struct GraphsArgs {
    /// Number of generated graphs, with about 20 nodes each
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) num_graphs: u32,
    /// Graphs per batch
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Width of the hidden layers
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hidden: u32,
}

#[derive(Debug, Args)]
pub(crate) struct EpochArgs {
    /// Folders of parts; one rank per part trains on each folder
    #[arg(long, value_name = "PARTS_DIR", required = true)]
    pub(crate) data: Vec<PathBuf>,
    /// The program `train` [default: in the folder of this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) train_bin: Option<PathBuf>,
    /// Fan-outs: in-neighbors to sample per node, one number per hop
    #[arg(long, value_name = "LIST", default_value = "15,10,5", value_parser = fanouts, allow_hyphen_values = true)]
    pub(crate) num_neighbors: Fanouts,
    /// Seeds per batch and rank
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Width of the hidden layers
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hidden: u32,
    /// Number of epochs; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) num_epochs: u32,
}

#[derive(Debug, Args)]
pub(crate) struct PartitionArgs {
    /// Folder of a dataset of .npy files
    #[arg(long, value_name = "NPY_FOLDER")]
    pub(crate) data: PathBuf,
    /// Numbers of parts
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,4")]
    pub(crate) num_parts: Vec<u32>,
    /// Partitioning methods: metis, semi-external, ldg, random
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "metis,ldg")]
    pub(crate) method: Vec<String>,
    /// The program `partition-graph` [default: in the folder of this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) partition_bin: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CsvArgs {
    /// Folder of a dataset in the raw layout of the Open Graph Benchmark, with raw/edge.csv.gz
    #[arg(long, value_name = "OGB_RAW_FOLDER")]
    pub(crate) data: PathBuf,
    /// Split scheme to use if the dataset has several
    #[arg(long, value_name = "SCHEME")]
    pub(crate) split: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TablesArgs {
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 600_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: u32,
    /// Edges
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = clap::value_parser!(u32).range(1..1 << 31))]
    pub(crate) edges: u32,
}

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    /// Folder with 1 part
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Folder with the same graph in 2 parts
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data_2: Option<PathBuf>,
    /// Folder of .npy files, for partition
    #[arg(long, value_name = "NPY_FOLDER")]
    pub(crate) npy: Option<PathBuf>,
    /// Folder in the raw layout of OGB, for csv
    #[arg(long, value_name = "OGB_RAW_FOLDER")]
    pub(crate) ogb: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
}

/// The flags of a peer process that this program starts.
#[derive(Clone, Debug, Args)]
pub(crate) struct PeerArgs {
    #[arg(long)]
    pub(crate) rank: usize,
    #[arg(long)]
    pub(crate) world_size: usize,
    #[arg(long)]
    pub(crate) port: u16,
    /// The parts to serve; without this flag the peer takes part in all-reduces
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,
    #[arg(long, value_delimiter = ',')]
    pub(crate) bytes: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn shapes_have_three_sizes() {
        assert!(matches!(shape("5x6x7"), Ok(Shape { rows: 5, inputs: 6, outputs: 7 })));
        for wrong in ["", "5", "5x6", "5x6x7x8", "5x0x7", "ax6x7", "5x6xx7"] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_may_follow_the_benchmark() {
        let cli = Cli::try_parse_from(["bench", "linear", "--reps", "3", "--threads=2"]).expect("a valid line");
        assert_eq!((cli.common.reps(), cli.common.threads()), (3, 2));
    }
}
