//! CubeCL kernels over a batch's edges and features.
//!
//! Everything is generic over the runtime: CUDA with the feature `cuda`; Vulkan with `vulkan`, where a device that Mesa
//! emulates on the CPU runs the tests. Nothing here knows burn.

#[cfg(feature = "cuda")]
mod cuda_library;
#[cfg(feature = "cuda")]
mod cuda_machine;
mod device;
mod device_error;
mod device_panics;
mod grid;

pub use device::{CudaGpu, DeviceChoice, Resolved, resolve};
pub use device_error::DeviceError;
pub use device_panics::{noted_failure, watch_panics};
