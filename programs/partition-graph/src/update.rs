//! The command `update`.

use crate::args::UpdateArgs;
use crate::memory_limit::Observer;
use crate::output::Results;
use crate::stored_tables::StoredTables;
use crate::terminal::Terminal;
use crate::urls::upload_if_url;
use crate::{interrupt, note, warn};
use anyhow::Context;
use edgecut_cli::counted;
use edgecut_graph::part_writer::ExtraFiles;
use edgecut_graph::{
    DiskPartId, EdgeTypeId, Meta, NodeTypeId, Part, PartNodes, Split, TRANSFORMS_FILE, TimeUnit, Workspace,
};
use edgecut_partition::{
    Changes, PartitionError, PartitionOptions, RemovedPairs, Replaces, UpdateOptions, UpdateReport,
    check_update_output, update, update_limits,
};
use edgecut_tables::{
    DroppedRows, IdMap, IdMaps, KnownEdges, KnownGraph, KnownLabel, KnownNodes, KnownSplit, OnBadRows, RemovedEdges,
    TableOptions, TableUpdate, Transforms, read_update,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The memory that a step takes with scratch files.
const WORK_BYTES: usize = 256 << 20;

/// The results in the form that is printed.
#[derive(Serialize)]
struct Printed<'a> {
    path: &'a Path,
    fingerprint: String,
    #[serde(flatten)]
    report: &'a UpdateReport,
    seconds: BTreeMap<&'static str, f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropped_rows: Vec<DroppedRows>,
}

/// Runs the command.
pub(crate) fn run(args: &UpdateArgs) -> anyhow::Result<()> {
    let signals = interrupt::block()?;
    let results = Results::capture()?;
    let terminal = Arc::new(Terminal::new(&PartitionOptions::new(1)));
    interrupt::handle(signals, &terminal)?;
    if let (Some(url), None) = (args.stores.url_of("dir"), &args.output_dir) {
        anyhow::bail!(
            "{url}: parts in an object store cannot be replaced in one step: give --output-dir, the folder or the URL of the \
             updated parts"
        );
    }
    let out_dir = args.output_dir.as_deref().unwrap_or(&args.dir);
    let meta = Meta::read(&args.dir)?;
    check_update_output(out_dir, replaces(args))?;
    terminal.enter("reading");
    let space = match &args.scratch_dir {
        None => Workspace::in_memory(Observer(terminal.clone())),
        Some(dir) => Workspace::scratch(dir, WORK_BYTES, Observer(terminal.clone()))?,
    };
    let (report, dropped) = read_and_update(args, &meta, &space, &terminal).inspect_err(|_| terminal.clear())?;
    let seconds = terminal.finish();
    warn(&report.warnings);
    let out_dir = &upload_if_url(&args.stores, out_dir, args.overwrite, &terminal)?;
    if args.json {
        let fingerprint = report.meta.fingerprint();
        return results.json(&Printed { path: out_dir, fingerprint, report: &report, seconds, dropped_rows: dropped });
    }
    results.text(&table(&report))
}

/// Returns the parts that the command may replace.
fn replaces(args: &UpdateArgs) -> Replaces {
    match (&args.output_dir, args.overwrite) {
        (None, _) => Replaces::Updated,
        (Some(_), true) => Replaces::Any,
        (Some(_), false) => Replaces::Nothing,
    }
}

