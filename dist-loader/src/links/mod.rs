//! The loader of batches around edges, and their negatives.

pub(crate) mod edge_relations;
pub(crate) mod given_negatives;
pub(crate) mod likely_reverses;
pub(crate) mod link_batch;
pub(crate) mod link_batches;
pub(crate) mod link_loader;
pub(crate) mod negative_pairs;
pub(crate) mod negatives;
pub(crate) mod shared_candidates;
