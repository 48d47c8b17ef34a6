//! What is trained, and how, as flags.

use crate::args::{NumNeighborsArg, not_negative, num_neighbors, probability};
use crate::device::bytes;
use crate::exit::UsageError;
use crate::sampling_args::SamplingArgs;
use anyhow::bail;
use clap::{Args, ValueEnum};
use edgecut_dist_sampler::NumNeighbors;
use edgecut_trainer::models::{GatSettings, ModelKind};
use edgecut_trainer::nn::{Aggregation, Decomposition, RelationAggregation};
use edgecut_trainer::ops::AttentionVersion;
use edgecut_trainer::{DeviceMemory, TrainingConfig};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModelName {
    /// GraphSAGE
    Sage,
    /// Graph convolutional network, of homogeneous graphs whose neighbors are drawn uniformly: neither by --time-attr nor by
    /// --weighted
    Gcn,
    /// Graph attention network
    Gat,
    /// Graph attention network whose attention depends on both ends of an edge
    Gatv2,
    /// Relational graph convolutional network
    Rgcn,
    /// No convolution: embeddings, or mapped features, alone; without fan-outs
    Embedding,
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
    /// Add a layer's input to its output, where both have --hidden-channels columns: not in the layers that read features or
    /// compute classes
    #[arg(long)]
    pub(crate) residual: bool,
    /// Normalise the input of each layer but the features
    #[arg(long)]
    pub(crate) layer_norm: bool,
    /// Map features to --hidden-channels by a dense layer before the first convolution, and by another one to the classes after
    /// the last, of a homogeneous graph; other graphs, rgcn and train link always do
    #[arg(long)]
    pub(crate) encoder_decoder: bool,
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
    /// L2 penalty on all parameters but embeddings
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
    /// Batches that are made at the same time, ahead of the trainer, as far as --prefetch-bytes allows. 0 makes a batch when it
    /// is asked for [default: half of the threads that sample, from 2 to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) concurrency: Option<u32>,
    /// Memory of the batches that are made ahead or wait, at most: 1GiB, 500MB. A larger batch passes alone
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    pub(crate) prefetch_bytes: u64,
    /// Epochs between validations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) eval_every: u64,
}

impl TrainingArgs {
    fn kind(&self) -> ModelKind {
        match self.model {
            ModelName::Sage | ModelName::Embedding => ModelKind::Sage { aggregation: self.aggregation },
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
        let Self { heads, attention_dropout, .. } = *self;
        ModelKind::Gat(GatSettings { heads: heads as usize, version, attention_dropout, projection_bias: true })
    }

    /// The model, and how it is trained.
    pub(crate) fn config(
        &self,
        sampling: &SamplingArgs,
        num_workers: usize,
        device_memory: DeviceMemory,
    ) -> anyhow::Result<TrainingConfig> {
        let num_neighbors = self.num_neighbors();
        self.check_sampling(sampling)?;
        let layers = self.num_layers.unwrap_or(num_neighbors.num_hops());
        if num_neighbors.num_hops() != layers {
            let given = num_neighbors.num_hops();
            bail!(UsageError(format!(
                "--num-neighbors has {given} fan-outs, but --num-layers is {layers}: give one per layer"
            )));
        }
        let eval_num_neighbors = match &self.eval_num_neighbors {
            Some(given) if self.model != ModelName::Embedding => given.value.clone(),
            _ => num_neighbors.clone(),
        };
        if eval_num_neighbors.num_hops() != layers {
            let given = eval_num_neighbors.num_hops();
            let text =
                format!("--eval-num-neighbors has {given} fan-outs, but there are {layers} layers: give one per layer");
            bail!(UsageError(text));
        }
        Ok(TrainingConfig {
            kind: self.kind(),
            hidden_channels: self.hidden_channels as usize,
            dropout: self.dropout,
            input_dropout: self.input_dropout,
            residual: self.residual,
            layer_norm: self.layer_norm,
            encoder_decoder: self.encoder_decoder,
            relation_aggregation: self.relation_aggregation,
            sampler: sampling.config(num_neighbors),
            eval_num_neighbors,
            batch_size: self.batch_size as usize,
            num_epochs: self.num_epochs,
            lr: self.lr,
            embedding_lr: self.embedding_lr.unwrap_or(self.lr),
            weight_decay: self.weight_decay,
            seed: self.seed,
            concurrency: self.concurrency.map_or((num_workers / 2).clamp(2, 8), |n| n as usize),
            prefetch_bytes: usize::try_from(self.prefetch_bytes).unwrap_or(usize::MAX),
            eval_every: self.eval_every,
            normalize_features: self.normalize_features,
            device_memory,
        })
    }

    /// Fails for a GCN whose neighbors are drawn by time or weight: its normalisation is of the whole graph.
    fn check_sampling(&self, sampling: &SamplingArgs) -> anyhow::Result<()> {
        if self.model != ModelName::Gcn {
            return Ok(());
        }
        let why = if sampling.time_attr.is_some() {
            "--model gcn and --time-attr: a GCN scales messages by in-degrees of the whole graph, which count edges later than the seed"
        } else if sampling.weighted {
            "--model gcn and --weighted: a GCN's sum over drawn neighbors is unbiased only if these are drawn uniformly"
        } else {
            return Ok(());
        };
        bail!(UsageError(format!("{why}; take another --model (sage, gat, gatv2) or leave out the other flag")))
    }

    fn num_neighbors(&self) -> NumNeighbors {
        match self.model {
            ModelName::Embedding => Vec::new().into(),
            _ => self.num_neighbors.value.clone(),
        }
    }

    /// What has to be equal on all ranks, by flag.
    pub(crate) fn parameters(&self) -> Value {
        json!({
            "model": self.model,
            "aggregation": self.aggregation,
            "heads": self.heads,
            "attention_dropout": self.attention_dropout,
            "num_bases": self.num_bases,
            "num_blocks": self.num_blocks,
            "residual": self.residual,
            "layer_norm": self.layer_norm,
            "encoder_decoder": self.encoder_decoder,
            "relation_aggregation": self.relation_aggregation,
            "hidden_channels": self.hidden_channels,
            "num_neighbors": self.num_neighbors.text,
            "eval_num_neighbors": self.eval_num_neighbors.as_ref().map(|fanouts| &fanouts.text),
            "batch_size": self.batch_size,
            "num_epochs": self.num_epochs,
            "lr": self.lr,
            "embedding_lr": self.embedding_lr,
            "weight_decay": self.weight_decay,
            "dropout": self.dropout,
            "input_dropout": self.input_dropout,
            "normalize_features": self.normalize_features,
            "seed": self.seed,
            "eval_every": self.eval_every,
        })
    }
}

/// Several objects as one.
pub(crate) fn merged<const N: usize>(objects: [Value; N]) -> Value {
    let entries = objects.into_iter().filter_map(|object| match object {
        Value::Object(entries) => Some(entries),
        _ => None,
    });
    Value::Object(entries.flatten().collect())
}
