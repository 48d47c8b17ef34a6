//! Tables that change the graph of existing parts.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

use super::Context;
use super::bad_rows::{BadInPiece, BadKind};
use super::edges::{collect_ids, show};
use super::known::{KnownEdges, KnownLabel, KnownNodes, KnownSplit, RowNumbers};
use super::nodes::{BuiltNodes, Known, MISSING_ID, read_nodes};
use super::read::{ReadGraph, TableGraph, read_graph, settle_unsupported, tables_of_nodes};
use super::update_splits::settle_splits;
use crate::conf::{Conf, Label, RemovedTable};
use crate::ids::{Id, IdMap, UserIds};
use crate::table::{Results, Rows, id_cells, scan_in_steps};
use crate::{TableError, TableOptions};
use edgecut_graph::HoldOut;
use edgecut_settings::suggestion;
use std::path::Path;

/// The types and the nodes of existing parts.
pub struct KnownGraph {
    /// The node types, in the order of the parts.
    pub node_types: Vec<KnownNodes>,
    /// The edge types.
    pub edge_types: Vec<KnownEdges>,
    /// True if the parts have `transforms.json`.
    pub has_transforms: bool,
}

/// The changes that tables make to the graph of existing parts.
#[derive(Debug)]
pub struct TableUpdate {
    /// The rows of the tables. Node types are those of the parts, in their order, and have a row for each row of a table; edge
    /// types are those of the tables. The ends of edges, and the id maps, are of all nodes after the update: nodes that stay in
    /// the order of their original ids, then new nodes.
    pub graph: TableGraph,
    /// The number after the update of the node of each row, by node type.
    pub numbers: Vec<Vec<u32>>,
    /// True for each known node that is removed, by node type and original id.
    pub removed_nodes: Vec<Vec<bool>>,
    /// The edges to remove.
    pub removed_edges: Vec<RemovedEdges>,
    /// Positions of edge types of `graph`, each with the rule that holds out some of its edges. They are not held out yet,
    /// since edges of the parts decide about later edges between the same nodes. The rule of edges that files list is
    /// [`HoldOut::NOTHING`].
    pub held_out: Vec<(usize, HoldOut)>,
}

/// Edges to remove, which a table lists.
#[derive(Debug)]
pub struct RemovedEdges {
    /// The path of the table in the configuration.
    pub at: String,
    /// The names of the source type, the relation and the destination type.
    pub edge_type: [String; 3],
    /// The original ids of both ends before the update.
    pub pairs: Vec<[u32; 2]>,
}

/// Reads the changes that the configuration file `path` describes to the graph `known`. A row with the id of a known node
/// changes all attributes of this node; a known node stays in its split. Removals come first, so that the id of a removed node
/// may come again for a new one. The transforms, the classes and the rules of splits of the parts are those of `options`.
///
/// # Errors
/// As for [`read_tables`](crate::read_tables), and for types, features and ids that do not fit the parts.
pub fn read_update(
    path: &Path,
    name: &str,
    options: &TableOptions,
    known: KnownGraph,
) -> Result<TableUpdate, TableError> {
    let mut conf = Conf::read_update(path, options)?;
    let mut warnings = settle_unsupported(&conf, options)?;
    let KnownGraph { node_types: known, edge_types, has_transforms } = known;
    check_types(&conf, &known, &edge_types)?;
    settle_labels(&mut conf, &known)?;
    let recorded = options.transforms.as_ref().filter(|_| has_transforms);
    warnings.extend(settle_splits(&mut conf, recorded, &edge_types)?);
    let mut context = Context { is_update: true, ..Context::new(path, options) };
    let removed_edges = removed_edges(&mut context, &conf, &known)?;
    let removed_nodes = removed_nodes(&mut context, &conf, &known)?;
    let tables = tables_of_nodes(&conf);
    let without_table = conf.types_without_table();
    let mut node_types = Vec::with_capacity(known.len());
    for (of_type, is_removed) in known.into_iter().zip(&removed_nodes) {
        let KnownNodes { name, mut ids, labels, has_table, .. } = of_type;
        let mut splits: Vec<Vec<KnownSplit>> = labels.into_iter().map(|label| label.splits).collect();
        let next_row = match ids.ids() {
            UserIds::Rows(num_rows) => Some(u64::from(*num_rows)),
            UserIds::Numbers(_) | UserIds::Texts { .. } => None,
        };
        if is_removed.contains(&true) {
            let is_kept: Vec<bool> = is_removed.iter().map(|is_removed| !is_removed).collect();
            context.removed_ids.insert(name.clone(), ids.without(&is_kept));
            ids = ids.without(is_removed);
            for of_label in &mut splits {
                let kept = of_label.iter().zip(is_removed).filter(|(_, is_removed)| !**is_removed);
                *of_label = kept.map(|(split, _)| *split).collect();
            }
        }
        let mut built = match tables.get(name.as_str()) {
            Some(tables) => {
                let known = Known { rows: RowNumbers::new(ids.len(), splits), ids, next_row };
                read_nodes(&mut context, &name, tables, Some(known))?
            }
            None if !has_table && without_table.contains(name.as_str()) => nodes_of_edges(&context, &conf, &name, ids)?,
            None => BuiltNodes::without_rows(&name, ids),
        };
        built.has_table |= has_table;
        node_types.push(built);
    }
    let numbers = node_types.iter_mut().map(|built| std::mem::take(&mut built.numbers)).collect();
    let ReadGraph { graph, held_out } = read_graph(context, &conf, name, node_types)?;
    warnings.extend(graph.warnings);
    Ok(TableUpdate { graph: TableGraph { warnings, ..graph }, numbers, removed_nodes, removed_edges, held_out })
}

