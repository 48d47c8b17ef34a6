//! Cross-validation of models for whole graphs.

use super::GraphPrediction;
use super::config::GraphTrainingConfig;
use super::split::{GraphSplit, SplitGraphs};
use crate::error::TrainError;
use crate::fit::{EpochReport, FitConfig, Observer, PlateauOn, Selection, StepReport};
use crate::inference_progress::InferenceStep;
use crate::memory::parameter_count::ParameterCount;
use crate::metrics::{Metric, MetricValues};
use crate::model_file::WarmStartReport;
use crate::objective::seed_scores::SeedScores;
use crate::seed_task::train_model;
use edgecut_cluster::ProcessGroup;
use edgecut_gnn::ops::AutodiffGnnBackend;
use edgecut_graph::rng::combine;
use edgecut_graph::small_graphs::{Fold, hold_out};
use edgecut_graph::{GraphDataset, Split};
use edgecut_settings::words;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One of this number of parts of a fold's training graphs is held out to select its epoch.
const VALIDATION_PARTS: usize = 10;

/// The selection of the epochs of a cross-validation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Selects the epoch of each fold on a tenth of its training graphs, which are excluded from training. The test
    /// graphs are evaluated once, so the estimate is unbiased (Errica et al., "A fair comparison of graph neural
    /// networks for graph classification", ICLR 2020).
    #[default]
    Validation,
    /// Selects one epoch for all folds: the epoch with the best mean metric over their test graphs (Xu et al., "How
    /// powerful are graph neural networks?", ICLR 2019). The estimate is optimistic, because the test graphs select the
    /// epoch. They do not change the training: a learning rate on a plateau follows the training loss.
    BestMeanEpoch,
}

impl Protocol {
    /// Returns an explanation in one line.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Validation => {
                "the epoch of each fold was selected on a tenth of its training graphs; test graphs were evaluated once"
            }
            Self::BestMeanEpoch => {
                "one epoch for all folds, selected on the test graphs as in the GIN paper: an optimistic estimate"
            }
        }
    }
}

words!(Protocol, "protocol", Validation = "validation", BestMeanEpoch = "best-mean-epoch");

/// The result of a cross-validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidationResult {
    /// The selection of the epochs.
    pub protocol: Protocol,
    /// The metric that selected the epochs.
    pub metric: Metric,
    /// The metric on the test graphs of each fold.
    pub test: Vec<f64>,
    /// The mean over the folds.
    pub mean: f64,
    /// The population standard deviation over the folds.
    pub deviation: f64,
    /// The selected epoch of each fold, counted from 1.
    pub epochs: Vec<u64>,
    /// The mean metrics over the validation graphs of the folds. [`Protocol::BestMeanEpoch`] has no validation graphs.
    #[serde(default)]
    pub valid_metrics: MetricValues,
    /// The other metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<FoldScores>,
}

/// A metric on the test graphs of all folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldScores {
    /// The metric.
    pub metric: Metric,
    /// Its value on each fold; `None` where it is not defined.
    pub test: Vec<Option<f64>>,
    /// The mean over the folds; `None` if it is not defined on one of them.
    pub mean: Option<f64>,
    /// The population standard deviation over the folds.
    pub deviation: Option<f64>,
}

impl FoldScores {
    fn new(metric: Metric, folds: &[MetricValues]) -> Self {
        let test: Vec<Option<f64>> = folds.iter().map(|fold| fold.get(metric)).collect();
        let defined: Option<Vec<f64>> = test.iter().copied().collect();
        let (mean, deviation) = defined.map(|values| mean_and_deviation(&values)).unzip();
        Self { metric, test, mean, deviation }
    }
}

impl CrossValidationResult {
    fn new(protocol: Protocol, metric: Metric, test: Vec<f64>, epochs: Vec<u64>) -> Self {
        let (mean, deviation) = mean_and_deviation(&test);
        let valid_metrics = MetricValues::default();
        Self { protocol, metric, test, mean, deviation, epochs, valid_metrics, others: Vec::new() }
    }
}

