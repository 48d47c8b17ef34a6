//! The command line as users of PyG, DGL and GraphStorm write it.

use edgecut_cli::{Alias, Dialect, MeaninglessFlag};

const fn flag(name: &'static str, why: &'static str) -> MeaninglessFlag {
    MeaninglessFlag { name, has_value: false, why }
}

const fn valued(name: &'static str, why: &'static str) -> MeaninglessFlag {
    MeaninglessFlag { name, has_value: true, why }
}

const THREADS: &str = "each process samples on threads of its own, and --num-workers sets their number";
const ONE_PORT: &str = "all connections of a process share one port, see --listen-port";

/// The flags that `train` accepts and leaves out.
const MEANINGLESS: &[MeaninglessFlag] = &[
    valued("num-loader-threads", THREADS),
    valued("num-loader-workers", THREADS),
    valued("num-samplers", THREADS),
    valued("async-sampling", "batches are always sampled asynchronously"),
    flag("logging", "progress is always printed to standard error, and --metrics writes it to a file"),
    flag("progress-bar", "a terminal always shows the progress"),
    valued("train-loader-port", ONE_PORT),
    valued("test-loader-port", ONE_PORT),
    valued("part-config", "--dataset-root-dir names the folder of the parts, which has a META.json"),
    valued("ngpu-per-node", "--device cuda uses the GPUs, and --nproc-per-node sets the number of processes"),
    flag("use-sparse-tensor", "graphs are always stored as sparse matrices"),
];

/// The flags that `-h` shows.
const ESSENTIAL: &[&str] = &[
    "dataset_root_dir",
    "dataset",
    "model",
    "num_neighbors",
    "hidden_channels",
    "batch_size",
    "num_epochs",
    "lr",
    "dropout",
    "metric",
    "decoder",
    "num_negatives",
    "folds",
    "save_model",
    "load_model",
    "metrics",
    "json",
    "output",
    "nodes",
    "format",
    "out",
    "seeds",
    "nproc_per_node",
];

/// GraphStorm's names of flags, in files.
const ALIASES: &[Alias] = &[
    ("hidden-size", "hidden-channels"),
    ("model-encoder-type", "model"),
    ("wd-l2norm", "weight-decay"),
    ("sparse-optimizer-lr", "embedding-lr"),
    ("early-stop-rounds", "patience"),
    ("max-grad-norm", "grad-clip"),
    ("eval-metric", "metric"),
    ("num-negative-edges", "num-negatives"),
];

/// The flags that take URLs.
const URL_FLAGS: &[&str] = &["checkpoint_dir", "dataset_root_dir", "init_from", "load_model", "out", "save_model"];

/// The differences of this command line from a plain one.
pub(crate) const DIALECT: Dialect =
    Dialect { meaningless: MEANINGLESS, essential: ESSENTIAL, has_config: true, aliases: ALIASES, urls: URL_FLAGS };
