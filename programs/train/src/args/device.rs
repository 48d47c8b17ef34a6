//! The flags of the device that a rank computes on.

use crate::exit::UsageError;
use crate::settings::shared_flags::{as_text, as_text_if_given};
use anyhow::bail;
use clap::Args;
use edgecut_cli::parse_bytes;
use edgecut_gnn::ops::{GnnBackend, GnnKernels, Precision};
use edgecut_gpu::{DeviceChoice, Resolved, resolve};
use edgecut_trainer::{DeviceMemory, GradientSum, StepOptions};
use serde::Serialize;

/// Flags of the compute device. Nodes may have different devices, but compute with the same types.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// Device to compute on. auto: one GPU per process if this binary is built for GPUs and the driver works, else the
    /// CPU. cuda: the GPU with the local rank of the process as its number. cuda:K: GPU number K, for a single process
    #[arg(long, value_name = "auto|cpu|cuda|cuda:K", default_value_t = DeviceChoice::Auto)]
    #[serde(skip)]
    pub(crate) device: DeviceChoice,
    /// Mixed-precision training: multiply matrices in this type; everything else stays f32. A GPU also rounds the
    /// results to it. AMD's CPUs since Zen 4 are faster in bf16, others slower. f16 is for GPUs; its range is
    /// narrow and may overflow
    #[arg(long, value_name = "bf16|f16")]
    #[serde(serialize_with = "as_text_if_given")]
    pub(crate) mixed_precision: Option<Precision>,
}

/// Flags of the graph data that stays in GPU memory. GPUs may have different amounts of memory.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceMemoryArgs {
    /// GPU memory for the features of the most frequently sampled nodes, and for the edges with --graph-on-device:
    /// 8GiB, 500MB. The frequencies are counted on batches of the first epoch. Filling the cache needs up to twice as
    /// much memory. No effect on the CPU
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = parse_bytes)]
    #[serde(skip)]
    pub(crate) gpu_cache_bytes: u64,
    /// Sample neighbors on the GPU, for the edge types that fit into --gpu-cache-bytes
    #[arg(long)]
    #[serde(skip)]
    pub(crate) graph_on_device: bool,
    /// Data type of features on a GPU
    #[arg(long, value_name = "f32|f16|bf16", default_value_t = Precision::F32)]
    #[serde(serialize_with = "as_text")]
    pub(crate) feature_precision: Precision,
}

impl DeviceMemoryArgs {
    /// Checks these flags against `--device` and returns the settings.
    pub(crate) fn on(&self, device: &DeviceArgs) -> anyhow::Result<DeviceMemory> {
        let Self { gpu_cache_bytes: cache_bytes, graph_on_device: graph, feature_precision: precision } = *self;
        if graph && cache_bytes == 0 {
            bail!(UsageError(
                "--graph-on-device needs GPU memory for the edges: set --gpu-cache-bytes, for example to 4GiB".into()
            ));
        }
        let is_given = cache_bytes > 0 || graph || precision != Precision::F32;
        if is_given && device.device == DeviceChoice::Cpu {
            bail!(UsageError(
                "--gpu-cache-bytes, --graph-on-device and --feature-precision apply to GPUs, but --device is cpu: \
                 leave them out, or choose another --device"
                    .into()
            ));
        }
        Ok(DeviceMemory { cache_bytes, graph, precision })
    }
}

impl DeviceArgs {
    /// Checks that the processes of this node can use the device. The parent process calls this before it starts them,
    /// so that the error is printed once.
    pub(crate) fn check(&self, local_world_size: usize) -> anyhow::Result<()> {
        self.resolve(0, local_world_size).map(drop)
    }

    /// Checks that the device supports the types of `--mixed-precision` and of `--feature-precision`, which is
    /// `features`.
    pub(crate) fn check_types<B: GnnBackend>(&self, features: Precision, device: &B::Device) -> anyhow::Result<()> {
        let asked =
            [("--mixed-precision", self.mixed_precision.unwrap_or_default()), ("--feature-precision", features)];
        match asked.into_iter().find(|&(_, precision)| !B::Kernels::supports(precision, device)) {
            Some((flag, precision)) => {
                bail!(UsageError(format!(
                    "{flag}: the device does not support {precision}: choose another type, or leave the flag out"
                )))
            }
            None => Ok(()),
        }
    }

    /// Returns the options of training steps that sum gradients by `gradient_sum`.
    pub(crate) fn step_options(&self, gradient_sum: &GradientSum) -> StepOptions {
        let precision = self.mixed_precision.unwrap_or_default();
        StepOptions { precision, gradient_sum: gradient_sum.clone(), ..StepOptions::default() }
    }

    /// Returns the device of a rank.
    pub(crate) fn resolve(&self, local_rank: usize, local_world_size: usize) -> anyhow::Result<Resolved> {
        Ok(resolve(self.device, local_rank, local_world_size)?)
    }
}
