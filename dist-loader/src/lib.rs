//! Loaders that turn seeds into ready mini-batches, ahead of the trainer.
//!
//! A [`DistNeighborLoader`] runs in the process that trains. It takes the seeds that this rank's part owns (or a given
//! list), cuts them into batches, and samples and fetches a bounded number of batches ahead of the trainer. A
//! [`DistLinkNeighborLoader`] does the same for edges with negatives. A [`GraphDataLoader`] combines whole small
//! graphs. A [`MiniBatch`] consists of plain arrays: this crate does not depend on a tensor library.
#![forbid(unsafe_code)]

mod ahead;
mod batch;
mod cached_rows;
mod edge_seeds;
mod error;
mod fill;
mod graph_batch;
mod graph_loader;
mod graph_plan;
mod hotness;
mod link_batch;
mod link_loader;
mod loader;
mod negatives;
mod prefetch;
mod seeds;
mod shared_candidates;

pub use ahead::BatchIter;
pub use batch::{EdgeBatch, MiniBatch, NodeBatch};
pub use cached_rows::CachedRows;
pub use edge_seeds::{EdgeSeeds, SeedEdge};
pub use error::LoaderError;
pub use graph_batch::GraphBatch;
pub use graph_loader::{GraphBatchIter, GraphDataLoader};
pub use graph_plan::{GraphLoaderConfig, Packing};
pub use hotness::Hotness;
pub use link_batch::{LinkBatch, Negatives};
pub use link_loader::{DistLinkNeighborLoader, LinkConfig};
pub use loader::{DistNeighborLoader, LoaderConfig};
pub use negatives::{Exclude, NegativeDistribution, NegativeSampling};
pub use prefetch::DEFAULT_PREFETCH_BYTES;
pub use seeds::Seeds;
pub use shared_candidates::{EdgeRelations, SharedCandidates};
