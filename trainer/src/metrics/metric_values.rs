//! The values of several metrics.

use super::metric::Metric;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

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
        deserializer.deserialize_map(InOrder)
    }
}

/// A visitor that keeps the order of the entries.
struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = MetricValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("values of metrics by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<MetricValues, A::Error> {
        let mut values = Vec::new();
        while let Some((name, value)) = entries.next_entry::<String, Option<f64>>()? {
            values.push((name.parse().map_err(serde::de::Error::custom)?, value));
        }
        Ok(MetricValues(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_order_in_json() {
        let text = r#"{"roc-auc":0.5,"accuracy":null}"#;
        let values: MetricValues = serde_json::from_str(text).expect("values");
        assert_eq!(values.first(), Some(0.5));
        assert_eq!(serde_json::to_string(&values).expect("JSON"), text);
    }
}
