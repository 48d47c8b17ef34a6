//! The flags of `train edge`.

use crate::args::{JobArgs, OutputArgs, PartArgs};
use crate::checkpoint_args::CheckpointArgs;
use crate::device::{DeviceArgs, DeviceMemoryArgs};
use crate::exit::UsageError;
use crate::given_flags::GivenFlags;
use crate::link_args::{pair, pairs_text};
use crate::objective_args::ObjectiveArgs;
use crate::sampling_args::SamplingArgs;
use crate::shared_flags::as_text;
use crate::training_args::TrainingArgs;
use anyhow::bail;
use clap::Args;
use edgecut_trainer::DeviceMemory;
use edgecut_trainer::edge::EdgeTrainingConfig;
use edgecut_trainer::models::TargetEdges;
use edgecut_trainer::nn::EdgeDecoderKind;
use serde::Serialize;

#[derive(Debug, Args, Serialize)]
pub(crate) struct EdgeArgs {
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
    pub(crate) edges: EdgesArgs,
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

/// Flags of the edges to predict and of the model that predicts them.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Edges")]
pub(crate) struct EdgesArgs {
    /// Edge type whose labels the model learns: SRC__REL__DST, or a relation name [default: the only type with labels]
    #[arg(long, value_name = "TYPE")]
    pub(crate) edge_type: Option<String>,
    /// Decoder that computes the outputs of an edge from the vectors of both ends and the features of the edge: a network
    /// with one hidden layer (mlp), a weighted product of the vectors (dot), or a matrix per output between them
    /// (bilinear)
    #[arg(long, value_name = "mlp|dot|bilinear", default_value_t = EdgeDecoderKind::Mlp)]
    #[serde(serialize_with = "as_text")]
    pub(crate) decoder: EdgeDecoderKind,
    /// Compute the outputs of an edge without its own features
    #[arg(long)]
    pub(crate) no_edge_features: bool,
    /// Messages over the edges of a batch and their reverses: none (exclude), or like other edges (include). A model that
    /// reads the edges which it predicts from the neighborhood relies on what it does not know of new edges
    #[arg(long, value_name = "exclude|include", default_value_t)]
    #[serde(serialize_with = "as_text")]
    pub(crate) target_edges: TargetEdges,
    /// Pairs of edge types that are the reverse of each other: ONE=OTHER, separated by commas. NAME and rev_NAME are
    /// always paired
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pair)]
    #[serde(serialize_with = "pairs_text")]
    pub(crate) reverse_types: Vec<(String, String)>,
}

impl EdgeArgs {
    /// Returns the configuration of the model, its training and its evaluation.
    ///
    /// # Errors
    /// [`UsageError`] for flags that contradict each other.
    pub(crate) fn config(&self, num_workers: usize, device_memory: DeviceMemory) -> anyhow::Result<EdgeTrainingConfig> {
        let training = self.training.config(&self.sampling, num_workers, device_memory)?;
        if training.eval_layer_wise.is_some() {
            bail!(UsageError(
                "--eval layer-wise computes each node once, with messages over all edges, also over those to predict: \
                 leave it out, or give fan-outs by --eval-num-neighbors"
                    .into()
            ));
        }
        let edges = &self.edges;
        Ok(EdgeTrainingConfig {
            training,
            edge_type: edges.edge_type.clone(),
            decoder: edges.decoder,
            own_features: !edges.no_edge_features,
            target_edges: edges.target_edges,
            reverse_types: edges.reverse_types.clone(),
            metric: self.objective.metric,
        })
    }
}
