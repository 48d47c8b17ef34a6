//! Writing of all parts.

use super::assignment::check_assignment;
use super::digests::{self, ContentDigests};
use super::extra_files::{ExtraFiles, IdMapJob, NodeTypeFacts};
use super::files::{self, FileWriter};
use super::hotness::{RankedGraph, RankedNodes};
use super::in_edges::RenumberedInEdges;
use super::measure::{self, MeasuredPart, PartMeasure};
use super::renumber::{Renumbering, SplitRows};
use super::{Grouped, InEdges, WriteError, WriteOptions, WriteProgress};
use crate::dataset::{EdgeIds, EdgeLabels, NodeData, NodeLabel, Split, Splits, Targets};
use crate::memory::FeatureDtype;
use crate::part::{
    EdgeTypeMeta, FORMAT_NAME, META_FILE, Meta, NodeTypeMeta, Report, TypeDigests, version_of, with_digest,
};
use crate::{GraphError, parallel};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes the parts of a dataset to `dir`, an empty folder, with further files. `META.json` is written last. `assignment` is
/// the part of each node of each node type, by original id. In-edges are dropped once they are renumbered.
///
/// # Errors
/// Fails for an assignment that does not match the dataset, for names that cannot be folder names, on an I/O error, or
/// with [`WriteError::Cancelled`]. Files that were already written remain.
pub fn write_parts_with(
    dataset: Grouped,
    assignment: &[Vec<u32>],
    options: WriteOptions,
    dir: &Path,
    progress: &dyn WriteProgress,
    extra: ExtraFiles,
) -> Result<Meta, WriteError> {
    let num_parts = options.num_parts;
    check_assignment(assignment, &dataset.node_types, num_parts)
        .map_err(|why| GraphError::Dataset { dataset: dataset.name.clone(), why: format!("assignment: {why}") })?;
    let types = Renumbering::of_types(assignment, num_parts)?;
    let Grouped { name, node_types, edge_types: in_edges, space } = dataset;
    let splits: Vec<SplitRows> = node_types.iter().zip(&types).map(|(nodes, t)| split_rows(&nodes.splits, t)).collect();
    let splits_of_more_labels: Vec<Vec<SplitRows>> = node_types
        .iter()
        .zip(&types)
        .map(|(nodes, t)| nodes.more_labels.iter().map(|label| split_rows(&label.splits, t)).collect())
        .collect();
    let mut edge_types: Vec<EdgeTypeMeta> = in_edges.iter().map(|e| edge_type_meta(&node_types, e)).collect();
    let mut of_tables = extra.transforms_digests(dir)?;
    let writer = FileWriter::new(dir, progress, &node_types, &in_edges, &options);
    // The two halves use different arrays, and one can compute while the other waits for the disk.
    let (node_files, edge_results) = parallel::join(
        || {
            let digests = node_types.iter().map(|nodes| digests::of_nodes(nodes, progress));
            let digests = digests.collect::<Result<Vec<ContentDigests>, _>>()?;
            let jobs = files::node_jobs(&node_types, &types, &splits, &splits_of_more_labels, num_parts);
            Ok::<_, WriteError>((writer.write(jobs)?, digests))
        },
        || {
            let digests = in_edges.iter().map(|edges| digests::of_edges(edges, progress));
            let digests = digests.collect::<Result<Vec<ContentDigests>, _>>()?;
            let edges: Vec<RenumberedInEdges> =
                in_edges.into_iter().map(|e| e.renumber(&types, &space)).collect::<Result<_, _>>()?;
            let jobs = files::edge_jobs(&edges, &edge_types, &node_types, &types, num_parts);
            let written = parallel::join(
                || writer.write(jobs),
                || {
                    let hot_files = match &options.provenance.hotness {
                        None => Ok(BTreeMap::new()),
                        Some(rule) => {
                            let slices = edges.iter().map(|e| (0..num_parts).map(|p| e.of_part(p, &types)).collect());
                            let graph = RankedGraph {
                                books: types.iter().map(|t| &t.book).collect(),
                                train: splits
                                    .iter()
                                    .map(|[train, ..]| train.iter().map(|rows| &rows[..]).collect())
                                    .collect(),
                                edges: slices.collect(),
                            };
                            let names: Vec<Option<&str>> = node_types
                                .iter()
                                .map(|nodes| nodes.features.as_ref().map(|_| &nodes.name[..]))
                                .collect();
                            let mut files = BTreeMap::new();
                            let write = |first: u32, ranked: &[Vec<RankedNodes>]| -> Result<(), WriteError> {
                                writer.expect(ranked.iter().flatten().map(RankedNodes::num_bytes).sum());
                                files.extend(writer.write(files::hotness_jobs(&names, first, ranked))?);
                                Ok(())
                            };
                            graph.rank_all(rule, write).map(|()| files)
                        }
                    };
                    (hot_files, report(&types, &splits, &edges, num_parts))
                },
            );
            Ok::<_, WriteError>((written, digests))
        },
    );
    let (mut files, node_digests) = node_files?;
    let ((edge_files, (hot_files, report)), edge_digests) = edge_results?;
    for (edges, ContentDigests { content, arrays }) in edge_types.iter_mut().zip(edge_digests) {
        let name = [&edges.src_type[..], &edges.relation, &edges.dst_type].join("__");
        let of_table = of_tables.edge_types.remove(&name).unwrap_or_default();
        edges.digests = TypeDigests { content: Some(content), arrays, ..of_table };
    }
    files.extend(edge_files?);
    files.extend(hot_files?);
    let has_id_map: Vec<bool> = (0..types.len()).map(|t| extra.nodes.has_id_map(t)).collect();
    let jobs = id_map_jobs(&node_types, &types, &has_id_map, num_parts);
    files.extend(extra.write_id_maps(&jobs, dir, options.is_synced)?);
    files.extend(extra.write_transforms(dir, options.is_synced)?);
    let is_ranked = options.provenance.hotness.is_some();
    let mut meta = Meta {
        format: FORMAT_NAME.into(),
        version: 0,
        dataset: name,
        num_parts,
        provenance: options.provenance,
        node_types: node_types
            .iter()
            .zip(types)
            .zip(has_id_map)
            .zip(node_digests)
            .enumerate()
            .map(|(at, (((nodes, t), has_id_map), ContentDigests { content, arrays }))| {
                let deferred = extra.deferred_features.get(at).copied().flatten();
                let of_table = of_tables.node_types.remove(&nodes.name).unwrap_or_default();
                let mut of_labels = of_tables.labels.remove(&nodes.name).unwrap_or_default();
                let NodeTypeFacts { has_table, earlier_contents } =
                    extra.node_facts.get(at).cloned().unwrap_or_default();
                let ids = extra.nodes.ids_digest(at);
                let digests = TypeDigests { content: Some(content), arrays, earlier_contents, ids, ..of_table };
                let mut meta = node_type_meta(nodes, t, is_ranked, deferred);
                meta.more_labels.iter_mut().for_each(|label| label.classes = of_labels.remove(&label.name));
                NodeTypeMeta { has_id_map, has_table, digests, ..meta }
            })
            .collect(),
        edge_types,
        report,
        has_transforms: extra.transforms.is_some(),
        time_unit: extra.time_unit,
        files,
        on_disk: None,
    };
    meta.version = version_of(&meta.node_types, &meta.edge_types);
    write_meta(&meta, dir, options.is_synced)?;
    Ok(Meta::read(dir)?)
}

