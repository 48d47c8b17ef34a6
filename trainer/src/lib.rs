//! Graph neural networks in burn, trained data-parallel.
//!
//! - [`ops`]: fused neighbor aggregation over the blocks of a batch, and keyed dropout, with gradients;
//! - [`nn`]: layers, and the loss;
//! - [`models`]: whole networks for node classification;
//! - [`gradients`]: gradients and parameters as one flat vector, for collectives;
//! - [`model_file`]: trained models on disk, as safetensors.
//!
//! Everything numeric is generic over the burn backend.

pub mod gradients;
pub mod model_file;
pub mod models;
pub mod nn;
pub mod ops;
