//! The names of metrics, with what people see of them.

use super::labels::percent;
use edgecut_report::Unit;
use edgecut_trainer::link::LinkMetric;
use edgecut_trainer::metrics::Metric;
use serde::{Serialize, Serializer};
use std::fmt;

/// A metric as results, metrics files, tables and pages name it: `accuracy`, `hits@50`, or `user:spend rmse` for the target
/// `user:spend` of a model with several targets.
///
/// Texts become metrics here alone, so that a value has the same name and unit wherever it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricName {
    /// The target, if the model has several.
    target: Option<String>,
    kind: Kind,
}

/// The metric of a name.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// A metric of nodes, edges or graphs.
    OfSeeds(Metric),
    /// A metric of links. All of them are shares.
    OfLinks(LinkMetric),
    /// A metric of another version, whose values are shown as numbers.
    Unknown(String),
}

impl MetricName {
    /// Returns the metric that a text names.
    pub(crate) fn of(text: &str) -> Self {
        // The names of metrics have no spaces.
        if let Some((target, name)) = text.rsplit_once(' ')
            && let Some(kind) = Kind::of(name)
        {
            return Self { target: Some(target.to_owned()), kind };
        }
        Self { target: None, kind: Kind::of(text).unwrap_or_else(|| Kind::Unknown(text.to_owned())) }
    }

    /// Returns the metric of a target.
    pub(crate) fn of_target(target: &str, metric: Metric) -> Self {
        Self { target: Some(target.to_owned()), ..metric.into() }
    }

    /// Returns the target, if the model has several.
    pub(crate) fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Returns true for the accuracy of a model with one target.
    pub(crate) fn is_accuracy(&self) -> bool {
        self.target.is_none() && matches!(self.kind, Kind::OfSeeds(metric) if metric.name() == "accuracy")
    }

    /// Returns the name for people, as it stands within a sentence.
    pub(crate) fn label(&self) -> String {
        let label = match &self.kind {
            Kind::OfSeeds(metric) => metric.label().to_owned(),
            Kind::OfLinks(metric) => metric.label(),
            Kind::Unknown(name) => name.clone(),
        };
        self.of_this_target(&label)
    }

    /// Returns the end of the name of a metric that scores the positive one of two classes, which is named if it has a name.
    pub(crate) fn of_class(&self, positive: Option<&str>) -> String {
        match (&self.kind, positive) {
            (Kind::OfSeeds(metric), Some(class)) if metric.is_of_class() => {
                format!(" of {class}")
            }
            _ => String::new(),
        }
    }

    /// Returns the unit of the values.
    pub(crate) fn unit(&self) -> Unit {
        match &self.kind {
            Kind::OfSeeds(metric) if metric.is_share() => Unit::Share,
            Kind::OfLinks(_) => Unit::Share,
            Kind::OfSeeds(_) | Kind::Unknown(_) => Unit::Number,
        }
    }

    /// Formats a value, `-` if there is none.
    pub(crate) fn shown(&self, value: Option<f64>) -> String {
        match &self.kind {
            Kind::OfSeeds(metric) => metric.shown(value),
            Kind::OfLinks(_) => percent(value),
            Kind::Unknown(_) => value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}")),
        }
    }

    /// Formats a mean and the standard deviation.
    pub(crate) fn shown_with_deviation(&self, mean: f64, deviation: f64) -> String {
        match &self.kind {
            Kind::OfSeeds(metric) => metric.shown_with_deviation(mean, deviation),
            _ => format!("{} ± {}", self.shown(Some(mean)), self.shown(Some(deviation))),
        }
    }

    fn of_this_target(&self, name: &str) -> String {
        match &self.target {
            Some(target) => format!("{target} {name}"),
            None => name.to_owned(),
        }
    }
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        let of_seeds = name.parse().ok().map(Self::OfSeeds);
        of_seeds.or_else(|| name.parse().ok().map(Self::OfLinks))
    }
}

impl From<Metric> for MetricName {
    fn from(metric: Metric) -> Self {
        Self { target: None, kind: Kind::OfSeeds(metric) }
    }
}

impl From<LinkMetric> for MetricName {
    fn from(metric: LinkMetric) -> Self {
        Self { target: None, kind: Kind::OfLinks(metric) }
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.kind {
            Kind::OfSeeds(metric) => metric.to_string(),
            Kind::OfLinks(metric) => metric.to_string(),
            Kind::Unknown(name) => name.clone(),
        };
        f.write_str(&self.of_this_target(&name))
    }
}

impl Serialize for MetricName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_all_tasks_have_names_for_people() {
        for (name, label, unit, value) in [
            ("macro-f1", "macro F1", Unit::Share, "50.00 %"),
            ("log-loss", "log loss", Unit::Number, "0.5000"),
            ("hits@50", "hits@50", Unit::Share, "50.00 %"),
            ("mrr", "MRR", Unit::Share, "50.00 %"),
            ("ndcg@20", "NDCG@20", Unit::Share, "50.00 %"),
            ("n:y rmse", "n:y RMSE", Unit::Number, "0.5000"),
            ("n:a b macro-f1", "n:a b macro F1", Unit::Share, "50.00 %"),
            ("of a later version", "of a later version", Unit::Number, "0.5000"),
        ] {
            let metric = MetricName::of(name);
            assert_eq!((metric.label().as_str(), metric.unit(), &*metric.to_string()), (label, unit, name));
            assert_eq!(metric.shown(Some(0.5)), value);
        }
        let ends = ["roc-auc", "macro-f1", "mrr", "n:y roc-auc"].map(|name| MetricName::of(name).of_class(Some("a")));
        assert_eq!(ends, [" of a", "", "", " of a"]);
        assert_eq!(["roc-auc", "n:y roc-auc"].map(MetricName::of).map(|name| name.target().is_some()), [false, true]);
        for metric in Metric::all() {
            assert!(!metric.label().contains('-'), "{metric}");
            let of_target = MetricName::of_target("a b", metric);
            assert_eq!(MetricName::of(&of_target.to_string()), of_target);
            assert_eq!(of_target.shown(Some(0.25)), metric.shown(Some(0.25)));
        }
        assert!(MetricName::of("accuracy").is_accuracy() && !MetricName::of("n:y accuracy").is_accuracy());
    }
}