/// Checks that the parts have all types of the tables, and transforms for their features.
fn check_types(conf: &Conf, known: &[KnownNodes], edge_types: &[KnownEdges]) -> Result<(), TableError> {
    let node_names: Vec<&str> = known.iter().map(|of_type| of_type.name.as_str()).collect();
    let of_nodes = conf.nodes.iter().map(|table| (&table.at, &table.node_type));
    let of_removed = conf.removed_nodes.iter().map(|table| (&table.at, &table.of[0]));
    for (at, name) in of_nodes.chain(of_removed) {
        if !node_names.contains(&name.as_str()) {
            let hint = suggestion(name, node_names.iter().copied());
            let why = format!(
                "{at}.node_type: the parts have no node type {name}{hint}. Their node types are {}: an update adds no types, so \
                 partition all tables together",
                node_names.join(", ")
            );
            return Err(TableError::file(&conf.path, why));
        }
    }
    let of_edges = conf.edges.iter().map(|table| (&table.at, &table.relation[..]));
    let of_removed = conf.removed_edges.iter().map(|table| (&table.at, &table.of[..]));
    for (at, names) in of_edges.chain(of_removed) {
        check_relation(at, names, edge_types).map_err(|why| TableError::file(&conf.path, why))?;
    }
    let nodes = conf.nodes.iter().map(|table| (&table.at, table.node_type.clone()));
    let nodes = nodes.filter(|(_, name)| known.iter().any(|of_type| of_type.name == *name && of_type.lacks_transforms));
    let edges = conf.edges.iter().map(|table| (&table.at, table.relation.join("__")));
    let edges = edges.filter(|(_, name)| edge_types.iter().any(|e| e.names.join("__") == *name && e.lacks_transforms));
    if let Some((at, name)) = nodes.chain(edges).next() {
        let why = format!(
            "{at}: the features of {name} in the parts are from arrays, and have no transforms for rows of tables: add the rows \
             to the arrays, and partition again. An update can remove nodes and edges, and add rows to types without features"
        );
        return Err(TableError::file(&conf.path, why));
    }
    Ok(())
}

/// Brings the labels of each table into the order of the parts. A table has all labels of its type or none.
///
/// # Errors
/// Names the first table with some of several labels, or with others than the parts.
fn settle_labels(conf: &mut Conf, known: &[KnownNodes]) -> Result<(), TableError> {
    for table in conf.nodes.iter_mut().filter(|table| !table.labels.is_empty()) {
        let Some(of_type) = known.iter().find(|of_type| of_type.name == table.node_type) else { continue };
        let is_one = of_type.labels.len() == 1 && table.labels.len() == 1;
        if is_one {
            // The only label has no name in the parts.
            continue;
        }
        table.labels.sort_by_key(|label| of_type.labels.iter().position(|known| known.name == label.name()));
        let found: Vec<&str> = table.labels.iter().map(Label::name).collect();
        let of_parts: Vec<&str> = of_type.labels.iter().map(|label: &KnownLabel| &label.name[..]).collect();
        if found != of_parts {
            let of_parts = match &of_parts[..] {
                [""] => "one label".to_owned(),
                several => format!("the labels {}", several.join(", ")),
            };
            let why = format!(
                "{}.labels: the table has the labels {}, but the nodes of type {} have {of_parts} in the parts: list all of them, or \
                 leave labels out, which keeps the labels of known nodes",
                table.at,
                found.join(", "),
                table.node_type
            );
            return Err(TableError::file(&conf.path, why));
        }
    }
    Ok(())
}

/// Checks that the parts have an edge type, and that `add_reverse_edges` has not made it.
///
/// # Errors
/// Describes the type that the parts do not have.
fn check_relation(at: &str, names: &[String], edge_types: &[KnownEdges]) -> Result<(), String> {
    match edge_types.iter().find(|known| known.names == names) {
        Some(KnownEdges { reverse_of: None, .. }) => Ok(()),
        Some(KnownEdges { reverse_of: Some(forward), .. }) => Err(format!(
            "{at}.relation: the edges of {} are the reverses of {forward:?}, which --add-reverse-edges has added: list \
             {forward:?} instead, whose reverses follow",
            names.join("__")
        )),
        None => {
            let relations: Vec<String> = edge_types.iter().map(|known| known.names.join("__")).collect();
            let name = names.join("__");
            // Another division of the same names into three.
            let hint = match edge_types.iter().find(|known| known.names.join("__") == name) {
                Some(known) => format!(" of {names:?}, but {:?}", known.names),
                None => suggestion(&name, relations.iter().map(String::as_str)),
            };
            Err(format!(
                "{at}.relation: the parts have no edge type {name}{hint}. Their edge types are {}: an update adds no types, so \
                 partition all tables together",
                relations.join(", ")
            ))
        }
    }
}

