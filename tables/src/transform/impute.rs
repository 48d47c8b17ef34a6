//! Replacement of missing values before a transform.

use super::kind::Input;
use super::statistics::{CategoryCounts, ColumnStatistics, PerNumber, quantile, sorted};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The replacement of the missing values of a feature, as configured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Impute {
    /// The rule.
    pub(crate) strategy: Strategy,
    /// True to add a feature that is 1 for rows with a missing value and 0 for others.
    pub(crate) has_indicator: bool,
}

/// The rule that replaces missing values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strategy {
    Mean,
    Median,
    MostFrequent,
    /// A number, or a number for each number of a row.
    Numbers(Vec<f64>),
    /// A text.
    Text(String),
    /// All features of the row are zeros.
    Zeros,
}

/// A fitted replacement, in the form that `transforms.json` stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FittedImpute {
    /// The name of the rule.
    strategy: String,
    /// The number that replaces each number of a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbers: Option<Vec<f64>>,
    /// The text that replaces a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// True if a feature tells the rows with a missing value.
    indicator: bool,
}

impl Strategy {
    /// The names of all rules.
    pub(crate) const NAMES: &'static [&'static str] = &["mean", "median", "most_frequent", "constant", "none"];

    /// Returns the name in configurations.
    fn name(&self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::MostFrequent => "most_frequent",
            Self::Numbers(_) | Self::Text(_) => "constant",
            Self::Zeros => "none",
        }
    }
}

impl Impute {
    /// Returns the text that replaces a text, if it is given.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.strategy {
            Strategy::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value that replaces missing ones in JSON, if it is given.
    pub(super) fn constant(&self) -> Value {
        match &self.strategy {
            Strategy::Numbers(numbers) => json!(numbers),
            Strategy::Text(text) => json!(text),
            _ => Value::Null,
        }
    }

    /// Describes the replacement in errors.
    pub(crate) fn shown(&self) -> String {
        shown(self.strategy.name(), self.has_indicator)
    }

    /// Returns true if the values of the columns determine the replacement.
    pub(crate) fn is_fitted(&self) -> bool {
        matches!(self.strategy, Strategy::Mean | Strategy::Median | Strategy::MostFrequent)
    }

    /// Returns the statistics of no rows, or `None` if the replacement needs none, not even the numbers per row.
    pub(super) fn statistics(&self, input: Input) -> Option<ColumnStatistics> {
        Some(match (&self.strategy, input) {
            (Strategy::Text(_) | Strategy::Zeros, _) => return None,
            (Strategy::MostFrequent, Input::Texts) => ColumnStatistics::Texts(CategoryCounts::new(None)),
            (Strategy::MostFrequent, _) => ColumnStatistics::Counts(PerNumber::default()),
            (Strategy::Mean, _) => ColumnStatistics::Moments(PerNumber::default()),
            (Strategy::Median, _) => ColumnStatistics::VALUES,
            (Strategy::Numbers(_), _) => ColumnStatistics::WIDTH,
        })
    }

    /// Fits the replacement to the statistics of all rows.
    ///
    /// # Errors
    /// Fails for a column without values, and for numbers that do not fit the columns.
    pub(super) fn fit(&self, statistics: Option<&ColumnStatistics>, width: usize) -> Result<FittedImpute, String> {
        let found = match statistics {
            None | Some(ColumnStatistics::Texts(_) | ColumnStatistics::Width(_)) => Ok(None),
            Some(ColumnStatistics::Moments(moments)) => moments.known(|count, moments| moments.mean(count)).map(Some),
            Some(ColumnStatistics::Values(values)) => {
                values.known(|_, numbers| quantile(&sorted(numbers), 0.5)).map(Some)
            }
            Some(ColumnStatistics::Counts(counts)) => counts.known(|_, counts| counts.most_frequent()).map(Some),
        };
        let name = self.strategy.name();
        let found = found.map_err(|why| format!("{why}, or set impute to constant, as {name} has no value to take"))?;
        let numbers = match &self.strategy {
            Strategy::Numbers(numbers) => Some(spread(numbers, width, "fill_value")?),
            _ => found,
        };
        let text = match (&self.strategy, statistics) {
            (Strategy::Text(text), _) => Some(text.clone()),
            (Strategy::MostFrequent, Some(ColumnStatistics::Texts(counts))) => match counts.most_frequent() {
                Some(text) => Some(text.to_owned()),
                None => {
                    return Err("all its values are missing: leave the feature out, or set impute to constant".into());
                }
            },
            _ => None,
        };
        Ok(FittedImpute { strategy: name.to_owned(), numbers, text, indicator: self.has_indicator })
    }
}

/// Returns a number for each of `width` numbers of a row: the given ones, or one for all.
pub(super) fn spread(numbers: &[f64], width: usize, key: &str) -> Result<Vec<f64>, String> {
    match numbers[..] {
        [number] => Ok(vec![number; width]),
        _ if numbers.len() == width => Ok(numbers.to_vec()),
        _ => Err(format!("{key} has {} numbers, but the columns have {width} per row", numbers.len())),
    }
}

fn shown(strategy: &str, has_indicator: bool) -> String {
    format!("impute {strategy}{}", if has_indicator { " with an indicator" } else { "" })
}

impl FittedImpute {
    /// Returns the value that replaces missing ones in JSON.
    pub(super) fn constant(&self) -> Value {
        self.numbers.as_ref().map_or_else(|| json!(self.text), |numbers| json!(numbers))
    }

    /// Describes the replacement in errors.
    pub(super) fn shown(&self) -> String {
        shown(&self.strategy, self.indicator)
    }

    /// Returns true if a feature tells the rows with a missing value.
    pub(super) fn has_indicator(&self) -> bool {
        self.indicator
    }

    /// Returns the numbers per row that are replaced, if only that many fit.
    pub(super) fn width(&self) -> Option<usize> {
        self.numbers.as_ref().map(Vec::len)
    }

    /// Returns the number that replaces number `at` of a row.
    pub(super) fn number(&self, at: usize) -> Option<f64> {
        self.numbers.as_ref().map(|numbers| numbers[at])
    }

    /// Returns the text that replaces a text.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Checks the values of a file.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.numbers.iter().flatten().find(|number| !number.is_finite()) {
            Some(number) => Err(format!("it replaces missing values by {number}, which is not a finite number")),
            None => Ok(()),
        }
    }
}
