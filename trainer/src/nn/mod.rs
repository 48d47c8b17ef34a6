//! Graph convolutions over the blocks of a batch, and the loss.

mod aggregation;
mod gcn_conv;
mod gcn_norm;
mod loss;
mod order;
mod sage_conv;
mod weight_init;

pub use aggregation::{Aggregation, ParseAggregationError};
pub use gcn_conv::{GcnConv, GcnConvConfig};
pub use gcn_norm::{GcnNorm, GcnNormError};
pub use loss::{Classification, LabelError, cross_entropy};
pub use order::Order;
pub use sage_conv::{SageConv, SageConvConfig};
pub use weight_init::WeightInit;
