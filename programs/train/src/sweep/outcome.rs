//! The result of a run, as the run prints it.

use edgecut_trainer::SeedResult;
use edgecut_trainer::graph::CrossValidationResult;
use edgecut_trainer::link::LinkResult;
use serde::{Deserialize, Serialize};

/// The result that a run prints with `--json`. The variants are tried in order: only results of links have scores of whole
/// splits, and only cross-validations have a protocol.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RunResult {
    Link(Box<LinkResult>),
    CrossValidation(CrossValidationResult),
    Seeds(SeedResult),
}

/// The scores of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Scores {
    /// The metric that selected the epoch.
    pub(super) metric: String,
    /// True if greater values of the metric are better.
    #[serde(skip)]
    pub(super) higher_is_better: bool,
    /// The metric on the validation data, or the mean over the folds of a cross-validation.
    pub(super) valid: f64,
    /// The metric on the test data; `None` without test data.
    pub(super) test: Option<f64>,
    /// The selected epoch; `None` for a cross-validation, which has one per fold.
    pub(super) best_epoch: Option<u64>,
}

impl RunResult {
    /// Returns the scores.
    ///
    /// # Errors
    /// The result has no score on the validation data, so the run cannot be compared with others.
    pub(super) fn scores(&self) -> Result<Scores, String> {
        let (metric, valid, test, best_epoch) = match self {
            Self::Link(result) => {
                let metric = result.metric;
                let valid = result.valid.get(metric);
                (metric.to_string(), valid, result.test.get(metric), Some(result.best_epoch))
            }
            Self::CrossValidation(result) => (result.metric.to_string(), Some(result.mean), Some(result.mean), None),
            Self::Seeds(result) => {
                (result.metric.to_string(), result.valid_metric, result.test_metric, Some(result.best_epoch))
            }
        };
        let higher_is_better = match self {
            Self::Link(_) => true,
            Self::CrossValidation(result) => result.metric.higher_is_better(),
            Self::Seeds(result) => result.metric.higher_is_better(),
        };
        match valid {
            Some(valid) => Ok(Scores { metric, higher_is_better, valid, test, best_epoch }),
            None => Err(format!(
                "error: its result has no {metric} on the validation data: give it validation data, or another metric"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_trainer::graph::Protocol;
    use edgecut_trainer::link::{LinkMetric, LinkScores};
    use edgecut_trainer::metrics::Metric;
    use serde::Serialize;

    /// Returns the scores of a result that a run has written.
    fn read(written: &impl Serialize) -> Result<Scores, String> {
        let text = serde_json::to_string(written).expect("JSON");
        serde_json::from_str::<RunResult>(&text).unwrap_or_else(|error| panic!("{text}: {error}")).scores()
    }

    fn link_scores(metric: LinkMetric, value: f64) -> LinkScores {
        let mut scores = LinkScores { edges: 9, mrr: Some(0.01), roc_auc: Some(0.02), ..LinkScores::default() };
        match metric {
            LinkMetric::Mrr => scores.mrr = Some(value),
            LinkMetric::HitsAt(1) => scores.hits_at_1 = Some(value),
            LinkMetric::HitsAt(3) => scores.hits_at_3 = Some(value),
            LinkMetric::HitsAt(10) => scores.hits_at_10 = Some(value),
            LinkMetric::HitsAt(depth) => scores.hits_at = Some((depth, value)),
            LinkMetric::RocAuc => scores.roc_auc = Some(value),
            LinkMetric::AveragePrecision => scores.average_precision = Some(value),
        }
        scores
    }

    #[test]
    fn scores_of_every_metric_are_read() {
        let of_links = ["mrr", "hits@1", "hits@3", "hits@10", "hits@50", "roc-auc", "average-precision"];
        for name in of_links {
            let metric: LinkMetric = name.parse().expect("a metric");
            let valid = link_scores(metric, 0.25);
            let test = link_scores(metric, 0.75);
            let found = read(&LinkResult { best_epoch: 4, metric, valid, test }).expect("scores");
            assert_eq!(
                found,
                Scores {
                    metric: name.into(),
                    higher_is_better: true,
                    valid: 0.25,
                    test: Some(0.75),
                    best_epoch: Some(4)
                },
                "the metric {name}"
            );
        }
        for metric in Metric::all() {
            let mut result = SeedResult {
                best_epoch: 3,
                valid_acc: Some(0.1),
                test_acc: None,
                metric,
                valid_metric: Some(0.5),
                test_metric: None,
                test_confusion: None,
            };
            let higher_is_better = metric.higher_is_better();
            let expected =
                Scores { metric: metric.to_string(), higher_is_better, valid: 0.5, test: None, best_epoch: Some(3) };
            assert_eq!(read(&result), Ok(expected));
            result.valid_metric = None;
            assert!(read(&result).expect_err("no score").contains(&format!("no {metric} on the validation data")));
            let folds = CrossValidationResult {
                protocol: Protocol::Validation,
                metric,
                test: vec![0.5, 0.75],
                mean: 0.625,
                deviation: 0.125,
                epochs: vec![1, 2],
            };
            let expected = Scores {
                metric: metric.to_string(),
                higher_is_better,
                valid: 0.625,
                test: Some(0.625),
                best_epoch: None,
            };
            assert_eq!(read(&folds), Ok(expected));
        }
    }
}
