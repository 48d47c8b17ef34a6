//! The results of tasks, and their scores, by which a sweep compares runs.

use crate::progress::named_values::NamedValues;
use crate::progress::reporter::Reporter;
use edgecut_trainer::SeedResult;
use edgecut_trainer::metrics::{Metric, MetricValues};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The result of a task, which `--json` prints.
pub(crate) trait Outcome: Serialize + DeserializeOwned {
    /// Prints the result, and writes it to the metrics file. `classes` are the names of the classes.
    fn report(&self, reporter: &mut Reporter, classes: Option<&[String]>) -> anyhow::Result<()>;

    /// Returns the scores by which a sweep compares runs.
    ///
    /// # Errors
    /// The result has no score on the validation data.
    fn scores(&self) -> Result<Scores, String>;
}

/// The scores of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Scores {
    /// The metric that selected the epoch.
    pub(crate) metric: String,
    /// True if greater values of the metric are better.
    #[serde(skip)]
    pub(crate) higher_is_better: bool,
    /// The metric on the validation data. For a cross-validation, both are means over the folds.
    pub(crate) valid: f64,
    /// The metric on the test data; `None` without test data.
    pub(crate) test: Option<f64>,
    /// All metrics on the validation data, and on the test data.
    pub(crate) valid_metrics: NamedValues,
    pub(crate) test_metrics: NamedValues,
    /// The selected epoch; `None` for a cross-validation, which has one per fold.
    pub(crate) best_epoch: Option<u64>,
    /// True if the test data have selected the epoch, so that the score on the validation data is their score.
    #[serde(skip)]
    pub(crate) judged_by_test: bool,
}

impl Outcome for SeedResult {
    fn report(&self, reporter: &mut Reporter, classes: Option<&[String]>) -> anyhow::Result<()> {
        reporter.seed_result(self, classes)
    }

    fn scores(&self) -> Result<Scores, String> {
        Ok(Scores {
            metric: self.metric.to_string(),
            higher_is_better: self.metric.higher_is_better(),
            valid: self.valid_metric.ok_or_else(|| no_score(self.metric.name()))?,
            test: self.test_metric,
            valid_metrics: in_order(&self.valid_metrics, self.metric),
            test_metrics: in_order(&self.test_metrics, self.metric),
            best_epoch: Some(self.best_epoch),
            judged_by_test: false,
        })
    }
}

/// Returns the values of metrics, the one that selects the best epoch first. A result that was read has no order.
fn in_order(values: &MetricValues, first: Metric) -> NamedValues {
    let mut named = vec![(first.into(), values.get(first))];
    named.extend(values.iter().filter(|(metric, _)| *metric != first).map(|(metric, value)| (metric.into(), value)));
    named.into()
}

/// Returns the error of a result without a score on the validation data.
pub(super) fn no_score(metric: &str) -> String {
    format!("error: its result has no {metric} on the validation data: give it validation data, or another metric")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::TASKS;
    use edgecut_trainer::TestDetails;
    use edgecut_trainer::graph::{CrossValidationResult, Protocol};
    use edgecut_trainer::link::{LinkMetric, LinkResult, LinkScores};
    use serde::Serialize;

    /// Returns the scores of a result that a run of a task has written.
    fn read(task: &str, written: &impl Serialize) -> Result<Scores, String> {
        let text = serde_json::to_string(written).expect("JSON");
        let task = TASKS.iter().find(|entry| entry.name == task).expect("a task");
        (task.scores_of)(&text).unwrap_or_else(|| panic!("no result: {text}"))
    }

    fn link_scores(metric: LinkMetric, value: f64) -> LinkScores {
        let mut scores = LinkScores { edges: 9, mrr: Some(0.01), roc_auc: Some(0.02), ..LinkScores::default() };
        match metric {
            LinkMetric::Mrr => scores.mrr = Some(value),
            LinkMetric::HitsAt(1) => scores.hits_at_1 = Some(value),
            LinkMetric::HitsAt(3) => scores.hits_at_3 = Some(value),
            LinkMetric::HitsAt(10) => scores.hits_at_10 = Some(value),
            LinkMetric::HitsAt(depth) => {
                scores.hits_at.insert(depth, value);
            }
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
            let found = read("link", &LinkResult { best_epoch: 4, metric, metrics: metric.into(), valid, test })
                .expect("scores");
            assert_eq!(
                found,
                Scores {
                    metric: name.into(),
                    higher_is_better: true,
                    valid: 0.25,
                    test: Some(0.75),
                    valid_metrics: vec![(metric.into(), Some(0.25))].into(),
                    test_metrics: vec![(metric.into(), Some(0.75))].into(),
                    best_epoch: Some(4),
                    judged_by_test: false
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
                valid_metrics: [(metric, Some(0.5))].into_iter().collect(),
                test_metrics: [(metric, None)].into_iter().collect(),
                decision: None,
                test_details: TestDetails::default(),
            };
            let higher_is_better = metric.higher_is_better();
            let expected = Scores {
                metric: metric.to_string(),
                higher_is_better,
                valid: 0.5,
                test: None,
                valid_metrics: vec![(metric.into(), Some(0.5))].into(),
                test_metrics: vec![(metric.into(), None)].into(),
                best_epoch: Some(3),
                judged_by_test: false,
            };
            for task in ["node", "edge", "graph"] {
                assert_eq!(read(task, &result).as_ref(), Ok(&expected), "{task}");
            }
            result.valid_metric = None;
            assert!(
                read("node", &result).expect_err("no score").contains(&format!("no {metric} on the validation data"))
            );
            let mut folds = CrossValidationResult {
                protocol: Protocol::Validation,
                metric,
                test: vec![0.5, 0.75],
                mean: 0.625,
                deviation: 0.125,
                epochs: vec![1, 2],
                valid_metrics: [(metric, Some(0.875))].into_iter().collect(),
                others: Vec::new(),
            };
            let of_test = NamedValues::from(vec![(metric.into(), Some(0.625))]);
            let expected = Scores {
                metric: metric.to_string(),
                higher_is_better,
                valid: 0.875,
                test: Some(0.625),
                valid_metrics: vec![(metric.into(), Some(0.875))].into(),
                test_metrics: of_test.clone(),
                best_epoch: None,
                judged_by_test: false,
            };
            assert_eq!(read("graph", &folds).as_ref(), Ok(&expected));
            folds.protocol = Protocol::BestMeanEpoch;
            folds.valid_metrics = MetricValues::default();
            let expected = Scores { valid: 0.625, valid_metrics: of_test, judged_by_test: true, ..expected };
            assert_eq!(read("graph", &folds), Ok(expected));
        }
    }
}
