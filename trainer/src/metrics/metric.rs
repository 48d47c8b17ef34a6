//! The metrics of predictions for seeds, which can select the best epoch.

use super::output_rows::OutputRows;
use super::registry;
use crate::loss::{OutputKind, Target};
use edgecut_cluster::{ClusterError, ProcessGroup};
use edgecut_settings::unknown;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The state of a metric over the seeds that one rank has evaluated.
pub trait MetricState {
    /// Adds a batch. Thresholds decide the classes and labels that [`OutputRows::classes`] and [`OutputRows::labels`] return.
    /// A seed with NaN among its logits counts as misclassified.
    fn add(&mut self, outputs: &OutputRows<'_>, target: &Target);

    /// Returns the metric over the seeds of all ranks, the same on each rank, or `None` if it is not defined, for
    /// example without seeds. Every rank must call this.
    ///
    /// # Errors
    /// [`ClusterError`] if a collective fails.
    fn over_all_ranks(self: Box<Self>, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError>;
}

/// The description of a metric. Each metric is a file of the folder `kinds`, with such an entry in its list.
/// Everything else follows from the list: the values of `--metric`, the checks against the data, the evaluation of nodes
/// and of whole graphs, reports and sweeps.
pub struct MetricEntry {
    /// The name, for example `macro-f1`.
    pub name: &'static str,
    /// The name for people, as it stands within a sentence, for example `macro F1`.
    pub label: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// True if greater values are better.
    pub higher_is_better: bool,
    /// True if values are shares from 0 to 1, which are shown as percentages.
    pub is_share: bool,
    /// True if it scores the positive one of two classes.
    pub is_of_class: bool,
    /// The outputs that it needs, for errors: "it needs …".
    pub needs: &'static str,
    /// Returns true if the metric applies to outputs of a kind.
    pub accepts: fn(OutputKind) -> bool,
    /// Makes a state without seeds.
    pub start: fn(OutputKind) -> Box<dyn MetricState>,
}

/// A metric of predictions, by its entry.
#[derive(Clone, Copy)]
pub struct Metric(&'static MetricEntry);

impl Metric {
    /// Returns all metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        registry::ALL.iter().map(|entry| Self(entry))
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the name for people, as it stands within a sentence.
    pub fn label(self) -> &'static str {
        self.0.label
    }

    /// Returns true if values are shares from 0 to 1.
    pub fn is_share(self) -> bool {
        self.0.is_share
    }

    /// Returns true if the metric scores the positive one of two classes.
    pub fn is_of_class(self) -> bool {
        self.0.is_of_class
    }

    /// Returns a description in one line.
    pub fn about(self) -> &'static str {
        self.0.about
    }

    /// Returns true if greater values are better.
    pub fn higher_is_better(self) -> bool {
        self.0.higher_is_better
    }

    /// Makes a state without seeds.
    pub fn start(self, outputs: OutputKind) -> Box<dyn MetricState> {
        (self.0.start)(outputs)
    }

    /// Returns an error text if the metric does not apply to outputs of a kind. The text names metrics that do.
    pub fn problem(self, outputs: OutputKind) -> Option<String> {
        if (self.0.accepts)(outputs) {
            return None;
        }
        let fitting = Self::all().filter(|metric| (metric.0.accepts)(outputs)).map(Self::name);
        let fitting: Vec<&str> = fitting.collect();
        Some(format!("metric {self} needs {}, but {outputs}: use {}", self.0.needs, fitting.join(" or ")))
    }

    /// Formats a value as users read it, `-` if there is none.
    pub fn shown(self, value: Option<f64>) -> String {
        match value {
            None => "-".to_owned(),
            Some(value) if self.0.is_share => format!("{:.2} %", value * 100.0),
            Some(value) => format!("{value:.4}"),
        }
    }

    /// Formats a mean and the standard deviation.
    pub fn shown_with_deviation(self, mean: f64, deviation: f64) -> String {
        if self.0.is_share {
            format!("{:.2} ± {:.2} %", mean * 100.0, deviation * 100.0)
        } else {
            format!("{mean:.4} ± {deviation:.4}")
        }
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Metric {}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The error of parsing an unknown metric.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ParseMetricError(String);

impl FromStr for Metric {
    type Err = ParseMetricError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if let Some(metric) = Self::all().find(|metric| metric.name() == name) {
            return Ok(metric);
        }
        let names: Vec<&str> = Self::all().map(Self::name).collect();
        Err(ParseMetricError(unknown("metric", name, &names)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_written() {
        for metric in Metric::all() {
            assert_eq!(metric.name().parse(), Ok(metric));
            let json = serde_json::to_value(metric).expect("JSON");
            assert_eq!(json, metric.name());
            assert_eq!(serde_json::from_value::<Metric>(json).expect("a metric"), metric);
        }
        let error = "f1".parse::<Metric>().expect_err("an unknown metric").to_string();
        assert!(error.starts_with("unknown metric \"f1\": expected accuracy"), "{error}");
    }
}
