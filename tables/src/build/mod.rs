//! The graph of a configuration.

mod attributes;
mod bad_rows;
mod columns;
mod edge_ids;
mod edges;
mod kept;
mod known;
mod labels;
mod nodes;
mod part_features;
mod read;
mod shape;
mod spec;
mod split_files;
mod splits;
mod update;
mod update_splits;

pub(crate) use bad_rows::DropCounts;
pub use bad_rows::DroppedRows;
pub use known::{KnownEdges, KnownLabel, KnownNodes, KnownSplit};
pub use part_features::{BuiltFeatures, PartFeatures, build_part_features};
pub use read::{TableGraph, read_tables};
pub use shape::TableShape;
pub use update::{KnownGraph, RemovedEdges, TableUpdate, read_update};

use crate::ids::IdMap;
use crate::table::{MissingValues, Source, Table};
use crate::transform::SavedType;
use crate::{TableError, TableOptions};
use columns::SpecTable;
use edgecut_graph::TimeUnit;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The configuration, the options and the findings so far, which all steps share.
pub(crate) struct Context<'a> {
    /// The configuration file, for errors and relative paths.
    conf: &'a Path,
    options: &'a TableOptions,
    /// True for the tables of an update, whose few labels are compared with the classes of the parts.
    is_update: bool,
    /// The ids of the nodes that an update removes, by node type.
    removed_ids: BTreeMap<String, IdMap>,
    counts: DropCounts,
    missing: MissingValues,
    /// The first column of times.
    times: Option<TimesOfColumn>,
    warnings: Vec<String>,
}

/// A column of times and their unit.
pub(crate) struct TimesOfColumn {
    unit: TimeUnit,
    /// The column and the path of its table in the configuration.
    column: String,
    /// The first file of the table.
    path: PathBuf,
}

impl<'a> Context<'a> {
    fn new(conf: &'a Path, options: &'a TableOptions) -> Self {
        Self {
            conf,
            options,
            is_update: false,
            removed_ids: BTreeMap::new(),
            counts: DropCounts::default(),
            missing: MissingValues::default(),
            times: None,
            warnings: Vec::new(),
        }
    }

    /// Opens a table of the configuration.
    fn open(&self, at: &str, source: &Source) -> Result<Table, TableError> {
        Table::open(self.conf, at, source, &self.options.space, &self.missing)
    }

    /// Warns of a table of nodes without ids, if its files are not in the order of the numbers in their names.
    fn check_order(&mut self, name: &str, table: &Table) {
        let Some([first, second]) = table.misordered_files() else { return };
        self.warnings.push(format!(
            "{}: the ids of {name} are row numbers, and {} is read before {}, because files are in the order of their names as \
             texts: write the numbers in the names with leading zeros, or set node_id_col",
            table.at,
            first.display(),
            second.display()
        ));
    }

    /// Warns of tables of the same nodes or edges, whose rows are joined by position, if only some of them have their files in the
    /// order of the numbers in their names. Rows would get the features of other nodes.
    fn check_order_of_all(&mut self, tables: &[SpecTable]) {
        if tables.iter().all(|other| other.table.has_order_of(&tables[0].table)) {
            return;
        }
        for of_type in tables {
            let Some([first, second]) = of_type.table.misordered_files() else { continue };
            self.warnings.push(format!(
                "{}: its rows are joined with the rows of another table by position, and {} is read before {}, because files are \
                 in the order of their names as texts, but the files of the other table have another order: write the numbers in \
                 the names of all tables with leading zeros",
                of_type.table.at,
                first.display(),
                second.display()
            ));
        }
    }

    /// Adds a column of times.
    ///
    /// # Errors
    /// Fails for a column whose times have another unit than those of an earlier column or of saved transforms.
    fn add_times(&mut self, found: TimesOfColumn) -> Result<(), TableError> {
        const REMEDY: &str = "times of different units cannot be compared. Store all of them as timestamps, dates or texts \
                              with these, or all as whole numbers of one unit. The key epoch of time_col reads \
                              numbers since 1970 as times";
        let TimesOfColumn { unit, column, path } = &found;
        if let Some(first) = &self.times {
            if first.unit != *unit {
                let why = format!("{column} has {unit}, but {} has {}: {REMEDY}", first.column, first.unit);
                return Err(TableError::file(path, why));
            }
            return Ok(());
        }
        let saved = self.options.transforms.as_ref().and_then(|saved| saved.time_unit);
        if let Some(saved) = saved.filter(|saved| saved != unit) {
            let why = format!("{column} has {unit}, but the graph of transforms.json has {saved}: {REMEDY}");
            return Err(TableError::file(path, why));
        }
        self.times = Some(found);
        Ok(())
    }

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
