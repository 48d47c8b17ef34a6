//! The flags of `train link`.

use crate::args::{JobArgs, OutputArgs, PartArgs, not_negative};
use crate::checkpoint_args::CheckpointArgs;
use crate::device::{DeviceArgs, DeviceMemoryArgs};
use crate::exit::UsageError;
use crate::given_flags::GivenFlags;
use crate::sampling_args::SamplingArgs;
use crate::shared_flags::as_text;
use crate::training_args::TrainingArgs;
use anyhow::bail;
use clap::{Args, ValueEnum};
use edgecut_dist_loader::{Exclude, NegativeDistribution, NegativeSampling};
use edgecut_trainer::DeviceMemory;
use edgecut_trainer::link::{LinkEvaluation, LinkLoss, LinkMetric, LinkTrainingConfig, RankedEnds};
use edgecut_trainer::nn::DecoderKind;
use serde::{Serialize, Serializer};

#[derive(Debug, Args, Serialize)]
pub(crate) struct LinkArgs {
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
    pub(crate) links: LinksArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) training: TrainingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) sampling: SamplingArgs,
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

/// The evaluation of datasets without given negatives.
pub(crate) const DEFAULT_EVALUATION: LinkEvaluation = LinkEvaluation::Sampled(100);

/// The probability of each node to be sampled as a negative destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Distribution {
    /// All nodes with equal probability
    Uniform,
    /// Proportional to in-degrees
    Degree,
}

/// Flags of the edges to predict, their negatives, the loss and the evaluation.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Links")]
pub(crate) struct LinksArgs {
    /// Edge types to predict, separated by commas: relation names or SRC__REL__DST [default: all types with held-out
    /// edges]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) edge_types: Vec<String>,
    /// Pairs of edge types that are the reverse of each other: ONE=OTHER, separated by commas. NAME and rev_NAME are
    /// always paired. Message passing excludes the seed edges of a batch and their reverses
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = pair)]
    #[serde(serialize_with = "pairs_text")]
    pub(crate) reverse_types: Vec<(String, String)>,
    /// Decoder that scores a pair of nodes
    #[arg(long, value_name = "dot|distmult", default_value_t = DecoderKind::Dot)]
    #[serde(serialize_with = "as_text")]
    pub(crate) decoder: DecoderKind,
    /// Loss: binary cross-entropy over an edge and its negatives (bce), or cross-entropy of classifying the edge among
    /// its negatives (softmax)
    #[arg(long, value_name = "bce|softmax", default_value_t = LinkLoss::Bce)]
    #[serde(serialize_with = "as_text")]
    pub(crate) loss: LinkLoss,
    /// Negative destinations per training edge
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) num_negatives: u32,
    /// Probability distribution of negative destinations
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(crate) negatives: Distribution,
    /// Use the same negatives for all edges of a batch, which makes large --num-negatives cheap
    #[arg(long)]
    pub(crate) shared_negatives: bool,
    /// With --shared-negatives: also use the end nodes of the other edges of the batch as negatives. The source of the
    /// edge and destinations that an edge of the batch connects it to are excluded
    #[arg(long, requires = "shared_negatives")]
    pub(crate) in_batch_negatives: bool,
    /// Never sample an edge of the message-passing graph as a negative, nor the same negative twice for an edge
    #[arg(long, conflicts_with = "shared_negatives")]
    pub(crate) exclude_positives: bool,
    /// Weight of the N3 regularization: the cubed entries of the source, destination and relation vectors
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative)]
    pub(crate) n3_weight: f64,
    /// Negatives to rank each held-out edge against: N sampled destinations, all nodes, or those that the dataset gives
    /// (given). Destinations of known edges of the same source are excluded from the first two [default: given if the
    /// dataset has them, else 100]
    #[arg(long, value_name = "N|all|given", value_parser = eval_negatives)]
    #[serde(serialize_with = "eval_negatives_text")]
    pub(crate) eval_negatives: Option<LinkEvaluation>,
    /// With --eval-negatives all: ends of held-out edges to rank. both also ranks the source among all sources, and the
    /// metrics are means over both ends
    #[arg(long, value_name = "destination|both", default_value_t = RankedEnds::Destination)]
    #[serde(serialize_with = "as_text")]
    pub(crate) rank: RankedEnds,
    /// Metric on the validation edges that selects the best epoch. K is any number. roc-auc and average-precision keep
    /// all scores in memory and are computed only if selected here, or if all edges share given negatives
    #[arg(long, value_name = "mrr|hits@K|roc-auc|average-precision", default_value_t = LinkMetric::Mrr)]
    #[serde(serialize_with = "as_text")]
    pub(crate) metric: LinkMetric,
}

/// Parses a pair of edge types, ONE=OTHER.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    if text.matches('=').count() > 1 {
        return Err(format!(
            "{text:?} has several `=`, so that it does not say where the second type begins: types with `=` in their names \
             cannot be paired, rename them"
        ));
    }
    match text.split_once('=') {
        Some((one, other)) if !one.is_empty() && !other.is_empty() => Ok((one.into(), other.into())),
        _ => Err(format!("{text:?} is not a pair of edge types: write ONE=OTHER, such as writes=written_by")),
    }
}

/// Serialises pairs as they are written on the command line.
pub(crate) fn pairs_text<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pairs.iter().map(|(one, other)| format!("{one}={other}")))
}

/// Serialises the evaluation as it is written on the command line.
fn eval_negatives_text<S: Serializer>(evaluation: &Option<LinkEvaluation>, serializer: S) -> Result<S::Ok, S::Error> {
    match evaluation {
        None => serializer.serialize_none(),
        Some(LinkEvaluation::Filtered) => serializer.serialize_str("all"),
        Some(LinkEvaluation::Given) => serializer.serialize_str("given"),
        Some(LinkEvaluation::Sampled(number)) => serializer.collect_str(number),
    }
}

fn eval_negatives(text: &str) -> Result<LinkEvaluation, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(LinkEvaluation::Filtered),
        ("given", _) => Ok(LinkEvaluation::Given),
        (_, Ok(num @ 1..=1_000_000)) => Ok(LinkEvaluation::Sampled(num)),
        _ => Err(format!("{text:?} is neither `all`, `given` nor a number from 1 to 1000000")),
    }
}

impl LinkArgs {
    /// Returns the configuration of the model, its training and its evaluation.
    pub(crate) fn config(&self, num_workers: usize, device_memory: DeviceMemory) -> anyhow::Result<LinkTrainingConfig> {
        let links = &self.links;
        let is_filtered = links.eval_negatives == Some(LinkEvaluation::Filtered);
        if matches!(links.metric, LinkMetric::RocAuc | LinkMetric::AveragePrecision) && is_filtered {
            bail!(UsageError(format!(
                "--metric {} needs sampled or given negatives, but --eval-negatives is all: give --eval-negatives a number \
                 or given",
                links.metric
            )));
        }
        if links.rank == RankedEnds::Both && !is_filtered {
            bail!(UsageError("--rank both ranks both ends among all nodes: add --eval-negatives all".into()));
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
            evaluation: links.eval_negatives.unwrap_or(DEFAULT_EVALUATION),
            ranked_ends: links.rank,
            metric: links.metric,
        })
    }
}
