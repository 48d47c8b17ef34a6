//! The layers of models: graph convolutions over the blocks of a batch, dense layers and decoders.

mod batch_norm;
mod conv;
mod dense;
mod edge_decoder;
mod feed_forward;
mod graph_norm;
mod link_decoder;
mod mlp;
mod mode;
mod time_encoder;
mod virtual_node;
mod weight_init;

pub use batch_norm::BatchNorm;
pub use conv::*;
pub use dense::Dense;
pub use edge_decoder::{
    AnyEdgeDecoder, BilinearEdgeDecoder, DotEdgeDecoder, EdgeDecoder, EdgeDecoderKind, EdgeDecoderShape, EdgeRows,
    MlpEdgeDecoder,
};
pub use feed_forward::FeedForward;
pub use graph_norm::GraphNorm;
pub use link_decoder::{
    AnyLinkDecoder, Bilinear, BilinearDecoder, ComplEx, ComplExDecoder, DecoderKind, DecoderSettings, DistMult,
    DistMultDecoder, Dot, DotDecoder, EdgeEnd, LinkDecoder, LinkDecoderShape, LinkQueries, MlpDecoder, MlpLink, RotatE,
    RotatEDecoder, TransE, TransEDecoder,
};
pub use mlp::Mlp;
pub use mode::Mode;
pub use time_encoder::TimeEncoder;
pub use virtual_node::VirtualNode;
pub use weight_init::WeightInit;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// Returns the first `count` rows. All rows are returned without a copy.
pub fn prefix<B: Backend>(rows: Tensor<B, 2>, count: usize) -> Tensor<B, 2> {
    let [all, columns] = rows.dims();
    if count == all { rows } else { rows.slice([0..count, 0..columns]) }
}
