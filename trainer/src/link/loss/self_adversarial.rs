//! Binary cross-entropy with self-adversarial negatives.

use super::super::scored_edges::ScoredEdges;
use super::{EdgeLoss, above_0};
use burn::tensor::Tensor;
use burn::tensor::activation::{log_sigmoid, softmax};
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

/// `-½ ln σ(edge) - ½ Σ p ln σ(-negative)`, where the weights `p` are the softmax of `temperature` times the scores of an
/// edge's negatives, without gradients (Sun et al., "RotatE: Knowledge graph embedding by relational rotation in complex
/// space", ICLR 2019).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfAdversarial {
    /// The factor of scores in the weights, above 0. Greater factors give high negatives more weight.
    pub temperature: f64,
}

impl Default for SelfAdversarial {
    fn default() -> Self {
        Self { temperature: 1.0 }
    }
}

impl Named for SelfAdversarial {
    const NAME: &'static str = "self-adversarial";
    const ABOUT: &'static str = "binary cross-entropy whose negatives have weights by a softmax of `temperature` [1] \
                                 times their scores";

    fn check(&self) -> Result<(), String> {
        above_0("temperature", self.temperature)
    }
}

impl EdgeLoss for SelfAdversarial {
    fn of_edges<B: Backend>(&self, scored: &ScoredEdges<B>) -> Tensor<B, 2> {
        let weights = softmax(scored.negatives.clone().detach().mul_scalar(self.temperature), 1);
        let negatives = (weights * log_sigmoid(scored.negatives.clone().neg())).sum_dim(1);
        (log_sigmoid(scored.positive.clone()) + negatives).mul_scalar(-0.5)
    }
}
