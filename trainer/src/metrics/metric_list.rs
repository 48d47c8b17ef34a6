//! Several metrics, the first of which selects the best epoch.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Display};
use std::str::FromStr;

/// One or several metrics, without duplicates. The first selects the best epoch.
///
/// ```
/// use edgecut_trainer::metrics::{Metric, MetricList};
/// let metrics: MetricList<Metric> = "roc-auc,macro-f1".parse()?;
/// assert_eq!(metrics.first().name(), "roc-auc");
/// assert!("roc-auc,roc-auc".parse::<MetricList<Metric>>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricList<M> {
    first: M,
    others: Vec<M>,
}

impl<M: Copy + PartialEq> MetricList<M> {
    /// Returns the metric that selects the best epoch.
    pub fn first(&self) -> M {
        self.first
    }

    /// Returns all metrics, in order.
    pub fn iter(&self) -> impl Iterator<Item = M> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// Returns true if a metric is among these.
    pub fn contains(&self, metric: M) -> bool {
        self.iter().any(|other| other == metric)
    }
}

impl<M> From<M> for MetricList<M> {
    fn from(first: M) -> Self {
        Self { first, others: Vec::new() }
    }
}

impl<M: Default> Default for MetricList<M> {
    fn default() -> Self {
        M::default().into()
    }
}

impl<M: Display> Display for MetricList<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.others.iter().try_for_each(|metric| write!(f, ",{metric}"))
    }
}

impl<M: FromStr<Err: Display> + Display + Copy + PartialEq> FromStr for MetricList<M> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut list: Option<Self> = None;
        for name in text.split(',') {
            let metric: M = name.trim().parse().map_err(|error| format!("{error}"))?;
            match &mut list {
                None => list = Some(metric.into()),
                Some(list) if list.contains(metric) => return Err(format!("{metric} is named twice: name it once")),
                Some(list) => list.others.push(metric),
            }
        }
        list.ok_or_else(|| "no metric is named".into())
    }
}

impl<M: Display> Serialize for MetricList<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, M: FromStr<Err: Display> + Display + Copy + PartialEq> Deserialize<'de> for MetricList<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
