//! The flags of `train graph`.

use crate::args::{JobArgs, OutputArgs, not_negative, probability};
use crate::checkpoint_args::CheckpointArgs;
use crate::conv_args::{ConvArgs, OnGraphs};
use crate::device::{DeviceArgs, bytes};
use crate::exit::UsageError;
use crate::given_flags::GivenFlags;
use crate::objective_args::ObjectiveArgs;
use crate::optimizer_args::{OptimizerArgs, ScheduleName};
use crate::shared_flags::as_text;
use crate::start_args::StartArgs;
use clap::{Args, ValueEnum};
use edgecut_dist_loader::Packing;
use edgecut_graph::small_graphs::{FAKE_GRAPHS_NAME, FakeGraphsOptions, GraphSource, split_dataset};
use edgecut_trainer::FitConfig;
use edgecut_trainer::graph::{GraphTrainingConfig, Protocol};
use edgecut_trainer::models::Readout;
use edgecut_trainer::nn::Aggregation;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReadoutName {
    /// The input features and the outputs of all layers, concatenated
    JumpingKnowledge,
    /// The output of the last layer only
    Last,
}

#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct GraphArgs {
    // The first field, so that it sees all flags.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) given: GivenFlags,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) data: GraphDataArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) training: GraphTrainingArgs,
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
    // Each process has its own rank, addresses, threads and timeouts.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) job: JobArgs,
}

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
    #[serde(serialize_with = "as_text")]
    pub(crate) protocol: Protocol,
}

/// Flags of the model and its training; equal on all ranks. The defaults are those of the GIN paper.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct GraphTrainingArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) conv: ConvArgs<OnGraphs>,
    /// Number of convolutions
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) num_layers: u32,
    /// Width of the hidden layers
    #[arg(long, alias = "num-hidden", value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hidden_channels: u32,
    /// Pooling of the nodes of a graph into one vector
    #[arg(long, value_name = "sum|mean|max", default_value_t = Aggregation::Sum)]
    #[serde(serialize_with = "as_text")]
    pub(crate) pooling: Aggregation,
    /// Node representations to pool
    #[arg(long, value_enum, default_value_t = ReadoutName::JumpingKnowledge)]
    pub(crate) readout: ReadoutName,
    /// Disable batch normalization. When enabled, each process normalizes over its own graphs, and running statistics
    /// are averaged over the processes before each evaluation
    #[arg(long)]
    pub(crate) no_batch_norm: bool,
    /// Dropout probability of the pooled vectors
    #[arg(long, value_name = "P", default_value_t = 0.5, value_parser = probability)]
    pub(crate) dropout: f64,
    /// Graphs per batch and process
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_size: u32,
    /// Instead of --batch-size: fill the batch of a process with graphs up to this number of nodes
    #[arg(long, value_name = "N", conflicts_with = "batch_size", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_nodes: Option<u32>,
    /// Skip the last step of an epoch if its batches are not full
    #[arg(long)]
    pub(crate) drop_last: bool,
    /// Number of epochs
    #[arg(long, alias = "epochs", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) num_epochs: u64,
    /// Initial learning rate
    #[arg(long, alias = "learning-rate", value_name = "LR", default_value_t = 0.01, value_parser = not_negative)]
    pub(crate) lr: f64,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) optimizer: OptimizerArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) start: StartArgs,
    /// L2 penalty on all parameters; for adamw, the decoupled weight decay
    #[arg(long, value_name = "W", default_value_t = 0.0, value_parser = not_negative)]
    pub(crate) weight_decay: f64,
    /// Random seed of initial weights, shuffling and dropout
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Batches to prefetch; 0 makes each batch when it is needed
    // This limit and the next one bound the memory of a process and do not change its batches.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(..=1024))]
    #[serde(skip)]
    pub(crate) concurrency: u32,
    /// Maximum memory of prefetched batches, for example 1GiB or 500MB. A single batch may exceed it
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    #[serde(skip)]
    pub(crate) prefetch_bytes: u64,
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

impl GraphArgs {
    /// Checks that flags of generated graphs are given only with `--dataset fake-graphs`.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        let data = &self.data;
        for (flag, is_given) in [
            ("--num-graphs", data.num_graphs.is_some()),
            ("--avg-num-nodes", data.avg_num_nodes.is_some()),
            ("--fake-seed", data.fake_seed.is_some()),
        ] {
            if is_given && data.dataset != FAKE_GRAPHS_NAME {
                let dataset = &data.dataset;
                return Err(UsageError(format!(
                    "{flag} applies only to --dataset {FAKE_GRAPHS_NAME}, but the dataset is {dataset}: leave it out"
                )));
            }
        }
        Ok(())
    }

    /// Returns the configuration of the model and its training.
    ///
    /// # Errors
    /// [`UsageError`] for flags that have no effect on each other.
    pub(crate) fn config(&self) -> Result<GraphTrainingConfig, UsageError> {
        let args = &self.training;
        let by_count = Packing::Graphs(args.batch_size as usize);
        Ok(GraphTrainingConfig {
            num_layers: args.num_layers as usize,
            hidden_channels: args.hidden_channels as usize,
            pooling: args.pooling,
            readout: match args.readout {
                ReadoutName::JumpingKnowledge => Readout::JumpingKnowledge,
                ReadoutName::Last => Readout::Last,
            },
            batch_norm: !args.no_batch_norm,
            dropout: args.dropout,
            packing: args.max_nodes.map_or(by_count, |nodes| Packing::Nodes(nodes as usize)),
            drop_last: args.drop_last,
            fit: FitConfig {
                num_epochs: args.num_epochs,
                weight_decay: args.weight_decay,
                seed: args.seed,
                freeze: args.start.freeze.clone(),
                ..args.optimizer.fit(args.lr, ScheduleName::Step)?
            },
            metric: self.objective.metric,
            concurrency: args.concurrency as usize,
            prefetch_bytes: usize::try_from(args.prefetch_bytes).unwrap_or(usize::MAX),
            ..GraphTrainingConfig::new(args.conv.kind())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use edgecut_trainer::models::{ConvKind, GinSettings};

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let cli = Cli::try_parse_from(["train", "graph", "--dataset", "a"]).expect("a command line");
        let Command::Graph(args) = cli.command else { panic!("another command") };
        let gin = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: false });
        assert_eq!(
            format!("{:?}", args.config().expect("a configuration")),
            format!("{:?}", GraphTrainingConfig::new(gin))
        );
    }
}
