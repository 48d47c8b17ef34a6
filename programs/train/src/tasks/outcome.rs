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
    use crate::run_page::MetricName;
    use crate::tasks::TASKS;
    use edgecut_trainer::TestDetails;
    use edgecut_trainer::graph::{CrossValidationResult, Protocol};
    use edgecut_trainer::link::{LinkMetric, LinkResult, LinkScores};
    use serde::Serialize;
    use serde_json::json;

    /// Returns the scores of a result that a run of a task has written.
    fn read(task: &str, written: &impl Serialize) -> Result<Scores, String> {
        let text = serde_json::to_string(written).expect("JSON");
        let task = TASKS.iter().find(|entry| entry.name == task).expect("a task");
        (task.scores_of)(&text).unwrap_or_else(|| panic!("no result: {text}"))
    }

    fn link_scores(metric: &str, value: f64) -> LinkScores {
        let mut scores = json!({ "edges": 9, "mrr": 0.01, "roc_auc": 0.02 });
        scores[metric.replace('-', "_")] = value.into();
        serde_json::from_value(scores).expect("scores")
    }

    /// Returns the scores of one metric.
    fn of_metric(metric: MetricName, text: &str, higher_is_better: bool, valid: f64, test: Option<f64>) -> Scores {
        Scores {
            metric: text.to_owned(),
            higher_is_better,
            valid,
            test,
            valid_metrics: vec![(metric.clone(), Some(valid))].into(),
            test_metrics: vec![(metric, test)].into(),
            best_epoch: None,
            judged_by_test: false,
        }
    }

    #[test]
    fn scores_of_every_metric_are_read() {
        for name in ["mrr", "hits@1", "hits@3", "hits@10", "hits@50", "roc-auc", "average-precision"] {
            let metric: LinkMetric = name.parse().expect("a metric");
            let [valid, test] = [0.25, 0.75].map(|value| link_scores(name, value));
            let result = LinkResult { best_epoch: 4, metric, metrics: metric.into(), valid, test };
            let expected = of_metric(metric.into(), name, true, 0.25, Some(0.75));
            assert_eq!(read("link", &result), Ok(Scores { best_epoch: Some(4), ..expected }), "the metric {name}");
        }
        for metric in Metric::all() {
            let name = metric.name();
            let higher_is_better = metric.higher_is_better();
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
            let expected = of_metric(metric.into(), name, higher_is_better, 0.5, None);
            let expected = Scores { best_epoch: Some(3), ..expected };
            for task in ["node", "edge", "graph"] {
                assert_eq!(read(task, &result).as_ref(), Ok(&expected), "{task}");
            }
            result.valid_metric = None;
            let error = read("node", &result).expect_err("no score");
            assert!(error.contains(&format!("no {metric} on the validation data")), "{error}");
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
            let expected = of_metric(metric.into(), name, higher_is_better, 0.875, Some(0.625));
            assert_eq!(read("graph", &folds), Ok(expected));
            folds.protocol = Protocol::BestMeanEpoch;
            folds.valid_metrics = MetricValues::default();
            let expected = of_metric(metric.into(), name, higher_is_better, 0.625, Some(0.625));
            assert_eq!(read("graph", &folds), Ok(Scores { judged_by_test: true, ..expected }));
        }
    }
}
