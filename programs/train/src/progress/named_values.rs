//! The values of metrics by their names.

use crate::run_page::MetricName;
use edgecut_trainer::metrics::MetricValues;
use serde::{Serialize, Serializer};
use std::ops::Deref;

/// The values of metrics by their names, in the order of the request; the first metric selects the best epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NamedValues(Vec<(MetricName, Option<f64>)>);

impl NamedValues {
    /// Returns the value of a metric.
    pub(crate) fn get(&self, metric: &MetricName) -> Option<f64> {
        self.iter().find(|(other, _)| other == metric).and_then(|(_, value)| *value)
    }
}

impl Deref for NamedValues {
    type Target = [(MetricName, Option<f64>)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<Vec<(MetricName, Option<f64>)>> for NamedValues {
    fn from(values: Vec<(MetricName, Option<f64>)>) -> Self {
        Self(values)
    }
}

impl From<&MetricValues> for NamedValues {
    fn from(values: &MetricValues) -> Self {
        Self(values.iter().map(|(metric, value)| (metric.into(), value)).collect())
    }
}

impl Serialize for NamedValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
