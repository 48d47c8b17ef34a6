//! Transforms of columns to features: reading of their keys, fitting, applying and saving.
//!
//! A transform is a file in `kinds` with its keys, its statistics and its fitted form, and a line in the list below. The
//! configuration, `transforms.json`, plans and errors follow from the list.

mod exact_sum;
mod feature;
mod given;
mod impute;
#[cfg(test)]
mod imputed_transforms;
mod kind;
mod kinds;
mod rows;
mod saved;
mod statistics;

pub(crate) use exact_sum::ExactSum;
pub(crate) use feature::{FittedFeature, Partial};
pub(crate) use impute::{Impute, Strategy};
pub(crate) use kind::{Input, Row};
pub(crate) use rows::FeatureRows;
pub use saved::Transforms;
pub(crate) use saved::{SavedFeature, SavedType};

use crate::config_values::Object;
use edgecut_settings::suggestion;
use kind::{Fit, FittedKind, Kind, Statistics as _};
use serde::{Deserialize, Serialize};

/// The most features of a node or an edge.
pub(crate) const MAX_FEATURES: usize = 1 << 20;
/// The most categories that are found in a column, and the most buckets. Each is a feature, and a larger number of
/// categories is usually a column of ids.
pub(crate) const MAX_CATEGORIES: usize = 10_000;
/// The most different values of a column that are counted.
pub(crate) const MAX_COUNTED: usize = 1 << 20;

macro_rules! transforms {
    ($($name:literal => $kind:ident),+ $(,)?) => {
        /// A transform, as configured. Its form in JSON has the parameters that a fitted transform keeps as they are.
        #[derive(Clone, Debug, Serialize)]
        #[serde(tag = "name")]
        pub(crate) enum Transform {
            $(#[serde(rename = $name)] $kind(kinds::$kind)),+
        }

        /// The statistics of some rows that a transform is fitted to.
        #[derive(Clone, Debug)]
        enum Statistics {
            $($kind(<kinds::$kind as Kind>::Statistics)),+
        }

        /// A fitted transform, in the form that `transforms.json` stores.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "name")]
        pub(crate) enum Fitted {
            $(#[serde(rename = $name)] $kind(<kinds::$kind as Kind>::Fitted)),+
        }

        /// The names of all transforms.
        const NAMES: &[&str] = &[$($name),+];

        impl Transform {
            /// Reads the keys of the transform `name`. Returns `None` for an unknown name.
            fn of_name(name: &str, object: &Object) -> Result<Option<Self>, String> {
                Ok(Some(match name {
                    $($name => {
                        object.only(&[&["name"], <kinds::$kind as Kind>::KEYS].concat())?;
                        Self::$kind(Kind::read(object)?)
                    })+
                    _ => return Ok(None),
                }))
            }

            /// Returns the name in configurations.
            pub(crate) fn name(&self) -> &'static str {
                match self { $(Self::$kind(_) => $name),+ }
            }

            /// Returns the form in which the transform takes values.
            pub(crate) fn input(&self) -> Input<'_> {
                match self { $(Self::$kind(kind) => kind.input()),+ }
            }

            /// Returns true for a transform that is fitted on the rows of training unless the configuration says otherwise.
            pub(crate) fn is_fitted_on_training(&self) -> bool {
                match self { $(Self::$kind(_) => <kinds::$kind as Kind>::FITS_ON_TRAINING),+ }
            }

            /// Returns true if the values of the columns determine the transform, and not the configuration alone.
            pub(crate) fn is_fitted(&self) -> bool {
                match self { $(Self::$kind(kind) => kind.is_fitted()),+ }
            }

            /// Returns the statistics of no rows, or `None` if the transform needs none, not even the numbers per row.
            fn statistics(&self) -> Option<Statistics> {
                match self { $(Self::$kind(kind) => kind.statistics().map(Statistics::$kind)),+ }
            }

            /// Fits the transform, without a check of the result.
            fn fit(&self, statistics: Option<&Statistics>, width: usize) -> Result<Fitted, String> {
                match self {
                    $(Self::$kind(kind) => {
                        let statistics = match statistics {
                            None => None,
                            Some(Statistics::$kind(statistics)) => Some(statistics),
                            #[allow(unreachable_patterns, reason = "a list of one transform")]
                            Some(_) => unreachable!("the statistics are those of the transform"),
                        };
                        kind.fit(Fit { statistics, width }).map(Fitted::$kind)
                    })+
                }
            }
        }

        impl Statistics {
            fn add(&mut self, row: Row) -> Result<(), String> {
                match self { $(Self::$kind(statistics) => statistics.add(row)),+ }
            }

            fn merge(&mut self, later: Self) -> Result<(), String> {
                match (self, later) {
                    $((Self::$kind(statistics), Self::$kind(later)) => statistics.merge(later),)+
                    _ => unreachable!("both are statistics of one feature"),
                }
            }

            fn width(&self) -> Option<usize> {
                match self { $(Self::$kind(statistics) => statistics.width()),+ }
            }

            fn num_counted(&self) -> usize {
                match self { $(Self::$kind(statistics) => statistics.num_counted()),+ }
            }
        }

        impl Fitted {
            /// Returns the name of the transform.
            pub(crate) fn name(&self) -> &'static str {
                match self { $(Self::$kind(_) => $name),+ }
            }

            /// Returns the number of features that `width` numbers become.
            fn output_width(&self, width: usize) -> usize {
                match self { $(Self::$kind(kind) => kind.output_width(width)),+ }
            }

            /// Returns the numbers per row that the transform takes, if only that many fit.
            fn width(&self) -> Option<usize> {
                match self { $(Self::$kind(kind) => kind.width()),+ }
            }

            /// Checks the values, so that numbers become finite features.
            fn check(&self) -> Result<(), String> {
                match self { $(Self::$kind(kind) => kind.check()),+ }
            }

            /// Appends the features of a row without missing values, and returns the number of its unknown categories.
            fn apply(&self, row: Row, out: &mut Vec<f32>) -> u64 {
                match self { $(Self::$kind(kind) => kind.apply(row, out)),+ }
            }

            /// Returns the transform without what is too large for a file.
            fn reduced(&self) -> Self {
                match self { $(Self::$kind(kind) => Self::$kind(kind.reduced())),+ }
            }
        }
    };
}

