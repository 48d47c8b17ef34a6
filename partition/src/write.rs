//! Writing parts.

mod files;

use crate::grouped::Grouped;
use crate::in_edges::{InEdges, RenumberedInEdges};
use crate::measure::{self, PartMeasure};
use crate::renumber::Renumbering;
use crate::staging::Staging;
use crate::{Assignment, Method, PartitionError, PartitionOptions, Phase, Progress, assignment, constraints, staging};
use edgecut_graph::{
    Dataset, EdgeTypeMeta, FORMAT_NAME, FORMAT_VERSION, FeatureDtype, FileMeta, GraphError, META_FILE, Meta, NodeData,
    NodeTypeId, NodeTypeMeta, Provenance, Report, Split, edge_dir_name, is_folder_name,
};
use files::FileWriter;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes the parts that `assignment` makes of `dataset` to `out_dir`; of `options` only the number of parts counts,
/// whether to overwrite, and what `META.json` notes.
///
/// # Errors
/// An assignment that does not fit the dataset, a dataset that contradicts itself, an `out_dir` that exists, or an I/O
/// error; then nothing is left at `out_dir`, or what was there before.
pub fn write_parts(
    dataset: &Dataset,
    assignment: &Assignment,
    options: &PartitionOptions,
    out_dir: &Path,
) -> Result<Meta, PartitionError> {
    assignment::validate(dataset)?;
    check_names(dataset)?;
    assignment.check(&dataset.node_types, options.num_parts)?;
    staging::check_free(out_dir, options.overwrite)?;
    write_grouped(Grouped::new(dataset.clone()), assignment, options, out_dir, &())
}

/// [`write_parts`] of a dataset and an assignment that are known to be good. In-edges are let go of when they are
/// renumbered.
pub(crate) fn write_grouped(
    dataset: Grouped,
    assignment: &Assignment,
    options: &PartitionOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<Meta, PartitionError> {
    progress.phase(Phase::Writing);
    let staging = Staging::create(out_dir, options.overwrite)?;
    let types = Renumbering::of_types(assignment, options.num_parts)?;
    let provenance = provenance(&dataset, options);
    let Grouped { name, node_types, edge_types: in_edges } = dataset;
    let splits: Vec<SplitRows> = node_types.iter().zip(&types).map(|(nodes, t)| split_rows(nodes, t)).collect();
    let edge_types: Vec<EdgeTypeMeta> = in_edges.iter().map(|e| edge_type_meta(&node_types, e)).collect();
    let writer = FileWriter::new(staging.dir(), progress, &node_types, &in_edges, options.num_parts);
    // The two halves use different arrays, and where one waits for the disk, the other computes.
    let (node_files, edge_files) = rayon::join(
        || writer.write(files::node_jobs(&node_types, &types, &splits, options.num_parts)),
        || {
            let edges: Vec<RenumberedInEdges> = in_edges.into_iter().map(|e| e.renumber(&types)).collect();
            let jobs = files::edge_jobs(&edges, &edge_types, &node_types, &types, options.num_parts);
            rayon::join(|| writer.write(jobs), || report(&types, &splits, &edges, options.num_parts))
        },
    );
    let (mut files, (edge_files, report)) = (node_files?, edge_files);
    files.extend(edge_files?);
    let meta = Meta {
        format: FORMAT_NAME.into(),
        version: FORMAT_VERSION,
        dataset: name,
        num_parts: options.num_parts,
        provenance,
        node_types: node_types.iter().zip(types).map(|(nodes, t)| node_type_meta(nodes, t)).collect(),
        edge_types,
        report,
        files,
    };
    write_meta(&meta, staging.dir())?;
    let meta = Meta::read(staging.dir())?;
    if progress.cancelled() {
        return Err(PartitionError::Cancelled);
    }
    staging.commit()?;
    Ok(meta)
}

/// Checks that every type has a folder of its own.
pub(crate) fn check_names(dataset: &Dataset) -> Result<(), PartitionError> {
    let fail = |why: String| Err(PartitionError::Names { dataset: dataset.name.clone(), why });
    let mut taken = BTreeSet::new();
    for nodes in &dataset.node_types {
        if !is_folder_name(&nodes.name) {
            return fail(format!("the node type's name {:?} cannot be a folder", nodes.name));
        }
        if !taken.insert(&nodes.name) {
            return fail(format!("two node types have the name {}", nodes.name));
        }
    }
    let mut taken = BTreeSet::new();
    for edges in &dataset.edge_types {
        if !is_folder_name(&edges.relation) {
            return fail(format!("the relation's name {:?} cannot be a folder", edges.relation));
        }
        let known = |t: NodeTypeId| t.index() < dataset.node_types.len();
        if known(edges.src_type) && known(edges.dst_type) {
            let (src_type, dst_type) = (dataset.nodes(edges.src_type), dataset.nodes(edges.dst_type));
            let dir = edge_dir_name(&src_type.name, &edges.relation, &dst_type.name);
            if taken.contains(&dir) {
                return fail(format!("two edge types have the folder {dir}"));
            }
            taken.insert(dir);
        }
    }
    Ok(())
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
    }
}

