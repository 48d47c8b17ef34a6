//! The backends that models are trained on.

/// This process's CPU.
pub type Cpu = burn_ndarray::NdArray<f32>;

/// An NVIDIA GPU.
#[cfg(feature = "cuda")]
pub type Cuda = burn_cubecl::CubeBackend<cubecl::cuda::CudaRuntime, f32, i32, u8>;
