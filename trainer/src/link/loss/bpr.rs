//! Bayesian personalised ranking.

use super::super::scored_edges::ScoredEdges;
use super::EdgeLoss;
use burn::tensor::Tensor;
use burn::tensor::activation::log_sigmoid;
use burn::tensor::backend::Backend;
use edgecut_settings::Named;
use serde::{Deserialize, Serialize};

/// `-ln σ(edge - negative)`, the mean over the negatives of an edge (Rendle et al., "BPR: Bayesian personalized ranking
/// from implicit feedback", UAI 2009).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bpr {}

impl Named for Bpr {
    const NAME: &'static str = "bpr";
    const ABOUT: &'static str = "Bayesian personalised ranking: -ln σ(edge - negative), the mean over the negatives";
}

impl EdgeLoss for Bpr {
    fn of_edges<B: Backend>(&self, scored: &ScoredEdges<B>) -> Tensor<B, 2> {
        let terms = log_sigmoid(scored.positive.clone() - scored.negatives.clone());
        scored.mean_of_negatives(terms).neg()
    }
}
