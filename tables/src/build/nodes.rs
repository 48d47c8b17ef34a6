//! The nodes of one type, from their tables.

use super::Context;
use super::attributes::PieceStarts;
use super::bad_rows::{BadInPiece, BadKind};
use super::columns::{Columns, FeatureRules, SpecTable, TypeColumns, check_all, compute, compute_features, differ};
use super::kept::Dropped;
use super::known::{KnownSplit, NumberedIds, RowNumbers};
use super::spec::Spec;
use super::splits::{self, ByShares};
use crate::conf::{Feature, Label, NodeTable, SplitRule};
use crate::ids::{Id, IdMap, Inserted, UserIds};
use crate::table::{Results, Rows, id_cells, scan_in_steps};
use crate::transform::SavedType;
use crate::{OnBadRows, TableError};
use edgecut_graph::{FeatureDtype, NodeData, NodeLabel, Splits, count_distinct_labels, max_classes};
use std::path::Path;

/// The reason why a row without an id is bad.
pub(super) const MISSING_ID: &str = "the id is missing; the key na_values lists the texts that are read as missing";

/// The nodes of a type, their ids and transforms.
pub(super) struct BuiltNodes {
    pub(super) data: NodeData,
    pub(super) ids: IdMap,
    /// The ids of the rows that were dropped.
    pub(super) dropped_ids: IdMap,
    /// The numbers of the rows' nodes, for tables that add to known nodes.
    pub(super) numbers: Vec<u32>,
    pub(super) saved: SavedType,
    /// The number and the type of features that are built after the parts.
    pub(super) deferred: Option<(usize, FeatureDtype)>,
    /// True if the nodes are rows of a table.
    pub(super) has_table: bool,
}

/// The known nodes of a type: their ids, and the rows that have been read.
pub(super) struct Known {
    pub(super) ids: IdMap,
    pub(super) rows: RowNumbers,
    /// The number of the first new row, if the ids of the parts are row numbers. Removed rows keep their numbers.
    pub(super) next_row: Option<u64>,
}

