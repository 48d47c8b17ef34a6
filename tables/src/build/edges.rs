//! The edges of one relation, from their tables.

use super::Context;
use super::attributes::PieceStarts;
use super::bad_rows::{BadInPiece, BadKind};
use super::columns::{
    Columns, FeatureRules, SpecTable, TypeColumns, check_all, compute, compute_features, differ, dtype,
};
use super::edge_ids::{keys_of_ends, keys_of_ids, read_ids};
use super::kept::Dropped;
use super::nodes::{MISSING_ID, check_classes, saved_label};
use super::spec::Spec;
use super::split_files::read_split;
use super::splits::{self, ByShares, bad_entry, listed_twice};
use crate::conf::{Conf, EdgeTable, Label, SplitFiles, SplitRule};
use crate::ids::{Id, IdMap, Inserted};
use crate::saved_split::{SavedSplit, SplitBy};
use crate::table::{Results, Rows, id_cells, scan_in_steps};
use crate::transform::SavedType;
use crate::{OnBadRows, TableError};
use edgecut_graph::{
    Buffer, EdgeAttributes, EdgeData, EdgeIds, EdgeLabelValues, EdgeLabels, Features, GraphError, HoldOut, NO_SPLIT,
    NodeTypeId, Split, Targets, TextArray,
};
use std::collections::{HashMap, HashSet};

/// The edges of a relation, their transforms, and the rule that holds out some of them.
pub(super) struct BuiltEdges {
    pub(super) data: EdgeData,
    pub(super) saved: SavedType,
    pub(super) held_out: Option<HoldOut>,
}