fn node_type_meta(nodes: &NodeData, numbering: Renumbering) -> NodeTypeMeta {
    NodeTypeMeta {
        name: nodes.name.clone(),
        book: numbering.book,
        feature_dim: nodes.features.as_ref().map_or(0, |f| f.dim()),
        feature_dtype: nodes.features.as_ref().map_or(FeatureDtype::F32, |f| f.dtype()),
        has_labels: nodes.labels.is_some(),
        num_classes: if nodes.labels.is_some() { nodes.num_classes } else { 0 },
        split_sizes: Split::ALL.map(|split| nodes.splits.get(split).len() as u64),
        has_times: nodes.times.is_some(),
    }
}

fn provenance(dataset: &Grouped, options: &PartitionOptions) -> Provenance {
    let balance = constraints::effective_balance(dataset, options);
    Provenance {
        method: options.method.to_string(),
        recursive: options.method == Method::Metis { recursive: true },
        seed: options.seed,
        balance: balance.iter().map(|b| b.to_string()).collect(),
        split: options.split.clone(),
        to_undirected: options.to_undirected,
        add_reverse_edges: options.add_reverse_edges,
        hold_out_edges: options.hold_out_edges,
    }
}

fn split_rows(nodes: &NodeData, numbering: &Renumbering) -> SplitRows {
    Split::ALL.map(|split| numbering.rows_by_part(nodes.splits.get(split)))
}

fn report(types: &[Renumbering], splits: &[SplitRows], edges: &[RenumberedInEdges], num_parts: u32) -> Report {
    let num_nodes: Vec<usize> = types.iter().map(|t| t.new.len()).collect();
    let parts: Vec<(u64, u64, PartMeasure)> = (0..num_parts)
        .into_par_iter()
        .map(|part| {
            let owned: Vec<_> = types.iter().map(|t| t.range(part)).collect();
            let slices: Vec<_> = edges.iter().map(|e| e.of_part(part, types)).collect();
            let nodes = owned.iter().map(|range| range.len() as u64).sum();
            let train = splits.iter().map(|[train, ..]| train[part as usize].len() as u64).sum();
            (nodes, train, PartMeasure::new(&owned, &num_nodes, &slices))
        })
        .collect();
    measure::report(&parts)
}

fn write_meta(meta: &Meta, dir: &Path) -> Result<(), PartitionError> {
    let path = dir.join(META_FILE);
    let write = || -> std::io::Result<()> {
        let mut text = serde_json::to_vec_pretty(meta)?;
        text.push(b'\n');
        let mut file = File::create(&path)?;
        file.write_all(&text)?;
        file.sync_all()
    };
    Ok(write().map_err(|e| GraphError::io(&path, e))?)
}

/// The rows of each split of a node type, per part.
type SplitRows = [Vec<Vec<u32>>; 3];

/// Sizes and checksums by path.
type Files = BTreeMap<String, FileMeta>;
