//! Reading of tables: their files, the pieces that threads read, and the values of columns.

mod cells;
mod csv;
mod files;
mod numbers;
mod parquet;
mod scan;

pub(crate) use cells::{IdCells, id_cells, text_cells, whole_numbers, whole_text};
pub(crate) use files::paths;
pub(crate) use numbers::{BadCell, Numbers, numbers, optional_numbers};
pub(crate) use scan::{Batch, Results, Rows, Stop, Table, scan, scan_in_steps};