/// Returns the report, and the rows of tables that were left out.
fn read_and_update(
    args: &UpdateArgs,
    meta: &Meta,
    space: &Workspace,
    terminal: &Terminal,
) -> anyhow::Result<(UpdateReport, Vec<DroppedRows>)> {
    let dir = &args.dir;
    let mut parts = Vec::with_capacity(meta.num_parts as usize);
    for part in (0..meta.num_parts).map(DiskPartId) {
        let part = Part::open(dir, part, true)?;
        part.release_pages();
        parts.push(part);
    }
    let transforms = if meta.has_transforms { Transforms::read(dir)? } else { Transforms::default() };
    let options = TableOptions {
        seed: meta.provenance.seed,
        on_bad_rows: args.on_bad_rows,
        unsupported: args.unsupported,
        transforms: Some(transforms),
        space: space.clone(),
        remote: Some(StoredTables::of_conf(&args.stores)?),
        ..TableOptions::default()
    };
    let known = known_graph(dir, meta, &parts)?;
    let TableUpdate { graph, numbers, removed_nodes, removed_edges, held_out } =
        read_update(&args.conf, &meta.dataset, &options, known)?;
    terminal.suspended(|| {
        note(&graph.notes);
        warn(&graph.warnings);
    });
    check_time_unit(args, meta, graph.time_unit)?;
    let transforms = saved_transforms(dir, meta)?;
    let extra = ExtraFiles {
        nodes: &graph.id_maps,
        transforms: transforms.as_deref(),
        deferred_features: &[],
        node_facts: &graph.node_facts,
        time_unit: meta.time_unit,
    };
    let pairs = removed_edges
        .iter()
        .map(|removed| RemovedPairs { edge_type: removed.edge_type.clone(), pairs: removed.pairs.clone() });
    let changes = Changes { rows: graph.dataset, numbers, removed_nodes, removed_edges: pairs.collect(), held_out };
    let out_dir = args.output_dir.as_deref().unwrap_or(dir);
    let options = UpdateOptions {
        space: space.clone(),
        overlap: args.overlap,
        reverse_types: args.reverse_types.clone(),
        skips_missing_edges: args.on_bad_rows == OnBadRows::Drop,
        replaces: replaces(args),
        extra,
        keys: &graph.id_maps,
    };
    match update(&parts, changes, options, out_dir, terminal) {
        Ok(report) => Ok((report, graph.dropped)),
        Err(PartitionError::MissingEdges { edge_type, pair, number }) => {
            // The ids were given to the reader of the tables.
            let ids = IdMaps::read(dir, &parts)?;
            let edges = parts[0].edges(EdgeTypeId(edge_type as u16));
            let ends = [edges.src_type, edges.dst_type].map(|t| &ids.0[t.index()]);
            let e = &meta.edge_types[edge_type];
            let name = [&e.src_type[..], &e.relation, &e.dst_type].join("__");
            anyhow::bail!("{}", missing_edges(&args.conf, &removed_edges, ends, &name, pair, number))
        }
        // The command line tells whether the parts or the tables are wrong.
        Err(error) => Err(error).with_context(|| format!("update by {}", args.conf.display())),
    }
}

/// Returns the types of the parts, and the ids of their nodes.
fn known_graph(dir: &Path, meta: &Meta, parts: &[Part]) -> anyhow::Result<KnownGraph> {
    let mut node_types = Vec::with_capacity(meta.node_types.len());
    for ((t, of_type), ids) in (0..).map(NodeTypeId).zip(&meta.node_types).zip(IdMaps::read(dir, parts)?.0) {
        let mut labels = Vec::with_capacity(1 + of_type.more_labels.len());
        for (at, label) in of_type.labels().into_iter().enumerate() {
            let has_labels = label.has_labels || label.targets.is_some();
            let mut splits = vec![KnownSplit::Open; of_type.book.num_nodes()];
            for part in parts {
                mark_decided(part.nodes(t), at, has_labels, &mut splits);
                part.release_pages();
            }
            labels.push(KnownLabel { name: label.name, splits });
        }
        let has_attributes = of_type.feature_dim > 0 || of_type.is_labeled() || of_type.has_times;
        node_types.push(KnownNodes {
            name: of_type.name.clone(),
            ids,
            labels,
            // Parts of earlier versions do not tell whether a type had a table.
            has_table: of_type.has_table || has_attributes,
            lacks_transforms: of_type.feature_dim > 0 && !meta.has_transforms,
        });
    }
    let names: Vec<[String; 3]> =
        meta.edge_types.iter().map(|e| [e.src_type.clone(), e.relation.clone(), e.dst_type.clone()]).collect();
    let mut edge_types = Vec::with_capacity(names.len());
    for (of_type, names_of_type) in meta.edge_types.iter().zip(&names) {
        let forward = of_type.names().forward();
        let forward = forward.map(|forward| [forward.src, forward.relation, forward.dst].map(str::to_owned));
        edge_types.push(KnownEdges {
            names: names_of_type.clone(),
            reverse_of: forward.filter(|forward| meta.provenance.add_reverse_edges && names.contains(forward)),
            lacks_transforms: of_type.feature_dim > 0 && !meta.has_transforms,
            has_held_out: meta.provenance.hold_out_edges.is_none() && of_type.held_out.iter().any(|&number| number > 0),
        });
    }
    Ok(KnownGraph { node_types, edge_types, has_transforms: meta.has_transforms })
}

/// Sets the splits of the nodes of a part that have the label at a position or are in its splits, by original id.
fn mark_decided(nodes: &PartNodes, label: usize, has_labels: bool, splits: &mut [KnownSplit]) {
    let num_rows = nodes.original_ids.len();
    let label = nodes.label(label);
    let labeled = (0..num_rows).filter(|&row| has_labels && label.is_known(row, num_rows)).map(|row| (row, None));
    let in_splits = Split::ALL
        .iter()
        .flat_map(|&split| label.splits.get(split).iter().map(move |&row| (row as usize, Some(split))));
    for (row, split) in labeled.chain(in_splits) {
        if let Some(of_node) = splits.get_mut(nodes.original_ids[row] as usize) {
            *of_node = KnownSplit::Decided(split);
        }
    }
}