/// Trains one model per fold, each with its own initial weights. The test graphs of a fold have no influence on its
/// training.
///
/// # Errors
/// The errors of [`train_model`]; and a fold whose test graphs leave the metric undefined, such as the ROC AUC if all
/// of them have the same class.
pub fn cross_validate<B: AutodiffGnnBackend>(
    graphs: &Arc<GraphDataset>,
    folds: &[Fold],
    protocol: Protocol,
    config: &GraphTrainingConfig,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<SeedScores>,
) -> Result<CrossValidationResult, TrainError> {
    let objective = config.objective(graphs)?;
    let undefined = |fold: usize| TrainError::Config {
        what: format!(
            "fold {}: metric {} is not defined on its test graphs: use `metric={}`",
            fold + 1,
            objective.metrics.first(),
            objective.loss.default_metric()
        ),
    };
    if protocol == Protocol::BestMeanEpoch && objective.rule.reads_data() {
        let what = "with `protocol=best-mean-epoch`, the test graphs of a fold take the place of validation graphs, and would \
                    choose the threshold or the temperature: leave `threshold=best-f1` and `calibrate` out";
        return Err(TrainError::config(what));
    }
    if config.fit.checkpoints.is_some() {
        let what = "a cross-validation writes no checkpoints: leave out `checkpoint_dir`".into();
        return Err(TrainError::Config { what });
    }
    let mut test = Vec::new();
    let mut epochs = Vec::new();
    let mut histories = Vec::new();
    let mut validations = Vec::new();
    let mut tests = Vec::new();
    let mut valids = Vec::new();
    for (number, fold) in folds.iter().enumerate() {
        let config = GraphTrainingConfig {
            fit: FitConfig {
                seed: combine(config.fit.seed, number as u64),
                plateau_on: plateau_on(protocol, config.fit.plateau_on),
                ..config.fit.clone()
            },
            ..config.clone()
        };
        let split = split(graphs, fold, protocol, config.fit.seed);
        let data = SplitGraphs { graphs: Arc::clone(graphs), split };
        let mut observer = OfFold { observer: &mut *observer, fold: number + 1, validations: Vec::new() };
        let trained = train_model::<GraphPrediction, B>(&data, &config, world, device, &mut observer)?;
        match protocol {
            Protocol::Validation => {
                test.push(trained.result.test_metric.ok_or_else(|| undefined(number))?);
                epochs.push(trained.result.best_epoch);
                tests.push(trained.result.test_metrics);
                valids.push(trained.result.valid_metrics);
            }
            Protocol::BestMeanEpoch => {
                let history: Option<Vec<f64>> = trained.history.into_iter().collect();
                histories.push(history.ok_or_else(|| undefined(number))?);
                validations.push(observer.validations);
            }
        }
    }
    if protocol == Protocol::BestMeanEpoch {
        let at = best_mean_validation(&histories, &objective.selection());
        test = histories.iter().filter_map(|history| history.get(at).copied()).collect();
        epochs = vec![epoch_of_validation(at, &config.fit); test.len()];
        tests = validations.iter().filter_map(|history| history.get(at).cloned()).collect();
    }
    let mut result = CrossValidationResult::new(protocol, objective.metrics.first(), test, epochs);
    if protocol == Protocol::Validation {
        let means = objective.metrics.iter().map(|metric| (metric, FoldScores::new(metric, &valids).mean));
        result.valid_metrics = means.collect();
    }
    result.others = objective.metrics.iter().skip(1).map(|metric| FoldScores::new(metric, &tests)).collect();
    Ok(result)
}

/// Returns the split of one fold. With [`Protocol::BestMeanEpoch`] the test graphs take the place of the validation
/// graphs, since their history selects the epoch.
fn split(graphs: &GraphDataset, fold: &Fold, protocol: Protocol, seed: u64) -> GraphSplit {
    match protocol {
        Protocol::Validation => {
            let [train, valid] = hold_out(&fold.train, graphs.labels(), VALIDATION_PARTS, seed);
            GraphSplit { train, valid, test: fold.test.clone() }
        }
        Protocol::BestMeanEpoch => GraphSplit { train: fold.train.clone(), valid: fold.test.clone(), test: Vec::new() },
    }
}

