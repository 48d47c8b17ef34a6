//! The layers of models: graph convolutions over the blocks of a batch, dense layers, decoders and the loss.

mod batch_norm;
mod class_weights;
mod conv;
mod dense;
mod link_decoder;
mod loss;
mod mlp;
mod mode;
mod weight_init;

pub use batch_norm::BatchNorm;
pub use class_weights::ClassWeights;
pub use conv::*;
pub use dense::Dense;
pub use link_decoder::{DecoderKind, LinkDecoder};
pub use loss::{Classification, ClassificationLoss, LabelError, cross_entropy};
pub use mlp::Mlp;
pub use mode::Mode;
pub use weight_init::WeightInit;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// Returns the first `count` rows. All rows are returned without a copy.
pub(crate) fn prefix<B: Backend>(rows: Tensor<B, 2>, count: usize) -> Tensor<B, 2> {
    let [all, columns] = rows.dims();
    if count == all { rows } else { rows.slice([0..count, 0..columns]) }
}
