//! Writing of updated parts, one at a time.

use super::edges::{HeldOutInParts, PartRows};
use super::numbers::UpdatedNumbers;
use super::parts_update::PartsUpdate;
use crate::part::{Meta, NodeTypeMeta, part_dir, version_of};
use crate::part_writer::{
    EdgeSlice, ExtraFiles, FileWriter, Files, IdMapJob, MeasuredPart, NodeTypeFacts, PartDigests, PartMeasure,
    RankedGraph, RankedNodes, WriteError, WriteOptions, WriteProgress, hotness_jobs, report, write_meta,
};
use crate::{DiskPartId, EdgeTypeId, GraphError, NodeTypeId, Part, parallel};
use std::path::Path;
use std::sync::Arc;

/// Parts that an update has written.
#[derive(Debug)]
pub struct UpdatedParts {
    /// The description of the parts.
    pub meta: Meta,
    /// All parts.
    pub parts: Vec<Part>,
}

/// The sums over the parts that were written.
struct Written {
    files: Files,
    measures: Vec<MeasuredPart>,
    /// By node type and label.
    node_splits: Vec<Vec<[u64; 3]>>,
    /// By edge type.
    edge_splits: Vec<[u64; 3]>,
}

impl PartsUpdate<'_> {
    /// Writes the updated parts to `dir`, an empty folder. `parts_of_new` has the part of each new node of each type. `META.json`
    /// is written last.
    ///
    /// # Errors
    /// Fails on an I/O error, or with [`WriteError::Cancelled`]. Files that were already written remain.
    pub fn write(
        mut self,
        parts_of_new: &[Vec<u32>],
        options: WriteOptions,
        dir: &Path,
        progress: &dyn WriteProgress,
        extra: ExtraFiles,
    ) -> Result<UpdatedParts, WriteError> {
        let known = self.nodes.iter().map(|of_type| of_type.known());
        let updated: Vec<UpdatedNumbers> = known
            .zip(parts_of_new)
            .map(|(known, parts)| UpdatedNumbers::new(known, parts))
            .collect::<Result<_, GraphError>>()?;
        let before = self.parts[0].meta().clone();
        let held_out: Vec<Option<HeldOutInParts>> =
            self.edges.iter_mut().map(|edges| edges.held_out_in_parts(&updated)).collect();
        let total = before.files.values().map(|file| file.bytes).sum();
        let writer = FileWriter::of_bytes(dir, progress, total, options.is_synced);
        let mut written =
            self.write_arrays(&updated, &held_out, &writer, Target { dir, extra, is_synced: options.is_synced })?;
        written.files.extend(extra.write_transforms(dir, options.is_synced)?);
        let mut meta = Meta {
            provenance: options.provenance,
            report: report(&written.measures),
            has_transforms: extra.transforms.is_some(),
            time_unit: extra.time_unit,
            files: Files::new(),
            on_disk: None,
            ..(*before).clone()
        };
        for (t, (of_type, numbers)) in meta.node_types.iter_mut().zip(&updated).enumerate() {
            describe_nodes(of_type, t, numbers, &written.node_splits[t], &extra);
        }
        for ((of_type, edges), (held_out, counts)) in
            meta.edge_types.iter_mut().zip(&self.edges).zip(held_out.iter().zip(&self.counts))
        {
            of_type.num_edges = counts.known.iter().chain(&counts.new).sum();
            of_type.held_out = held_out.as_ref().map_or([0, 0], num_held_out);
            of_type.held_out_has_times = held_out.as_ref().is_some_and(has_times);
            if let Some(labels) = &mut of_type.labels {
                labels.split_sizes = written.edge_splits[edges.edge_type().index()];
            }
        }
        drop(held_out);
        let num_parts = meta.num_parts;
        let described = Arc::new(meta.clone());
        let mut parts = Vec::with_capacity(num_parts as usize);
        for part in (0..num_parts).map(DiskPartId) {
            parts.push(Part::map(dir, part, described.clone())?);
            parts[part.0 as usize].release_pages();
        }
        if meta.provenance.hotness.is_some() {
            written.files.extend(rank(&parts, &writer)?);
            meta.node_types.iter_mut().for_each(|of_type| of_type.has_hotness = of_type.feature_dim > 0);
        }
        let digests = PartDigests { parts: &parts, progress };
        let (nodes, edges) = parallel::join(
            || {
                (0..meta.node_types.len() as u16)
                    .map(|t| digests.of_nodes(NodeTypeId(t)))
                    .collect::<Result<Vec<_>, _>>()
            },
            || {
                (0..meta.edge_types.len() as u16)
                    .map(|e| digests.of_edges(EdgeTypeId(e)))
                    .collect::<Result<Vec<_>, _>>()
            },
        );
        for (of_type, digests) in meta.node_types.iter_mut().zip(nodes?) {
            digests.store_in(&mut of_type.digests);
        }
        for (of_type, digests) in meta.edge_types.iter_mut().zip(edges?) {
            digests.store_in(&mut of_type.digests);
        }
        meta.version = version_of(&meta.node_types, &meta.edge_types);
        meta.files = written.files;
        write_meta(&meta, dir, options.is_synced)?;
        Ok(UpdatedParts { meta: Meta::read(dir)?, parts })
    }

    /// Writes the arrays and the id maps of all parts.
    fn write_arrays(
        &self,
        updated: &[UpdatedNumbers],
        held_out: &[Option<HeldOutInParts>],
        writer: &FileWriter,
        target: Target,
    ) -> Result<Written, WriteError> {
        let mut written = Written {
            files: Files::new(),
            measures: Vec::new(),
            node_splits: Vec::new(),
            edge_splits: vec![[0; 3]; self.edges.len()],
        };
        let num_nodes: Vec<usize> = updated.iter().map(|numbers| numbers.book.num_nodes()).collect();
        for part in 0..self.parts.len() {
            let root = part_dir(DiskPartId(part as u32));
            let mut train_nodes = 0;
            for (t, (of_type, numbers)) in self.nodes.iter().zip(updated).enumerate() {
                let rows = of_type.rows_in(part, numbers, self.filter.is_some());
                written.files.extend(writer.write(of_type.jobs(part, &root, &rows))?);
                let sizes: Vec<[u64; 3]> = rows.split_sizes().collect();
                train_nodes += sizes[0][0];
                add_sizes(&mut written.node_splits, t, &sizes);
                if target.extra.nodes.has_id_map(t) {
                    let name = &self.parts[0].meta().node_types[t].name;
                    let first = numbers.range(part).start;
                    let job = IdMapJob { part: part as u32, node_type: t, name, nodes: rows.numbers(), first };
                    written.files.extend(target.extra.write_id_maps(&[job], target.dir, target.is_synced)?);
                }
                self.parts[part].release_pages();
            }
            let filter = self.filter.as_ref();
            let mut rows: Vec<PartRows> = Vec::with_capacity(self.edges.len());
            for edges in &self.edges {
                rows.push(edges.rows_in(part, &self.nodes, updated, filter, &self.space)?);
            }
            for ((edges, rows), held_out) in self.edges.iter().zip(&rows).zip(held_out) {
                written.files.extend(writer.write(edges.jobs(part, &root, rows, held_out.as_ref()))?);
                let sizes = &mut written.edge_splits[edges.edge_type().index()];
                sizes.iter_mut().zip(rows.split_sizes).for_each(|(size, more)| *size += more);
            }
            let owned: Vec<_> = updated.iter().map(|numbers| numbers.range(part)).collect();
            let owned: Vec<_> = owned.into_iter().map(|range| range.start as usize..range.end as usize).collect();
            let slices: Vec<EdgeSlice> = self.edges.iter().zip(&rows).map(|(edges, rows)| edges.slice(rows)).collect();
            written.measures.push(MeasuredPart {
                nodes: owned.iter().map(|range| range.len() as u64).sum(),
                train_nodes,
                measure: PartMeasure::new(&owned, &num_nodes, &slices),
            });
            self.parts[part].release_pages();
        }
        Ok(written)
    }
}

