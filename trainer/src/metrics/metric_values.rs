//! The values of several metrics.

use super::metric::Metric;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The values of several metrics on one split, by name; `None` for a metric that is not defined on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricValues(Vec<(Metric, Option<f64>)>);

impl MetricValues {
    /// Returns the metrics with their values, in the order of the request.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, Option<f64>)> {
        self.0.iter().copied()
    }

    /// Returns the value of the metric that selects the best epoch.
    pub fn first(&self) -> Option<f64> {
        self.0.first().and_then(|(_, value)| *value)
    }

    /// Returns the value of a metric.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.iter().find(|(other, _)| *other == metric).and_then(|(_, value)| value)
    }
}

impl FromIterator<(Metric, Option<f64>)> for MetricValues {
    fn from_iter<I: IntoIterator<Item = (Metric, Option<f64>)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Serialize for MetricValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(metric, value)| (metric.name(), value)))
    }
}

impl<'de> Deserialize<'de> for MetricValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
        let known =
            values.into_iter().map(|(name, value)| Ok((name.parse().map_err(serde::de::Error::custom)?, value)));
        known.collect()
    }
}
