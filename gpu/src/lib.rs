//! CubeCL kernels over a batch's edges and features.
//!
//! Everything is generic over the runtime: CUDA with the feature `cuda`; Vulkan with `vulkan`, where a device that Mesa
//! emulates on the CPU runs the tests. Nothing here knows burn.

#[cfg(feature = "cuda")]
mod cuda_compiler;
#[cfg(feature = "cuda")]
mod cuda_library;
#[cfg(feature = "cuda")]
mod cuda_machine;
#[cfg(feature = "cuda")]
mod cuda_stream;
mod device;
mod device_error;
mod device_panics;
mod grid;
#[cfg(feature = "cuda")]
mod nccl;
#[cfg(feature = "cuda")]
mod nccl_communicator;
#[cfg(feature = "cuda")]
mod nccl_error;
#[cfg(feature = "cuda")]
mod nccl_library;
#[cfg(all(test, feature = "cuda"))]
mod nccl_tests;

pub use device::{CudaGpu, DeviceChoice, Resolved, resolve};
pub use device_error::DeviceError;
pub use device_panics::{noted_failure, watch_panics};
#[cfg(feature = "cuda")]
pub use nccl::{NcclConfig, NcclGroup};
#[cfg(feature = "cuda")]
pub use nccl_error::NcclError;