/// Reads the tables of a node type, which may add to `known` nodes.
pub(super) fn read_nodes(
    context: &mut Context,
    name: &str,
    tables: &[&NodeTable],
    known: Option<Known>,
) -> Result<BuiltNodes, TableError> {
    let is_drop = context.options.on_bad_rows == OnBadRows::Drop;
    let with_ids =
        context.only_one(tables.iter().map(|table| (&table.at, table.id_col.as_ref())), name, "node_id_col")?;
    context.only_one(tables.iter().map(|table| (&table.at, table.time_col.as_ref())), name, "time_col")?;
    let label = context.only_one(tables.iter().map(|table| (&table.at, table.labels.first())), name, "labels")?;
    let more_labels = label.map_or(&[][..], |at| &tables[at].labels[1..]);
    let mut opened = open_tables(context, tables)?;
    let mut dropped = if is_drop { check_all(&mut opened, &mut context.counts)? } else { Dropped::default() };
    let tables_of_labels = opened.split_off(tables.len());
    context.check_order_of_all(&opened);
    let (mut ids, mut rows, next_row) = match known {
        Some(Known { ids, rows, next_row }) => (ids, Some(rows), next_row),
        None => (IdMap::new(), None, Some(0)),
    };
    let mut dropped_ids = IdMap::new();
    let mut num_rows = None;
    if let Some(at) = with_ids
        && let Some(column) = &tables[at].id_col
    {
        let all = Ids { used: &mut ids, dropped: &mut dropped_ids, rows: rows.as_mut() };
        let duplicates = insert_ids(context, name, &opened[at], column, &dropped, all)?;
        dropped.extend(duplicates);
        num_rows = Some(rows.as_ref().map_or(ids.len(), |rows| rows.numbers.len()) as u64);
    } else if next_row.is_none() {
        let why = format!("{}: the nodes of type {name} have ids in the parts: set node_id_col", opened[0].table.at);
        return Err(TableError::file(context.conf, why));
    }
    if rows.is_some() {
        let num_used = match num_rows {
            Some(num_rows) => num_rows,
            None => PieceStarts::count(&opened[0].table)?.num_rows - dropped.len(),
        };
        if num_used == 0 {
            for other in &opened {
                let num_rows = PieceStarts::count(&other.table)?.num_rows;
                if num_rows != dropped.len() {
                    return Err(differ(&other.table, num_rows, dropped.len()));
                }
            }
            context.warnings.push(format!("{}: no row is used", opened[0].table.at));
            return Ok(BuiltNodes { dropped_ids, has_table: true, ..BuiltNodes::without_rows(name, ids) });
        }
    }
    let saved = context.saved_nodes(name);
    let first_label = label.and_then(|at| tables[at].labels.first());
    let mut of_other_order = None;
    if let (Some(saved), Some(first)) = (saved, first_label) {
        let of_label = saved_label(context, saved, 0, first)?;
        if !std::ptr::eq(of_label, saved) {
            of_other_order = Some(SavedType { classes: of_label.classes.clone(), ..saved.clone() });
        }
    }
    let rules = FeatureRules {
        saved: of_other_order.as_ref().or(saved),
        defer: context.options.defers_features,
        columns: Columns::All,
        training: None,
    };
    // Splits need labels, and these features need splits.
    let needs_splits = saved.is_none()
        && label.is_some()
        && tables.iter().flat_map(|t| &t.features).any(Feature::is_fitted_on_training);
    let first = if needs_splits { Columns::AllButFeatures } else { Columns::All };
    let mut columns = compute(context, name, &opened, &dropped, FeatureRules { columns: first, ..rules }, num_rows)?;
    columns.time_column.take().map_or(Ok(()), |times| context.add_times(times))?;
    let num_nodes = match columns.num_rows {
        Some(num_rows) => num_rows,
        // Neither ids nor attributes: the table only tells the number of nodes.
        None => PieceStarts::count(&opened[0].table)?.num_rows - dropped.len(),
    };
    if num_nodes == 0 {
        return Err(TableError::file(opened[0].table.first_path(), format!("node type {name} has no rows")));
    }
    // The rows of an update continue the numbers of the known nodes.
    let first_row = next_row.filter(|_| with_ids.is_none()).unwrap_or(0);
    if first_row + num_nodes > u64::from(u32::MAX) {
        return Err(TableError::file(
            context.conf,
            format!("node type {name} has {num_nodes} rows, more than 2^32 - 1"),
        ));
    }
    if with_ids.is_none() {
        context.check_order(name, &opened[0].table);
        let first_number = ids.len() as u32;
        add_row_ids(&mut ids, first_row, num_nodes, &dropped);
        if let Some(rows) = &mut rows {
            (first_number..ids.len() as u32).for_each(|number| rows.add_new(number));
        }
        for row in dropped.left_out(0..num_nodes + dropped.len()) {
            dropped_ids.insert(Id::Number((first_row + row as u64) as i64));
        }
    }
    let mut data = NodeData {
        name: name.to_owned(),
        num_nodes: num_nodes as usize,
        times: columns.times.take(),
        ..NodeData::default()
    };
    set_labels(&mut data, &mut columns);
    if let (Some(labels), Some(at), false) = (data.labels.as_deref(), label, context.is_update) {
        check_classes(name, labels, opened[at].table.first_path())?;
    }
    if let Some(label) = first_label {
        columns.record_split(context, label)?;
        data.splits = node_splits(
            context,
            label,
            NumberedIds { label: 0, ids: &ids, known: rows.as_ref() },
            &data,
            columns.split_keys.as_deref(),
            &mut columns.saved,
        )?;
    }
    columns.saved.label_name = first_label.map(|first| first.name().to_owned());
    if !more_labels.is_empty() {
        data.label_name.clone_from(&columns.saved.label_name);
    }
    for (position, (label, table)) in more_labels.iter().zip(tables_of_labels).enumerate() {
        let of_label = saved.map(|saved| saved_label(context, saved, position + 1, label)).transpose()?;
        let source = LabelSource { label, table, saved: of_label };
        let numbered = NumberedIds { label: position + 1, ids: &ids, known: rows.as_ref() };
        let (read, saved) = read_label(context, source, numbered, &data, &dropped)?;
        data.more_labels.push(read);
        columns.saved.labels.insert(label.name().to_owned(), saved);
    }
    if needs_splits {
        columns.set_features(compute_features(
            context,
            name,
            &mut opened,
            &dropped,
            rules,
            data.splits.train.iter().copied(),
        )?);
    }
    data.features = columns.features;
    let numbers = rows.map_or_else(Vec::new, |rows| rows.numbers);
    let TypeColumns { saved, deferred, .. } = columns;
    Ok(BuiltNodes { data, ids, dropped_ids, numbers, saved, deferred, has_table: true })
}