/// Checks that the tables have times of the unit of the parts.
fn check_time_unit(args: &UpdateArgs, meta: &Meta, found: Option<TimeUnit>) -> anyhow::Result<()> {
    if let (Some(found), Some(unit)) = (found, meta.time_unit)
        && found != unit
    {
        anyhow::bail!(
            "{}: its times are in {found}, but the times of the parts are in {unit}: write the times of all tables in one unit",
            args.conf.display()
        );
    }
    Ok(())
}

/// Returns the content of `transforms.json`, if the parts have it.
fn saved_transforms(dir: &Path, meta: &Meta) -> anyhow::Result<Option<String>> {
    if !meta.has_transforms {
        return Ok(None);
    }
    let mut text = String::new();
    let path = dir.join(TRANSFORMS_FILE);
    meta.open_file(dir, TRANSFORMS_FILE)?.read_to_string(&mut text).with_context(|| path.display().to_string())?;
    Ok(Some(text))
}

/// Describes `number` removed edges that do not exist, of which the first one joins `pair`, of the edge type at `edge_type`.
fn missing_edges(
    conf: &Path,
    removed: &[RemovedEdges],
    ids: [&IdMap; 2],
    edge_type: &str,
    pair: [u32; 2],
    number: u64,
) -> String {
    let of_pair =
        removed.iter().find(|removed| removed.edge_type.join("__") == edge_type && removed.pairs.contains(&pair));
    let at = of_pair.map_or("removed_edges", |removed| &removed.at);
    format!(
        "{}: {at}: {} not exist, such as {edge_type} from {} to {}: correct the table, or skip such edges with \
         --on-bad-rows drop",
        conf.display(),
        counted(number, "edge does", "edges do"),
        ids[0].ids().show(pair[0]),
        ids[1].ids().show(pair[1])
    )
}

/// Formats the numbers of nodes and edges, the quality of the parts and the advice.
fn table(report: &UpdateReport) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ =
        writeln!(text, "{:<32}{:>12}{:>12}{:>12}{:>12}{:>12}", "nodes", "before", "removed", "new", "after", "changed");
    for of in &report.nodes {
        let numbers = [of.before, of.removed, of.new, of.after, of.changed];
        let _ = writeln!(text, "{:<32}{}", of.node_type, numbers.map(|number| format!("{number:>12}")).concat());
    }
    let _ = writeln!(text, "{:<32}{:>12}{:>12}{:>12}{:>12}", "edges", "before", "removed", "added", "after");
    for of in &report.edges {
        let removed = of.removed + of.removed_with_nodes + of.removed_overlaps;
        let numbers = [of.before, removed, of.added, of.after];
        let _ = writeln!(text, "{:<32}{}", of.edge_type, numbers.map(|number| format!("{number:>12}")).concat());
        if of.removed_with_nodes > 0 {
            let _ = writeln!(text, "  {} of the removed edges had a removed node", of.removed_with_nodes);
        }
        if of.removed_overlaps > 0 {
            let _ = writeln!(text, "  {} of the removed edges are held out", of.removed_overlaps);
        }
    }
    if report.missing_edges > 0 {
        let _ = writeln!(text, "{} edges to remove did not exist", report.missing_edges);
    }
    let quality = &report.quality;
    let _ = writeln!(text, "{:<32}{:>12}{:>12}{:>12}", "parts", "partitioned", "before", "after");
    let all = [quality.partitioned, quality.before, quality.after];
    let cut = all.map(|of| format!("{:>10.2} %", of.cut_fraction * 100.0)).concat();
    let _ = writeln!(text, "{:<32}{cut}", "cut edges");
    for (name, values) in [
        ("nodes, largest part over mean", all.map(|of| of.node_balance)),
        ("edges, largest part over mean", all.map(|of| of.edge_balance)),
    ] {
        let _ = writeln!(text, "{name:<32}{}", values.map(|value| format!("{value:>12.3}")).concat());
    }
    let _ = write!(text, "number of updates: {}. ", quality.updates);
    if quality.reasons.is_empty() {
        let _ = writeln!(text, "No need to partition again. {}", update_limits());
    } else {
        let _ = writeln!(text);
    }
    for reason in &quality.reasons {
        let _ = writeln!(text, "partition again: {reason}");
    }
    text
}
