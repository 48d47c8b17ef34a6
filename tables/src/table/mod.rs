//! Reading of tables: their files, the pieces that threads read, and the values of columns.

mod alike;
mod blank_lines;
mod cells;
mod csv;
mod files;
mod id_file;
mod missing;
mod numbers;
mod parquet;
mod ranges;
mod scan;
mod source;
mod time_format;
mod times;

pub(crate) use self::parquet::ParquetRows;
pub(crate) use cells::{IdCells, NoIds, id_cells, number_form, only_numbers, text_cells, whole_numbers, whole_text};
pub(crate) use files::paths;
pub(crate) use id_file::file_rows;
pub(crate) use missing::{MissingValues, NaValues, is_text};
pub(crate) use numbers::{BadCell, NumberForm, Numbers, numbers};
pub(crate) use ranges::FeatureRange;
pub(crate) use scan::{Batch, Results, Rows, Stop, Table, scan, scan_in_steps};
pub(crate) use source::{Format, Source, TimeColumn};
pub(crate) use times::{TimeCells, TimeForm, seconds, seconds_of_text, time_cells};
