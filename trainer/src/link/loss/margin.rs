//! The margin ranking loss.

use super::super::scored_edges::ScoredEdges;
use super::{EdgeLoss, above_0};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

/// `max(0, margin - edge + negative)`, the mean over the negatives of an edge (Bordes et al., "Translating embeddings for
/// modeling multi-relational data", NIPS 2013).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    /// The difference of scores that suffices, above 0.
    pub margin: f64,
}

impl Default for Margin {
    fn default() -> Self {
        Self { margin: 1.0 }
    }
}

impl Named for Margin {
    const NAME: &'static str = "margin";
    const ABOUT: &'static str = "max(0, `margin` [1] - edge + negative), the mean over the negatives";

    fn check(&self) -> Result<(), String> {
        above_0("margin", self.margin)
    }
}

impl EdgeLoss for Margin {
    fn of_edges<B: Backend>(&self, scored: &ScoredEdges<B>) -> Tensor<B, 2> {
        let terms = (scored.negatives.clone() - scored.positive.clone()).add_scalar(self.margin).clamp_min(0.0);
        scored.mean_of_negatives(terms)
    }
}
