//! CubeCL kernels over a batch's edges and features.
//!
//! Everything is generic over the runtime: CUDA with the feature `cuda`; Vulkan with `vulkan`, where a device that Mesa
//! emulates on the CPU runs the tests. Nothing here knows burn.

mod grid;
