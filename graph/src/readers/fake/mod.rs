//! Generated graphs.

mod attributes;
mod hetero;
mod homogeneous;
mod nodes;
mod options;
mod weighted_nodes;

pub(super) use attributes::EDGE_CHANNELS;
pub(super) use hetero::FAKE_HETERO_NAME;
pub use hetero::fake_hetero;
pub(super) use homogeneous::FAKE_NAME;
pub use homogeneous::{fake, fake_in};
pub use options::FakeOptions;
