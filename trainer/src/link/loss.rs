//! The registry of the losses of links.

mod bce;
mod bpr;
mod margin;
mod self_adversarial;
mod softmax;

pub use bce::Bce;
pub use bpr::Bpr;
pub use margin::Margin;
pub use self_adversarial::SelfAdversarial;
pub use softmax::Softmax;

use super::scored_edges::ScoredEdges;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::{Named, named};

/// The settings of a loss that compares an edge with its negatives.
pub(super) trait EdgeLoss: Named {
    /// True if scores that are corrected by the probability of a candidate keep their meaning.
    const IS_SAMPLED_SOFTMAX: bool = false;

    /// Returns the loss of each edge, `[edges, 1]`. There is at least one column of negatives. Masked negatives must
    /// contribute nothing.
    fn of_edges<B: Backend>(&self, scored: &ScoredEdges<B>) -> Tensor<B, 2>;
}

/// Declares [`LinkLoss`] over all losses.
macro_rules! losses {
    ($($(#[$doc:meta])* $loss:ident),* $(,)?) => {
        named! {
            /// The loss of link prediction, with its settings.
            pub enum LinkLoss("loss") { $($(#[$doc])* $loss($loss)),* }
        }

        impl LinkLoss {
            /// Returns the loss of each edge, `[edges, 1]`.
            pub(super) fn of_edges<B: Backend>(&self, scored: &ScoredEdges<B>) -> Tensor<B, 2> {
                match self {
                    $(Self::$loss(loss) => loss.of_edges(scored),)*
                }
            }

            /// See [`EdgeLoss::IS_SAMPLED_SOFTMAX`].
            pub(super) fn is_sampled_softmax(&self) -> bool {
                match self {
                    $(Self::$loss(_) => $loss::IS_SAMPLED_SOFTMAX,)*
                }
            }
        }
    };
}

losses! {
    /// Binary cross-entropy.
    Bce,
    /// Cross-entropy of classifying the edge among itself and its negatives.
    Softmax,
    /// Bayesian personalised ranking.
    Bpr,
    /// The margin ranking loss.
    Margin,
    /// Binary cross-entropy whose negatives are weighted by the model.
    SelfAdversarial,
}

/// Returns an error unless a setting is above 0 and finite in f32, in which losses are computed.
fn above_0(setting: &str, value: f64) -> Result<(), String> {
    if value as f32 > 0.0 && (value as f32).is_finite() {
        Ok(())
    } else {
        Err(format!("{setting} {value} is not a number above 0 within the range of f32"))
    }
}
