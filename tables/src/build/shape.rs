//! The sizes of a graph in tables, from the descriptions and the first rows of its files.

use super::Context;
use super::columns::dtype;
use super::edges::collect_ids;
use super::read::{settle_unsupported, tables_of_edges, tables_of_nodes};
use super::spec::{FeatureCells, LabelCells, Spec};
use crate::conf::{Conf, EdgeTable, Label, NodeTable, SplitRule};
use crate::ids::IdMap;
use crate::table::{IdCells, Source, Table, id_cells, paths};
use crate::transform::{FittedFeature, MAX_COUNTED, Partial, SavedType};
use crate::{TableError, TableOptions};
use edgecut_graph::readers::{EdgeShape, GraphShape, NodeShape};
use std::collections::BTreeMap;
use std::path::Path;

/// The memory of an id map while it grows, compared with that of the finished map.
const GROWTH: u64 = 2;
/// The bytes that the rank of a value takes: the value twice, while the column grows, and the table of values and outputs.
const RANK_BYTES: u64 = 40;
/// The bytes that a counted value takes in the counts of a piece and in those of the table: a text, its count and their share of
/// a tree.
const COUNT_BYTES: u64 = 200;
/// The bytes of an edge in a file of a split, few enough that the memory of its ids is counted as well.
const SPLIT_ROW_BYTES: u64 = 3;

/// The sizes of a graph in tables, estimated from the descriptions of Parquet files and from the first rows of tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableShape {
    /// The sizes of the graph.
    pub graph: GraphShape,
    /// The memory of the id maps while they grow.
    pub id_bytes: u64,
    /// The most memory that the fits of a type take.
    pub fit_bytes: u64,
    /// The bytes of all files of tables.
    pub input_bytes: u64,
}

/// The sizes of a table, estimated from its first rows.
#[derive(Default)]
struct Sampled {
    num_rows: u64,
    /// The number of features.
    dim: usize,
    /// The targets per node.
    target_dim: usize,
    fit_bytes: u64,
}

impl TableShape {
    /// Reads the sizes of the graph that the configuration file `path` describes. The ids of node types without a table are
    /// read whole. Features that are [deferred](TableOptions::defers_features) do not count.
    ///
    /// # Errors
    /// As for [`read_tables`](crate::read_tables), as far as the files are read, and for ids that take more than `limit` bytes
    /// of memory.
    pub fn read(path: &Path, options: &TableOptions, limit: u64) -> Result<Self, TableError> {
        let conf = Conf::read(path, options)?;
        settle_unsupported(&conf, options)?;
        let context = Context::new(path, options);
        let mut shape = Self::default();
        let mut node_types: BTreeMap<&str, NodeShape> = BTreeMap::new();
        for (node_type, tables) in tables_of_nodes(&conf) {
            node_types.insert(node_type, shape.nodes(&context, node_type, &tables)?);
        }
        for name in conf.types_without_table() {
            let mut ids = IdMap::new();
            collect_ids(&context, &conf, name, &mut ids, limit)?;
            shape.id_bytes += GROWTH * ids.memory_bytes() as u64;
            let nodes = NodeShape { name: name.to_owned(), num_nodes: ids.len() as u64, ..NodeShape::default() };
            node_types.insert(name, nodes);
        }
        let names: Vec<&str> = node_types.keys().copied().collect();
        for (relation, tables) in tables_of_edges(&conf)? {
            let ends = [0, 2].map(|end| names.iter().position(|name| *name == tables[0].relation[end]).unwrap_or(0));
            let edges = shape.edges(&context, &relation, &tables, ends)?;
            shape.graph.edge_types.push(edges);
        }
        shape.graph.node_types = node_types.into_values().collect();
        Ok(shape)
    }

    fn nodes(&mut self, context: &Context, name: &str, tables: &[&NodeTable]) -> Result<NodeShape, TableError> {
        let mut nodes = NodeShape { name: name.to_owned(), ..NodeShape::default() };
        let saved = context.saved_nodes(name);
        let mut dim = 0;
        let mut fit_bytes = 0;
        for table in tables {
            let opened = self.open(context, &table.at, &table.source)?;
            let sampled = sample(&opened, &Spec::of_nodes(table), saved)?;
            dim += sampled.dim;
            fit_bytes += sampled.fit_bytes;
            nodes.num_nodes = nodes.num_nodes.max(sampled.num_rows);
            nodes.has_times |= table.time_col.is_some();
            nodes.has_labels |= sampled.target_dim == 0 && !table.labels.is_empty();
            nodes.target_dim += sampled.target_dim;
            for (at, label) in table.labels.iter().enumerate() {
                nodes.num_in_splits += match &label.split {
                    SplitRule::Shares { shares, .. } => shares.iter().map(|share| share.of(sampled.num_rows)).sum(),
                    SplitRule::Files(_) => sampled.num_rows,
                };
                if at > 0 {
                    // A class has the size of two targets.
                    nodes.target_dim += match sample(&opened, &Spec::of_label(label), saved)?.target_dim {
                        0 => 2,
                        dim => dim,
                    };
                }
            }
            if let Some(column) = &table.id_col {
                self.id_bytes += GROWTH * id_bytes(&opened, column)?;
            }
        }
        let dim = if context.options.defers_features { 0 } else { dim };
        nodes.features = (dim > 0).then(|| (dim, dtype(tables.iter().flat_map(|table| &table.features))));
        self.fit_bytes = self.fit_bytes.max(fit_bytes);
        Ok(nodes)
    }

