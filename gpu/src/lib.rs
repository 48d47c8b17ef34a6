//! GPUs: the choice of this process's GPU, and kernels over a batch's edges and features.
//!
//! - [`resolve`] turns `--device` into a device of this machine.
//! - `kernels`, with the feature `cuda`, has the kernels, in CubeCL, generic over its runtime.
//! - `NcclGroup`, with the feature `cuda`, runs collectives between the GPUs of one node.
//!
//! This crate does not depend on burn.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(feature = "cuda")]
mod cuda;
mod device;
#[cfg(feature = "cuda")]
mod kernel_cache;
#[cfg(feature = "cuda")]
pub mod kernels;
#[cfg(feature = "cuda")]
mod nccl;
mod resolve;

pub use device::{CudaGpu, DeviceChoice, DeviceError, Resolved, noted_failure, watch_panics};
#[cfg(feature = "cuda")]
pub use kernel_cache::keep_kernels;
#[cfg(feature = "cuda")]
pub use nccl::{NcclConfig, NcclError, NcclGroup};
pub use resolve::resolve;
