//! A run as its page shows it: the lines of a metrics file, or of a run that goes on.

use super::labels::{capitalized, decision_words, label_of, positive_class_name};
use super::metric_name::MetricName;
use crate::distinct::distinct;
use anyhow::{Context, bail};
use edgecut_report::{Unit, shown};
use edgecut_trainer::metrics::Decision;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;

/// The most slow steps that are kept.
const SLOW_STEPS: usize = 10;
/// The most names of classes, of thresholds and of folds that are listed.
const MOST_NAMES: usize = 50;

/// A run: the lines of its last attempt.
#[derive(Clone, Default)]
pub(crate) struct Run {
    /// The name of the file, without its extension.
    pub(crate) name: String,
    /// The command, the version, the date, the processes and the data. Empty for files of earlier versions.
    facts: Map<String, Value>,
    /// The epochs, in order.
    pub(super) epochs: Vec<Epoch>,
    /// The most epochs that are kept; `None` keeps all. Once there are more, every second one is kept, and so on.
    most_epochs: Option<usize>,
    /// The logarithm to the base 2 of the distance of the kept epochs.
    thinned: u32,
    /// The number of epochs, also of those that are not kept.
    num_epochs: u64,
    /// The sums of the epochs' seconds of training and of their received bytes.
    seconds: f64,
    received_bytes: f64,
    /// The slowest steps of all epochs, the slowest first.
    pub(super) slowest_steps: Vec<SlowStep>,
    /// The times, the memory and the traffic of each rank in the last epoch.
    pub(super) ranks: Vec<Map<String, Value>>,
    /// The traffic of each rank, with `--stats`.
    pub(super) traffic: Vec<Value>,
    /// The quality of the partition. Empty for graphs that are not partitioned.
    partition: Map<String, Value>,
    /// The number of test seeds by label and predicted class. Empty for link prediction.
    pub(super) confusion: Vec<Vec<f64>>,
    /// The counts and scores of each class or label of the test data. Empty for numbers and link prediction.
    pub(super) class_scores: Vec<Map<String, Value>>,
    /// The ROC and precision-recall curves of classes or labels of the test data, and the names of these.
    pub(super) curves: Vec<Map<String, Value>>,
    curve_names: Vec<String>,
    /// The names of the classes. Empty if they have none.
    classes: Vec<String>,
    /// The numbers of positive and negative test edges by score. Empty for classification.
    pub(super) histogram: Vec<(&'static str, Vec<f64>)>,
    /// The result. Empty for a run that has not ended.
    result: Map<String, Value>,
    /// The best epoch so far of a run that has not ended.
    best_so_far: Option<u64>,
    /// The flags, if they were written beside the metrics: pairs of a name and a value.
    pub(super) flags: Vec<(String, String)>,
}

/// An epoch.
#[derive(Clone)]
pub(super) struct Epoch {
    /// The number, from 1. The epochs of a cross-validation count on over its folds.
    pub(super) number: u64,
    /// The fields of its line.
    pub(super) fields: Map<String, Value>,
}

/// A step that took long.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SlowStep {
    pub(super) epoch: u64,
    pub(super) step: u64,
    pub(super) seconds: f64,
    pub(super) waited: f64,
}

impl Run {
    /// Returns a run without lines that keeps a number of epochs, however long it goes on.
    pub(crate) fn bounded(most_epochs: usize) -> Self {
        Self { name: "run".into(), most_epochs: Some(most_epochs), ..Self::default() }
    }

    /// Reads a metrics file, and the flags beside it.
    ///
    /// # Errors
    /// A file that cannot be read, or is not a metrics file.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let mut lines = Vec::new();
        let num_lines = text.lines().count();
        for (number, line) in text.lines().enumerate() {
            match serde_json::from_str::<Value>(line) {
                Ok(Value::Object(fields)) if fields.contains_key("event") => lines.push(fields),
                // A process that was killed leaves an incomplete last line.
                Err(_) if number + 1 == num_lines && !lines.is_empty() => {}
                _ => bail!(
                    "{}, line {}: it is not a line of a metrics file: give a file that `train --metrics` wrote",
                    path.display(),
                    number + 1
                ),
            }
        }
        let Some(last) = lines.last().map(attempt_of) else {
            bail!("{}: it is empty: give a file that `train --metrics` wrote", path.display())
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut run = Self { name, ..Self::default() };
        // Numbers of restarts may begin anew, if a scheduler restarts a launcher.
        let start = lines.iter().rposition(|fields| attempt_of(fields) != last).map_or(0, |other| other + 1);
        for fields in lines.drain(start..) {
            run.add(fields);
        }
        let mut flags = path.as_os_str().to_owned();
        flags.push(".config.yaml");
        if let Ok(text) = std::fs::read_to_string(&flags) {
            run.set_flags(&text);
        }
        Ok(run)
    }

    /// Sets the flags from the text of the file beside the metrics.
    pub(crate) fn set_flags(&mut self, text: &str) {
        // Defaults are comments.
        let pairs = text.lines().filter_map(|line| line.trim_start_matches("# ").split_once(": "));
        self.flags = pairs.map(|(name, value)| (format!("--{name}"), value.trim_matches('"').to_owned())).collect();
    }

