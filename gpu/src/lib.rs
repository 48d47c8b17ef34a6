//! CubeCL kernels over a batch's edges and features.
//!
//! Everything is generic over the runtime: CUDA with the feature `cuda`; Vulkan with `vulkan`, where a device that Mesa
//! emulates on the CPU runs the tests. Nothing here knows burn.

mod addresses;
mod device_error;
mod device_hops;
mod draw_few;
mod draw_many;
mod features;
mod grid;
mod piece_arrays;
mod random;
mod sampling;
mod self_check;
mod upload;

pub use device_error::DeviceError;
pub use device_hops::DeviceHops;
pub use features::{Rows, assemble_rows};
pub use sampling::DeviceTopology;
