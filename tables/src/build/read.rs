//! Reading of all tables of a configuration.

use super::edges::{Ends, collect_ids, read_edges};
use super::nodes::{BuiltNodes, read_nodes};
use super::{Context, DroppedRows};
use crate::conf::{Conf, EdgeTable, NodeTable, joined};
use crate::ids::{IdMap, IdMaps};
use crate::{TableError, TableOptions, Transforms, Unsupported};
use edgecut_graph::part_writer::NodeTypeFacts;
use edgecut_graph::{Dataset, EdgeTypeId, FeatureDtype, HoldOut, KnownPairs, NodeTypeId, TimeUnit};
use edgecut_settings::{counted, near_name};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const UNKNOWN_UNIT: &str = "the transforms are those of an older version, in whose graphs timestamps and dates counted in \
                            their stored unit. Here they are nanoseconds: partition the graph of the model again if the \
                            unit matters";

/// A graph that was read from tables.
#[derive(Debug)]
pub struct TableGraph {
    /// The graph. Node types and edge types are in the order of their names. The original id of a node is the number of
    /// its row among the used rows of its type.
    pub dataset: Dataset,
    /// The ids of the nodes in the tables, by node type.
    pub id_maps: IdMaps,
    /// The transforms of all features.
    pub transforms: Transforms,
    /// For each node type, the number and the stored type of features that are built after the parts.
    pub deferred_features: Vec<Option<(usize, FeatureDtype)>>,
    /// For each node type, whether it has a table.
    pub node_facts: Vec<NodeTypeFacts>,
    /// The rows that were left out.
    pub dropped: Vec<DroppedRows>,
    /// One sentence each about features and labels that were left out, and about rows that were left out.
    pub warnings: Vec<String>,
    /// One sentence for each column with missing values, and for each feature with unknown categories.
    pub notes: Vec<String>,
    /// The unit of all times, if there are times.
    pub time_unit: Option<TimeUnit>,
}

/// Reads the graph that the configuration file `path` describes, and names it `name`.
///
/// Nodes are numbered by their rows, in the order of the paths of the files. A node type without a table has the ids
/// that its edges name, in ascending order. The result does not depend on the number of threads.
///
/// ```
/// use edgecut_tables::{TableOptions, read_tables};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// std::fs::write(dir.join("cites.csv"), "from,to\na,b\nb,c\n")?;
/// let conf = r#"{"edges": [{"relation": ["paper", "cites", "paper"], "files": "cites.csv",
///                           "source_id_col": "from", "dest_id_col": "to"}]}"#;
/// std::fs::write(dir.join("graph.json"), conf)?;
/// let read = read_tables(&dir.join("graph.json"), "papers", &TableOptions::default())?;
/// assert_eq!((read.dataset.node_types[0].num_nodes, read.dataset.num_edges()), (3, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails for an invalid configuration with the path of the key, for files that cannot be read, and for rows that cannot
/// be used with file and row, unless such rows are dropped.
pub fn read_tables(path: &Path, name: &str, options: &TableOptions) -> Result<TableGraph, TableError> {
    let conf = Conf::read(path, options)?;
    let mut warnings = settle_unsupported(&conf, options)?;
    let mut context = Context::new(path, options);
    let mut node_types = BTreeMap::new();
    for (node_type, tables) in tables_of_nodes(&conf) {
        node_types.insert(node_type, read_nodes(&mut context, node_type, &tables, None)?);
    }
    add_types_of_edges(&context, &conf, &mut node_types)?;
    let ReadGraph { mut graph, held_out } = read_graph(context, &conf, name, node_types.into_values().collect())?;
    for (edge_type, hold_out) in held_out {
        let edge_types = [EdgeTypeId(edge_type as u16)];
        let keys = &graph.id_maps;
        graph.dataset.hold_out_edges_in(&options.space, &edge_types, &hold_out, keys, &KnownPairs::default())?;
    }
    warnings.extend(warnings_of_names(&conf));
    warnings.extend(graph.warnings);
    Ok(TableGraph { warnings, ..graph })
}