/// The ids and the types of the ends of a relation.
pub(super) struct Ends<'a> {
    pub(super) types: [NodeTypeId; 2],
    pub(super) ids: [&'a IdMap; 2],
    /// The ids of the rows of nodes that were dropped.
    pub(super) dropped: [&'a IdMap; 2],
    /// The ids of the nodes that an update removes, if it removes any.
    pub(super) removed: [Option<&'a IdMap>; 2],
}

/// Reads the tables of a relation.
pub(super) fn read_edges(
    context: &mut Context,
    name: &str,
    tables: &[&EdgeTable],
    ends: &Ends,
) -> Result<BuiltEdges, TableError> {
    let is_drop = context.options.on_bad_rows == OnBadRows::Drop;
    let with_ends =
        context.only_one(tables.iter().map(|table| (&table.at, table.ends.as_ref())), name, "source_id_col")?;
    context.only_one(tables.iter().map(|table| (&table.at, table.time_col.as_ref())), name, "time_col")?;
    context.only_one(tables.iter().map(|table| (&table.at, table.weight_col.as_ref())), name, "weight_col")?;
    let Some(with_ends) = with_ends else {
        let why = format!("{}: no table of {name} has source_id_col and dest_id_col", tables[0].at);
        return Err(TableError::file(context.conf, why));
    };
    let saved = context.saved_edges(name);
    // Labels are in the table of the ends.
    let label = tables[with_ends].label.as_ref();
    let mut features = tables.iter().flat_map(|table| &table.features);
    let on_training = features.find(|feature| saved.is_none() && feature.is_fitted_on_training());
    let has_labels = label.is_some_and(|label| label.column.is_some());
    if let (Some(saved), Some(label), true) = (saved, label, has_labels) {
        saved_label(context, saved, 0, label)?;
    }
    let needs_splits = has_labels && on_training.is_some();
    if let Some(feature) = on_training.filter(|_| label.is_some() && !has_labels) {
        let why = format!(
            "{}: {} is fitted on rows of training, but edges are held out after their features are fitted. Set fit_on to all, \
             by which held-out edges count as well, or leave the feature out",
            feature.at,
            feature.transform.name()
        );
        return Err(TableError::file(context.conf, why));
    }
    let mut opened = Vec::with_capacity(tables.len());
    for table in tables {
        opened.push(SpecTable::open(context, &table.at, &table.source, Spec::of_edges(table))?);
    }
    context.check_order_of_all(&opened);
    let mut dropped = if is_drop { check_all(&mut opened, &mut context.counts)? } else { Dropped::default() };
    let mut ids = None;
    if let Some(column) = &tables[with_ends].id_col {
        ids = Some(read_ids(context, name, &opened[with_ends], column, &mut dropped)?);
    }
    let found = find_ends(context, tables[with_ends], &opened[with_ends], &dropped, ends)?;
    let ids = ids.map(|ids| ids.finish(context, &found.dropped)).transpose()?;
    dropped.extend(found.dropped);
    if found.src.is_empty() {
        let others = opened.iter().enumerate().filter(|(at, _)| *at != with_ends);
        for (_, other) in others {
            let num_rows = PieceStarts::count(&other.table)?.num_rows;
            if num_rows != dropped.len() {
                return Err(differ(&other.table, num_rows, dropped.len()));
            }
        }
        let why = if dropped.len() == 0 { "its table has no rows" } else { "all its rows were dropped" };
        context.warnings.push(format!("{}: {name} gets no edges, because {why}", tables[with_ends].at));
        return Ok(without_edges(context, name, tables, ends));
    }
    let rules = FeatureRules { saved, defer: false, columns: Columns::All, training: None };
    // Splits need labels, and these features need splits.
    let first = if needs_splits { Columns::AllButFeatures } else { Columns::All };
    let first = FeatureRules { columns: first, ..rules };
    let mut columns = compute(context, name, &opened, &dropped, first, Some(found.src.len() as u64))?;
    columns.time_column.take().map_or(Ok(()), |times| context.add_times(times))?;
    let relation = tables[0].relation[1].clone();
    let mut data = EdgeData::new(ends.types[0], relation, ends.types[1], found.src, found.dst);
    let named_classes = columns.saved.classes.as_ref().map_or(0, Vec::len);
    if let (Some(labels), false) = (columns.labels.as_deref(), context.is_update) {
        check_classes(name, labels, opened[with_ends].table.first_path())?;
    }
    if let Some(label) = label {
        columns.record_split(context, label)?;
        columns.saved.label_name = label.column.as_ref().map(|column| column.name.clone());
    }
    let values = label_values(columns.labels.take(), columns.targets.take(), named_classes);
    let mut labels = None;
    if let (Some(label), Some(values)) = (label, values) {
        let splits = match &label.split {
            SplitRule::Shares { shares, by } => {
                let num_edges = data.src.len();
                let labeled: Vec<u64> = (0..num_edges as u64).filter(|&edge| values.is_known(edge as usize)).collect();
                let mut draw_keys = None;
                if context.is_update {
                    context.warnings.extend(splits::divided_by_time(label, by, labeled.len()));
                    draw_keys = Some(match &ids {
                        Some(ids) => keys_of_ids(ids),
                        None => keys_of_ends(ends.ids, &data, columns.times.as_deref()),
                    });
                }
                let keys = columns.split_keys.as_deref();
                let rule = ByShares { label, name, shares: *shares, by, keys, draw_keys };
                rule.divide(context, labeled, &mut columns.saved)?.codes(num_edges)
            }
            SplitRule::Files(files) => listed_splits(context, label, files, ends, &data)?,
        };
        if needs_splits {
            let is_training = |&edge: &u64| splits[edge as usize] == Split::Train.code();
            let training = (0..splits.len() as u64).filter(is_training);
            columns.set_features(compute_features(context, name, &mut opened, &dropped, rules, training)?);
        }
        let mut stored = context.options.space.growing()?;
        stored.append(splits)?;
        labels = Some(EdgeLabels { values, splits: stored.finish()? });
    }
    let TypeColumns { features, weights, times, saved, .. } = columns;
    data.attributes = EdgeAttributes { features, weights, times, labels, ids };
    let mut held_out = None;
    if let Some(label) = label.filter(|label| label.column.is_none()) {
        let seed = saved.split.as_ref().map_or(context.options.seed, |rule| rule.seed);
        held_out = hold_out(context, label, ends, seed, &mut data)?;
    }
    Ok(BuiltEdges { data, saved, held_out })
}

/// Returns a relation without edges. Its features are those of saved transforms, or none.
fn without_edges(context: &Context, name: &str, tables: &[&EdgeTable], ends: &Ends) -> BuiltEdges {
    let mut saved = context.saved_edges(name).cloned().unwrap_or_default();
    if !context.is_update {
        let label = tables.iter().find_map(|table| table.label.as_ref());
        saved.split = label.map(|label| SavedSplit::new(label, context.options.seed, None));
    }
    let dim = saved.features.last().map_or(0, |last| last.columns[1]);
    let features = tables.iter().flat_map(|table| &table.features);
    let [src, dst] = [Buffer::from(Vec::new()), Buffer::from(Vec::new())];
    let mut data = EdgeData::new(ends.types[0], tables[0].relation[1].clone(), ends.types[1], src, dst);
    data.attributes = EdgeAttributes {
        features: (dim > 0).then(|| Features::empty(dim, dtype(features))),
        weights: tables.iter().any(|table| table.weight_col.is_some()).then(|| Vec::new().into()),
        times: tables.iter().any(|table| table.time_col.is_some()).then(|| Vec::new().into()),
        // No edge has a label.
        labels: None,
        ids: tables.iter().any(|table| table.id_col.is_some()).then(|| no_ids(context.is_update)),
    };
    BuiltEdges { data, saved, held_out: None }
}

/// Returns the ids of a relation without edges. Parts with texts take texts and numbers later, and an update with numbers suits
/// all parts.
fn no_ids(is_update: bool) -> EdgeIds {
    if is_update { EdgeIds::Numbers(Vec::new().into()) } else { EdgeIds::Texts(TextArray::default()) }
}

/// Returns the labels of edges from the arrays of their columns, if there are any.
fn label_values(
    labels: Option<Buffer<i64>>,
    targets: Option<Targets>,
    named_classes: usize,
) -> Option<EdgeLabelValues> {
    let Some(of_edges) = labels else { return targets.map(EdgeLabelValues::Targets) };
    let largest = of_edges.iter().copied().max().unwrap_or(-1);
    let num_classes = usize::try_from(largest + 1).unwrap_or(0).max(named_classes);
    Some(EdgeLabelValues::Classes { of_edges, num_classes })
}

/// The ends of the used edges.
struct FoundEnds {
    src: Buffer<u32>,
    dst: Buffer<u32>,
    /// Rows with an end that does not exist.
    dropped: Vec<u64>,
}

fn find_ends(
    context: &mut Context,
    edges: &EdgeTable,
    of_type: &SpecTable,
    dropped: &Dropped,
    ends: &Ends,
) -> Result<FoundEnds, TableError> {
    let SpecTable { table, starts, .. } = of_type;
    let policy = context.options.on_bad_rows;
    let columns = edges.ends.as_ref().map_or(Vec::new(), |columns| columns.to_vec());
    let map = |piece: usize, mut rows: Rows, results: &Results<_>| {
        let mut offset = 0;
        while let Some(batch) = rows.next()? {
            let mut bad = BadInPiece::default();
            let mut found = [Vec::new(), Vec::new()];
            let mut cells = Vec::with_capacity(2);
            for (column, name) in distinct(&batch.columns, &columns) {
                cells.push(id_cells(column).map_err(|why| batch.no_ids(name, &why))?);
            }
            let nodes = [0, 1].map(|end| cells[end].find_in(ends.ids[end]));
            found.iter_mut().for_each(|found| found.reserve(batch.num_rows));
            let start = starts.start(piece) + offset;
            for row in dropped.kept(start..start + batch.num_rows as u64) {
                match (nodes[0][row], nodes[1][row]) {
                    (Some(src), Some(dst)) => {
                        found[0].push(src);
                        found[1].push(dst);
                    }
                    (src, _) => {
                        let end = usize::from(src.is_some());
                        let (kind, why) = edges.without_end(&columns[end], ends, end, cells[end].id(row));
                        bad.add(&batch, offset, (row, kind, why), policy)?;
                    }
                }
            }
            offset += batch.num_rows as u64;
            results.push((found, bad))?;
        }
        Ok(())
    };
    let space = &context.options.space;
    let mut all_src = space.growing()?;
    let mut all_dst = space.growing()?;
    let mut more = Vec::new();
    let counts = &mut context.counts;
    scan_in_steps(table, "reading edges", &unique(&columns), 0, map, |piece, ([src, dst], bad)| {
        all_src.append(src)?;
        all_dst.append(dst)?;
        counts.add(&table.at, &bad);
        more.extend(bad.rows.iter().map(|row| starts.start(piece) + row));
        Ok(())
    })?;
    Ok(FoundEnds { src: all_src.finish()?, dst: all_dst.finish()?, dropped: more })
}

impl EdgeTable {
    /// Returns the reason why a row has no source (end 0) or destination (1), of which `column` has `id`.
    fn without_end(&self, column: &str, ends: &Ends, end: usize, id: Option<Id>) -> (BadKind, String) {
        let Some(id) = id else { return (BadKind::Id, format!("column {column}: {MISSING_ID}")) };
        let node_type = &self.relation[2 * end];
        if ends.dropped[end].get(id).is_some() {
            let why = format!("column {column}: the {node_type} with the id {} was dropped", show(id));
            return (BadKind::DroppedEnd, why);
        }
        if ends.removed[end].is_some_and(|removed| removed.get(id).is_some()) {
            let why = format!(
                "column {column}: this update removes the {node_type} with the id {} (removed_nodes): leave the edge out, or give \
                 the node a row in a table of nodes, which makes it a new node",
                show(id)
            );
            return (BadKind::DanglingEdge, why);
        }
        let hint = spelling_hint(ends.ids[end], id, column);
        (BadKind::DanglingEdge, format!("column {column}: there is no {node_type} with the id {}{hint}", show(id)))
    }
}

/// Returns the columns to read: one if both ends are in the same column.
fn unique(columns: &[String]) -> Vec<String> {
    let mut unique = columns.to_vec();
    unique.dedup();
    unique
}

/// Returns the column of each end, with its name.
fn distinct<'a, T>(read: &'a [T], columns: &'a [String]) -> impl Iterator<Item = (&'a T, &'a String)> {
    columns.iter().enumerate().map(|(end, name)| (&read[end.min(read.len() - 1)], name))
}

/// Returns the end of an error about an id that no node has, if a node has the id in another spelling.
fn spelling_hint(ids: &IdMap, id: Id, column: &str) -> String {
    let Id::Text(text) = id else { return String::new() };
    if let Some(whole) = text.strip_suffix(".0").filter(|whole| ids.get(Id::Text(whole)).is_some()) {
        return format!(
            ", but one with the id {whole}: texts stay as they are, so write whole numbers, for example with pandas: \
             table[{column:?}] = table[{column:?}].astype(\"Int64\")"
        );
    }
    let trimmed = text.trim();
    let without_zeros = trimmed.trim_start_matches('0');
    for other in [trimmed, without_zeros, &trimmed.to_lowercase(), &trimmed.to_uppercase()] {
        if other != text && ids.get(Id::Text(other)).is_some() {
            return format!(
                ", but one with the id {other:?}: spaces, zeros at the start, and small and capital letters count"
            );
        }
    }
    String::new()
}

pub(super) fn show(id: Id) -> String {
    match id {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => text.to_owned(),
    }
}

/// Adds the ids that the edges name of a node type without a table.
///
/// # Errors
/// Fails for ids that take more than `limit` bytes of memory.
pub(super) fn collect_ids(
    context: &Context,
    conf: &Conf,
    node_type: &str,
    ids: &mut IdMap,
    limit: u64,
) -> Result<(), TableError> {
    for table in &conf.edges {
        for end in [0, 1] {
            if table.relation[2 * end] == node_type {
                collect_ids_of_end(context, table, end, ids, limit)?;
            }
        }
    }
    Ok(())
}

fn collect_ids_of_end(
    context: &Context,
    table: &EdgeTable,
    end: usize,
    ids: &mut IdMap,
    limit: u64,
) -> Result<(), TableError> {
    let Some(columns) = &table.ends else { return Ok(()) };
    let column = &columns[end];
    let opened = context.open(&table.at, &table.source)?;
    let map = |_, mut rows: Rows, results: &Results<_>| {
        while let Some(batch) = rows.next()? {
            results.push(id_cells(&batch.columns[0]).map_err(|why| batch.no_ids(column, &why))?)?;
        }
        Ok(())
    };
    scan_in_steps(&opened, "finding nodes", std::slice::from_ref(column), 0, map, |piece, cells| {
        let known = cells.find_in(ids);
        for row in (0..cells.len()).filter(|&row| known[row].is_none()) {
            // The edge is checked later.
            let Some(id) = cells.id(row) else { continue };
            if ids.insert(id) == Inserted::Full {
                let why = format!("column {column} has more than 2^32 - 1 different ids");
                return Err(TableError::file(opened.path_of(piece), why));
            }
        }
        if ids.memory_bytes() as u64 > limit {
            let node_type = &table.relation[2 * end];
            let why = format!("the ids of {node_type} alone take more memory: use a larger limit, or numbers as ids");
            return Err(GraphError::MemoryLimit { why }.into());
        }
        Ok(())
    })
}

/// The splits that list edges, by the ends of the edges.
type ListedPairs = HashMap<(u32, u32), Split>;

/// Reads the ends of edges that the split files list.
///
/// # Errors
/// Fails for an entry that is not an edge, or that two splits list, unless such entries are dropped.
fn listed_pairs(
    context: &mut Context,
    label: &Label,
    files: &SplitFiles,
    ends: &Ends,
    edges: &EdgeData,
) -> Result<ListedPairs, TableError> {
    let mut listed = ListedPairs::new();
    let mut entries = Vec::new();
    for (split, number) in Split::ALL.into_iter().zip(0..) {
        for row in read_split(context.conf, &label.at, files, number, 2)? {
            let end = |end: usize| ends.ids[end].get(row.ids[end].as_id());
            match (end(0), end(1)) {
                (Some(src), Some(dst)) => {
                    let first = *listed.entry((src, dst)).or_insert(split);
                    if first != split {
                        bad_entry(context, label, &row, &listed_twice(first))?;
                        continue;
                    }
                    entries.push(((src, dst), row));
                }
                _ => bad_entry(context, label, &row, "an end of this edge does not exist")?,
            }
        }
    }
    let pairs = edges.src.iter().copied().zip(edges.dst.iter().copied());
    let found: HashSet<(u32, u32)> = pairs.filter(|pair| listed.contains_key(pair)).collect();
    let why = if context.is_update {
        "no edge of this update joins these nodes; edges of the parts stay in their split, so leave them out of the file"
    } else {
        "there is no such edge"
    };
    for (pair, row) in &entries {
        if !found.contains(pair) {
            bad_entry(context, label, row, why)?;
        }
    }
    Ok(listed)
}

/// Returns the split of each edge with labels: that of the files which list its ends. All edges between the two nodes are in
/// this split, and edges that are not listed are in none.
///
/// # Errors
/// The errors of [`listed_pairs`].
fn listed_splits(
    context: &mut Context,
    label: &Label,
    files: &SplitFiles,
    ends: &Ends,
    edges: &EdgeData,
) -> Result<Vec<u8>, TableError> {
    let listed = listed_pairs(context, label, files, ends, edges)?;
    let pairs = edges.src.iter().copied().zip(edges.dst.iter().copied());
    Ok(pairs.map(|pair| listed.get(&pair).map_or(NO_SPLIT, |split| split.code())).collect())
}

/// Holds out the edges that split files list. Returns the rule that holds out others when all types are known: by shares, or
/// in an update only between nodes that held-out edges of the parts join.
fn hold_out(
    context: &mut Context,
    label: &Label,
    ends: &Ends,
    seed: u64,
    edges: &mut EdgeData,
) -> Result<Option<HoldOut>, TableError> {
    match &label.split {
        SplitRule::Files(files) => {
            hold_out_listed(context, label, files, ends, edges)?;
            Ok(context.is_update.then_some(HoldOut::NOTHING))
        }
        SplitRule::Shares { shares: [_, valid, test], by } => {
            let [valid, test] = [valid, test].map(|share| share.to_f64());
            let rule = match by {
                SplitBy::Time(_) => HoldOut::latest(valid, test, seed),
                SplitBy::Random | SplitBy::Group(_) => HoldOut::random(valid, test, seed),
            };
            Ok((valid + test > 0.0).then_some(rule))
        }
    }
}

/// Holds out the edges between the nodes that the split files list. All edges between the two nodes go to the split that
/// lists them.
///
/// # Errors
/// The errors of [`listed_pairs`]. Also fails if there is a list of training edges that lacks some: parts cannot tell edges
/// that only carry messages from training edges.
fn hold_out_listed(
    context: &mut Context,
    label: &Label,
    files: &SplitFiles,
    ends: &Ends,
    edges: &mut EdgeData,
) -> Result<(), TableError> {
    let listed = listed_pairs(context, label, files, ends, edges)?;
    let pairs = edges.src.iter().copied().zip(edges.dst.iter().copied()).enumerate();
    let mut unlisted = pairs.filter(|(_, pair)| !listed.contains_key(pair)).map(|(at, _)| at);
    let first_unlisted = unlisted.next();
    let num_unlisted = unlisted.count() + 1;
    let lists_training_edges = !files.files[0].is_empty();
    if let (true, Some(first)) = (lists_training_edges, first_unlisted) {
        let [src, dst] =
            [(0, edges.src[first]), (1, edges.dst[first])].map(|(end, node)| ends.ids[end].ids().show(node));
        let num_edges = edges.src.len();
        let why = format!(
            "{}.custom_split_filenames.train: {num_unlisted} of {num_edges} edges are in none of the files, such as the one from {src} to {dst}. All \
             edges that are not held out are training edges, also if they are not listed: leave out `train` to train on all of \
             them, or remove the edges that are not listed from the table",
            label.at
        );
        return Err(TableError::file(context.conf, why));
    }
    let split_of = |edges: &EdgeData, at: usize| {
        let split = listed.get(&(edges.src[at], edges.dst[at]));
        split.copied().unwrap_or(Split::Train)
    };
    edges.hold_out(&context.options.space, split_of)?;
    Ok(())
}