/// The folder of the updated parts, and the files that a caller adds.
#[derive(Clone, Copy)]
struct Target<'a> {
    dir: &'a Path,
    extra: ExtraFiles<'a>,
    is_synced: bool,
}

/// Adds the sizes of the splits of a node type in a part, by label.
fn add_sizes(sums: &mut Vec<Vec<[u64; 3]>>, node_type: usize, sizes: &[[u64; 3]]) {
    match sums.get_mut(node_type) {
        None => sums.push(sizes.to_vec()),
        Some(sums) => {
            for (sum, more) in sums.iter_mut().flatten().zip(sizes.iter().flatten()) {
                *sum += more;
            }
        }
    }
}

/// Describes a node type after an update. The caller adds its digest and its hotness.
fn describe_nodes(
    of_type: &mut NodeTypeMeta,
    at: usize,
    numbers: &UpdatedNumbers,
    splits: &[[u64; 3]],
    extra: &ExtraFiles,
) {
    of_type.book = numbers.book.clone();
    of_type.has_hotness = false;
    of_type.has_id_map = extra.nodes.has_id_map(at);
    of_type.split_sizes = splits[0];
    of_type.more_labels.iter_mut().zip(&splits[1..]).for_each(|(label, &sizes)| label.split_sizes = sizes);
    let NodeTypeFacts { has_table, earlier_contents } = extra.node_facts.get(at).cloned().unwrap_or_default();
    of_type.has_table = has_table;
    of_type.digests.earlier_contents = earlier_contents;
    of_type.digests.ids = extra.nodes.ids_digest(at);
}