transforms! {
    "no-op" => NoOp,
    "max_min_norm" => MaxMinNorm,
    "standard" => Standard,
    "z_score" => ZScore,
    "log" => Log,
    "clip" => Clip,
    "rank_gauss" => RankGauss,
    "bucket_numerical" => BucketNumerical,
    "to_categorical" => ToCategorical,
    "hash_buckets" => HashBuckets,
    "frequency" => Frequency,
    "hash_ngrams" => HashNgrams,
    "date" => Date,
}

impl Transform {
    /// Reads a transform from the object that has its name.
    pub(crate) fn read(object: &Object) -> Result<Self, String> {
        let item = object.required("name")?;
        let name = item.text()?;
        match Self::of_name(&name, object)? {
            Some(transform) => Ok(transform),
            None => {
                let hint = suggestion(&name, NAMES.iter().copied());
                item.wrong(format!("{name:?} is not a transform{hint}. The transforms are {}", NAMES.join(", ")))
            }
        }
    }

    /// The keys of a feature without a transform.
    pub(crate) const NO_OP_KEYS: &'static [&'static str] = kinds::NoOp::KEYS;

    /// Reads a feature without a transform, whose columns are the features.
    pub(crate) fn no_op(object: &Object) -> Result<Self, String> {
        kinds::NoOp::read(object).map(Self::NoOp)
    }

    /// Returns true if the transform takes the texts of one column.
    pub(crate) fn takes_texts(&self) -> bool {
        matches!(self.input(), Input::Texts)
    }

    /// Returns true if the transform takes times.
    pub(crate) fn takes_times(&self) -> bool {
        matches!(self.input(), Input::Times(_))
    }

    /// Returns true if all values of a column are in memory while the transform is fitted.
    pub(crate) fn keeps_values(&self) -> bool {
        match self {
            Self::RankGauss(_) => true,
            Self::Clip(clip) => clip.has_quantiles(),
            _ => false,
        }
    }
}
