//! Progress reports of link prediction.

use super::config::LinkMetric;
use crate::epoch_clock::EpochCost;
use crate::improved::Improved;
use crate::metrics::RankingMetrics;
use crate::models::{LinkModel, LinkModelConfig};
use crate::parameter_count::ParameterCount;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use serde::Serialize;

/// Ranking metrics of held-out edges among negative pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LinkScores {
    /// How many edges were ranked.
    pub edges: u64,
    /// The mean reciprocal rank.
    pub mrr: Option<f64>,
    /// The share that is ranked first.
    #[serde(rename = "hits@1")]
    pub hits_at_1: Option<f64>,
    /// The share among the first three.
    #[serde(rename = "hits@3")]
    pub hits_at_3: Option<f64>,
    /// The share among the first ten.
    #[serde(rename = "hits@10")]
    pub hits_at_10: Option<f64>,
    /// The area under the ROC curve, where negatives are sampled and it is the metric that chooses the epoch: it needs all
    /// scores, the others need only sums.
    pub roc_auc: Option<f64>,
}

impl LinkScores {
    pub(super) fn new(ranks: &RankingMetrics, roc_auc: Option<f64>) -> Self {
        let [one, three, ten] = ranks.hits().map_or([None; 3], |hits| hits.map(Some));
        let (edges, mrr) = (ranks.count(), ranks.mrr());
        Self { edges, mrr, hits_at_1: one, hits_at_3: three, hits_at_10: ten, roc_auc }
    }

    /// One of the measures.
    pub fn get(&self, metric: LinkMetric) -> Option<f64> {
        match metric {
            LinkMetric::Mrr => self.mrr,
            LinkMetric::HitsAt10 => self.hits_at_10,
            LinkMetric::RocAuc => self.roc_auc,
        }
    }
}

/// One epoch over all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct LinkEpochReport {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Mean training loss over all edges of all ranks.
    pub loss: Option<f64>,
    /// The share of training edges that scored above all their negatives.
    pub train_acc: Option<f64>,
    /// On the validation edges, in epochs that validate.
    pub valid: Option<LinkScores>,
    /// What the epoch cost.
    #[serde(flatten)]
    pub cost: EpochCost,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkResult {
    /// The epoch with the best metric on the validation edges, counted from 1; 0 where nothing was trained.
    pub best_epoch: u64,
    /// What chose it.
    pub metric: LinkMetric,
    /// On the validation edges.
    pub valid: LinkScores,
    /// On the test edges with that epoch's model.
    pub test: LinkScores,
}

/// Watches a run.
pub trait LinkObserver<B: Backend> {
    /// Training begins, of so many values. Does nothing unless implemented.
    fn started(&mut self, _parameters: ParameterCount) {}

    /// `done` of `total` steps of `epoch` (counted from 1) are done.
    fn step(&mut self, epoch: u64, done: usize, total: usize);

    /// An epoch has ended.
    ///
    /// # Errors
    /// The report cannot be written; the run then ends.
    fn epoch(&mut self, report: &LinkEpochReport) -> std::io::Result<()>;

    /// A model is the best so far. All ranks call it at the same time, so that it may use collectives.
    ///
    /// # Errors
    /// The model cannot be saved; the run then ends.
    fn improved(
        &mut self,
        best: &Improved<'_, LinkModel<B>, LinkModelConfig>,
        world: &mut ProcessGroup,
    ) -> std::io::Result<()>;
}
