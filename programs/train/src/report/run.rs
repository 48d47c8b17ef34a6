//! The metrics file of a run, as a report reads it.

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use std::path::Path;

/// A run: the lines of its last attempt.
pub(super) struct Run {
    /// The name of the file, without its extension.
    pub(super) name: String,
    /// The object of each epoch, in order.
    pub(super) epochs: Vec<Map<String, Value>>,
    /// The traffic of each rank, with `--stats`.
    pub(super) traffic: Vec<Value>,
    /// The quality of the partition. Empty for graphs that are not partitioned.
    pub(super) partition: Map<String, Value>,
    /// The number of test seeds by label and predicted class. Empty for link prediction.
    pub(super) confusion: Vec<Vec<f64>>,
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
            epochs: Vec::new(),
            traffic: Vec::new(),
            partition: Map::new(),
            confusion: Vec::new(),
            classes: Vec::new(),
            histogram: Vec::new(),
            result: Map::new(),
            flags: Vec::new(),
        };
        for mut fields in lines.into_iter().filter(|fields| attempt_of(fields) == last) {
            match fields.get("event").and_then(Value::as_str) {
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
                    let classes = fields.get("classes").and_then(Value::as_array);
                    let names = classes.into_iter().flatten().filter_map(Value::as_str);
                    run.classes = names.map(str::to_owned).collect();
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
            let pairs = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": "));
            run.flags = pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect();
        }
        Ok(run)
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
}

fn attempt_of(fields: &Map<String, Value>) -> u64 {
    fields.get("attempt").and_then(Value::as_u64).unwrap_or(0)
}

/// Replaces the objects in an object by their fields, whose names begin with that of the object.
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
