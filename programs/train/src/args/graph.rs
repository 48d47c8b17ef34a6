//! The flags of sets of graphs, and of the models for them.

use crate::args::conv::{ConvArgs, OnGraphs};
use crate::args::not_negative;
use crate::args::start::StartArgs;
use crate::settings::flags::{Flags, Profile};
use clap::Args;
use edgecut_cli::parse_bytes;
use edgecut_graph::small_graphs::{FakeGraphsOptions, GraphSource, split_dataset};
use edgecut_settings::Field;
use edgecut_trainer::FitConfig;
use edgecut_trainer::graph::{GraphTrainingConfig, Protocol};
use serde::Serialize;
use std::path::PathBuf;

/// Flags that select the graphs and split them.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Graphs")]
pub(crate) struct GraphDataArgs {
    /// Name of a graph dataset in TUDataset format; fake-graphs generates one
    #[arg(long, value_name = "NAME")]
    pub(crate) dataset: String,
    /// Folder with the files of the dataset: NAME/NAME_A.txt and so on, or NAME/raw/NAME_A.txt as in PyG
    // Nodes may have different paths.
    #[arg(long, value_name = "DIR", default_value = "data")]
    #[serde(skip)]
    pub(crate) dataset_root_dir: PathBuf,
    /// fake-graphs: number of graphs [default: 1000]
    #[arg(long, value_name = "N")]
    pub(crate) num_graphs: Option<usize>,
    /// fake-graphs: mean number of nodes per graph [default: 20]
    #[arg(long, value_name = "N")]
    pub(crate) avg_num_nodes: Option<usize>,
    /// fake-graphs: random seed of the generated graphs [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) fake_seed: Option<u64>,
    /// Fractions of training, validation and test graphs, which are chosen at random with --split-seed
    #[arg(long, value_name = "T,V,T", default_value = "0.8,0.1,0.1", value_parser = shares, conflicts_with = "folds")]
    pub(crate) split: Shares,
    /// Random seed of the split, and of folds that are not read from files
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) split_seed: u64,
    /// Cross-validate over N folds. They are read from the folder Nfold beside the graphs if it exists
    /// (train_idx-1.txt, test_idx-1.txt, …, with graph numbers from 0), else stratified by class and sampled with
    /// --split-seed
    #[arg(long, value_name = "N", conflicts_with_all = ["save_model", "load_model", "checkpoint_dir"],
        value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) folds: Option<u32>,
    /// Folder to read the folds from; only rank 0 reads it
    // Only rank 0 reads it.
    #[arg(long, value_name = "DIR", requires = "folds")]
    #[serde(skip)]
    pub(crate) folds_dir: Option<PathBuf>,
    /// Selection of the epoch in a cross-validation. validation: the best epoch of each fold on a tenth of its training
    /// graphs. best-mean-epoch: the one epoch with the best mean test metric over all folds, as in the GIN paper; its
    /// figures are optimistic, because the test graphs select the epoch
    #[arg(long, value_name = "validation|best-mean-epoch", default_value_t = Protocol::Validation, requires = "folds")]
    pub(crate) protocol: Protocol,
}

/// Flags of the model and its training; equal on all ranks. The defaults are those of the GIN paper.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct GraphTrainingArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) conv: ConvArgs<OnGraphs>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) model: Flags<GraphTrainingConfig, OnGraphs>,
    /// Disable batch normalization. When enabled without --sync-batch-norm, each process normalizes over its own graphs, and
    /// running statistics are averaged over the processes before each evaluation
    #[arg(long)]
    pub(crate) no_batch_norm: bool,
    /// Graphs per batch and process
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Instead of --batch-size: fill the batch of a process with graphs up to this number of nodes
    #[arg(long, value_name = "N", conflicts_with = "batch_size", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_nodes: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) fit: Flags<FitConfig, OnGraphs>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) start: StartArgs,
    /// Batches to prefetch; 0 makes each batch when it is needed
    // This limit and the next one bound the memory of a process and do not change its batches.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(..=1024))]
    #[serde(skip)]
    pub(crate) concurrency: u32,
    /// Maximum memory of prefetched batches, for example 1GiB or 500MB. A single batch may exceed it
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = parse_bytes)]
    #[serde(skip)]
    pub(crate) prefetch_bytes: u64,
}

impl Profile<GraphTrainingConfig> for OnGraphs {
    fn defaults() -> GraphTrainingConfig {
        GraphTrainingConfig::default()
    }
}

impl Profile<FitConfig> for OnGraphs {
    const LEFT_OUT: &'static [&'static str] = &["patience", "eval_every"];

    fn describe(field: &mut Field<'_>) {
        (field.flag.value_name, field.help) = match field.name {
            "num_epochs" => ("N", "Number of epochs"),
            "lr" => ("LR", "Initial learning rate"),
            "weight_decay" => ("W", "L2 penalty on all parameters; for adamw, the decoupled weight decay"),
            "seed" => ("N", "Random seed of initial weights, shuffling and dropout"),
            _ => (field.flag.value_name, field.help),
        };
        field.flag.shows_default |= field.name == "num_epochs";
    }

    fn defaults() -> FitConfig {
        GraphTrainingConfig::default().fit
    }
}

/// The fractions of training, validation and test graphs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Shares(pub(crate) [f64; 3]);

fn shares(text: &str) -> Result<Shares, String> {
    let values: Result<Vec<f64>, String> = text.split(',').map(not_negative).collect();
    match values?.try_into() {
        Ok(shares) => split_dataset(0, shares, 0).map(|_| Shares(shares)),
        Err(other) => Err(format!("got {} numbers, expected 3: training, validation and test", other.len())),
    }
}

impl GraphDataArgs {
    pub(crate) fn source(&self) -> GraphSource {
        let default = FakeGraphsOptions::default();
        let fake = FakeGraphsOptions {
            num_graphs: self.num_graphs.unwrap_or(default.num_graphs),
            avg_num_nodes: self.avg_num_nodes.unwrap_or(default.avg_num_nodes),
            seed: self.fake_seed.unwrap_or(default.seed),
            ..default
        };
        GraphSource { fake, ..GraphSource::new(self.dataset.as_str(), self.dataset_root_dir.clone()) }
    }
}
