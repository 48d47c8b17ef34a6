//! GPUs: which of them this process has, and kernels over a batch's edges and features.
//!
//! - [`resolve`]: what `--device` means on this machine;
//! - `kernels`, with the feature `cuda`: the kernels, in CubeCL, generic over its runtime;
//! - `NcclGroup`, with the feature `cuda`: collectives between the GPUs of one node.
//!
//! Nothing here knows burn.

#[cfg(feature = "cuda")]
mod cuda;
mod device;
#[cfg(feature = "cuda")]
pub mod kernels;
#[cfg(feature = "cuda")]
mod nccl;

pub use device::{CudaGpu, DeviceChoice, DeviceError, Resolved, noted_failure, resolve, watch_panics};
#[cfg(feature = "cuda")]
pub use nccl::{NcclConfig, NcclError, NcclGroup};
