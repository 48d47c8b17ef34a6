//! The edges of one relation, from their tables.

use super::Context;
use super::bad_rows::{BadInPiece, BadKind};
use super::columns::{SpecTable, check_all, compute};
use super::kept::Dropped;
use super::spec::Spec;
use super::split_files::read_split;
use super::splits::unknown_id;
use crate::conf::{EdgeTable, Label, SplitFiles, SplitRule};
use crate::ids::{Id, IdMap, Inserted};
use crate::table::{Rows, Table, id_cells, scan};
use crate::transform::SavedType;
use crate::{OnBadRows, TableError};
use edgecut_graph::{EdgeAttributes, EdgeData, EdgeList, Features, HeldOutEdges, NodeTypeId};
use std::collections::HashMap;

/// The edges of a relation, their transforms, and the shares of validation and test edges to hold out.
pub(super) struct BuiltEdges {
    pub(super) data: EdgeData,
    pub(super) saved: SavedType,
    pub(super) held_out_shares: Option<[f64; 2]>,
}

/// The ids and the types of the ends of a relation.
pub(super) struct Ends<'a> {
    pub(super) types: [NodeTypeId; 2],
    pub(super) ids: [&'a IdMap; 2],
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
    let mut opened = Vec::with_capacity(tables.len());
    for table in tables {
        let open = Table::open(context.conf, &table.at, &table.source)?;
        opened.push(SpecTable { table: open, spec: Spec::of_edges(table), starts: Default::default() });
    }
    let mut dropped = if is_drop { check_all(&mut opened, &mut context.counts)? } else { Dropped::default() };
    let found = find_ends(context, tables[with_ends], &opened[with_ends], &dropped, ends)?;
    dropped.extend(found.dropped);
    if found.src.is_empty() && dropped.len() == 0 {
        let why = format!("the table {} has no rows", tables[with_ends].at);
        return Err(TableError::file(opened[with_ends].table.first_path(), why));
    }
    let saved = context.saved_edges(name);
    let columns = compute(context.conf, name, &opened, &dropped, saved, Some(found.src.len() as u64))?;
    let relation = tables[0].relation[1].clone();
    let mut data = EdgeData::new(ends.types[0], relation, ends.types[1], found.src.into(), found.dst.into());
    data.attributes = EdgeAttributes {
        features: columns.features,
        weights: columns.weights.map(Into::into),
        times: columns.times.map(Into::into),
    };
    let mut held_out_shares = None;
    match tables[with_ends].split.as_ref().map(|label| (label, &label.split)) {
        Some((_, SplitRule::Shares([_, valid, test]))) if valid + test > 0.0 => held_out_shares = Some([*valid, *test]),
        Some((label, SplitRule::Files(files))) => hold_out_listed(context, label, files, ends, &mut data)?,
        _ => {}
    }
    Ok(BuiltEdges { data, saved: columns.saved, held_out_shares })
}