/// A graph, and the edges to hold out.
pub(super) struct ReadGraph {
    pub(super) graph: TableGraph,
    /// Positions of edge types, each with the rule that holds out some of its edges.
    pub(super) held_out: Vec<(usize, HoldOut)>,
}

/// Reads the edges between nodes that have been read, and joins them to a graph.
pub(super) fn read_graph(
    mut context: Context,
    conf: &Conf,
    name: &str,
    node_types: Vec<BuiltNodes>,
) -> Result<ReadGraph, TableError> {
    let mut dataset = Dataset { name: name.to_owned(), node_types: Vec::new(), edge_types: Vec::new() };
    let mut transforms = Transforms::default();
    let mut id_maps = Vec::new();
    let mut dropped_ids = Vec::new();
    let mut deferred_features = Vec::new();
    let mut node_facts = Vec::new();
    for BuiltNodes { data, ids, dropped_ids: dropped, numbers: _, saved, deferred, has_table } in node_types {
        node_facts.push(NodeTypeFacts { has_table, ..NodeTypeFacts::default() });
        dropped_ids.push(dropped);
        deferred_features.push(deferred);
        transforms.node_types.insert(data.name.clone(), saved);
        context.warnings.extend(warning_of_forms(&data.name, &ids));
        dataset.node_types.push(data);
        id_maps.push(ids);
    }
    let removed_ids = std::mem::take(&mut context.removed_ids);
    let mut held_out = Vec::new();
    for (relation, tables) in tables_of_edges(conf)? {
        let [src, _, dst] = &tables[0].relation;
        let [from, to] = [src, dst].map(|name| position(&dataset, name));
        let ends = Ends {
            types: [from, to].map(|t| NodeTypeId(t as u16)),
            ids: [&id_maps[from], &id_maps[to]],
            dropped: [&dropped_ids[from], &dropped_ids[to]],
            removed: [removed_ids.get(src), removed_ids.get(dst)],
        };
        let built = read_edges(&mut context, &relation, &tables, &ends)?;
        held_out.extend(built.held_out.map(|rule| (dataset.edge_types.len(), rule)));
        dataset.edge_types.push(built.data);
        transforms.edge_types.insert(relation, built.saved);
    }
    let options = context.options;
    let mut warnings = std::mem::take(&mut context.warnings);
    warnings.extend(context.missing.warnings_of_signs());
    let mut notes = context.missing.notes();
    // The transforms of other parts stay as they are.
    if options.transforms.is_none() && !context.is_update {
        notes.extend(context.missing.notes_of_ranges());
        notes.extend(context.missing.notes_of_classes());
    }
    let time_unit = context.times.map(|times| times.unit);
    transforms.time_unit = time_unit;
    if time_unit == Some(TimeUnit::Nanoseconds) && options.transforms.as_ref().is_some_and(Transforms::is_without_unit)
    {
        warnings.push(UNKNOWN_UNIT.into());
    }
    let dropped = context.counts.into_list();
    warnings.extend(dropped.iter().map(ToString::to_string));
    let id_maps = IdMaps(id_maps);
    let graph =
        TableGraph { dataset, id_maps, transforms, deferred_features, node_facts, dropped, warnings, notes, time_unit };
    Ok(ReadGraph { graph, held_out })
}

fn position(dataset: &Dataset, node_type: &str) -> usize {
    let found = dataset.node_types.iter().position(|nodes| nodes.name == node_type);
    found.expect("all types have been read")
}

