//! The tables of a run: pairs of a name for people and a value.

use super::labels::{capitalized, decision_words, label_of, positive_class_name};
use super::metric_name::MetricName;
use super::run::{Run, VALID_METRICS, number_of, objects};
use crate::distinct::distinct;
use edgecut_report::{Unit, shown};
use edgecut_trainer::metrics::Decision;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The most names of classes, of thresholds and of folds that are listed.
const MOST_NAMES: usize = 50;
/// The fields beside the metrics of links that are counts.
const COUNTS: [&str; 2] = ["edges", "left_out"];

impl Run {
    /// Returns the scores, the best epoch and the costs of the run: names for people, and values.
    pub(super) fn results(&self) -> Vec<(String, String)> {
        let mut pairs = self.scores();
        for (target, result) in self.result_by_target() {
            if let Some(decision) = decision_of(result) {
                let words = decision_words(&decision, self.positive_class(result).as_deref());
                pairs.push((capitalized(&of_target(target, "decision")), words));
            }
        }
        match self.best_epoch() {
            Some(best) => pairs.push(("Best epoch".into(), format!("{best} of {}", self.last_epoch()))),
            None if self.num_epochs > 0 => pairs.push(("Epochs".into(), shown(self.num_epochs as f64))),
            None => {}
        }
        if self.num_epochs > 0 {
            pairs.push(("Training time".into(), Unit::Seconds.format(self.seconds)));
        }
        if self.received_bytes > 0.0 {
            pairs.push(("Received".into(), Unit::Bytes.format(self.received_bytes)));
        }
        pairs
    }

    /// Returns the name of the positive one of two classes in a part of the result, if it has one.
    fn positive_class(&self, result: &Map<String, Value>) -> Option<String> {
        // The results of several targets name it.
        let named = result.get("positive_class").and_then(Value::as_str).map(str::to_owned);
        named.or_else(|| positive_class_name(decision_of(result).as_ref(), Some(&self.classes)))
    }

    /// Returns the end of the name of a metric of the result: the positive one of two classes, if it has a name.
    fn end_of_name(&self, metric: &MetricName) -> String {
        let results = self.result_by_target();
        match results.iter().find(|(target, _)| self.has_ended() && *target == metric.target()) {
            Some((_, result)) => metric.of_class(self.positive_class(result).as_deref()),
            None => String::new(),
        }
    }

    fn last_epoch(&self) -> u64 {
        self.epochs.last().map_or(0, |epoch| epoch.number)
    }

    /// Returns the scores of the result, or of the best epoch so far.
    fn scores(&self) -> Vec<(String, String)> {
        let folds = self.fold_scores();
        if !folds.is_empty() {
            return folds;
        }
        let mut splits = vec![("Test", self.scores_on("test")), ("Validation", self.scores_on("valid"))];
        if !self.has_ended() {
            let best = self.best_epoch().and_then(|best| self.epochs.iter().find(|epoch| epoch.number == best));
            let metrics = best.and_then(|epoch| epoch.fields.get(VALID_METRICS));
            splits = vec![("Validation", values_by_metric(None, metrics))];
        }
        let first = self.result.get("metric").and_then(Value::as_str).unwrap_or_else(|| self.metric());
        let first = MetricName::of(first);
        let others = splits.iter().flat_map(|(_, scores)| scores).map(|(metric, _)| metric);
        let mut pairs = Vec::new();
        for metric in distinct(std::iter::once(&first).chain(others)) {
            let of_class = self.end_of_name(metric);
            for (split, scores) in &splits {
                if let Some((_, value)) = scores.iter().find(|(other, _)| other == metric) {
                    pairs.push((format!("{split} {}{of_class}", metric.label()), metric.shown(Some(*value))));
                }
            }
        }
        for name in COUNTS {
            for (split, field) in [("Test", "test"), ("Validation", "valid")] {
                let scores = self.result.get(field).and_then(Value::as_object);
                if let Some(count) = scores.and_then(|scores| number_of(scores, name)) {
                    pairs.push((format!("{split} {}", name.replace('_', " ")), shown(count)));
                }
            }
        }
        pairs
    }

