//! Writing parts.

mod files;

use crate::in_edges::InEdges;
use crate::measure::{self, PartMeasure};
use crate::renumber::Renumbering;
use crate::staging::Staging;
use crate::{Assignment, Method, PartitionError, PartitionOptions, Phase, Progress, assignment, constraints};
use edgecut_graph::{
    Dataset, EdgeData, EdgeTypeMeta, FORMAT_NAME, FORMAT_VERSION, FeatureDtype, FileMeta, GraphError, META_FILE, Meta,
    NodeData, NodeTypeId, NodeTypeMeta, Provenance, Report, Split, edge_dir, is_folder_name,
};
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
    write_with(dataset, assignment, options, out_dir, &())
}

/// [`write_parts`] of a dataset that is known to be good.
pub(crate) fn write_with(
    dataset: &Dataset,
    assignment: &Assignment,
    options: &PartitionOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<Meta, PartitionError> {
    assignment.check(dataset, options.num_parts)?;
    progress.phase(Phase::Writing);
    let staging = Staging::create(out_dir, options.overwrite)?;
    let types = Renumbering::of_types(assignment, options.num_parts)?;
    let splits: Vec<SplitRows> = dataset.node_types.iter().zip(&types).map(|(nodes, t)| split_rows(nodes, t)).collect();
    let edges: Vec<InEdges> = dataset.edge_types.iter().map(|e| InEdges::new(e, &types)).collect();
    let edge_types: Vec<EdgeTypeMeta> = dataset.edge_types.iter().map(|e| edge_type_meta(dataset, e)).collect();
    let graph = files::Parts { dataset, types: &types, splits: &splits, edges: &edges, edge_types: &edge_types };
    let files = files::write_all(&graph, options.num_parts, staging.dir(), progress)?;
    let report = report(&types, &splits, &edges, options.num_parts);
    let meta = Meta {
        format: FORMAT_NAME.into(),
        version: FORMAT_VERSION,
        dataset: dataset.name.clone(),
        num_parts: options.num_parts,
        provenance: provenance(dataset, options),
        node_types: dataset.node_types.iter().zip(types).map(|(nodes, t)| node_type_meta(nodes, t)).collect(),
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
            let dir = edge_dir(&edge_type_meta(dataset, edges));
            if taken.contains(&dir) {
                return fail(format!("two edge types have the folder {dir}"));
            }
            taken.insert(dir);
        }
    }
    Ok(())
}

fn edge_type_meta(dataset: &Dataset, edges: &EdgeData) -> EdgeTypeMeta {
    EdgeTypeMeta {
        src_type: dataset.nodes(edges.src_type).name.clone(),
        relation: edges.relation.clone(),
        dst_type: dataset.nodes(edges.dst_type).name.clone(),
        num_edges: edges.src.len() as u64,
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
    }
}

fn provenance(dataset: &Dataset, options: &PartitionOptions) -> Provenance {
    let balance = constraints::effective_balance(dataset, options);
    Provenance {
        method: options.method.to_string(),
        recursive: options.method == Method::Metis { recursive: true },
        seed: options.seed,
        balance: balance.iter().map(|b| b.to_string()).collect(),
        split: options.split.clone(),
        to_undirected: options.to_undirected,
    }
}

fn split_rows(nodes: &NodeData, numbering: &Renumbering) -> SplitRows {
    Split::ALL.map(|split| numbering.rows_by_part(nodes.splits.get(split)))
}

fn report(types: &[Renumbering], splits: &[SplitRows], edges: &[InEdges], num_parts: u32) -> Report {
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
