//! Flags of PyG's and DGL's example programs that have no meaning here.

use edgecut_cli::MeaninglessFlag;

const fn flag(name: &'static str, why: &'static str) -> MeaninglessFlag {
    MeaninglessFlag { name, has_value: false, why }
}

const fn valued(name: &'static str, why: &'static str) -> MeaninglessFlag {
    MeaninglessFlag { name, has_value: true, why }
}

const THREADS: &str = "each process samples on threads of its own, and --num-workers sets their number";
const ONE_PORT: &str = "all connections of a process share one port, see --listen-port";

/// The flags that `train` accepts and leaves out.
pub(crate) const MEANINGLESS: &[MeaninglessFlag] = &[
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