/// Adds the ids that edges name of a type without attributes and without a table, in ascending order.
fn nodes_of_edges(context: &Context, conf: &Conf, name: &str, mut ids: IdMap) -> Result<BuiltNodes, TableError> {
    let num_known = ids.len();
    let mut named = IdMap::new();
    collect_ids(context, conf, name, &mut named, u64::MAX)?;
    if !ids.extend(&named.sorted()) {
        return Err(TableError::file(context.conf, format!("node type {name} has more than 2^32 - 1 nodes")));
    }
    let mut built = BuiltNodes::without_rows(name, ids);
    built.numbers = (num_known as u32..built.ids.len() as u32).collect();
    built.data.num_nodes = built.numbers.len();
    Ok(built)
}

/// Returns true for each known node that a table removes.
fn removed_nodes(context: &mut Context, conf: &Conf, known: &[KnownNodes]) -> Result<Vec<Vec<bool>>, TableError> {
    let mut removed: Vec<Vec<bool>> = known.iter().map(|of_type| vec![false; of_type.ids.len()]).collect();
    for table in &conf.removed_nodes {
        for (of_type, removed) in known.iter().zip(&mut removed).filter(|(of_type, _)| of_type.name == table.of[0]) {
            for node in read_removed(context, table, &[of_type])?.into_iter().flatten() {
                removed[node as usize] = true;
            }
        }
    }
    Ok(removed)
}

/// Returns the edges that tables remove.
fn removed_edges(context: &mut Context, conf: &Conf, known: &[KnownNodes]) -> Result<Vec<RemovedEdges>, TableError> {
    let mut removed = Vec::with_capacity(conf.removed_edges.len());
    for table in &conf.removed_edges {
        let Ok(edge_type) = <[String; 3]>::try_from(table.of.clone()) else { continue };
        let src = known.iter().find(|of_type| of_type.name == edge_type[0]);
        let dst = known.iter().find(|of_type| of_type.name == edge_type[2]);
        let (Some(src), Some(dst)) = (src, dst) else { continue };
        let rows = read_removed(context, table, &[src, dst])?;
        let pairs = rows.into_iter().map(|row| [row[0], row[1]]).collect();
        removed.push(RemovedEdges { at: table.at.clone(), edge_type, pairs });
    }
    Ok(removed)
}

/// Reads the original ids of the nodes in each row of a table of removals, whose columns have ids of `types`.
fn read_removed(
    context: &mut Context,
    removed: &RemovedTable,
    types: &[&KnownNodes],
) -> Result<Vec<Vec<u32>>, TableError> {
    let table = context.open(&removed.at, &removed.source)?;
    let policy = context.options.on_bad_rows;
    let columns = &removed.columns;
    let read = |_, mut rows: Rows, results: &Results<_>| {
        let mut offset = 0;
        while let Some(batch) = rows.next()? {
            let mut cells = Vec::with_capacity(columns.len());
            for (column, name) in batch.columns.iter().zip(columns) {
                cells.push(id_cells(column).map_err(|why| batch.no_ids(name, &why))?);
            }
            let mut bad = BadInPiece::default();
            let mut found = Vec::with_capacity(batch.num_rows);
            for row in 0..batch.num_rows {
                let mut nodes = Vec::with_capacity(columns.len());
                for ((cells, of_type), column) in cells.iter().zip(types).zip(columns) {
                    match find(cells.id(row), of_type, column) {
                        Ok(node) => nodes.push(node),
                        Err((kind, why)) => bad.add(&batch, offset, (row, kind, why), policy)?,
                    }
                }
                if nodes.len() == columns.len() {
                    found.push(nodes);
                }
            }
            offset += batch.num_rows as u64;
            results.push((found, bad))?;
        }
        Ok(())
    };
    let mut all = Vec::new();
    let counts = &mut context.counts;
    scan_in_steps(&table, "reading removals", columns, 0, read, |_, (found, bad)| {
        all.extend(found);
        counts.add(&table.at, &bad);
        Ok(())
    })?;
    Ok(all)
}

/// Returns the original id of the node with an id, or why there is none.
fn find(id: Option<Id>, of_type: &KnownNodes, column: &str) -> Result<u32, (BadKind, String)> {
    let Some(id) = id else { return Err((BadKind::Id, format!("column {column}: {MISSING_ID}"))) };
    of_type.ids.get(id).ok_or_else(|| {
        (BadKind::RemovedId, format!("column {column}: there is no {} with the id {}", of_type.name, show(id)))
    })
}
