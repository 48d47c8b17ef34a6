//! The device that a rank computes on.

use crate::exit::UsageError;
use crate::place::Rank;
use clap::Args;
use edgecut_gpu::{DeviceChoice, DeviceError, Resolved, resolve};

/// Where models are computed; may differ from node to node.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// What computes: auto is a GPU for each process where the program is built for them and they work, else the CPU; cuda
    /// takes the GPU with the number of the process on its node
    #[arg(long, value_name = "auto|cpu|cuda|cuda:K", default_value_t = DeviceChoice::Auto)]
    pub(crate) device: DeviceChoice,
}

impl DeviceArgs {
    /// Fails if a node's processes cannot have the device; said once, before they are started.
    pub(crate) fn check(&self, local_world_size: usize) -> anyhow::Result<()> {
        self.resolve(0, local_world_size).map(drop)
    }

    /// The device of a rank. The first rank of a node says what it is, unless it is the CPU as a matter of course.
    pub(crate) fn of_rank(&self, rank: &Rank) -> anyhow::Result<Resolved> {
        let device = self.resolve(rank.local_rank, rank.local_world_size)?;
        match &device {
            Resolved::Cpu { why: Some(why) } if rank.local_rank == 0 => eprintln!("{why}"),
            Resolved::Cpu { .. } => {}
            gpu => eprintln!("rank {} computes on {gpu}", rank.rank),
        }
        Ok(device)
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
            #[cfg(feature = "vulkan")]
            edgecut_gpu::Resolved::Vulkan => {
                let device = edgecut_gpu::vulkan_device().map_err(anyhow::Error::msg)?;
                $($function)::+::<edgecut_trainer::Vulkan>($($argument,)* &device)
            }
            #[allow(unreachable_patterns)]
            other => unreachable!("this program is not built for {other}"),
        }
    };
}
pub(crate) use on_device;
