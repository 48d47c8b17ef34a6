//! The flags of `train link`.

use crate::args::checkpoints::CheckpointArgs;
use crate::args::conv::OnNodes;
use crate::args::sampling::SamplingArgs;
use crate::args::training::TrainingArgs;
use crate::args::{JobArgs, OutputArgs, PartArgs};
use crate::exit::UsageError;
use crate::job::device::{DeviceArgs, DeviceMemoryArgs};
use crate::settings::flags::{Flags, Profile};
use crate::settings::given_flags::GivenFlags;
use anyhow::bail;
use clap::Args;
use edgecut_graph::HoldOut;
use edgecut_trainer::DeviceMemory;
use edgecut_trainer::link::{LinkEvaluation, LinkMetric, LinkTrainingConfig, RankedEnds};
use serde::Serialize;

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
    pub(crate) links: Flags<LinkTrainingConfig, OnNodes>,
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

impl Profile<LinkTrainingConfig> for OnNodes {
    const HEADING: &'static str = "Links";

    fn defaults() -> LinkTrainingConfig {
        LinkTrainingConfig::default()
    }
}

impl LinkArgs {
    /// Returns the configuration of the model, its training and its evaluation.
    pub(crate) fn config(&self, num_workers: usize, device_memory: DeviceMemory) -> anyhow::Result<LinkTrainingConfig> {
        let links = &self.links.settings;
        let is_filtered = links.eval_negatives == LinkEvaluation::Filtered;
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
        let training = self.training.config(&self.sampling, num_workers, device_memory)?;
        let without_validation = self.part.whole.hold_out_edges == Some(HoldOut::NOTHING);
        if without_validation {
            self.check_without_validation()?;
        }
        Ok(LinkTrainingConfig { training, without_validation, ..links.clone() })
    }

    /// Rejects flags of an evaluation, which training on all edges does not have.
    fn check_without_validation(&self) -> anyhow::Result<()> {
        for flag in ["patience", "metric", "eval_negatives", "rank"] {
            if self.given.is_given(flag) {
                let flag = flag.replace('_', "-");
                bail!(UsageError(format!(
                    "--{flag} has no effect with --hold-out-edges 0, which leaves no edges to evaluate on: leave one of \
                     them out"
                )));
            }
        }
        if !self.given.is_given("num_epochs") {
            let what = "--hold-out-edges 0 leaves no edges whose metric could end the training: give --num-epochs";
            bail!(UsageError(what.into()));
        }
        Ok(())
    }
}
