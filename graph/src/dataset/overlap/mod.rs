//! Overlaps between training data and held-out data.

mod count;
mod overlaps;
mod policy;
mod remove;
mod typed_edges;
mod words;

pub(crate) use count::count_edge_overlaps;
pub use overlaps::{EdgeOverlap, NodeOverlap, Overlaps};
pub use policy::OverlapPolicy;
pub(crate) use typed_edges::TypedEdges;

#[cfg(test)]
mod tests;
