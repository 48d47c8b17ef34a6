//! Tests of link prediction over real sockets: learning, ranking, and the equality of several ranks with one.

mod leaks;
mod learning;
mod like_one_rank;
mod ranking;

use crate::evaluation_steps::Calls;
use burn_ndarray::NdArray;
use edgecut_dist_sampler::{Fanout, NumNeighbors, SamplerConfig};
use edgecut_graph::Split;
use edgecut_trainer::link::{LinkEvaluation, LinkResult, LinkScores, LinkTrainingConfig};
use edgecut_trainer::models::ConvKind;
use edgecut_trainer::{FitConfig, TrainingConfig};

type Cpu = NdArray<f32>;

/// Returns the settings of a short run with one negative per training edge, evaluated with twenty.
fn config(kind: ConvKind, num_neighbors: NumNeighbors) -> LinkTrainingConfig {
    let training = TrainingConfig {
        hidden_channels: 16,
        batch_size: 256,
        fit: FitConfig { num_epochs: 6, lr: 0.01, seed: 1, ..FitConfig::default() },
        embedding_lr: Some(0.01),
        concurrency: 2,
        ..TrainingConfig::new(kind, SamplerConfig::new(num_neighbors))
    };
    LinkTrainingConfig { training, eval_negatives: LinkEvaluation::Sampled(20), ..LinkTrainingConfig::default() }
}

/// Returns the fan-outs of a model without convolutions.
fn no_layers() -> NumNeighbors {
    Vec::<Fanout>::new().into()
}

type Log = Calls<LinkScores>;

impl Log {
    /// Checks that the result is from the best epoch.
    fn check(&self, config: &LinkTrainingConfig, result: &LinkResult) {
        assert_eq!(self.epochs.len() as u64, config.training.fit.num_epochs);
        let scores: Vec<Option<f64>> = self
            .epochs
            .iter()
            .map(|report| report.valid.as_ref().and_then(|scores| scores.get(config.metric.first())))
            .collect();
        let best = scores.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = scores.iter().position(|score| *score == Some(best)).expect("an epoch that validates");
        assert_eq!(result.best_epoch, first as u64 + 1);
        assert_eq!(result.valid.get(config.metric.first()), Some(best));
        let validated = scores.iter().flatten().count();
        assert!((1..=validated).contains(&self.improved), "{} of {validated} epochs improved", self.improved);
        assert!(self.evaluations.check(Split::Valid) >= validated && self.evaluations.check(Split::Test) > 0);
    }
}
