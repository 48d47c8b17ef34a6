//! A cache of the features of other parts' nodes in the memory of a machine.
//!
//! `DistGraph::cache_features` fills it by the counts of the machine's processes, or by the ranking that the parts
//! contain. Invariant: batches are the same with and without the cache (`dist-loader/tests/cached_features.rs`).

pub(crate) mod cached_features;
pub(crate) mod hotness;
pub(crate) mod node_set;
