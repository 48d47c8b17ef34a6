//! The backends for training.

/// The CPU backend.
pub type Cpu = burn_ndarray::NdArray<f32>;

/// The backend of NVIDIA GPUs.
#[cfg(feature = "cuda")]
pub type Cuda = burn_cubecl::CubeBackend<cubecl::cuda::CudaRuntime, f32, i32, u8>;

/// A GPU of [`Cuda`].
#[cfg(feature = "cuda")]
pub use cubecl::cuda::CudaDevice;
