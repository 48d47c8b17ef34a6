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

mod agreement;
mod batch;
mod bytes_held;
mod edges;
mod error;
mod graphs;
mod links;
mod loader_config;
mod nodes;
mod prefetch;
mod seeds;

pub use agreement::SharedSettings;
pub use batch::cached_rows::CachedRows;
pub use batch::mini_batch::{EdgeBatch, MiniBatch, NodeBatch};
pub use edges::edge_loader::{DistEdgeNeighborLoader, EdgeConfig};
pub use edges::labeled_edges::LabeledEdgeBatch;
pub use error::LoaderError;
pub use graphs::graph_batch::GraphBatch;
pub use graphs::graph_loader::GraphDataLoader;
pub use graphs::graph_plan::{GraphLoaderConfig, Packing};
pub use links::edge_relations::EdgeRelations;
pub use links::given_negatives::NegativeSources;
pub use links::likely_reverses::LikelyReverse;
pub use links::link_batch::{LinkBatch, Negatives};
pub use links::link_loader::{DistLinkNeighborLoader, LinkConfig};
pub use links::negative_pairs::{ChangingNegatives, NegativePairs};
pub use links::negatives::{Exclude, NegativeDistribution, NegativeSampling};
pub use links::shared_candidates::{SharedCandidates, SharedNegatives};
pub use loader_config::{DEFAULT_PREFETCH_BYTES, LoaderConfig};
pub use nodes::node_loader::DistNeighborLoader;
pub use prefetch::batch_iter::BatchIter;
pub use prefetch::seed_loader::{SeedBatches, SeedLoader};
pub use seeds::edge_seeds::{EdgeSeeds, SeedEdge};
pub use seeds::epoch_segment::EpochSegment;
pub use seeds::node_clusters::NodeClusters;
pub use seeds::seed_plan::Seeds;
