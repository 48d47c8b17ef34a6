//! The metrics of classification that can select the best epoch.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A metric of classification. Greater is better.
///
/// ```
/// use edgecut_trainer::metrics::Metric;
/// assert_eq!("macro-f1".parse(), Ok(Metric::MacroF1));
/// assert_eq!(Metric::RocAuc.to_string(), "roc-auc");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The share of seeds that are classified correctly.
    #[default]
    Accuracy,
    /// The area under the ROC curve, for two classes.
    RocAuc,
    /// The average precision of the second of two classes.
    AveragePrecision,
    /// F1 over all decisions. With one label per seed it equals the accuracy.
    MicroF1,
    /// The mean F1 of the classes.
    MacroF1,
}

impl Metric {
    const ALL: [Self; 5] = [Self::Accuracy, Self::RocAuc, Self::AveragePrecision, Self::MicroF1, Self::MacroF1];

    /// Returns an error text if the metric is not defined for `num_classes` classes.
    ///
    /// ```
    /// use edgecut_trainer::metrics::Metric;
    /// assert_eq!(Metric::RocAuc.problem(2), None);
    /// assert!(Metric::RocAuc.problem(3).is_some());
    /// ```
    pub fn problem(self, num_classes: usize) -> Option<String> {
        (matches!(self, Self::RocAuc | Self::AveragePrecision) && num_classes != 2)
            .then(|| format!("metric {self} needs two classes, but there are {num_classes}: use macro-f1 or accuracy"))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accuracy => "accuracy",
            Self::RocAuc => "roc-auc",
            Self::AveragePrecision => "average-precision",
            Self::MicroF1 => "micro-f1",
            Self::MacroF1 => "macro-f1",
        })
    }
}

/// The error of parsing an unknown metric.
///
/// ```
/// use edgecut_trainer::metrics::Metric;
/// let error = "f1".parse::<Metric>().expect_err("an unknown metric");
/// assert!(error.to_string().starts_with("unknown metric \"f1\""));
/// ```
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown metric {0:?}: expected accuracy, roc-auc, average-precision, micro-f1 or macro-f1")]
pub struct ParseMetricError(String);

impl FromStr for Metric {
    type Err = ParseMetricError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|metric| metric.to_string() == word);
        found.ok_or_else(|| ParseMetricError(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for metric in Metric::ALL {
            assert_eq!(metric.to_string().parse(), Ok(metric));
            assert_eq!(serde_json::to_value(metric).expect("JSON"), metric.to_string());
        }
        assert!("f1".parse::<Metric>().is_err());
    }
}
