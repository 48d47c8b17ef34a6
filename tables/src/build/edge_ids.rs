//! The ids of the edges of a relation, from their table.

use super::Context;
use super::columns::SpecTable;
use super::kept::Dropped;
use super::nodes::{Ids, insert_ids};
use crate::TableError;
use crate::ids::{IdMap, UserIds, draw_key_of_text};
use edgecut_graph::rng::combine;
use edgecut_graph::{EdgeData, EdgeId, EdgeIds, TextArray};
use std::collections::HashMap;

/// The ids of the rows of a table of edges that have an id of their own.
pub(super) struct RowIds {
    ids: IdMap,
    /// The row of each id, ascending.
    rows: Vec<u64>,
}

/// Reads the ids of the rows that are used. Adds rows without an id, and with the id of an earlier row, to `dropped`.
///
/// # Errors
/// Fails at the first such row, unless such rows are dropped.
pub(super) fn read_ids(
    context: &mut Context,
    name: &str,
    table: &SpecTable,
    column: &str,
    dropped: &mut Dropped,
) -> Result<RowIds, TableError> {
    let mut ids = IdMap::new();
    // The ids of dropped edges are not needed: no other table names them.
    let mut of_dropped = IdMap::new();
    let into = Ids { used: &mut ids, dropped: &mut of_dropped, rows: None };
    let bad = insert_ids(context, name, table, column, dropped, into)?;
    let num_rows = ids.len() as u64 + bad.len() as u64 + dropped.len();
    dropped.extend(bad);
    let rows = dropped.kept(0..num_rows).map(|row| row as u64).collect();
    Ok(RowIds { ids, rows })
}

impl RowIds {
    /// Returns the ids of the rows that are not among `dropped`.
    ///
    /// # Errors
    /// [`TableError::Graph`] if a scratch file cannot be written.
    pub(super) fn finish(self, context: &Context, dropped: &[u64]) -> Result<EdgeIds, TableError> {
        let mut dropped = dropped.to_vec();
        dropped.sort_unstable();
        let mut kept = Vec::with_capacity(self.rows.len());
        for (at, row) in self.rows.iter().enumerate() {
            if dropped.binary_search(row).is_err() {
                kept.push(at as u64);
            }
        }
        let ids = match self.ids.into_ids() {
            UserIds::Rows(num_rows) => EdgeIds::Numbers((0..i64::from(num_rows)).collect::<Vec<i64>>().into()),
            UserIds::Numbers(numbers) => EdgeIds::Numbers(numbers.into()),
            UserIds::Texts { bytes, ends } => {
                let texts = TextArray::new(bytes.into(), ends.into());
                EdgeIds::Texts(texts.map_err(|why| TableError::file(context.conf, why))?)
            }
        };
        if kept.len() == ids.len() {
            return Ok(ids);
        }
        Ok(ids.select_in(&context.options.space, &kept)?)
    }
}

/// Returns the keys by which edges with ids draw random numbers.
pub(super) fn keys_of_ids(ids: &EdgeIds) -> Vec<i64> {
    let mut keys = Vec::with_capacity(ids.len());
    for edge in 0..ids.len() {
        keys.push(match ids.get(edge) {
            EdgeId::Number(number) => number,
            EdgeId::Text(text) => draw_key_of_text(text) as i64,
        });
    }
    keys
}

/// Returns the keys by which edges without ids draw random numbers: of the ids of both ends and the time. Edges that have all
/// of these in common are counted.
pub(super) fn keys_of_ends([src, dst]: [&IdMap; 2], edges: &EdgeData, times: Option<&[i64]>) -> Vec<i64> {
    let mut num_same: HashMap<u64, u64> = HashMap::new();
    let mut keys = Vec::with_capacity(edges.src.len());
    for edge in 0..edges.src.len() {
        let of_ends = combine(src.ids().draw_key(edges.src[edge]), dst.ids().draw_key(edges.dst[edge]));
        let key = combine(of_ends, times.map_or(0, |times| times[edge] as u64));
        let number = num_same.entry(key).or_default();
        keys.push(combine(key, *number) as i64);
        *number += 1;
    }
    keys
}
