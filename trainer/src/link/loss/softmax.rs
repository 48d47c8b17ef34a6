//! Cross-entropy of an edge among its negatives.

use super::super::scored_edges::ScoredEdges;
use super::EdgeLoss;
use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

/// Cross-entropy of classifying the edge among itself and its negatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Softmax {}

impl Named for Softmax {
    const NAME: &'static str = "softmax";
    const ABOUT: &'static str = "cross-entropy of classifying the edge among itself and its negatives";
}

impl EdgeLoss for Softmax {
    const IS_SAMPLED_SOFTMAX: bool = true;

    fn of_edges<B: Backend>(&self, scored: &ScoredEdges<B>) -> Tensor<B, 2> {
        let all = Tensor::cat(vec![scored.positive.clone(), scored.corrected_negatives()], 1);
        log_softmax(all, 1).narrow(1, 0, 1).neg()
    }
}