fn edge_type_meta(node_types: &[NodeData], edges: &InEdges) -> EdgeTypeMeta {
    let attributes = &edges.attributes;
    EdgeTypeMeta {
        src_type: node_types[edges.src_type].name.clone(),
        relation: edges.relation.clone(),
        dst_type: node_types[edges.dst_type].name.clone(),
        num_edges: edges.num_edges() as u64,
        feature_dim: attributes.features.as_ref().map_or(0, |f| f.dim()),
        feature_dtype: attributes.features.as_ref().map_or(FeatureDtype::F32, |f| f.dtype()),
        has_weights: attributes.weights.is_some(),
        has_times: attributes.times.is_some(),
        held_out: edges.held_out.lists().map(|(_, list)| list.len() as u64),
        held_out_has_times: edges.held_out.has_times(),
        negatives: edges.held_out.negatives(),
        labels: attributes.labels.as_ref().map(EdgeLabels::meta),
        ids: attributes.ids.as_ref().map(EdgeIds::kind),
        digests: TypeDigests::default(),
    }
}

fn node_type_meta(
    nodes: &NodeData,
    numbering: Renumbering,
    is_ranked: bool,
    deferred: Option<(usize, FeatureDtype)>,
) -> NodeTypeMeta {
    let features = nodes.features.as_ref().map(|f| (f.dim(), f.dtype())).or(deferred);
    let (feature_dim, feature_dtype) = features.unwrap_or((0, FeatureDtype::F32));
    NodeTypeMeta {
        name: nodes.name.clone(),
        book: numbering.book,
        feature_dim,
        feature_dtype,
        has_labels: nodes.labels.is_some(),
        num_classes: if nodes.labels.is_some() { nodes.num_classes } else { 0 },
        targets: nodes.targets.as_ref().map(Targets::meta),
        split_sizes: Split::ALL.map(|split| nodes.splits.get(split).len() as u64),
        has_times: nodes.times.is_some(),
        has_hotness: is_ranked && nodes.features.is_some(),
        has_id_map: false,
        has_table: false,
        has_deferred_features: nodes.features.is_none() && deferred.is_some(),
        label_name: nodes.label_name.clone(),
        more_labels: nodes.more_labels.iter().map(NodeLabel::meta).collect(),
        digests: TypeDigests::default(),
    }
}