    /// Returns the parts of the result, each with the name of its target: the whole result, if the model has only one.
    fn result_by_target(&self) -> Vec<(Option<&str>, &Map<String, Value>)> {
        let Some(targets) = self.result.get("targets").and_then(Value::as_array) else {
            return vec![(None, &self.result)];
        };
        let mut results = Vec::with_capacity(targets.len());
        for result in targets.iter().filter_map(Value::as_object) {
            results.push((result.get("target").and_then(Value::as_str), result));
        }
        results
    }

    /// Returns the scores of the result on a split. Models for links have other fields than models for nodes, edges and
    /// graphs.
    fn scores_on(&self, split: &str) -> Vec<(MetricName, f64)> {
        let mut all = Vec::new();
        for (target, result) in self.result_by_target() {
            let fields = result.get(&format!("{split}_metrics")).or_else(|| result.get(split));
            let scores = values_by_metric(target, fields);
            let accuracy = MetricName::of(&of_target(target, "accuracy"));
            if let Some(value) = number_of(result, &format!("{split}_acc"))
                && scores.iter().all(|(metric, _)| *metric != accuracy)
            {
                all.push((accuracy, value));
            }
            all.extend(scores);
        }
        all
    }

    /// Returns the scores of a cross-validation; nothing for other runs.
    fn fold_scores(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for result in std::iter::once(self.result.clone()).chain(objects(self.result.get("others").cloned())) {
            let metric = result.get("metric").and_then(Value::as_str).map(MetricName::of);
            let values = result.get("test").and_then(Value::as_array);
            if let (Some(metric), Some(values), Some(mean), Some(deviation)) =
                (metric, values, number_of(&result, "mean"), number_of(&result, "deviation"))
            {
                let label = metric.label();
                let spread = metric.shown_with_deviation(mean, deviation);
                pairs.push((format!("Test {label}, mean of {} folds", values.len()), spread));
                let folds: Vec<String> = values.iter().map(|value| metric.shown(value.as_f64())).collect();
                pairs.push((format!("Test {label} of each fold"), listed(&folds)));
            }
        }
        pairs
    }

    /// Returns the data and the job: names for people, and values.
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for field in [
            "dataset",
            "nodes",
            "edges",
            "node_types",
            "edge_types",
            "graphs",
            "parts",
            "processes",
            "machines",
            "date",
            "version",
            "command",
        ] {
            if let Some(value) = self.facts.get(field) {
                pairs.push((label_of(field), text_of(value)));
            }
        }
        if !self.classes.is_empty() {
            pairs.push(("Classes".into(), listed(&self.classes)));
        }
        pairs
    }

    /// Returns the quality of the partition: names for people, and values.
    pub(super) fn partition(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        let parts = objects(self.partition.get("parts").cloned());
        if parts.is_empty() {
            return pairs;
        }
        if let Some(method) = self.partition.get("method") {
            pairs.push((label_of("method"), text_of(method)));
        }
        for field in ["cut_fraction", "remote_neighbor_fraction"] {
            if let Some(share) = number_of(&self.partition, field) {
                pairs.push((label_of(field), Unit::Share.format(share)));
            }
        }
        for field in ["nodes", "edges", "train_nodes"] {
            let counts: Vec<f64> = parts.iter().filter_map(|part| number_of(part, field)).collect();
            let sum: f64 = counts.iter().sum();
            if sum > 0.0 {
                let largest = counts.iter().copied().fold(0.0, f64::max);
                let ratio = shown(largest * counts.len() as f64 / sum);
                let label = format!("Largest part, {}", label_of(field).to_lowercase());
                pairs.push((label, format!("{ratio} times the mean")));
            }
        }
        pairs
    }
}

/// Returns the values of metrics in an object, whose fields are the names of the metrics of a target.
fn values_by_metric(target: Option<&str>, object: Option<&Value>) -> Vec<(MetricName, f64)> {
    let mut values = Vec::new();
    for (name, value) in object.and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = value.as_f64().filter(|_| !COUNTS.contains(&name.as_str())) {
            // Fields with the scores of links have underscores. A name of an epoch may start with a target.
            let name = if name.contains(' ') { name.clone() } else { name.replace('_', "-") };
            values.push((MetricName::of(&of_target(target, &name)), value));
        }
    }
    values
}

