//! The layers of models: graph convolutions over the blocks of a batch, dense layers and decoders.

mod aggregation;
mod batch_norm;
mod dense;
mod gat_conv;
mod gcn_conv;
mod gcn_norm;
mod gin_conv;
mod incoming;
mod link_decoder;
mod mlp;
mod mode;
mod order;
mod relation_weights;
mod rgcn_conv;
mod sage_conv;
mod typed_conv;
mod weight_init;

pub use aggregation::{Aggregation, ParseAggregationError};
pub use batch_norm::BatchNorm;
pub use dense::Dense;
pub use gat_conv::{GatConv, GatConvConfig};
pub use gcn_conv::{GcnConv, GcnConvConfig};
pub use gcn_norm::{GcnNorm, GcnNormError};
pub use gin_conv::{GinConv, GinConvConfig};
pub use incoming::Incoming;
pub use link_decoder::{DecoderKind, LinkDecoder};
pub use mlp::Mlp;
pub use mode::Mode;
pub use order::Order;
pub use relation_weights::{Decomposition, RelationWeights};
pub use rgcn_conv::{RgcnConv, RgcnConvConfig};
pub use sage_conv::{SageConv, SageConvConfig};
pub use typed_conv::{ParseRelationAggregationError, RelationAggregation, TypedConv, TypedConvConfig, TypedConvKind};
pub use weight_init::WeightInit;
