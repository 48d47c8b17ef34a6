//! The features of a part, built on the machine that holds it.

use super::Context;
use super::attributes::PieceStarts;
use super::columns::{Columns, FeatureRules, SpecTable, check_all, compute};
use super::kept::Dropped;
use super::nodes::{Ids, insert_ids, open_tables};
use super::read::{settle_unsupported, tables_of_nodes};
use crate::conf::{Conf, NodeTable};
use crate::ids::{Id, IdMap, canonical_number};
use crate::table::{IdCells, MissingValues, Results, Rows, Source, Table, id_cells, scan_in_steps};
use crate::{OnBadRows, TableError, TableOptions, Transforms};
use edgecut_graph::{
    DiskPartId, Features, GraphError, ID_MAP_FILE, Meta, NodeTypeId, has_built_features, map_npy, node_file,
    write_built_features,
};
use serde::Serialize;
use std::path::Path;

/// The features of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltFeatures {
    /// The features of each node type whose features are built after the parts.
    pub node_types: Vec<PartFeatures>,
    /// One sentence for each column with missing values, for each feature with unknown categories, and about the features with
    /// large numbers in the part.
    pub notes: Vec<String>,
}

/// The features of a node type in a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartFeatures {
    /// The name of the node type.
    pub node_type: String,
    /// The number of nodes in the part.
    pub rows: u64,
    /// The number of features of a node.
    pub columns: usize,
    /// True if the features were complete already.
    pub there_already: bool,
}

/// Builds the features of `part` of the parts in `dir`, which were made from the tables of the configuration file `conf` with
/// [`TableOptions::defers_features`], and describes them. Features that are
/// complete stay as they are, unless `overwrite` is true.
///
/// The tables must be those that the parts were made from. The numbers of rows and the ids of nodes are compared. Of the
/// options, the treatment of bad rows must be that of the parts; the transforms are those of the parts.
///
/// # Errors
/// As for [`read_tables`](crate::read_tables), and for tables that do not belong to the parts.
pub fn build_part_features(
    conf: &Path,
    options: &TableOptions,
    dir: &Path,
    part: DiskPartId,
    overwrite: bool,
) -> Result<BuiltFeatures, TableError> {
    let meta = Meta::read(dir)?;
    if part.0 >= meta.num_parts {
        let why = format!("there is no part {part}: the parts are 0 to {}", meta.num_parts - 1);
        return Err(TableError::file(dir, why));
    }
    if !meta.node_types.iter().any(|of_type| of_type.has_deferred_features) {
        let why = "its features are complete: only parts that were made with `defer_features` have features to build";
        return Err(TableError::file(dir, why));
    }
    let transforms = Transforms::read(dir)?;
    let options = TableOptions { transforms: Some(transforms), ..options.clone() };
    let read = Conf::read(conf, &options)?;
    settle_unsupported(&read, &options)?;
    let mut context = Context::new(conf, &options);
    let tables = tables_of_nodes(&read);
    let mut built = Vec::new();
    for (at, of_type) in meta.node_types.iter().enumerate().filter(|(_, of_type)| of_type.has_deferred_features) {
        let node_type = NodeTypeId(at as u16);
        let there_already = !overwrite && has_built_features(dir, part, node_type, &meta)?;
        if !there_already {
            let Some(tables) = tables.get(of_type.name.as_str()) else {
                let why = format!("nodes: no table has the node type {}, which the parts have", of_type.name);
                return Err(TableError::file(conf, why));
            };
            let features = PartOfType { dir, part, node_type, meta: &meta }.features(&mut context, tables)?;
            write_built_features(dir, part, node_type, &meta, &features)?;
        }
        built.push(PartFeatures {
            node_type: of_type.name.clone(),
            rows: meta.book_on_disk(node_type).range(part).len() as u64,
            columns: of_type.feature_dim,
            there_already,
        });
    }
    let mut notes = context.missing.notes();
    // Features of parts without deferred features have these notes when the parts are made.
    for note in context.missing.notes_of_ranges() {
        notes.push(format!("{note}, and make the parts again"));
    }
    Ok(BuiltFeatures { node_types: built, notes })
}

/// The nodes of a type in a part.
struct PartOfType<'a> {
    dir: &'a Path,
    part: DiskPartId,
    node_type: NodeTypeId,
    meta: &'a Meta,
}