/// Returns the thresholds and the temperature in a part of a result.
fn decision_of(result: &Map<String, Value>) -> Option<Decision> {
    result.get("decision").and_then(|json| Decision::deserialize(json).ok())
}

/// Returns a name with the target before it, if there are several targets.
fn of_target(target: Option<&str>, name: &str) -> String {
    target.map_or_else(|| name.to_owned(), |target| format!("{target} {name}"))
}

/// Joins texts, without the last ones if there are many.
fn listed(texts: &[String]) -> String {
    let listed = texts.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match texts.len() {
        0..=MOST_NAMES => listed,
        count => format!("{listed}, … ({count} in all)"),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), shown),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_of_every_task_have_no_value_twice() {
        let nodes = json!({
            "event": "result", "best_epoch": 3, "metric": "macro-f1", "test_acc": 0.11, "valid_acc": 0.12,
            "test_metric": 0.13, "valid_metric": 0.14, "test_metrics": { "macro-f1": 0.13, "log-loss": 1.5 },
            "valid_metrics": { "macro-f1": 0.14, "log-loss": 1.25 },
        });
        let of_nodes = [
            ("Test macro F1", "13.00 %"),
            ("Validation macro F1", "14.00 %"),
            ("Test accuracy", "11.00 %"),
            ("Validation accuracy", "12.00 %"),
            ("Test log loss", "1.5000"),
            ("Validation log loss", "1.2500"),
            ("Best epoch", "3 of 0"),
        ];
        let links = json!({
            "event": "result", "best_epoch": 2, "metric": "mrr", "metrics": "mrr",
            "test": { "edges": 45600, "mrr": 0.5, "hits@10": 0.75, "roc_auc": null },
            "valid": { "edges": 41800, "mrr": 0.25, "hits@10": 0.7, "roc_auc": 0.9 },
        });
        let of_links = [
            ("Test MRR", "50.00 %"),
            ("Validation MRR", "25.00 %"),
            ("Test hits@10", "75.00 %"),
            ("Validation hits@10", "70.00 %"),
            ("Validation ROC AUC", "90.00 %"),
            ("Test edges", "45,600"),
            ("Validation edges", "41,800"),
            ("Best epoch", "2 of 0"),
        ];
        let folds = json!({
            "event": "result", "protocol": "validation", "metric": "accuracy", "test": [0.5, 0.75], "mean": 0.625,
            "deviation": 0.125, "epochs": [1, 2],
        });
        let of_folds =
            [("Test accuracy, mean of 2 folds", "62.50 ± 12.50 %"), ("Test accuracy of each fold", "50.00 %, 75.00 %")];
        let targets = json!({
            "event": "result", "best_epoch": 0, "targets": [
                { "target": "user:spend", "metric": "rmse", "valid_acc": null, "test_acc": null, "decision": null,
                  "valid_metrics": { "rmse": 58.0883 }, "test_metrics": { "rmse": 60.25 } },
                { "target": "user:churn", "positive_class": "yes", "metric": "roc-auc", "valid_acc": 0.5, "test_acc": 0.25,
                  "valid_metrics": { "roc-auc": 0.75 }, "test_metrics": { "roc-auc": 0.625 },
                  "decision": { "logit_thresholds": [0.0], "temperature": 2.0 } },
            ],
        });
        let of_targets = [
            ("Test user:spend RMSE", "60.2500"),
            ("Validation user:spend RMSE", "58.0883"),
            ("Test user:churn accuracy", "25.00 %"),
            ("Validation user:churn accuracy", "50.00 %"),
            ("Test user:churn ROC AUC of yes", "62.50 %"),
            ("Validation user:churn ROC AUC of yes", "75.00 %"),
            ("User:churn decision", "threshold 0.5000 of yes, temperature 2.0000"),
        ];
        for (line, expected) in [(nodes, &of_nodes[..]), (links, &of_links), (folds, &of_folds), (targets, &of_targets)]
        {
            let mut run = Run::default();
            run.add(line.as_object().expect("an object").clone());
            let found = run.results();
            let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(found, expected);
        }
    }
}
