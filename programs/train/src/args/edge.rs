//! The flags of `train edge`.

use crate::args::checkpoints::CheckpointArgs;
use crate::args::conv::OnNodes;
use crate::args::objective::ObjectiveArgs;
use crate::args::sampling::SamplingArgs;
use crate::args::training::TrainingArgs;
use crate::args::{JobArgs, OutputArgs, PartArgs};
use crate::exit::UsageError;
use crate::job::device::{DeviceArgs, DeviceMemoryArgs};
use crate::settings::flags::{Flags, Profile};
use crate::settings::given_flags::GivenFlags;
use anyhow::bail;
use clap::Args;
use edgecut_trainer::DeviceMemory;
use edgecut_trainer::edge::EdgeTrainingConfig;
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
    pub(crate) edges: Flags<EdgeTrainingConfig, OnNodes>,
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

impl Profile<EdgeTrainingConfig> for OnNodes {
    const HEADING: &'static str = "Edges";

    fn defaults() -> EdgeTrainingConfig {
        EdgeTrainingConfig::default()
    }
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
        Ok(EdgeTrainingConfig { training, metric: self.objective.metric, ..self.edges.settings.clone() })
    }
}
