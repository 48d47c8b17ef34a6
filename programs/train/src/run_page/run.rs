//! A run as its page shows it: the lines of a metrics file, or of a run that goes on.

use crate::distinct::distinct;
use anyhow::{Context, bail};
use serde_json::{Map, Value};
use std::path::Path;

/// The most slow steps that are kept.
const SLOW_STEPS: usize = 10;
/// The field of an epoch with the values of all metrics.
pub(super) const VALID_METRICS: &str = "valid_metrics";

/// A run: the lines of its last attempt.
#[derive(Clone, Default)]
pub(crate) struct Run {
    /// The name of the file, without its extension.
    pub(crate) name: String,
    /// The command, the version, the date, the processes and the data. Empty for files of earlier versions.
    pub(super) facts: Map<String, Value>,
    /// The epochs, in order.
    pub(super) epochs: Vec<Epoch>,
    /// The most epochs that are kept; `None` keeps all. Once there are more, every second one is kept, and so on.
    most_epochs: Option<usize>,
    /// The logarithm to the base 2 of the distance of the kept epochs.
    thinned: u32,
    /// The number of epochs, also of those that are not kept.
    pub(super) num_epochs: u64,
    /// The sums of the epochs' seconds of training and of their received bytes.
    pub(super) seconds: f64,
    pub(super) received_bytes: f64,
    /// The slowest steps of all epochs, the slowest first.
    pub(super) slowest_steps: Vec<SlowStep>,
    /// The times, the memory and the traffic of each rank in the last epoch.
    pub(super) ranks: Vec<Map<String, Value>>,
    /// The traffic of each rank, with `--stats`.
    pub(super) traffic: Vec<Value>,
    /// The quality of the partition. Empty for graphs that are not partitioned.
    pub(super) partition: Map<String, Value>,
    /// The number of test seeds by label and predicted class. Empty for link prediction.
    pub(super) confusion: Vec<Vec<f64>>,
    /// The counts and scores of each class or label of the test data. Empty for numbers and link prediction.
    pub(super) class_scores: Vec<Map<String, Value>>,
    /// The ROC and precision-recall curves of classes or labels of the test data, and the names of these.
    pub(super) curves: Vec<Map<String, Value>>,
    curve_names: Vec<String>,
    /// The names of the classes. Empty if they have none.
    pub(super) classes: Vec<String>,
    /// The numbers of positive and negative test edges by score. Empty for classification.
    pub(super) histogram: Vec<(&'static str, Vec<f64>)>,
    /// The result. Empty for a run that has not ended.
    pub(super) result: Map<String, Value>,
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
}

/// Returns the names of the classes in a line that has them.
fn class_names(fields: &Map<String, Value>) -> Option<Vec<String>> {
    let classes = fields.get("classes").and_then(Value::as_array)?;
    Some(classes.iter().filter_map(Value::as_str).map(str::to_owned).collect())
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
