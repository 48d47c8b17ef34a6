//! The files of a table, its missing values and its columns of times, as configured.

use super::{NaValues, TimeForm};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The files of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    /// Paths of files or folders, or patterns.
    pub(crate) files: Vec<String>,
    /// The format, or `None` to recognize it by the names of the files.
    pub(crate) format: Option<Format>,
    /// The values that are missing.
    pub(crate) na_values: NaValues,
    /// The values that are missing in some columns, beside those of the table.
    pub(crate) na_of_columns: BTreeMap<String, NaValues>,
}

/// A column of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeColumn {
    pub(crate) name: String,
    /// The form of the times.
    #[serde(default)]
    pub(crate) form: TimeForm,
}

/// The format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text with a header and this separator.
    Csv { separator: u8 },
    /// Parquet.
    Parquet,
}

impl Source {
    /// Creates the source of Parquet files of this program, in which only null is missing.
    pub(crate) fn of_parquet(files: Vec<String>) -> Self {
        Self { files, format: Some(Format::Parquet), na_values: NaValues::none(), na_of_columns: BTreeMap::new() }
    }
}