/// Opens the tables of a node type, and then a table for each label after the first one, which is read by a pass of its
/// own.
pub(super) fn open_tables<'a>(context: &Context, tables: &[&'a NodeTable]) -> Result<Vec<SpecTable<'a>>, TableError> {
    let mut opened = Vec::with_capacity(tables.len());
    for table in tables {
        opened.push(SpecTable::open(context, &table.at, &table.source, Spec::of_nodes(table))?);
    }
    for table in tables {
        for label in table.labels.iter().skip(1) {
            opened.push(SpecTable::open(context, &table.at, &table.source, Spec::of_label(label))?);
        }
    }
    Ok(opened)
}

/// Gives nodes the labels or the targets of columns.
fn set_labels(data: &mut NodeData, columns: &mut TypeColumns) {
    data.labels = columns.labels.take();
    data.targets = columns.targets.take();
    let largest = data.labels.as_deref().and_then(|labels| labels.iter().max());
    let num_classes = largest.map_or(0, |&largest| (largest + 1) as usize);
    data.num_classes = num_classes.max(columns.saved.classes.as_ref().map_or(0, Vec::len));
}

/// Returns the saved classes of the label at a position of a configuration.
pub(super) fn saved_label<'a>(
    context: &Context,
    saved: &'a SavedType,
    position: usize,
    label: &Label,
) -> Result<&'a SavedType, TableError> {
    let found = saved.label(position, label.name());
    found.map_err(|why| TableError::file(context.conf, format!("{}: {why}", label.at)))
}

/// A label after the first one, and its table.
struct LabelSource<'a> {
    label: &'a Label,
    table: SpecTable<'a>,
    /// The classes to apply instead of finding new ones.
    saved: Option<&'a SavedType>,
}

/// Reads a label after the first one of the nodes `data`. Returns it with its classes and the rule of its splits.
fn read_label(
    context: &mut Context,
    source: LabelSource,
    ids: NumberedIds,
    data: &NodeData,
    dropped: &Dropped,
) -> Result<(NodeLabel, SavedType), TableError> {
    let LabelSource { label, table, saved } = source;
    let rules = FeatureRules { saved, defer: false, columns: Columns::AllButFeatures, training: None };
    let name = format!("{}:{}", data.name, label.name());
    let table = [table];
    let mut columns = compute(context, &name, &table, dropped, rules, Some(data.num_nodes as u64))?;
    let mut alone = NodeData { name: data.name.clone(), num_nodes: data.num_nodes, ..NodeData::default() };
    set_labels(&mut alone, &mut columns);
    if let (Some(labels), false) = (alone.labels.as_deref(), context.is_update) {
        check_classes(&name, labels, table[0].table.first_path())?;
    }
    columns.record_split(context, label)?;
    let splits = node_splits(context, label, ids, &alone, columns.split_keys.as_deref(), &mut columns.saved)?;
    let NodeData { labels, num_classes, targets, .. } = alone;
    Ok((NodeLabel { name: label.name().to_owned(), labels, num_classes, targets, splits }, columns.saved))
}

impl BuiltNodes {
    /// Returns a type of which no row is used.
    pub(super) fn without_rows(name: &str, ids: IdMap) -> Self {
        let data = NodeData { name: name.to_owned(), ..NodeData::default() };
        let dropped_ids = IdMap::new();
        let saved = SavedType::default();
        Self { data, ids, dropped_ids, numbers: Vec::new(), saved, deferred: None, has_table: false }
    }
}

/// Checks that there are not many more classes than different labels.
pub(super) fn check_classes(name: &str, labels: &[i64], path: &Path) -> Result<(), TableError> {
    let largest = labels.iter().copied().max().unwrap_or(-1);
    let distinct = count_distinct_labels(labels);
    if usize::try_from(largest).is_ok_and(|largest| largest >= max_classes(distinct)) {
        let why = format!(
            "{name} has the class {largest}, but its labels have {distinct} different values: number the classes 0, 1, 2 and \
             so on"
        );
        return Err(TableError::file(path, why));
    }
    Ok(())
}

/// The ids of the rows of a table.
pub(super) struct Ids<'a> {
    pub(super) used: &'a mut IdMap,
    pub(super) dropped: &'a mut IdMap,
    /// The rows so far, if there are known nodes among the used ids.
    pub(super) rows: Option<&'a mut RowNumbers>,
}