    /// Adds a line of the metrics.
    pub(crate) fn add(&mut self, mut fields: Map<String, Value>) {
        match fields.get("event").and_then(Value::as_str) {
            Some("run") => {
                self.take_class_names(&fields);
                self.facts = fields;
            }
            Some("epoch") => self.add_epoch(fields),
            Some("traffic") => {
                if let Some(Value::Array(ranks)) = fields.remove("ranks") {
                    self.traffic = ranks;
                }
            }
            Some("partition") => self.partition = fields,
            Some("confusion") => {
                let rows = fields.get("counts").and_then(Value::as_array);
                self.confusion = rows.into_iter().flatten().map(numbers).collect();
                self.take_class_names(&fields);
            }
            Some("classes") => {
                self.take_class_names(&fields);
                self.class_scores = objects(fields.remove("scores"));
            }
            Some("curves") => {
                self.curve_names = class_names(&fields).unwrap_or_default();
                self.curves = objects(fields.remove("curves"));
            }
            Some("histogram") => {
                let counts =
                    ["positives", "negatives"].map(|kind| (kind, fields.get(kind).map_or(Vec::new(), numbers)));
                self.histogram = counts.to_vec();
            }
            Some("result") => self.result = fields,
            _ => {}
        }
    }

    /// Notes the best epoch so far.
    pub(crate) fn set_best(&mut self, epoch: u64) {
        self.best_so_far = Some(epoch);
    }

    fn add_epoch(&mut self, mut fields: Map<String, Value>) {
        self.num_epochs += 1;
        let is_of_fold = fields.get("fold").is_some_and(Value::is_number);
        let own_number = fields.get("epoch").and_then(Value::as_u64).filter(|_| !is_of_fold);
        let number = own_number.unwrap_or(self.num_epochs);
        self.seconds += number_of(&fields, "seconds").unwrap_or(0.0);
        self.received_bytes += number_of(&fields, "remote_bytes").unwrap_or(0.0);
        // Only the values of the last epoch are shown.
        self.ranks = objects(fields.remove("ranks"));
        fields.remove("sampling");
        for step in objects(fields.remove("slowest_steps")) {
            self.slowest_steps.push(SlowStep {
                epoch: number,
                step: step.get("step").and_then(Value::as_u64).unwrap_or(0),
                seconds: number_of(&step, "seconds").unwrap_or(0.0),
                waited: number_of(&step, "sample_wait_seconds").unwrap_or(0.0),
            });
        }
        self.slowest_steps.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        self.slowest_steps.truncate(SLOW_STEPS);
        if let Some(most) = self.most_epochs {
            // The last epoch is shown until there is a later one.
            let is_over = self.epochs.pop_if(|last| !is_kept(last.number, self.thinned, self.best_so_far));
            if is_over.is_none() && self.epochs.len() >= most {
                self.thinned += 1;
                self.epochs.retain(|epoch| is_kept(epoch.number, self.thinned, self.best_so_far));
            }
        }
        self.epochs.push(Epoch { number, fields });
    }

    /// Takes the names of the classes from a line that has them.
    fn take_class_names(&mut self, fields: &Map<String, Value>) {
        if let Some(classes) = class_names(fields) {
            self.classes = classes;
        }
    }

    /// Returns the name of the data.
    pub(super) fn dataset(&self) -> &str {
        self.facts.get("dataset").and_then(Value::as_str).unwrap_or("")
    }

    /// Returns true if the run has a result.
    pub(crate) fn has_ended(&self) -> bool {
        !self.result.is_empty()
    }

    /// Returns the points of a field over the epochs in which it has a value.
    pub(super) fn points(&self, field: &str) -> Vec<(f64, f64)> {
        self.points_by(|fields| number_of(fields, field))
    }

    /// Returns the points of a metric on the validation data over the epochs in which it has a value.
    pub(super) fn points_of_metric(&self, metric: &str) -> Vec<(f64, f64)> {
        self.points_by(|fields| match fields.get(VALID_METRICS) {
            Some(metrics) => metrics.get(metric)?.as_f64(),
            None if metric == self.metric() => number_of(fields, "valid_metric"),
            None => None,
        })
    }

