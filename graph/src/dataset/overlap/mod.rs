//! Overlaps between training data and held-out data.
//!
//! Invariant: a model is not evaluated on its own training data. `readers::load` fails if a held-out edge is also a
//! training edge, or if a node is in two splits, unless an [`OverlapPolicy`] removes or allows these. Only held-out
//! edges are indexed, and training edges are streamed past the index.

mod count;
mod filter;
mod overlaps;
mod policy;
mod remove;
mod typed_edges;
mod undeclared;
mod words;

pub(crate) use count::count_edge_overlaps;
pub(crate) use filter::OverlapFilter;
pub use overlaps::{EdgeOverlap, NodeOverlap, Overlaps};
pub use policy::OverlapPolicy;
pub(crate) use policy::SettledOverlaps;
pub(crate) use typed_edges::TypedEdges;
pub use undeclared::UndeclaredReverse;

#[cfg(test)]
mod tests;
