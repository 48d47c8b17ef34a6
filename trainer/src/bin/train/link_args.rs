//! The flags of `train link`.

use crate::args::{JobArgs, OutputArgs, PartArgs, not_negative};
use crate::device::{DeviceArgs, DeviceMemoryArgs};
use crate::exit::UsageError;
use crate::sampling_args::SamplingArgs;
use crate::training_args::TrainingArgs;
use anyhow::bail;
use clap::{Args, ValueEnum};
use edgecut_dist_loader::{Exclude, NegativeDistribution, NegativeSampling};
use edgecut_trainer::DeviceMemory;
use edgecut_trainer::link::{LinkEvaluation, LinkLoss, LinkMetric, LinkTrainingConfig};
use edgecut_trainer::nn::DecoderKind;
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) memory: DeviceMemoryArgs,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    #[command(flatten)]
    pub(crate) links: LinksArgs,
    #[command(flatten)]
    pub(crate) training: TrainingArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How likely each node is as a negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Distribution {
    /// All alike
    Uniform,
    /// In proportion to in-degrees
    Degree,
}

/// What edges are told from, and by what they are judged.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Links")]
pub(crate) struct LinksArgs {
    /// The edge types to predict, by relation or as SRC__REL__DST, with commas between [default: all with held-out edges]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) edge_types: Vec<String>,
    /// Pairs of edge types that are each other's reverse, as ONE=OTHER with commas between, beside those that rev_ names: no
    /// message flows over the reverse of an edge to be predicted
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pair)]
    pub(crate) reverse_types: Vec<(String, String)>,
    /// How a pair of nodes is scored
    #[arg(long, value_name = "dot|distmult", default_value_t = DecoderKind::Dot)]
    pub(crate) decoder: DecoderKind,
    /// Binary cross entropy over an edge and its negatives, or choosing the edge among them
    #[arg(long, value_name = "bce|softmax", default_value_t = LinkLoss::Bce)]
    pub(crate) loss: LinkLoss,
    /// Negative destinations of each edge in training
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) num_negatives: u32,
    /// How likely each node is as a negative
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(crate) negatives: Distribution,
    /// Take the same negatives for all edges of a batch: many cost little then
    #[arg(long)]
    pub(crate) shared_negatives: bool,
    /// With --shared-negatives: take the ends of the batch's other edges as negatives too, but no source or positive pair of
    /// the batch
    #[arg(long, requires = "shared_negatives")]
    pub(crate) in_batch_negatives: bool,
    /// Take no edge that messages flow over as a negative, and none twice for an edge
    #[arg(long, conflicts_with = "shared_negatives")]
    pub(crate) exclude_positives: bool,
    /// Weight of the third powers of the rows of an edge's ends and relation in the loss
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative)]
    pub(crate) n3_weight: f64,
    /// Destinations that held-out edges are ranked among, none of them one of a known edge; `all` ranks among all nodes
    #[arg(long, value_name = "N|all", default_value = "100", value_parser = eval_negatives)]
    pub(crate) eval_negatives: LinkEvaluation,
    /// The metric that chooses the epoch. The ROC AUC needs all scores in memory and is computed only if it is this metric
    #[arg(long, value_name = "mrr|hits@10|roc-auc", default_value_t = LinkMetric::Mrr)]
    pub(crate) metric: LinkMetric,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((one, other)) if !one.is_empty() && !other.is_empty() => Ok((one.into(), other.into())),
        _ => Err(format!("{text:?} is no pair of edge types, such as writes=written_by")),
    }
}

fn eval_negatives(text: &str) -> Result<LinkEvaluation, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(LinkEvaluation::Filtered),
        (_, Ok(num @ 1..=1_000_000)) => Ok(LinkEvaluation::Sampled(num)),
        _ => Err(format!("{text:?} is neither `all` nor a number from 1 to 1000000")),
    }
}

impl LinkArgs {
    /// What is trained, and how.
    pub(crate) fn config(&self, num_workers: usize, device_memory: DeviceMemory) -> anyhow::Result<LinkTrainingConfig> {
        let links = &self.links;
        if links.metric == LinkMetric::RocAuc && links.eval_negatives == LinkEvaluation::Filtered {
            bail!(UsageError("--metric roc-auc is of sampled negatives: give --eval-negatives a number".into()));
        }
        Ok(LinkTrainingConfig {
            training: self.training.config(&self.sampling, num_workers, device_memory)?,
            decoder: links.decoder,
            negatives: NegativeSampling {
                num: links.num_negatives as usize,
                distribution: match links.negatives {
                    Distribution::Uniform => NegativeDistribution::Uniform,
                    Distribution::Degree => NegativeDistribution::Degree,
                },
                exclude: if links.exclude_positives { Exclude::Edges } else { Exclude::Nothing },
                shared: links.shared_negatives,
            },
            in_batch_negatives: links.in_batch_negatives,
            loss: links.loss,
            n3_weight: links.n3_weight,
            edge_types: links.edge_types.clone(),
            reverse_types: links.reverse_types.clone(),
            evaluation: links.eval_negatives,
            metric: links.metric,
        })
    }

    /// What has to be equal on all ranks, by flag.
    pub(crate) fn parameters(&self) -> Value {
        let links = &self.links;
        json!({
            "load_model": self.output.load_model.is_some(),
            "save_model": self.output.save_model.is_some(),
            "edge_types": links.edge_types,
            "reverse_types": links.reverse_types,
            "decoder": links.decoder,
            "loss": links.loss,
            "num_negatives": links.num_negatives,
            "negatives": links.negatives,
            "shared_negatives": links.shared_negatives,
            "in_batch_negatives": links.in_batch_negatives,
            "exclude_positives": links.exclude_positives,
            "n3_weight": links.n3_weight,
            "eval_negatives": links.eval_negatives,
            "metric": links.metric,
        })
    }
}
