//! Caches of the features of other parts' nodes in the memory of a machine.
//!
//! `DistGraph::cache_features` fills a fixed cache by the counts of the machine's processes, or by the ranking that the parts
//! contain. The cache of `DistGraph::look_ahead` follows the batches to come. Invariant: batches are the same with and
//! without a cache (`dist-loader/tests/cached_features.rs`).

pub(crate) mod cached_features;
pub(crate) mod hotness;
pub(crate) mod look_ahead;
pub(crate) mod node_set;
