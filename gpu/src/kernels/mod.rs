//! CubeCL kernels over a batch's edges and features.

// In a kernel both sides of `&&` are computed, so a condition that guards a read is an `if` of its own.
#![allow(clippy::collapsible_if)]

mod addresses;
mod aggregate;
mod attention;
mod columns;
mod dense;
mod dropout;
mod edges;
mod error;
mod features;
mod grid;
mod in_flight;
mod loss;
mod matrix;
mod maximum;
mod norm;
mod random;
mod sampling;
mod upload;

pub use aggregate::{Aggregation, Appended, Factor, Own};
pub use attention::{AttentionInputs, EdgeAttention, Scoring};
pub use columns::column_sums;
pub use dense::{Activation, activate, before_relu, masked};
pub use dropout::Mask;
pub use edges::DeviceEdges;
pub use error::KernelError;
pub use features::{FeatureRows, assemble_rows};
pub use in_flight::consumed;
pub use loss::{cross_entropy, cross_entropy_backward};
pub use matrix::{Element, Matrix};
pub use maximum::maximum;
pub use norm::{SavedNorm, batch_norm, batch_norm_backward};
pub use sampling::{DeviceHops, DeviceTopology};
pub use upload::{DeviceWeights, place};
