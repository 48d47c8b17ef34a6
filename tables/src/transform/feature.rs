//! A feature: the replacement of missing values, and a transform.

use super::impute::{FittedImpute, Impute};
use super::kind::{Row, Statistics as _};
use super::statistics::ColumnStatistics;
use super::{Fitted, Statistics, Transform};
use serde::{Deserialize, Serialize};

/// The statistics of some rows that a feature is fitted to.
#[derive(Clone, Debug)]
pub(crate) struct Partial {
    transform: Option<Statistics>,
    impute: Option<ColumnStatistics>,
    /// The text that replaces missing ones, which is a category like others.
    fill: Option<String>,
}

/// A fitted feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FittedFeature {
    pub(super) transform: Fitted,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) impute: Option<FittedImpute>,
}

impl Partial {
    /// Creates the statistics of no rows. Returns `None` if the feature needs none, not even the numbers per row.
    pub(crate) fn new(transform: &Transform, impute: Option<&Impute>) -> Option<Self> {
        let partial = Self {
            transform: transform.statistics(),
            impute: impute.and_then(|impute| impute.statistics(transform.input())),
            fill: impute.and_then(Impute::text).map(str::to_owned),
        };
        (partial.transform.is_some() || partial.impute.is_some()).then_some(partial)
    }

    /// Adds a row. Missing numbers are NaN.
    pub(crate) fn add(&mut self, row: Row) -> Result<(), String> {
        let is_missing = matches!(row, Row::Text(None));
        if let Some(statistics) = &mut self.transform {
            statistics.add(if is_missing { Row::Text(self.fill.as_deref()) } else { row })?;
        }
        match &mut self.impute {
            Some(statistics) if !is_missing => statistics.add(row),
            _ => Ok(()),
        }
    }

    /// Adds the statistics of later rows.
    pub(crate) fn merge(&mut self, later: Self) -> Result<(), String> {
        if let (Some(ours), Some(later)) = (&mut self.transform, later.transform) {
            ours.merge(later)?;
        }
        if let (Some(ours), Some(later)) = (&mut self.impute, later.impute) {
            ours.merge(later)?;
        }
        Ok(())
    }

    /// Returns the numbers per row, if a row is known.
    fn width(&self) -> Option<usize> {
        let of_transform = self.transform.as_ref().and_then(Statistics::width);
        of_transform.or_else(|| self.impute.as_ref().and_then(ColumnStatistics::width))
    }

    /// Returns the number of different values that are counted.
    pub(crate) fn num_counted(&self) -> usize {
        let of_transform = self.transform.as_ref().map_or(0, Statistics::num_counted);
        of_transform + self.impute.as_ref().map_or(0, ColumnStatistics::num_counted)
    }
}

impl FittedFeature {
    /// Fits a feature to the statistics of all rows.
    ///
    /// # Errors
    /// Fails for columns without values, parameters that do not fit the columns, and features that are not finite.
    pub(crate) fn fit(
        transform: &Transform,
        impute: Option<&Impute>,
        partial: Option<&Partial>,
    ) -> Result<Self, String> {
        let fitted = Self::fit_unchecked(transform, impute, partial)?;
        fitted.check()?;
        Ok(fitted)
    }

    /// Fits a feature, without a check of its values.
    ///
    /// # Errors
    /// As for [`FittedFeature::fit`], without those of values.
    pub(crate) fn fit_unchecked(
        transform: &Transform,
        impute: Option<&Impute>,
        partial: Option<&Partial>,
    ) -> Result<Self, String> {
        let width = partial.and_then(Partial::width).unwrap_or(1);
        let of_impute = partial.and_then(|partial| partial.impute.as_ref());
        // A column without values is explained by what replaces them.
        let impute = impute.map(|impute| impute.fit(of_impute, width)).transpose()?;
        let transform = transform.fit(partial.and_then(|partial| partial.transform.as_ref()), width)?;
        Ok(Self { transform, impute })
    }