    fn points_by(&self, value: impl Fn(&Map<String, Value>) -> Option<f64>) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        for Epoch { number, fields } in &self.epochs {
            points.extend(value(fields).map(|value| (*number as f64, value)));
        }
        points
    }

    /// Returns the name of the metric that selects the best epoch.
    pub(super) fn metric(&self) -> &str {
        self.epochs.iter().find_map(|epoch| epoch.fields.get("metric")?.as_str()).unwrap_or("metric")
    }

    /// Returns the names of the metrics on the validation data, the one that selects the best epoch first.
    pub(super) fn metrics(&self) -> Vec<&str> {
        let of_epochs = self.epochs.iter().filter_map(|epoch| epoch.fields.get(VALID_METRICS)?.as_object());
        let of_epochs = of_epochs.flat_map(Map::keys).map(String::as_str);
        distinct(std::iter::once(self.metric()).chain(of_epochs))
    }

    /// Returns the best epoch; `None` without epochs, and for a cross-validation, which has one per fold.
    pub(super) fn best_epoch(&self) -> Option<u64> {
        let of_result = self.result.get("best_epoch").and_then(Value::as_u64);
        of_result.or(self.best_so_far).filter(|epoch| *epoch > 0)
    }

    /// Returns true if the classes have names in the tables.
    pub(super) fn has_class_names(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Returns the name of a class in the tables, or its number.
    pub(super) fn class_name(&self, class: usize) -> String {
        self.classes.get(class).cloned().unwrap_or_else(|| class.to_string())
    }

    /// Returns the name of the class of a curve. Curves of links are not about classes of the data.
    pub(super) fn curve_name(&self, class: usize) -> String {
        self.curve_names.get(class).cloned().unwrap_or_else(|| self.class_name(class))
    }

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

/// The field of an epoch with the values of all metrics.
const VALID_METRICS: &str = "valid_metrics";
/// The fields beside the metrics of links that are counts.
const COUNTS: [&str; 2] = ["edges", "left_out"];

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

/// Returns the names of the classes in a line that has them.
fn class_names(fields: &Map<String, Value>) -> Option<Vec<String>> {
    let classes = fields.get("classes").and_then(Value::as_array)?;
    Some(classes.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Joins texts, without the last ones if there are many.
fn listed(texts: &[String]) -> String {
    let listed = texts.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match texts.len() {
        0..=MOST_NAMES => listed,
        count => format!("{listed}, … ({count} in all)"),
    }
}

/// Returns true if a run that is thinned out keeps an epoch.
fn is_kept(number: u64, thinned: u32, best: Option<u64>) -> bool {
    number.saturating_sub(1).is_multiple_of(1 << thinned.min(63)) || Some(number) == best
}

/// Returns the objects of an array.
pub(super) fn objects(array: Option<Value>) -> Vec<Map<String, Value>> {
    let Some(Value::Array(values)) = array else { return Vec::new() };
    let mut objects = Vec::with_capacity(values.len());
    for value in values {
        if let Value::Object(fields) = value {
            objects.push(fields);
        }
    }
    objects
}

fn attempt_of(fields: &Map<String, Value>) -> u64 {
    fields.get("attempt").and_then(Value::as_u64).unwrap_or(0)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), shown),
        other => other.to_string(),
    }
}

/// Returns the numbers of an array.
fn numbers(array: &Value) -> Vec<f64> {
    array.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

/// Returns a number of an object.
pub(super) fn number_of(fields: &Map<String, Value>, field: &str) -> Option<f64> {
    fields.get(field)?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn epoch(number: u64) -> Map<String, Value> {
        let steps: Vec<Value> = (1..=5).map(|step| json!({ "step": step, "seconds": number * 10 + step })).collect();
        let ranks = vec![json!({ "compute_seconds": 1.0 }); 64];
        let line = json!({
            "event": "epoch", "epoch": number, "metric": "accuracy", "valid_metrics": { "accuracy": 0.5 },
            "seconds": 2.0, "slowest_steps": steps, "ranks": ranks,
        });
        line.as_object().expect("an object").clone()
    }

    #[test]
    fn a_bounded_run_keeps_the_shape_of_its_curves() {
        let mut run = Run::bounded(16);
        for number in 1..=1000 {
            if number == 70 {
                run.set_best(number);
            }
            run.add(epoch(number));
            assert!(run.epochs.len() <= 16, "{}", run.epochs.len());
        }
        let points = run.points_of_metric("accuracy");
        assert_eq!((points[0].0, points[points.len() - 1].0), (1.0, 1000.0));
        let distances = points.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert_eq!(distances.fold(0.0, f64::max), 128.0, "the epochs are evenly spread: {points:?}");
        assert!(points.iter().any(|point| point.0 == 70.0), "the best epoch is kept: {points:?}");
        assert!(run.epochs.iter().all(|epoch| !epoch.fields.contains_key("ranks")));
        assert_eq!((run.slowest_steps.len(), run.slowest_steps[0].seconds, run.ranks.len()), (10, 10005.0, 64));
        let pairs = run.results();
        for pair in [("Validation accuracy", "50.00 %"), ("Best epoch", "70 of 1000"), ("Training time", "33.33 min")] {
            let pair = (pair.0.to_owned(), pair.1.to_owned());
            assert!(pairs.contains(&pair), "{pair:?} in {pairs:?}");
        }
    }

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

    #[test]
    fn classes_of_links_are_no_classes_of_the_data() {
        let mut run = Run::default();
        let curves = json!({ "event": "curves", "curves": [{ "class": 1 }], "classes": ["negatives", "edges"] });
        for line in [json!({ "event": "run", "dataset": "shop" }), curves] {
            run.add(line.as_object().expect("an object").clone());
        }
        assert_eq!(run.facts(), [("Dataset".to_owned(), "shop".to_owned())]);
        assert_eq!((run.curve_name(1), run.class_name(1)), ("edges".into(), "1".into()));
    }
}