fn num_held_out(lists: &HeldOutInParts) -> [u64; 2] {
    lists.each_ref().map(|parts| parts.iter().map(|of_part| of_part.ends.len() as u64 / 2).sum())
}

/// Returns true if there are edges and all lists with edges have times.
fn has_times(lists: &HeldOutInParts) -> bool {
    let mut with_edges = lists.iter().flatten().filter(|of_part| !of_part.ends.is_empty()).peekable();
    with_edges.peek().is_some() && with_edges.all(|of_part| of_part.times.is_some())
}

/// Ranks the nodes of other parts for each part, and writes the ranks.
fn rank(parts: &[Part], writer: &FileWriter) -> Result<Files, WriteError> {
    let meta = parts[0].meta();
    let Some(rule) = &meta.provenance.hotness else { return Ok(Files::new()) };
    let mut train = Vec::with_capacity(meta.node_types.len());
    for t in (0..meta.node_types.len() as u16).map(NodeTypeId) {
        train.push(parts.iter().map(|part| &part.nodes(t).splits.train[..]).collect());
    }
    let mut slices = Vec::with_capacity(meta.edge_types.len());
    for e in parts[0].edge_type_ids() {
        let of_parts = parts.iter().map(|part| {
            let edges = part.edges(e);
            EdgeSlice {
                src_type: edges.src_type.index(),
                dst_type: edges.dst_type.index(),
                indptr: edges.csc.indptr(),
                indices: edges.csc.indices(),
            }
        });
        slices.push(of_parts.collect());
    }
    let books = meta.node_types.iter().map(|of_type| &of_type.book).collect();
    let graph = RankedGraph { books, train, edges: slices };
    let names: Vec<Option<&str>> =
        meta.node_types.iter().map(|of_type| (of_type.feature_dim > 0).then_some(&of_type.name[..])).collect();
    let mut files = Files::new();
    graph.rank_all(rule, |first, ranked: &[Vec<RankedNodes>]| -> Result<(), WriteError> {
        writer.expect(ranked.iter().flatten().map(RankedNodes::num_bytes).sum());
        files.extend(writer.write(hotness_jobs(&names, first, ranked))?);
        Ok(())
    })?;
    parts.iter().for_each(Part::release_pages);
    Ok(files)
}