    /// Returns the name of the transform.
    pub(crate) fn name(&self) -> &'static str {
        self.transform.name()
    }

    /// Returns the categories that are features, if there are some.
    pub(crate) fn categories(&self) -> impl Iterator<Item = &str> {
        let of_transform = match &self.transform {
            Fitted::ToCategorical(fitted) => Some(fitted.categories()),
            _ => None,
        };
        of_transform.into_iter().flatten()
    }

    /// Returns the names of the `width` columns of the feature `name`.
    pub(super) fn column_names(&self, name: &str, width: usize) -> Vec<String> {
        let has_indicator = self.impute.as_ref().is_some_and(FittedImpute::has_indicator);
        let num_values = width.saturating_sub(usize::from(has_indicator));
        let mut names: Vec<String> = match num_values {
            1 => vec![name.to_owned()],
            _ => (0..num_values).map(|position| format!("{name}[{position}]")).collect(),
        };
        if let Fitted::ToCategorical(fitted) = &self.transform {
            for (category, position) in fitted.positions() {
                if let Some(column) = names.get_mut(position) {
                    *column = format!("{name}={category}");
                }
            }
        }
        if has_indicator {
            names.push(format!("{name} is missing"));
        }
        names
    }

    /// Describes the feature for a comparison with a configured one.
    pub(crate) fn shown(&self) -> String {
        shown(self.name(), self.impute.as_ref().map(FittedImpute::shown))
    }

    /// Returns the number of features that `width` numbers become.
    pub(crate) fn output_width(&self, width: usize) -> usize {
        let has_indicator = self.impute.as_ref().is_some_and(FittedImpute::has_indicator);
        self.transform.output_width(width) + usize::from(has_indicator)
    }

    /// Checks that the feature takes `width` numbers per row.
    pub(crate) fn check_width(&self, width: usize) -> Result<(), String> {
        let of_impute = self.impute.as_ref().and_then(FittedImpute::width);
        for fitted in [self.transform.width(), of_impute].into_iter().flatten() {
            if fitted != width {
                return Err(format!("it has {width} numbers per row, but the transform {} has {fitted}", self.name()));
            }
        }
        Ok(())
    }

    /// Checks the values, so that numbers become finite features.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.transform.check()?;
        self.impute.as_ref().map_or(Ok(()), FittedImpute::check)
    }

    /// Returns the feature without what is too large for a file.
    pub(crate) fn reduced(&self) -> Self {
        Self { transform: self.transform.reduced(), impute: self.impute.clone() }
    }

    /// Appends the features of a row to `out`, and returns the number of its unknown categories.
    pub(super) fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
        let (is_missing, num_unknown) = match row {
            Row::Text(Some(_)) => (false, self.transform.apply(row, out)),
            Row::Text(None) => match self.impute.as_ref().and_then(FittedImpute::text) {
                Some(text) => (true, self.transform.apply(Row::Text(Some(text)), out)),
                None => {
                    out.resize(out.len() + self.transform.output_width(1), 0.0);
                    (true, 0)
                }
            },
            Row::Numbers(numbers) => {
                let is_missing = numbers.iter().any(|number| number.is_nan());
                if is_missing {
                    self.apply_replaced(numbers, out);
                } else {
                    self.transform.apply(row, out);
                }
                (is_missing, 0)
            }
        };
        if self.impute.as_ref().is_some_and(FittedImpute::has_indicator) {
            out.push(if is_missing { 1.0 } else { 0.0 });
        }
        num_unknown
    }

    /// Appends the features of a row with missing numbers. They are zeros if nothing replaces the numbers.
    fn apply_replaced(&self, numbers: &[f64], out: &mut Vec<f32>) {
        let replaced = |(at, number): (usize, &f64)| {
            if number.is_nan() { self.impute.as_ref()?.number(at) } else { Some(*number) }
        };
        match numbers.iter().enumerate().map(replaced).collect::<Option<Vec<f64>>>() {
            Some(numbers) => {
                self.transform.apply(Row::Numbers(&numbers), out);
            }
            None => out.resize(out.len() + self.transform.output_width(numbers.len()), 0.0),
        }
    }
}

/// Describes a feature by its transform and the replacement of its missing values.
fn shown(transform: &str, impute: Option<String>) -> String {
    impute.map_or_else(|| transform.to_owned(), |impute| format!("{transform}, {impute}"))
}

impl Transform {
    /// Describes the feature of a transform for a comparison with a fitted one.
    pub(crate) fn shown(&self, impute: Option<&Impute>) -> String {
        shown(self.name(), impute.map(Impute::shown))
    }
}
