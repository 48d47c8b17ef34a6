//! Graph classification over several folds.

use super::config::GraphTrainingConfig;
use super::report::{GraphEpochReport, GraphObserver};
use super::training::{GraphSplit, train_graph};
use crate::improved::Improved;
use crate::models::{GraphNet, GraphNetConfig};
use crate::ops::GnnBackend;
use crate::parameter_count::ParameterCount;
use crate::train_error::TrainError;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_cluster::ProcessGroup;
use edgecut_graph::GraphDataset;
use edgecut_graph::graph_splits::{Fold, hold_out};
use edgecut_graph::rng::combine;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One part in so many of a fold's training graphs chooses its epoch.
const VALIDATION_PARTS: usize = 10;

/// How the epochs of a cross-validation are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// In each fold by a tenth of its training graphs, which are not trained on. The test graphs are looked at once: an honest
    /// figure (Errica et al., "A fair comparison of graph neural networks for graph classification", ICLR 2020).
    #[default]
    Validation,
    /// One epoch for all folds, the one whose mean over their test graphs is the best (Xu et al., "How powerful are graph neural
    /// networks?", ICLR 2019): an upper figure, since test graphs choose.
    BestMeanEpoch,
}

impl Protocol {
    /// What it means, in a line.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Validation => {
                "a tenth of each fold's training graphs chose its epoch, test graphs were looked at once"
            }
            Self::BestMeanEpoch => {
                "one epoch for all folds, chosen on the test graphs: an upper figure, as in the GIN paper"
            }
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Validation => "validation",
            Self::BestMeanEpoch => "best-mean-epoch",
        })
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "validation" => Ok(Self::Validation),
            "best-mean-epoch" => Ok(Self::BestMeanEpoch),
            _ => Err(format!("unknown protocol {word:?}: expected validation or best-mean-epoch")),
        }
    }
}

/// The end of a cross-validation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrossValidationResult {
    /// How epochs were chosen.
    pub protocol: Protocol,
    /// The metric on the test graphs of each fold.
    pub test: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, of the population.
    pub deviation: f64,
    /// The epoch of each fold, counted from 1.
    pub epochs: Vec<u64>,
}

impl CrossValidationResult {
    fn new(protocol: Protocol, test: Vec<f64>, epochs: Vec<u64>) -> Self {
        let (mean, deviation) = mean_and_deviation(&test);
        Self { protocol, test, mean, deviation, epochs }
    }
}

/// Trains a model per fold, each from initial weights of its own.
///
/// # Errors
/// Those of [`train_graph`]; and a fold whose test graphs have no metric, such as no ROC AUC where all are of one class.
pub fn cross_validate<B>(
    graphs: &Arc<GraphDataset>,
    folds: &[Fold],
    protocol: Protocol,
    config: &GraphTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn GraphObserver<B::InnerBackend>,
) -> Result<CrossValidationResult, TrainError>
where
    B: AutodiffBackend + GnnBackend,
    B::InnerBackend: GnnBackend + Backend<Device = B::Device>,
{
    let undefined = |fold: usize| TrainError::Config {
        what: format!("fold {}: metric {} is not defined on its test graphs: take accuracy", fold + 1, config.metric),
    };
    let (mut test, mut epochs, mut histories) = (Vec::new(), Vec::new(), Vec::new());
    for (number, fold) in folds.iter().enumerate() {
        let config = GraphTrainingConfig { seed: combine(config.seed, number as u64), ..config.clone() };
        let split = split(graphs, fold, protocol, config.seed);
        let mut observer = OfFold { observer: &mut *observer, fold: number + 1 };
        let trained = train_graph::<B>(graphs, &split, &config, world, device, &mut observer)?;
        match protocol {
            Protocol::Validation => {
                test.push(trained.result.test_metric.ok_or_else(|| undefined(number))?);
                epochs.push(trained.result.best_epoch);
            }
            Protocol::BestMeanEpoch => {
                let history: Option<Vec<f64>> = trained.history.into_iter().collect();
                histories.push(history.ok_or_else(|| undefined(number))?);
            }
        }
    }
    if protocol == Protocol::BestMeanEpoch {
        let epoch = best_mean_epoch(&histories);
        test = histories.iter().filter_map(|history| history.get(epoch).copied()).collect();
        epochs = vec![epoch as u64 + 1; test.len()];
    }
    Ok(CrossValidationResult::new(protocol, test, epochs))
}

fn split(graphs: &GraphDataset, fold: &Fold, protocol: Protocol, seed: u64) -> GraphSplit {
    match protocol {
        Protocol::Validation => {
            let [train, valid] = hold_out(&fold.train, graphs.labels(), VALIDATION_PARTS, seed);
            GraphSplit { train, valid, test: fold.test.clone() }
        }
        Protocol::BestMeanEpoch => GraphSplit { train: fold.train.clone(), valid: fold.test.clone(), test: Vec::new() },
    }
}

/// The first epoch, counted from 0, with the best mean over folds.
fn best_mean_epoch(histories: &[Vec<f64>]) -> usize {
    let epochs = histories.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |epoch: usize| histories.iter().map(|history| history[epoch]).sum::<f64>();
    (0..epochs).fold(0, |best, epoch| if mean(epoch) > mean(best) { epoch } else { best })
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

/// Adds the fold to the reports of its epochs. Models of folds are not kept.
struct OfFold<'a, B: Backend> {
    observer: &'a mut dyn GraphObserver<B>,
    fold: usize,
}

impl<B: Backend> GraphObserver<B> for OfFold<'_, B> {
    fn started(&mut self, parameters: ParameterCount) {
        // The models of all folds are alike.
        if self.fold == 1 {
            self.observer.started(parameters);
        }
    }

    fn step(&mut self, epoch: u64, done: usize, total: usize) {
        self.observer.step(epoch, done, total);
    }

    fn epoch(&mut self, report: &GraphEpochReport) -> std::io::Result<()> {
        self.observer.epoch(&GraphEpochReport { fold: Some(self.fold), ..report.clone() })
    }

    fn improved(&mut self, _: &Improved<'_, GraphNet<B>, GraphNetConfig>, _: &mut ProcessGroup) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_with_the_best_mean_is_the_same_for_all_folds() {
        let histories = [vec![0.5, 0.9, 0.6], vec![0.7, 0.2, 0.6]];
        assert_eq!(best_mean_epoch(&histories), 0, "the first of equal ones");
        assert_eq!(best_mean_epoch(&[vec![0.5, 0.9, 0.6], vec![0.6, 0.5, 0.7]]), 1);
        assert_eq!(best_mean_epoch(&[]), 0);
        let result = CrossValidationResult::new(Protocol::BestMeanEpoch, vec![0.7, 0.9], vec![1, 1]);
        assert!((result.mean - 0.8).abs() < 1e-12 && (result.deviation - 0.1).abs() < 1e-12);
    }

    #[test]
    fn words_go_there_and_back() {
        for protocol in [Protocol::Validation, Protocol::BestMeanEpoch] {
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
            assert_eq!(serde_json::to_value(protocol).expect("JSON"), protocol.to_string());
        }
        assert!("honest".parse::<Protocol>().is_err());
    }
}