/// The ends of the used edges.
#[derive(Default)]
struct FoundEnds {
    src: Vec<u32>,
    dst: Vec<u32>,
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
    let map = |piece: usize, mut rows: Rows| {
        let mut bad = BadInPiece::default();
        let mut found = [Vec::new(), Vec::new()];
        let mut offset = 0;
        while let Some(batch) = rows.next()? {
            let mut cells = Vec::with_capacity(2);
            for (column, name) in distinct(&batch.columns, &columns) {
                cells.push(id_cells(column).map_err(|why| batch.wrong_column(name, why))?);
            }
            let start = starts.start(piece) + offset;
            for row in dropped.kept(start..start + batch.num_rows as u64) {
                let node = |end: usize| -> Result<u32, (BadKind, String)> {
                    let column = &columns[end];
                    let Some(id) = cells[end].id(row) else {
                        return Err((BadKind::Id, format!("column {column}: the id is missing")));
                    };
                    ends.ids[end].get(id).ok_or_else(|| {
                        let node_type = &edges.relation[2 * end];
                        (
                            BadKind::DanglingEdge,
                            format!("column {column}: there is no {node_type} with the id {}", show(id)),
                        )
                    })
                };
                match node(0).and_then(|src| Ok([src, node(1)?])) {
                    Ok([src, dst]) => {
                        found[0].push(src);
                        found[1].push(dst);
                    }
                    Err((kind, why)) => bad.add(&batch, offset, (row, kind, why), policy)?,
                }
            }
            offset += batch.num_rows as u64;
        }
        Ok((found, bad))
    };
    let mut all = FoundEnds::default();
    let counts = &mut context.counts;
    scan(table, &unique(&columns), map, |piece, ([src, dst], bad)| {
        all.src.extend(src);
        all.dst.extend(dst);
        counts.add(&table.at, &bad);
        all.dropped.extend(bad.rows.iter().map(|row| starts.start(piece) + row));
        Ok(())
    })?;
    Ok(all)
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

fn show(id: Id) -> String {
    match id {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => text.to_owned(),
    }
}

/// Adds the ids of one end of a table to those of a node type without a table.
pub(super) fn collect_ids(context: &Context, table: &EdgeTable, end: usize, ids: &mut IdMap) -> Result<(), TableError> {
    let Some(columns) = &table.ends else { return Ok(()) };
    let column = &columns[end];
    let opened = Table::open(context.conf, &table.at, &table.source)?;
    let map = |_, mut rows: Rows| {
        let mut batches = Vec::new();
        while let Some(batch) = rows.next()? {
            batches.push(id_cells(&batch.columns[0]).map_err(|why| batch.wrong_column(column, why))?);
        }
        Ok(batches)
    };
    scan(&opened, std::slice::from_ref(column), map, |piece, batches| {
        for cells in batches {
            for row in 0..cells.len() {
                // The edge is checked later.
                let Some(id) = cells.id(row) else { continue };
                if ids.insert(id) == Inserted::Full {
                    let why = format!("column {column} has more than 2^32 - 1 different ids");
                    return Err(TableError::file(opened.path_of(piece), why));
                }
            }
        }
        Ok(())
    })
}

/// Holds out the edges between the nodes that the split files list. All edges between the two nodes go to the first of
/// training, validation and test that lists them. Edges that are not listed stay for training.
fn hold_out_listed(
    context: &mut Context,
    label: &Label,
    files: &SplitFiles,
    ends: &Ends,
    edges: &mut EdgeData,
) -> Result<(), TableError> {
    let mut listed: HashMap<(u32, u32), u8> = HashMap::new();
    for split in 0..3 {
        for row in read_split(context.conf, &label.at, files, split, 2)? {
            let end = |end: usize| ends.ids[end].get(row.ids[end].as_id());
            match (end(0), end(1)) {
                (Some(src), Some(dst)) => {
                    listed.entry((src, dst)).or_insert(split as u8);
                }
                _ => unknown_id(context, label, &row, "an end of this edge does not exist")?,
            }
        }
    }
    let mut positions: [Vec<u64>; 3] = Default::default();
    for (at, (&src, &dst)) in edges.src.iter().zip(edges.dst.iter()).enumerate() {
        let split = listed.get(&(src, dst)).copied().unwrap_or(0);
        positions[usize::from(split)].push(at as u64);
    }
    let list = |positions: &[u64]| EdgeList {
        times: edges.attributes.times.as_ref().map(|times| select(times, positions).into()),
        ..EdgeList::new(select(&edges.src, positions).into(), select(&edges.dst, positions).into())
    };
    let [train, valid, test] = &positions;
    let held_out = HeldOutEdges { valid: list(valid), test: list(test) };
    let kept = list(train);
    let attributes = EdgeAttributes {
        features: edges.attributes.features.as_ref().map(|features| select_features(features, train)),
        weights: edges.attributes.weights.as_ref().map(|weights| select(weights, train).into()),
        times: kept.times,
    };
    edges.src = kept.src;
    edges.dst = kept.dst;
    edges.attributes = attributes;
    edges.held_out = held_out;
    Ok(())
}

fn select<T: Copy>(values: &[T], positions: &[u64]) -> Vec<T> {
    positions.iter().map(|&at| values[at as usize]).collect()
}

/// Returns some rows of features in their stored type.
fn select_features(features: &Features, positions: &[u64]) -> Features {
    let dim = features.dim();
    match features {
        Features::F16 { values, .. } => Features::F16 { values: select_rows(values, dim, positions).into(), dim },
        Features::F32 { values, .. } => Features::F32 { values: select_rows(values, dim, positions).into(), dim },
        Features::Bf16 { .. } | Features::Int8 { .. } => unreachable!("tables become 32-bit or 16-bit floats"),
    }
}

fn select_rows<T: Copy>(values: &[T], dim: usize, positions: &[u64]) -> Vec<T> {
    positions.iter().flat_map(|&at| &values[at as usize * dim..][..dim]).copied().collect()
}