/// Returns the id maps of all parts.
fn id_map_jobs<'a>(
    node_types: &'a [NodeData],
    types: &'a [Renumbering],
    has_id_map: &[bool],
    num_parts: u32,
) -> Vec<IdMapJob<'a>> {
    let mut jobs = Vec::new();
    for part in 0..num_parts {
        for (node_type, (nodes, t)) in node_types.iter().zip(types).enumerate().filter(|(t, _)| has_id_map[*t]) {
            let range = t.range(part);
            let first = range.start as u32;
            jobs.push(IdMapJob { part, node_type, name: &nodes.name, nodes: &t.original[range], first });
        }
    }
    jobs
}

fn split_rows(splits: &Splits, numbering: &Renumbering) -> SplitRows {
    Split::ALL.map(|split| numbering.rows_by_part(splits.get(split)))
}

fn report(types: &[Renumbering], splits: &[SplitRows], edges: &[RenumberedInEdges], num_parts: u32) -> Report {
    let num_nodes: Vec<usize> = types.iter().map(|t| t.new.len()).collect();
    let measured = |part: usize| {
        let owned: Vec<_> = types.iter().map(|t| t.range(part as u32)).collect();
        let slices: Vec<_> = edges.iter().map(|e| e.of_part(part as u32, types)).collect();
        MeasuredPart {
            nodes: owned.iter().map(|range| range.len() as u64).sum(),
            train_nodes: splits.iter().map(|[train, ..]| train[part].len() as u64).sum(),
            measure: PartMeasure::new(&owned, &num_nodes, &slices),
        }
    };
    measure::report(&parallel::collect(num_parts as usize, &measured))
}

/// Writes `META.json`, the last of all files.
pub(crate) fn write_meta(meta: &Meta, dir: &Path, is_synced: bool) -> Result<(), GraphError> {
    let path = dir.join(META_FILE);
    let write = || -> std::io::Result<()> {
        let mut text = serde_json::to_vec_pretty(meta)?;
        text.push(b'\n');
        let text = with_digest(&text);
        let mut file = File::create(&path)?;
        file.write_all(&text)?;
        if is_synced { file.sync_all() } else { Ok(()) }
    };
    write().map_err(|e| GraphError::io(&path, e))
}
