//! The options of a training step.

use crate::gradient_sum::GradientSum;
use crate::loss::AnyLoss;
use edgecut_gnn::ops::{BatchNormSync, Precision};

/// The options of a training step over all ranks. The default is products in `f32` and sums over TCP.
#[derive(Clone, Debug, Default)]
pub struct StepOptions {
    /// The type in which the model multiplies matrices. The training functions of this crate set it in the
    /// model, the evaluating ones leave the model as it is. For [`Precision::F16`], a step fails if gradients overflow.
    pub precision: Precision,
    /// The way in which gradients are summed over the ranks.
    pub gradient_sum: GradientSum,
    /// The exchange between the batch normalizations of all ranks, which [`join_batch_norm`](Self::join_batch_norm) makes
    /// for a training with `sync_batch_norm`. The training functions of this crate set it in the model.
    pub batch_norm: Option<BatchNormSync>,
    /// The loss of nodes and of whole graphs; links have a loss of their own. `None` is the default loss of the targets: the
    /// cross entropy for classes. A step outside of the training functions of this crate needs a loss for other targets.
    pub loss: Option<AnyLoss>,
}