    fn edges(
        &mut self,
        context: &Context,
        name: &str,
        tables: &[&EdgeTable],
        [src_type, dst_type]: [usize; 2],
    ) -> Result<EdgeShape, TableError> {
        let mut edges = EdgeShape { src_type, dst_type, ..EdgeShape::default() };
        let saved = context.saved_edges(name);
        let mut dim = 0;
        let mut fit_bytes = 0;
        for table in tables {
            let opened = self.open(context, &table.at, &table.source)?;
            let sampled = sample(&opened, &Spec::of_edges(table), saved)?;
            dim += sampled.dim;
            fit_bytes += sampled.fit_bytes;
            edges.num_edges = edges.num_edges.max(sampled.num_rows);
            edges.has_times |= table.time_col.is_some();
            edges.has_weights |= table.weight_col.is_some();
            edges.label_bytes = edges.label_bytes.max(label_bytes(table.label.as_ref(), sampled.target_dim));
            if let Some(column) = &table.id_col {
                let bytes = id_bytes(&opened, column)?;
                self.id_bytes += GROWTH * bytes;
                edges.id_bytes = bytes / sampled.num_rows.max(1);
            }
            let held_out_label = table.label.as_ref().filter(|label| label.column.is_none());
            edges.num_held_out += held_out(context, held_out_label, sampled.num_rows)?;
        }
        edges.features = (dim > 0).then(|| (dim, dtype(tables.iter().flat_map(|table| &table.features))));
        self.fit_bytes = self.fit_bytes.max(fit_bytes);
        Ok(edges)
    }

    fn open(&mut self, context: &Context, at: &str, source: &Source) -> Result<Table, TableError> {
        let opened = context.open(at, source)?;
        self.input_bytes += opened.num_bytes();
        Ok(opened)
    }
}

/// Returns the bytes of the label and the split of each edge, 0 without labels.
fn label_bytes(label: Option<&Label>, target_dim: usize) -> u64 {
    if label.is_none_or(|label| label.column.is_none()) {
        return 0;
    }
    1 + if target_dim > 0 { 4 * target_dim as u64 } else { 8 }
}

/// Returns the most edges that a label holds out.
fn held_out(context: &Context, label: Option<&Label>, num_rows: u64) -> Result<u64, TableError> {
    let Some(label) = label else { return Ok(0) };
    match &label.split {
        SplitRule::Shares { shares: [_, valid, test], .. } => Ok(valid.plus(*test).of(num_rows)),
        SplitRule::Files(files) => {
            let mut num_bytes = 0;
            for patterns in files.files.iter().filter(|patterns| !patterns.is_empty()) {
                for path in paths(context.conf, &label.at, patterns)? {
                    num_bytes += path.metadata().map_err(|error| TableError::io(&path, error))?.len();
                }
            }
            Ok(num_bytes / SPLIT_ROW_BYTES)
        }
    }
}

/// Estimates the sizes of a table.
fn sample(table: &Table, spec: &Spec, saved: Option<&SavedType>) -> Result<Sampled, TableError> {
    let mut sampled = Sampled::default();
    let mut widths = spec.widths.clone();
    let mut partials: Vec<Option<Partial>> = Vec::new();
    let mut columns: Vec<usize> = vec![1; spec.features.len()];
    for feature in &spec.features {
        partials.push(Partial::new(&feature.transform, feature.impute.as_ref()));
    }
    let mut row_numbers = Vec::new();
    let mut num_sampled = 0;
    sampled.num_rows = table.sample(&spec.columns(), |batch| {
        let decoded = spec.decode(batch, &mut widths)?;
        num_sampled += batch.num_rows as u64;
        if let Some(LabelCells::Targets { width, .. }) = decoded.label {
            sampled.target_dim = sampled.target_dim.max(width);
        }
        for (at, cells) in decoded.features.iter().enumerate() {
            if let FeatureCells::Numbers(numbers) = cells {
                columns[at] = numbers.iter().map(|column| column.width).sum();
            }
            let Some(partial) = &mut partials[at] else { continue };
            for row in 0..batch.num_rows {
                // Reading tells which row has too many categories.
                let _ = partial.add(cells.row(row, &mut row_numbers));
            }
        }
        Ok(())
    })?;
    for ((feature, partial), width) in spec.features.iter().zip(&partials).zip(columns) {
        let fitted = match saved.and_then(|saved| saved.feature(&feature.name)) {
            Some(fitted) => Ok(fitted),
            None => FittedFeature::fit_unchecked(&feature.transform, feature.impute.as_ref(), partial.as_ref()),
        };
        sampled.dim += fitted.map_or(width, |fitted| fitted.output_width(width));
        if saved.is_none() && feature.keeps_values() {
            sampled.fit_bytes += RANK_BYTES * sampled.num_rows * width as u64;
        }
        if let Some(partial) = partial.as_ref().filter(|_| saved.is_none()) {
            // New values become rarer with every row, so these are at most as many.
            let num_counted = partial.num_counted() as u64 * sampled.num_rows / num_sampled.max(1);
            sampled.fit_bytes += COUNT_BYTES * num_counted.min(MAX_COUNTED as u64);
        }
    }
    Ok(sampled)
}

/// Estimates the memory of the ids in a column.
fn id_bytes(table: &Table, column: &str) -> Result<u64, TableError> {
    let mut ids = IdMap::new();
    let num_rows = table.sample(&[column.to_owned()], |batch| {
        let cells: IdCells = id_cells(&batch.columns[0]).map_err(|why| batch.no_ids(column, &why))?;
        (0..cells.len()).filter_map(|row| cells.id(row)).for_each(|id| {
            ids.insert(id);
        });
        Ok(())
    })?;
    Ok((ids.memory_bytes() as u128 * u128::from(num_rows) / ids.len().max(1) as u128) as u64)
}