/// Returns warnings of the unsupported parts of a configuration, or all of them as an error.
pub(super) fn settle_unsupported(conf: &Conf, options: &TableOptions) -> Result<Vec<String>, TableError> {
    if options.unsupported == Unsupported::Error && !conf.unsupported.is_empty() {
        let mut reasons = Vec::new();
        for left_out in &conf.unsupported {
            reasons.push(format!("{left_out}: it is not supported"));
        }
        let why = format!("{}. `unsupported=skip` leaves out what is not supported", joined(&reasons));
        return Err(TableError::file(&conf.path, why));
    }
    Ok(conf.unsupported.iter().map(|left_out| format!("not supported, left out: {left_out}")).collect())
}

pub(super) fn tables_of_nodes(conf: &Conf) -> BTreeMap<&str, Vec<&NodeTable>> {
    let mut types: BTreeMap<&str, Vec<&NodeTable>> = BTreeMap::new();
    conf.nodes.iter().for_each(|table| types.entry(&table.node_type).or_default().push(table));
    types
}

/// Returns the tables of each relation, by the names of its source type, relation and destination type, joined as in parts.
///
/// # Errors
/// Fails for two relations with the same joined names.
pub(super) fn tables_of_edges(conf: &Conf) -> Result<BTreeMap<String, Vec<&EdgeTable>>, TableError> {
    let mut types: BTreeMap<String, Vec<&EdgeTable>> = BTreeMap::new();
    for table in &conf.edges {
        let name = table.relation.join("__");
        let tables = types.entry(name.clone()).or_default();
        if let Some(other) = tables.first().filter(|other| other.relation != table.relation) {
            let why = format!(
                "{}.relation: {:?} and {:?} of {}.relation both have the name {name} in parts: rename one of them",
                table.at, table.relation, other.relation, other.at
            );
            return Err(TableError::file(&conf.path, why));
        }
        tables.push(table);
    }
    Ok(types)
}

/// Warns of nodes whose ids differ only in how they are written, as texts and floats of one column do.
fn warning_of_forms(node_type: &str, ids: &IdMap) -> Option<String> {
    let found = ids.in_two_forms()?;
    let [short, other] = found.first;
    Some(format!(
        "{node_type}: ids that differ only in spaces, zeros before digits or .0 are different nodes, as {short:?} and {other:?} are \
         ({} in all). If they name one node, write them in one form in all tables, for example whole numbers with pandas: \
         table[column] = table[column].astype(\"Int64\")",
        counted(found.count, "pair", "pairs")
    ))
}

/// Warns of node types that only edges name, if their name is close to a type that has a table.
fn warnings_of_names(conf: &Conf) -> Vec<String> {
    let mut warnings = Vec::new();
    for name in conf.types_without_table() {
        let Some(near) = near_name(name, conf.nodes.iter().map(|table| table.node_type.as_str())) else { continue };
        let at = conf.edges.iter().find(|table| table.relation[0] == name || table.relation[2] == name);
        let at = at.map_or("edges", |table| &table.at);
        warnings.push(format!(
            "{at}.relation: the node type {name} has no table, so it has the ids that edges name; did you mean {near}?"
        ));
    }
    warnings
}

impl Conf {
    /// Returns the names of the node types without a table, ascending.
    pub(super) fn types_without_table(&self) -> BTreeSet<&str> {
        let ends = self.edges.iter().flat_map(|table| [&table.relation[0], &table.relation[2]]);
        let has_table = |name: &&str| self.nodes.iter().any(|table| table.node_type == *name);
        ends.map(String::as_str).filter(|name| !has_table(name)).collect()
    }
}

/// Adds the node types that have no table, with the ids that edges name.
fn add_types_of_edges<'a>(
    context: &Context,
    conf: &'a Conf,
    node_types: &mut BTreeMap<&'a str, BuiltNodes>,
) -> Result<(), TableError> {
    for name in conf.types_without_table() {
        let mut ids = IdMap::new();
        collect_ids(context, conf, name, &mut ids, u64::MAX)?;
        let ids = ids.sorted();
        let num_nodes = ids.len();
        let mut built = BuiltNodes::without_rows(name, ids);
        built.data.num_nodes = num_nodes;
        node_types.insert(name, built);
    }
    Ok(())
}
