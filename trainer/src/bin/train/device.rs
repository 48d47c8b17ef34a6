//! The device that a rank computes on.

use crate::exit::UsageError;
use crate::place::Rank;
use anyhow::bail;
use clap::Args;
use edgecut_gpu::{DeviceChoice, DeviceError, Resolved, resolve};
use edgecut_trainer::DeviceMemory;
use edgecut_trainer::ops::{GnnBackend, Precision, multiply_in};

/// Where models are computed; may differ from node to node.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// What computes: auto is a GPU for each process where the program is built for them and they work, else the CPU; cuda
    /// takes the GPU with the number of the process on its node
    #[arg(long, value_name = "auto|cpu|cuda|cuda:K", default_value_t = DeviceChoice::Auto)]
    pub(crate) device: DeviceChoice,
    /// Multiply matrices in this type on GPUs, sums of products rounded to it; all else stays f32: mixed-precision training.
    /// f16 has a narrow range
    #[arg(long, value_name = "bf16|f16")]
    pub(crate) mixed_precision: Option<Precision>,
}

/// What of the graph a GPU keeps.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceMemoryArgs {
    /// Memory of a GPU for the features of the nodes that are wanted most often, and for the graph: 8GiB, 500MB. Nodes are
    /// counted in some batches of the first epoch. Until training has begun, features take twice as much. No effect on the CPU
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    pub(crate) gpu_cache_bytes: u64,
    /// Draw neighbors on the GPU, of the edge types that fit into --gpu-cache-bytes
    #[arg(long)]
    pub(crate) graph_on_device: bool,
    /// In what features are copied to a GPU and kept there
    #[arg(long, value_name = "f32|f16|bf16", default_value_t = Precision::F32)]
    pub(crate) feature_precision: Precision,
}

impl DeviceMemoryArgs {
    /// What these flags mean where `device` was asked for.
    pub(crate) fn on(&self, device: &DeviceArgs) -> anyhow::Result<DeviceMemory> {
        let Self { gpu_cache_bytes: cache_bytes, graph_on_device: graph, feature_precision: precision } = *self;
        if graph && cache_bytes == 0 {
            bail!(UsageError("--graph-on-device needs room: give --gpu-cache-bytes, say 4GiB".into()));
        }
        let is_given = cache_bytes > 0 || graph || precision != Precision::F32;
        if is_given && device.device == DeviceChoice::Cpu {
            bail!(UsageError(
                "--gpu-cache-bytes, --graph-on-device and --feature-precision are about GPUs, but --device is cpu: leave one out"
                    .into()
            ));
        }
        Ok(DeviceMemory { cache_bytes, graph, precision })
    }
}

/// Parses a number of bytes: "4GiB", "500MB", "1024".
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("KB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
    ];
    let unit = UNITS.into_iter().find_map(|(name, size)| Some((text.strip_suffix(name)?, size)));
    let (digits, size) = unit.unwrap_or((text, 1));
    let wrong = || format!("{text:?} is no number of bytes: give 4GiB, 500MB or 1073741824");
    digits.trim_end().parse::<u64>().ok().and_then(|count| count.checked_mul(size)).ok_or_else(wrong)
}

impl DeviceArgs {
    /// Fails if a node's processes cannot have the device; said once, before they are started.
    pub(crate) fn check(&self, local_world_size: usize) -> anyhow::Result<()> {
        self.resolve(0, local_world_size).map(drop)
    }

    /// The device of a rank. The first rank of a node says what it is, unless it is the CPU as a matter of course.
    pub(crate) fn of_rank(&self, rank: &mut Rank) -> anyhow::Result<Resolved> {
        let device = self.resolve(rank.local_rank, rank.local_world_size)?;
        if let Some(precision) = self.mixed_precision {
            multiply_in(precision);
        }
        match &device {
            Resolved::Cpu { why } if rank.local_rank == 0 => {
                if let Some(why) = why {
                    eprintln!("{why}");
                }
                if let Some(precision) = self.mixed_precision {
                    eprintln!("--mixed-precision {precision} is for GPUs: the CPU multiplies in f32");
                }
            }
            Resolved::Cpu { .. } => {}
            gpu => {
                eprintln!("rank {} computes on {gpu}", rank.rank);
                if let Resolved::Cuda(gpu) = gpu {
                    rank.gpu = Some(gpu.index);
                }
            }
        }
        Ok(device)
    }

    /// Fails if the device does not compute with the types that are asked for.
    pub(crate) fn check_types<B: GnnBackend>(&self, features: Precision, device: &B::Device) -> anyhow::Result<()> {
        let asked =
            [("--mixed-precision", self.mixed_precision.unwrap_or_default()), ("--feature-precision", features)];
        match asked.into_iter().find(|&(_, precision)| !B::gnn_supports(precision, device)) {
            Some((flag, precision)) => {
                bail!(UsageError(format!(
                    "{flag}: the device does not compute in {precision}: give another type, or none"
                )))
            }
            None => Ok(()),
        }
    }

    fn resolve(&self, local_rank: usize, local_world_size: usize) -> anyhow::Result<Resolved> {
        resolve(self.device, local_rank, local_world_size).map_err(|error| match error {
            DeviceError::NotBuilt { .. } | DeviceError::SharedGpu { .. } => UsageError(error.to_string()).into(),
            other => other.into(),
        })
    }
}

/// Calls `$($function)::+::<B>($arguments, &device)` for the backend `B` and the device that were resolved.
macro_rules! on_device {
    ($resolved:expr, $($function:ident)::+, $($argument:expr),*) => {
        match $resolved {
            edgecut_gpu::Resolved::Cpu { .. } => {
                $($function)::+::<edgecut_trainer::Cpu>($($argument,)* &Default::default())
            }
            #[cfg(feature = "cuda")]
            edgecut_gpu::Resolved::Cuda(gpu) => {
                $($function)::+::<edgecut_trainer::Cuda>($($argument,)* &cubecl::cuda::CudaDevice::new(gpu.index))
            }
            #[allow(unreachable_patterns)]
            other => unreachable!("this program is not built for {other}"),
        }
    };
}
pub(crate) use on_device;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [("0", 0), ("1024", 1024), ("4GiB", 4 << 30), ("500MB", 500_000_000), ("2 K", 2048)] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "GiB", "-1", "4 bytes", "99999999999GiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
