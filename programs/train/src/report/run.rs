//! The metrics file of a run, as a report reads it.

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use std::path::Path;

/// A run: the lines of its last attempt.
pub(super) struct Run {
    /// The name of the file, without its extension.
    pub(super) name: String,
    /// The command, the version, the date, the processes and the data. Empty for files of earlier versions.
    pub(super) facts: Map<String, Value>,
    /// The object of each epoch, in order.
    pub(super) epochs: Vec<Map<String, Value>>,
    /// The traffic of each rank, with `--stats`.
    pub(super) traffic: Vec<Value>,
    /// The quality of the partition. Empty for graphs that are not partitioned.
    pub(super) partition: Map<String, Value>,
    /// The number of test seeds by label and predicted class. Empty for link prediction.
    pub(super) confusion: Vec<Vec<f64>>,
    /// The counts and scores of each class or label of the test data. Empty for numbers and link prediction.
    pub(super) class_scores: Vec<Map<String, Value>>,
    /// The ROC and precision-recall curves of classes or labels of the test data.
    pub(super) curves: Vec<Map<String, Value>>,
    /// The names of the classes. Empty if they have none.
    pub(super) classes: Vec<String>,
    /// The numbers of positive and negative test edges by score. Empty for classification.
    pub(super) histogram: Vec<(&'static str, Vec<f64>)>,
    /// The result. Empty for a run that has not ended.
    pub(super) result: Map<String, Value>,
    /// The flags, if they were written beside the metrics: pairs of a name and a value.
    pub(super) flags: Vec<(String, String)>,
}

impl Run {
    /// Reads a metrics file, and the flags beside it.
    ///
    /// # Errors
    /// A file that cannot be read, or is not a metrics file.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
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
        let Some(last) = lines.iter().map(attempt_of).max() else {
            bail!("{}: it is empty: give a file that `train --metrics` wrote", path.display())
        };
        let mut run = Self {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            facts: Map::new(),
            epochs: Vec::new(),
            traffic: Vec::new(),
            partition: Map::new(),
            confusion: Vec::new(),
            class_scores: Vec::new(),
            curves: Vec::new(),
            classes: Vec::new(),
            histogram: Vec::new(),
            result: Map::new(),
            flags: Vec::new(),
        };
        for mut fields in lines.into_iter().filter(|fields| attempt_of(fields) == last) {
            match fields.get("event").and_then(Value::as_str) {
                Some("run") => {
                    run.take_class_names(&fields);
                    run.facts = fields;
                }
                Some("epoch") => run.epochs.push(fields),
                Some("traffic") => {
                    if let Some(Value::Array(ranks)) = fields.remove("ranks") {
                        run.traffic = ranks;
                    }
                }
                Some("partition") => run.partition = fields,
                Some("confusion") => {
                    let rows = fields.get("counts").and_then(Value::as_array);
                    run.confusion = rows.into_iter().flatten().map(numbers).collect();
                    run.take_class_names(&fields);
                }
                Some("classes") => {
                    run.take_class_names(&fields);
                    run.class_scores = objects(fields.remove("scores"));
                }
                Some("curves") => {
                    run.take_class_names(&fields);
                    run.curves = objects(fields.remove("curves"));
                }
                Some("histogram") => {
                    let counts =
                        ["positives", "negatives"].map(|kind| (kind, fields.get(kind).map_or(Vec::new(), numbers)));
                    run.histogram = counts.to_vec();
                }
                Some("result") => run.result = flat(fields),
                _ => {}
            }
        }
        let mut flags = path.as_os_str().to_owned();
        flags.push(".config.yaml");
        if let Ok(text) = std::fs::read_to_string(&flags) {
            // Defaults are comments.
            let pairs = text.lines().filter_map(|line| line.trim_start_matches("# ").split_once(": "));
            run.flags = pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect();
        }
        Ok(run)
    }

    /// Takes the names of the classes from a line that has them.
    fn take_class_names(&mut self, fields: &Map<String, Value>) {
        if let Some(classes) = fields.get("classes").and_then(Value::as_array) {
            self.classes = classes.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
    }

    /// Returns the points of a field over the epochs in which it has a value. A cross-validation counts on over its
    /// folds.
    pub(super) fn points(&self, field: &str) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        for (at, fields) in (1_u32..).zip(&self.epochs) {
            if let Some(value) = number_of(fields, field) {
                points.push((f64::from(at), value));
            }
        }
        points
    }

    /// Returns the sum of a field over the epochs.
    pub(super) fn total(&self, field: &str) -> f64 {
        self.epochs.iter().filter_map(|fields| number_of(fields, field)).sum()
    }

    /// Returns the name of the metric that selects the best epoch.
    pub(super) fn metric(&self) -> &str {
        self.epochs.iter().find_map(|fields| fields.get("metric")?.as_str()).unwrap_or("metric")
    }

    /// Returns the names of the other metrics.
    pub(super) fn other_metrics(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for fields in &self.epochs {
            let metrics = fields.get(VALID_METRICS).and_then(Value::as_object);
            for name in metrics.into_iter().flat_map(Map::keys) {
                if name != self.metric() && !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// Returns the points of a metric on the validation data, as [`points`](Self::points).
    pub(super) fn points_of_metric(&self, metric: &str) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        for (at, fields) in (1_u32..).zip(&self.epochs) {
            let value = fields.get(VALID_METRICS).and_then(|metrics| metrics.get(metric)?.as_f64());
            points.extend(value.map(|value| (f64::from(at), value)));
        }
        points
    }

    /// Returns the name of a class in the tables, or its number.
    pub(super) fn class_name(&self, class: usize) -> String {
        self.classes.get(class).cloned().unwrap_or_else(|| class.to_string())
    }
}

/// The field of an epoch with the values of all metrics.
const VALID_METRICS: &str = "valid_metrics";

/// Returns the objects of an array.
fn objects(array: Option<Value>) -> Vec<Map<String, Value>> {
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

/// Replaces the objects in an object by their fields, whose names begin with the name of the object.
fn flat(fields: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, value) in fields {
        match value {
            Value::Object(inner) => {
                all.extend(inner.into_iter().map(|(field, value)| (format!("{name} {field}"), value)))
            }
            value => {
                all.insert(name, value);
            }
        }
    }
    all
}

/// Returns the numbers of an array.
fn numbers(array: &Value) -> Vec<f64> {
    array.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

/// Returns a number of an object.
pub(super) fn number_of(fields: &Map<String, Value>, field: &str) -> Option<f64> {
    fields.get(field)?.as_f64()
}