/// Returns the measure that lowers the learning rate of a fold. The metric of [`Protocol::BestMeanEpoch`] is that of the
/// test graphs, which is reported.
fn plateau_on(protocol: Protocol, configured: PlateauOn) -> PlateauOn {
    match protocol {
        Protocol::Validation => configured,
        Protocol::BestMeanEpoch => PlateauOn::TrainingLoss,
    }
}

/// Returns the first validation, counted from 0, with the best mean over the folds.
fn best_mean_validation(histories: &[Vec<f64>], selection: &Selection) -> usize {
    let validations = histories.iter().map(Vec::len).min().unwrap_or(0);
    let mut best = 0;
    for at in 1..validations {
        if selection.is_better(sum_of_validation(histories, at), sum_of_validation(histories, best)) {
            best = at;
        }
    }
    best
}

fn sum_of_validation(histories: &[Vec<f64>], at: usize) -> f64 {
    histories.iter().map(|history| history[at]).sum()
}

/// Returns the epoch of a validation, counted from 1. The last epoch is always validated.
fn epoch_of_validation(at: usize, config: &FitConfig) -> u64 {
    ((at as u64 + 1) * config.eval_every.max(1)).min(config.num_epochs)
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

/// An observer that adds the number of the fold to the reports of its epochs. The models of folds are not saved.
struct OfFold<'a> {
    observer: &'a mut dyn Observer<SeedScores>,
    fold: usize,
    /// The metrics of each validation.
    validations: Vec<MetricValues>,
}

impl Observer<SeedScores> for OfFold<'_> {
    fn warm_started(&mut self, report: &WarmStartReport) {
        // The models of all folds take over the same weights.
        if self.fold == 1 {
            self.observer.warm_started(report);
        }
    }

    fn started(&mut self, parameters: ParameterCount) {
        // The models of all folds have the same number of parameters: report it once.
        if self.fold == 1 {
            self.observer.started(parameters);
        }
    }

    fn step(&mut self, report: &StepReport) {
        self.observer.step(&StepReport { fold: Some(self.fold), ..*report });
    }

    fn evaluation_step(&mut self, split: Split, step: InferenceStep) {
        self.observer.evaluation_step(split, step);
    }

    fn epoch(&mut self, report: &EpochReport<SeedScores>) -> std::io::Result<()> {
        self.validations.extend(report.valid.as_ref().map(|valid| valid.metrics.clone()));
        self.observer.epoch(&EpochReport { fold: Some(self.fold), ..report.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_with_the_best_mean_is_the_same_for_all_folds() {
        let histories = [vec![0.5, 0.9, 0.6], vec![0.7, 0.2, 0.6]];
        let highest = Selection { metric: "accuracy".into(), higher_is_better: true };
        assert_eq!(best_mean_validation(&histories, &highest), 0, "the first of equal ones");
        assert_eq!(best_mean_validation(&[vec![0.5, 0.9, 0.6], vec![0.6, 0.5, 0.7]], &highest), 1);
        assert_eq!(best_mean_validation(&histories, &Selection { higher_is_better: false, ..highest.clone() }), 1);
        assert_eq!(best_mean_validation(&[], &highest), 0);
        let config = FitConfig { num_epochs: 5, eval_every: 2, ..Default::default() };
        assert_eq!([0, 1, 2].map(|at| epoch_of_validation(at, &config)), [2, 4, 5]);
        let metric: Metric = "accuracy".parse().expect("a metric");
        let result = CrossValidationResult::new(Protocol::BestMeanEpoch, metric, vec![0.7, 0.9], vec![1, 1]);
        assert!((result.mean - 0.8).abs() < 1e-12 && (result.deviation - 0.1).abs() < 1e-12);
    }
}
