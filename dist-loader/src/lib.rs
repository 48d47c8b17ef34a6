//! Loaders that turn seeds into ready mini-batches, ahead of the trainer.
//!
//! A [`DistNeighborLoader`] runs in the process that trains. It takes the seeds that this rank's part owns (or a given
//! list), cuts them into batches, and samples and fetches a bounded number of batches ahead of the trainer. A
//! [`DistLinkNeighborLoader`] does the same for edges with negatives, and a [`DistEdgeNeighborLoader`] for edges with labels. A [`GraphDataLoader`] combines whole small
//! graphs. A [`MiniBatch`] consists of plain arrays: this crate does not depend on a tensor library.
//!
//! An error of a loader reaches the job as soon as it occurs, also a panic, with its text.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod batch;
mod batch_iter;
mod cached_rows;
mod collate;
mod edge_ends;
mod edge_loader;
mod edge_relations;
mod edge_seeds;
mod epoch_segment;
mod error;
mod graph_batch;
mod graph_loader;
mod graph_plan;
mod labeled_edges;
mod link_batch;
mod link_batches;
mod link_loader;
mod loader_config;
mod loader_threads;
mod negatives;
mod node_batches;
mod node_loader;
mod prefetch_budget;
mod prefetching_loader;
mod rest_of_epoch;
mod seed_loader;
mod seeds;
mod shared_candidates;

pub use batch::{EdgeBatch, MiniBatch, NodeBatch};
pub use batch_iter::BatchIter;
pub use cached_rows::CachedRows;
pub use edge_loader::{DistEdgeNeighborLoader, EdgeConfig};
pub use edge_relations::EdgeRelations;
pub use edge_seeds::{EdgeSeeds, SeedEdge};
pub use epoch_segment::EpochSegment;
pub use error::LoaderError;
pub use graph_batch::GraphBatch;
pub use graph_loader::GraphDataLoader;
pub use graph_plan::{GraphLoaderConfig, Packing};
pub use labeled_edges::LabeledEdgeBatch;
pub use link_batch::{LinkBatch, Negatives};
pub use link_loader::{DistLinkNeighborLoader, LinkConfig};
pub use loader_config::LoaderConfig;
pub use negatives::{Exclude, NegativeDistribution, NegativeSampling};
pub use node_loader::DistNeighborLoader;
pub use prefetch_budget::DEFAULT_PREFETCH_BYTES;
pub use seeds::Seeds;
pub use shared_candidates::{SharedCandidates, SharedNegatives};
