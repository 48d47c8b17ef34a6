//! Text files, gzipped or plain, parsed by several threads.

mod blocks;
mod csv;
mod find;
mod lines;
mod numbers;
mod rows;

pub(super) use blocks::first_line;
pub(crate) use blocks::{bad_line, parse_file};
pub(super) use csv::{EdgeEnds, read_counts, read_edges, read_fields, read_ids, read_labels, read_times};
pub(crate) use find::find_text;
pub(super) use find::{find_csv, require_csv};
pub(crate) use lines::{Lines, concat};
pub(crate) use numbers::{quote, whole};
pub(crate) use rows::read_rows;
pub(super) use rows::read_rows_with_gaps;
