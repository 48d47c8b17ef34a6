//! Metrics of lists of destinations.

use crate::inference::RankingMetrics;
use edgecut_settings::suggestion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A metric of the K best destinations of each source, compared with its held-out edges; greater is better.
///
/// ```
/// use edgecut_trainer::link::ListMetric;
/// let metric: ListMetric = "ndcg@20".parse()?;
/// assert_eq!((metric.label(), metric.to_string()), ("NDCG@20".to_owned(), "ndcg@20".to_owned()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListMetric {
    /// The position in [`MEASURES`].
    measure: usize,
    depth: u32,
}

/// A value of [`RankingMetrics`].
struct Measure {
    name: &'static str,
    /// The name for people.
    label: &'static str,
    reads_order: bool,
    of: fn(&RankingMetrics) -> f64,
}

static MEASURES: [Measure; 5] = [
    Measure { name: "recall", label: "recall", reads_order: false, of: |metrics| metrics.recall },
    Measure { name: "ndcg", label: "NDCG", reads_order: true, of: |metrics| metrics.ndcg },
    Measure { name: "map", label: "MAP", reads_order: true, of: |metrics| metrics.map },
    Measure { name: "hit-rate", label: "hit rate", reads_order: false, of: |metrics| metrics.hit_rate },
    Measure { name: "coverage", label: "coverage", reads_order: false, of: |metrics| metrics.coverage },
];

impl ListMetric {
    /// Returns the number of destinations of a list.
    pub(super) fn depth(self) -> u32 {
        self.depth
    }

    /// Returns the name for people, as it stands within a sentence.
    pub fn label(self) -> String {
        format!("{}@{}", MEASURES[self.measure].label, self.depth)
    }

    /// Returns true if the value depends on the order of the destinations within a list.
    pub(super) fn reads_order(self) -> bool {
        MEASURES[self.measure].reads_order
    }

    /// Returns the value of lists of this depth.
    pub(super) fn of(self, metrics: &RankingMetrics) -> f64 {
        (MEASURES[self.measure].of)(metrics)
    }
}

impl fmt::Display for ListMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", MEASURES[self.measure].name, self.depth)
    }
}

impl FromStr for ListMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, depth) = text.split_once('@').unwrap_or((text, ""));
        match (MEASURES.iter().position(|known| known.name == name), depth.parse()) {
            (Some(measure), Ok(depth @ 1..)) => Ok(Self { measure, depth }),
            (Some(_), _) => Err(format!("{text:?} has no number of destinations above 0: write {name}@20")),
            (None, _) => {
                let hint = suggestion(name, MEASURES.iter().map(|known| known.name));
                Err(format!("{text:?} is not a metric of lists{hint}"))
            }
        }
    }
}

/// The metrics of lists of the best destinations of sources with held-out edges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListScores {
    /// The number of sources whose lists are compared.
    pub sources: u64,
    /// The metrics of the lists of the model, by name such as `recall@20`.
    pub metrics: BTreeMap<String, f64>,
    /// The same metrics of the destinations with the most training edges, a baseline that knows nothing of the source.
    pub popularity: BTreeMap<String, f64>,
    /// By the number of destinations of a list, the mean share of the destinations of a source that its list holds, training edges
    /// left out: the recall of a model that scores at random.
    #[serde(default)]
    pub listed_share: BTreeMap<String, f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, label) in [
            ("recall@20", "recall@20"),
            ("ndcg@5", "NDCG@5"),
            ("map@1", "MAP@1"),
            ("hit-rate@10", "hit rate@10"),
            ("coverage@100", "coverage@100"),
        ] {
            let metric: ListMetric = name.parse().expect("a metric");
            assert_eq!((metric.to_string().as_str(), metric.label().as_str()), (name, label));
        }
        for (name, expected) in [
            ("recall", "\"recall\" has no number of destinations above 0: write recall@20"),
            ("ndcg@0", "write ndcg@20"),
            ("map@x", "write map@20"),
            ("recal@20", "(did you mean recall?)"),
        ] {
            let error = name.parse::<ListMetric>().expect_err(name);
            assert!(error.contains(expected), "{error}");
        }
    }
}
