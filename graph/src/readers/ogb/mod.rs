//! The raw CSV layouts and the binary layout of the Open Graph Benchmark.

mod binary;
mod files;
mod hetero;
mod homogeneous;
mod master;

pub use binary::read_ogb_binary;
pub(super) use binary::{DATA_FILE, ogb_binary_shape, read_ogb_binary_in};
pub(super) use hetero::TRIPLETS;
pub use hetero::read_ogb_hetero;
pub use homogeneous::read_ogb;
pub(super) use master::OgbProperties;
