//! Turns seeds into ready mini-batches, ahead of the trainer.
//!
//! A [`DistNeighborLoader`] runs in *worker mode*: in the process that trains. It takes the seeds that this rank's part
//! owns (or a given list), cuts them into batches, and keeps a bounded number of batches being sampled and fetched ahead
//! of the trainer. A [`MiniBatch`] is plain arrays: this crate knows no tensor library.
#![forbid(unsafe_code)]

mod batch;
mod error;
mod loader;
mod seeds;

pub use batch::{EdgeBatch, MiniBatch, NodeBatch};
pub use error::LoaderError;
pub use loader::{BatchIter, DistNeighborLoader, LoaderConfig};
pub use seeds::Seeds;
