//! A cache of the features of other parts' nodes in the memory of a machine.

pub(crate) mod cached_features;
pub(crate) mod hotness;
pub(crate) mod node_set;