impl PartOfType<'_> {
    fn features(&self, context: &mut Context, tables: &[&NodeTable]) -> Result<Features, TableError> {
        let of_type = &self.meta.node_types[self.node_type.index()];
        let name = of_type.name.as_str();
        let with_ids = tables.iter().position(|table| table.id_col.is_some());
        // Rows are dropped for all their columns.
        let mut opened = open_tables(context, tables)?;
        let mut dropped = Dropped::default();
        if context.options.on_bad_rows == OnBadRows::Drop {
            dropped = check_all(&mut opened, &mut context.counts)?;
            if let Some((at, column)) = with_ids.and_then(|at| Some((at, tables[at].id_col.as_ref()?))) {
                let ids = Ids { used: &mut IdMap::new(), dropped: &mut IdMap::new(), rows: None };
                let duplicates = insert_ids(context, name, &opened[at], column, &dropped, ids)?;
                dropped.extend(duplicates);
            }
        } else {
            for table in &mut opened {
                table.starts = PieceStarts::count(&table.table)?;
            }
        }
        for table in &opened {
            let found = table.starts.num_rows - dropped.len();
            if found != of_type.book.num_nodes() as u64 {
                let why = format!(
                    "the table {} has {found} used rows, but the parts have {} nodes of type {name}: build the features from \
                     the tables and with the `on_bad_rows` that the parts were made with",
                    table.table.at,
                    of_type.book.num_nodes()
                );
                return Err(TableError::file(table.table.first_path(), why));
            }
        }
        let ids_name = node_file(self.part, name, "original_ids.npy");
        self.meta.open_file(self.dir, &ids_name)?;
        let ids_file = self.dir.join(ids_name);
        let (_, nodes) = map_npy::<u32>(&ids_file)?;
        if nodes.len() != self.meta.book_on_disk(self.node_type).range(self.part).len()
            || !nodes.is_sorted_by(|a, b| a < b)
        {
            let why = "it is damaged or belongs to other parts: copy the part again";
            return Err(TableError::file(ids_file, why));
        }
        if nodes.is_empty() {
            return Ok(Features::empty(of_type.feature_dim, of_type.feature_dtype));
        }
        let rows = dropped.with_only(nodes.iter().copied());
        if let Some((at, column)) = with_ids.and_then(|at| Some((at, tables[at].id_col.as_ref()?)))
            && of_type.has_id_map
        {
            let map_name = node_file(self.part, name, ID_MAP_FILE);
            self.meta.open_file(self.dir, &map_name)?;
            self.check_ids(context, &self.dir.join(map_name), &opened[at], column, &rows)?;
        }
        for table in &mut opened {
            table.spec = table.spec.only(Columns::Features);
        }
        let rules =
            FeatureRules { saved: context.saved_nodes(name), defer: false, columns: Columns::All, training: None };
        let columns = compute(context, name, &opened, &rows, rules, Some(nodes.len() as u64))?;
        let dim = columns.features.as_ref().map_or(0, Features::dim);
        let Some(features) = columns.features.filter(|_| dim == of_type.feature_dim) else {
            let why = format!("{name} has {dim} features, but the parts have {}", of_type.feature_dim);
            return Err(TableError::file(context.conf, why));
        };
        let failed = |source| GraphError::OutOfRange { node_type: name.to_owned(), source };
        Ok(features.to_dtype_in(&context.options.space, of_type.feature_dtype)?.map_err(failed)?)
    }

    /// Checks that the rows of the part have the ids of its id map.
    fn check_ids(
        &self,
        context: &Context,
        id_map: &Path,
        of_type: &SpecTable,
        column: &str,
        rows: &Dropped,
    ) -> Result<(), TableError> {
        let absolute = std::path::absolute(id_map).map_err(|error| TableError::io(id_map, error))?;
        let files = vec![glob::Pattern::escape(&absolute.to_string_lossy())];
        let source = Source::of_parquet(files);
        let missing = MissingValues::default();
        let of_part = Table::open(context.conf, "id map", &source, &context.options.space, &missing)?;
        let mut expected: Vec<IdCells> = Vec::new();
        let read = |_, mut rows: Rows, results: &Results<IdCells>| {
            while let Some(batch) = rows.next()? {
                results.push(id_cells(&batch.columns[0]).map_err(|why| batch.no_ids("id", &why))?)?;
            }
            Ok(())
        };
        scan_in_steps(&of_part, "reading the id map", &["id".to_owned()], 0, read, |_, cells| {
            expected.push(cells);
            Ok(())
        })?;
        let mut expected = expected.iter().flat_map(|cells| (0..cells.len()).map(move |row| cells.id(row)));
        let starts = &of_type.starts;
        let mut last_piece = 0;
        let mut offset = 0;
        let columns = [column.to_owned()];
        let of_table = |_, mut rows: Rows<'_>, results: &Results<(IdCells, String)>| {
            while let Some(batch) = rows.next()? {
                let cells = id_cells(&batch.columns[0]).map_err(|why| batch.no_ids(column, &why))?;
                results.push((cells, batch.place(0)))?;
            }
            Ok(())
        };
        scan_in_steps(&of_type.table, "comparing ids", &columns, 0, of_table, |piece, (cells, place)| {
            if piece != last_piece {
                (last_piece, offset) = (piece, 0);
            }
            let start = starts.start(piece) + offset;
            for row in rows.kept(start..start + cells.len() as u64) {
                if !are_same(cells.id(row), expected.next().flatten()) {
                    let why = format!(
                        "column {column}: the id {row} rows after {place} is not the one that the part has: build the features \
                         from the tables that the parts were made from"
                    );
                    return Err(TableError::file(of_type.table.path_of(piece), why));
                }
            }
            offset += cells.len() as u64;
            Ok(())
        })
    }
}

/// Returns true if two ids are those of one node.
fn are_same(one: Option<Id>, other: Option<Id>) -> bool {
    match (one, other) {
        (Some(Id::Number(number)), Some(Id::Text(text))) | (Some(Id::Text(text)), Some(Id::Number(number))) => {
            canonical_number(text) == Some(number)
        }
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}
