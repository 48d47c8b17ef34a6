//! The graph of a configuration.

mod attributes;
mod bad_rows;
mod columns;
mod edges;
mod kept;
mod labels;
mod nodes;
mod part_features;
mod read;
mod shape;
mod spec;
mod split_files;
mod splits;

pub(crate) use bad_rows::DropCounts;
pub use bad_rows::DroppedRows;
pub use part_features::{PartFeatures, build_part_features};
pub use read::{TableGraph, read_tables};
pub use shape::TableShape;

use crate::transform::SavedType;
use crate::{TableError, TableOptions};
use std::path::Path;

/// The configuration, the options and the counts of dropped rows, which all steps share.
pub(crate) struct Context<'a> {
    /// The configuration file, for errors and relative paths.
    conf: &'a Path,
    options: &'a TableOptions,
    counts: DropCounts,
}

impl<'a> Context<'a> {
    /// Returns the position of the table of a type that has the key `key`, if there is one.
    ///
    /// # Errors
    /// Fails if two tables have it.
    fn only_one<'b, T: 'b>(
        &self,
        tables: impl Iterator<Item = (&'b String, Option<&'b T>)>,
        name: &str,
        key: &str,
    ) -> Result<Option<usize>, TableError> {
        let mut found: Option<(usize, &String)> = None;
        for (position, (at, value)) in tables.enumerate() {
            if value.is_none() {
                continue;
            }
            if let Some((_, first)) = found {
                let why = format!("{at}.{key}: {first} has it already for {name}, and one table per type may have it");
                return Err(TableError::file(self.conf, why));
            }
            found = Some((position, at));
        }
        Ok(found.map(|(position, _)| position))
    }

    fn saved_nodes(&self, name: &str) -> Option<&'a SavedType> {
        self.options.transforms.as_ref().map(|saved| saved.node_types.get(name).unwrap_or(SavedType::NONE))
    }

    fn saved_edges(&self, name: &str) -> Option<&'a SavedType> {
        self.options.transforms.as_ref().map(|saved| saved.edge_types.get(name).unwrap_or(SavedType::NONE))
    }
}
