//! The parts of a transform.

use crate::config_values::Object;
use crate::table::TimeForm;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// A transform, as configured. Fields that the fitted form does not keep are not serialized.
pub(crate) trait Kind: Sized + Clone + Debug + Serialize {
    /// The keys beside `name`.
    const KEYS: &'static [&'static str];
    /// True if the test rows must not be known to the fit.
    const FITS_ON_TRAINING: bool = false;
    /// The statistics that it is fitted to.
    type Statistics: Statistics;
    /// The fitted form.
    type Fitted: FittedKind;

    /// Reads the keys.
    fn read(object: &Object) -> Result<Self, String>;

    /// Returns the form in which the transform takes values.
    fn input(&self) -> Input<'_> {
        Input::Numbers { separator: None, length: None }
    }

    /// Returns the statistics of no rows, or `None` if the transform needs none, not even the numbers per row. A kind with statistics
    /// must override it.
    fn statistics(&self) -> Option<Self::Statistics> {
        None
    }

    /// Returns true if the values of the columns determine the transform, and not the configuration alone.
    fn is_fitted(&self) -> bool {
        self.statistics().is_some()
    }

    /// Fits the transform.
    ///
    /// # Errors
    /// Parameters that do not fit the columns, and columns without values.
    fn fit(&self, fit: Fit<Self::Statistics>) -> Result<Self::Fitted, String>;
}

/// The findings that a transform is fitted to.
pub(crate) struct Fit<'a, S> {
    /// The statistics of all rows, if the transform needs them.
    pub(super) statistics: Option<&'a S>,
    /// The numbers per row.
    pub(super) width: usize,
}

impl<S> Fit<'_, S> {
    /// Returns the statistics of a transform that needs them.
    pub(super) fn needed(&self) -> &S {
        self.statistics.expect("the transform has asked for statistics")
    }
}

/// The statistics of some rows. They do not depend on the order of the rows.
pub(crate) trait Statistics: Clone + Debug + Send {
    /// Adds a row. Missing numbers are NaN.
    fn add(&mut self, row: Row) -> Result<(), String>;

    /// Adds the statistics of later rows.
    fn merge(&mut self, later: Self) -> Result<(), String>;

    /// Returns the numbers per row, if a row is known.
    fn width(&self) -> Option<usize> {
        None
    }

    /// Returns the number of different values that are counted.
    fn num_counted(&self) -> usize {
        0
    }
}

/// The statistics of a transform that needs none.
impl Statistics for () {
    fn add(&mut self, _row: Row) -> Result<(), String> {
        Ok(())
    }

    fn merge(&mut self, (): ()) -> Result<(), String> {
        Ok(())
    }
}

/// A fitted transform.
pub(crate) trait FittedKind: Clone + Debug + PartialEq + Serialize + DeserializeOwned {
    /// Returns the number of features that `width` numbers become.
    fn output_width(&self, width: usize) -> usize {
        width
    }

    /// Returns the numbers per row that the transform takes, if only that many fit.
    fn width(&self) -> Option<usize> {
        None
    }

    /// Checks the values, so that numbers become finite features.
    fn check(&self) -> Result<(), String>;

    /// Appends the features of a row without missing values to `out`. Returns the number of its unknown categories.
    fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64;

    /// Returns the transform without what is too large for a file.
    fn reduced(&self) -> Self {
        self.clone()
    }
}

/// The form in which a transform takes the values of its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    /// Numbers, and vectors in texts with this separator, which are cut or filled to this length.
    Numbers { separator: Option<&'a str>, length: Option<usize> },
    /// The texts of one column.
    Texts,
    /// Times, as seconds since 1970.
    Times(&'a TimeForm),
}

/// The values of a feature in a row of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row<'a> {
    /// The numbers of all columns of the feature. NaN is a missing number.
    Numbers(&'a [f64]),
    /// The text, unless it is missing.
    Text(Option<&'a str>),
}

impl<'a> Row<'a> {
    /// Returns the numbers of a transform that takes numbers.
    pub(super) fn numbers(self) -> &'a [f64] {
        match self {
            Self::Numbers(numbers) => numbers,
            Self::Text(_) => unreachable!("the transform takes numbers"),
        }
    }

    /// Returns the text of a transform that takes texts.
    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => text,
            Self::Numbers(_) => unreachable!("the transform takes texts"),
        }
    }
}
