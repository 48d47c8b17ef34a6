//! Binary cross-entropy.

use super::super::scored_edges::ScoredEdges;
use super::EdgeLoss;
use burn::tensor::Tensor;
use burn::tensor::activation::log_sigmoid;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

/// Binary cross-entropy, the mean over an edge and its negatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bce {}

impl Named for Bce {
    const NAME: &'static str = "bce";
    const ABOUT: &'static str = "binary cross-entropy, the mean over an edge and its negatives";
}

impl EdgeLoss for Bce {
    fn of_edges<B: Backend>(&self, scored: &ScoredEdges<B>) -> Tensor<B, 2> {
        let positive = log_sigmoid(scored.positive.clone());
        // A masked pair contributes 0 to the sum, so only the divisor has to exclude it.
        let negatives = log_sigmoid(scored.negatives.clone().neg()).sum_dim(1);
        (positive + negatives).neg() / scored.num_negatives().add_scalar(1.0)
    }
}
