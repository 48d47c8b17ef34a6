//! The command line.

use clap::{Args, Parser, Subcommand};
use edgecut_dist_sampler::{Fanout, parse_num_neighbors};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example, a graph of 600 000 nodes and 30 million edges in one part and in two:
  for parts in 1 2; do
    partition-graph --dataset fake --avg-num-nodes 600000 --avg-degree 50 --num-channels 100 \\
      --num-classes 47 --method ldg --num-partitions $parts --root-dir data
  done
  bench --json bench.json sampling --data data/partitions/fake/1-parts
  bench all --data data/partitions/fake/1-parts --data-2 data/partitions/fake/2-parts

Times mean something on a machine that does nothing else.";

/// Times Edgecut's parts, each next to what the machine allows.
#[derive(Debug, Parser)]
#[command(name = "bench", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What all benchmarks share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Also write the records as a JSON array
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Repetitions, of which the median and the least are shown [default: 7; 1 for partition and csv]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reps: Option<u32>,
    /// Threads that sample, compute and copy [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Size of the arrays that the memory's limits are measured on; well above the caches
    #[arg(long, global = true, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=16384))]
    array_mib: u32,
}

impl Common {
    /// Repetitions of what takes at most seconds.
    pub(crate) fn reps(&self) -> usize {
        self.reps.unwrap_or(7) as usize
    }

    /// Repetitions of what takes minutes.
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

    /// The same, as arguments of another process.
    pub(crate) fn as_args(&self) -> Vec<String> {
        let mut args = vec![format!("--threads={}", self.threads()), format!("--array-mib={}", self.array_mib)];
        args.extend(self.reps.map(|reps| format!("--reps={reps}")));
        args
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What the machine allows: random reads, copies, loopback, matrix products
    Limits,
    /// Multi-hop sampling on one part
    Sampling(BatchArgs),
    /// Sampling and features in memory, and the gathering of features alone
    Gather(BatchArgs),
    /// Feature rows from a peer in another process
    Rpc(RpcArgs),
    /// The ring all-reduce between processes
    AllReduce(AllReduceArgs),
    /// Fused aggregation against gather and scatter-add
    Aggregation(AggregationArgs),
    /// Dense layers as the models compute them
    Linear(LinearArgs),
    /// A training step alone, and with sampling overlapped
    Step(StepArgs),
    /// Epochs of the program `train` on one rank and more
    Epoch(EpochArgs),
    /// Batches of small graphs, and training on them
    Graphs(GraphsArgs),
    /// The program `partition-graph`
    Partition(PartitionArgs),
    /// Reading OGB's CSV files against decompressing them
    Csv(CsvArgs),
    /// From nothing to the first batch
    Startup(BatchArgs),
    /// All that the given data permit, each in a process of its own
    All(AllArgs),
    #[command(hide = true)]
    Peer(PeerArgs),
}

/// Fan-outs, comma-separated.
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

/// How batches are sampled.
#[derive(Clone, Debug, Args)]
pub(crate) struct DrawArgs {
    /// In-neighbors drawn per node, a number per hop, seeds' hop first; -1 takes all
    #[arg(long, value_name = "LIST", default_value = "15,10,5", value_parser = fanouts, allow_hyphen_values = true)]
    pub(crate) num_neighbors: Fanouts,
    /// Seeds per batch
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Batches in a repetition
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batches: u32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct BatchArgs {
    /// A folder of 1 part that partition-graph wrote
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RpcArgs {
    /// A folder of 2 parts [default: a generated graph with 100 features]
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Rows per fetch
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000,10000")]
    pub(crate) rows: Vec<usize>,
    /// Fetches under way at the same time
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4")]
    pub(crate) in_flight: Vec<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct AllReduceArgs {
    /// Processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) ranks: u32,
    /// Bytes per call
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4096,100000,1000000,10000000,100000000")]
    pub(crate) bytes: Vec<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct AggregationArgs {
    /// A folder of 1 part, whose first sampled batch is used [default: 500 000 random edges]
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
    /// Features per node
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) width: u32,
    /// Nodes that the generated block reads; it has 2.5 edges and a quarter of a destination for each
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(8..))]
    pub(crate) num_src: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LinearArgs {
    /// Shapes, as rows x inputs x outputs
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
        _ => Err(format!("{text:?} is not of the form 50000x100x256")),
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct StepArgs {
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    /// Width of the hidden layers
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hidden: u32,
    /// Batches that the loader makes ahead
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: u32,
}

#[derive(Debug, Args)]
pub(crate) struct GraphsArgs {
    /// Generated graphs of some 20 nodes
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
    /// Folders of parts; each is trained on by as many ranks as it has parts
    #[arg(long, value_name = "PARTS_DIR", required = true)]
    pub(crate) data: Vec<PathBuf>,
    /// The program `train` [default: beside this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) train_bin: Option<PathBuf>,
    /// In-neighbors drawn per node, a number per hop
    #[arg(long, value_name = "LIST", default_value = "15,10,5", value_parser = fanouts, allow_hyphen_values = true)]
    pub(crate) num_neighbors: Fanouts,
    /// Seeds per batch and rank
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Width of the hidden layers
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hidden: u32,
    /// Epochs, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) num_epochs: u32,
}

#[derive(Debug, Args)]
pub(crate) struct PartitionArgs {
    /// A dataset's folder of .npy files
    #[arg(long, value_name = "NPY_FOLDER")]
    pub(crate) data: PathBuf,
    /// Numbers of parts
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,4")]
    pub(crate) num_parts: Vec<u32>,
    /// Methods: metis, ldg, random
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "metis,ldg")]
    pub(crate) method: Vec<String>,
    /// The program `partition-graph` [default: beside this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) partition_bin: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CsvArgs {
    /// A dataset's folder in the raw layout of the Open Graph Benchmark, with raw/edge.csv.gz
    #[arg(long, value_name = "OGB_RAW_FOLDER")]
    pub(crate) data: PathBuf,
    /// The split scheme, where there are several
    #[arg(long, value_name = "SCHEME")]
    pub(crate) split: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    /// A folder of 1 part
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The same graph in 2 parts
    #[arg(long, value_name = "PARTS_DIR")]
    pub(crate) data_2: Option<PathBuf>,
    /// A folder of .npy files, for partition
    #[arg(long, value_name = "NPY_FOLDER")]
    pub(crate) npy: Option<PathBuf>,
    /// A folder in the raw layout of OGB, for csv
    #[arg(long, value_name = "OGB_RAW_FOLDER")]
    pub(crate) ogb: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
}

/// What a process that this one starts is there for.
#[derive(Clone, Debug, Args)]
pub(crate) struct PeerArgs {
    #[arg(long)]
    pub(crate) rank: usize,
    #[arg(long)]
    pub(crate) world_size: usize,
    #[arg(long)]
    pub(crate) port: u16,
    /// The parts to serve; without them the peer takes part in all-reduces
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
