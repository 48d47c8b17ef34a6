//! Layers of graph neural networks in burn.
//!
//! - [`ops`]: fused neighbor aggregation and attention over the blocks of a batch, fused dense layers and keyed
//!   dropout, all with gradients;
//! - [`nn`]: the layers of models: convolutions, dense layers and decoders.
//!
//! Everything numeric is generic over the burn backend. The crate computes with tensors alone: it neither loads batches
//! nor trains.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod backend_types;
pub mod nn;
pub mod ops;

pub use backend_types::Cpu;
#[cfg(feature = "cuda")]
pub use backend_types::{Cuda, CudaDevice};
