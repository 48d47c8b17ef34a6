//! The raw CSV layouts of the Open Graph Benchmark.

mod files;
mod hetero;
mod homogeneous;
mod master;

pub(super) use hetero::TRIPLETS;
pub use hetero::read_ogb_hetero;
pub use homogeneous::read_ogb;
pub(super) use master::OgbProperties;