/// Adds the ids of a table, and returns the rows without an id and with the id of an earlier row.
pub(super) fn insert_ids<'t>(
    context: &mut Context,
    name: &str,
    of_type: &'t SpecTable,
    column: &str,
    dropped: &Dropped,
    Ids { used: ids, dropped: dropped_ids, rows: mut known }: Ids,
) -> Result<Vec<u64>, TableError> {
    let policy = context.options.on_bad_rows;
    let starts = &of_type.starts;
    let table = &of_type.table;
    let mut more = Vec::new();
    // The piece of the last batch, and the rows of the piece before the batch.
    let mut last_piece = 0;
    let mut offset = 0;
    // Only reading runs in parallel: the number of an id is its position.
    let counts = &mut context.counts;
    let columns = [column.to_owned()];
    let read = |_, mut rows: Rows<'t>, results: &Results<_>| {
        while let Some(batch) = rows.next()? {
            let cells = id_cells(&batch.columns[0]).map_err(|why| batch.no_ids(column, &why))?;
            results.push((cells, batch))?;
        }
        Ok(())
    };
    scan_in_steps(table, "reading ids", &columns, 0, read, |piece, (cells, batch)| {
        if piece != last_piece {
            (last_piece, offset) = (piece, 0);
        }
        let mut bad = BadInPiece::default();
        let start = starts.start(piece) + offset;
        let range = start..start + batch.num_rows as u64;
        for row in dropped.left_out(range.clone()) {
            if let Some(id) = cells.id(row) {
                dropped_ids.insert(id);
            }
        }
        for row in dropped.kept(range) {
            let wrong = match cells.id(row) {
                None => Some((BadKind::Id, format!("column {column}: {MISSING_ID}"))),
                Some(id) => match ids.insert(id) {
                    Inserted::New => {
                        if let Some(known) = &mut known {
                            known.add_new(ids.len() as u32 - 1);
                        }
                        None
                    }
                    Inserted::Duplicate(first) if known.as_mut().is_some_and(|known| known.add_known(first)) => None,
                    Inserted::Duplicate(first) => {
                        let shown = ids.ids().show(first);
                        let why = format!("column {column}: the id {shown} of {name} is also in an earlier row");
                        Some((BadKind::DuplicateId, why))
                    }
                    Inserted::Full => {
                        let why = format!("{name} has more than 2^32 - 1 ids");
                        return Err(TableError::file(table.path_of(piece), why));
                    }
                },
            };
            if let Some((kind, why)) = wrong {
                bad.add(&batch, 0, (row, kind, why), policy)?;
            }
        }
        offset += batch.num_rows as u64;
        counts.add(&table.at, &bad);
        more.extend(bad.rows.iter().map(|row| start + row));
        Ok(())
    })?;
    Ok(more)
}

/// Adds the row numbers of the used rows, from `first` on, as ids.
fn add_row_ids(ids: &mut IdMap, first: u64, num_nodes: u64, dropped: &Dropped) {
    if dropped.len() == 0 && matches!(ids.ids(), UserIds::Rows(num_rows) if u64::from(*num_rows) == first) {
        *ids = IdMap::of_rows((first + num_nodes) as u32);
        return;
    }
    for row in dropped.kept(0..num_nodes + dropped.len()) {
        ids.insert(Id::Number((first + row as u64) as i64));
    }
}

/// Divides the rows of a type, but not those of known nodes whose split is decided.
fn node_splits(
    context: &mut Context,
    label: &Label,
    numbered: NumberedIds,
    data: &NodeData,
    keys: Option<&[i64]>,
    saved: &mut SavedType,
) -> Result<Splits, TableError> {
    match &label.split {
        SplitRule::Shares { shares, by } => {
            let mut rows: Vec<u32> = (0..data.num_nodes as u32).filter(|&row| data.is_labeled(row)).collect();
            let mut draw_keys = None;
            if let NumberedIds { label: at, ids, known: Some(known) } = numbered {
                rows.retain(|&row| known.split(at, known.numbers[row as usize]) == KnownSplit::Open);
                if known.has_splits(at) {
                    context.warnings.extend(splits::divided_by_time(label, by, rows.len()));
                }
                draw_keys = Some(known.numbers.iter().map(|&number| ids.ids().draw_key(number) as i64).collect());
            }
            let rule = ByShares { label, name: &data.name, shares: *shares, by, keys, draw_keys };
            Ok(rule.divide(context, rows, saved)?.into())
        }
        SplitRule::Files(files) => splits::by_files(context, label, files, numbered),
    }
}
