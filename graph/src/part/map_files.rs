//! Mapping and validation of the files of a part.

use super::arrays::{HotNodes, PartEdges, PartLabel, PartNodes};
use super::deferred_features::{self, FeaturesChecksum};
use super::folders::{edge_dir, label_dir, node_dir};
use super::{Csc, EdgeTypeMeta, Meta, NodeLabelMeta, NodeTypeMeta, SplitIndex};
use crate::classes::check_num_classes;
use crate::dataset::{
    EdgeAttributes, EdgeIdKind, EdgeIds, EdgeLabelKind, EdgeLabelValues, EdgeLabels, EdgeLabelsMeta, EdgeList,
    GivenNegatives, HeldOutEdges, NegativesMeta, Split, TargetMeta, Targets, TextArray, bad_weight, check_classes,
    first_bad_weight, wrong_target,
};
use crate::memory::{Buffer, FeatureDtype, Features};
use crate::npy::{NpyElement, map_features, map_npy};
use crate::scan::first_position;
use crate::{DiskPartId, GraphError, NodeTypeId};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The rows of a node type in a part.
struct TypeRows<'a> {
    name: &'a str,
    original_ids: &'a [u32],
    /// True if the part holds all nodes of the type.
    is_whole: bool,
}

/// The files of the part in the folder `root`.
pub(super) struct PartFiles<'a> {
    pub(super) root: &'a Path,
    pub(super) part: DiskPartId,
}

impl PartFiles<'_> {
    /// Maps and checks the arrays of the node type `t`.
    pub(super) fn map_nodes(&self, t: &NodeTypeMeta, meta: &Meta) -> Result<PartNodes, GraphError> {
        let dir = self.root.join(node_dir(&t.name));
        if t.has_deferred_features {
            deferred_features::check_size(&dir, self.part, meta)?;
        }
        let rows = t.book.on_disk().range(self.part).len();
        let ids_file = dir.join("original_ids.npy");
        let original_ids: Buffer<u32> = array(ids_file.clone(), &[rows])?;
        if let Some(row) = original_ids.windows(2).position(|w| w[0] >= w[1]) {
            return Err(GraphError::format(ids_file, format!("it does not ascend after row {row}")));
        }
        let features = features(dir.join("features.npy"), rows, t.feature_dim, t.feature_dtype)?;
        let of_type = TypeRows { name: &t.name, original_ids: &original_ids, is_whole: rows == t.book.num_nodes() };
        let PartLabel { labels, targets, splits } = self.map_label(dir.clone(), &t.label(0), &of_type)?;
        let mut more_labels = Vec::with_capacity(t.more_labels.len());
        for label in &t.more_labels {
            more_labels.push(self.map_label(self.root.join(label_dir(&t.name, &label.name)), label, &of_type)?);
        }
        let times = t.has_times.then(|| array(dir.join("times.npy"), &[rows])).transpose()?;
        let hot = t.has_hotness.then(|| hot_nodes(&dir, t, self.part)).transpose()?;
        let by_original = None;
        Ok(PartNodes { original_ids, by_original, features, labels, targets, splits, times, hot, more_labels })
    }

    /// Maps and checks the files of a label in `dir`.
    fn map_label(&self, dir: PathBuf, label: &NodeLabelMeta, of_type: &TypeRows) -> Result<PartLabel, GraphError> {
        let rows = of_type.original_ids.len();
        let mut mapped = PartLabel::default();
        if label.has_labels {
            let path = dir.join("labels.npy");
            let classes = labels(path.clone(), rows, label.num_classes)?;
            // Only a part that holds all nodes can be checked alone. With several parts, the caller that opens all of
            // them counts the labels together.
            if of_type.is_whole {
                check_num_classes(&classes, label.num_classes, "row").map_err(|why| GraphError::format(path, why))?;
            }
            mapped.labels = Some(classes);
        }
        if let Some(meta) = label.targets {
            mapped.targets = Some(targets(dir.join("targets.npy"), rows, meta, "node")?);
        }
        for split in Split::ALL {
            let path = dir.join(format!("{}.npy", split.name()));
            let (_, ids) = map_npy::<u32>(&path)?;
            if ids.windows(2).any(|w| w[0] >= w[1]) || ids.last().is_some_and(|&last| last as usize >= rows) {
                return Err(GraphError::format(path, format!("its rows are not ascending, or not below {rows}")));
            }
            if let Some(&row) = ids.iter().find(|&&row| !mapped.is_known(row as usize, rows)) {
                let why = format!(
                    "row {row} of part {} is in the {} split, but node {} of type {} has no label: leave it out of the split \
                     or give it a label, and write the part again",
                    self.part,
                    split.name(),
                    of_type.original_ids[row as usize],
                    of_type.name
                );
                return Err(GraphError::format(path, why));
            }
            mapped.splits.set(split, ids);
        }
        Ok(mapped)
    }

    /// Returns the checksums of the features that were built after the part.
    pub(super) fn built_features(&self, meta: &Meta) -> Result<Vec<FeaturesChecksum>, GraphError> {
        let mut built = Vec::new();
        for t in meta.node_types.iter().filter(|t| t.has_deferred_features) {
            let xxh3 = deferred_features::checksum_of(&self.root.join(node_dir(&t.name)), self.part, meta)?;
            built.push(FeaturesChecksum { part: self.part, node_type: t.name.clone(), xxh3 });
        }
        Ok(built)
    }

    /// Maps and checks the arrays of the edge type `e`.
    pub(super) fn map_edges(&self, e: &EdgeTypeMeta, meta: &Meta) -> Result<PartEdges, GraphError> {
        let dir = self.root.join(edge_dir(e));
        let find = |name: &str| meta.node_types.iter().position(|t| t.name == name).map(|i| NodeTypeId(i as u16));
        let (Some(src_type), Some(dst_type)) = (find(&e.src_type), find(&e.dst_type)) else {
            return Err(GraphError::format(dir, "it joins an unknown node type"));
        };
        let rows = meta.node_types[dst_type.index()].book.on_disk().range(self.part).len();
        let indptr = array(dir.join("indptr.npy"), &[rows + 1])?;
        let indices_file = dir.join("indices.npy");
        let (_, indices) = map_npy::<u32>(&indices_file)?;
        let num_sources = meta.node_types[src_type.index()].book.num_nodes();
        let csc = Csc::new(indptr, indices, num_sources).map_err(|e| GraphError::in_file(&dir, e))?;
        let num_edges = csc.num_edges();
        let attributes = EdgeAttributes {
            features: features(dir.join("features.npy"), num_edges, e.feature_dim, e.feature_dtype)?,
            weights: e.has_weights.then(|| weights(dir.join("weights.npy"), num_edges)).transpose()?,
            times: e.has_times.then(|| array(dir.join("times.npy"), &[num_edges])).transpose()?,
            labels: e.labels.map(|of_type| edge_labels(&dir, num_edges, of_type, e.num_edges)).transpose()?,
            ids: e.ids.map(|kind| edge_ids(&dir, num_edges, kind)).transpose()?,
        };
        let has_src_times = meta.node_types[src_type.index()].has_times;
        let src_times = has_src_times.then(|| array(dir.join("src_times.npy"), &[num_edges])).transpose()?;
        let mut held_out = HeldOutEdges::default();
        if e.held_out != [0, 0] {
            let destinations = meta.node_types[dst_type.index()].book.on_disk().range(self.part);
            let open = |split: &str| -> Result<EdgeList, GraphError> {
                let list = edge_list(dir.join(format!("{split}_edges.npy")), num_sources, destinations.clone())?;
                let times_file = dir.join(format!("{split}_edge_times.npy"));
                let times = e.held_out_has_times.then(|| array(times_file, &[list.len()])).transpose()?;
                let at = usize::from(split == "test");
                let path = dir.join(format!("{split}_negatives.npy"));
                let num_destinations = meta.node_types[dst_type.index()].book.num_nodes();
                let negatives = match e.negatives[at] {
                    None => None,
                    Some(NegativesMeta::OfEach(num)) => {
                        Some(negatives_of_each(path, [list.len(), num as usize], num_destinations)?)
                    }
                    Some(NegativesMeta::Shared(_)) => {
                        let pairs = edge_list(path, num_sources, destinations.clone())?;
                        Some(GivenNegatives::Shared { src: pairs.src, dst: pairs.dst })
                    }
                };
                Ok(EdgeList { times, negatives, ..list })
            };
            held_out = HeldOutEdges { valid: open("valid")?, test: open("test")? };
        }
        let split_index = SplitIndex::new(attributes.labels.as_ref());
        Ok(PartEdges { src_type, dst_type, csc, attributes, split_index, src_times, held_out })
    }
}

fn hot_nodes(dir: &Path, t: &NodeTypeMeta, part: DiskPartId) -> Result<HotNodes, GraphError> {
    let path = dir.join("hot_nodes.npy");
    let (_, nodes) = map_npy::<u32>(&path)?;
    let owned = t.book.on_disk().range(part);
    if let Some(at) = nodes.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(GraphError::format(path, format!("it does not ascend after entry {at}")));
    }
    if let Some(at) = nodes.iter().position(|&node| owned.contains(&node) || node as usize >= t.book.num_nodes()) {
        let why = format!("entry {at} is node {}, which is not a node of another part", nodes[at]);
        return Err(GraphError::format(path, why));
    }
    let counts_file = dir.join("hotness.npy");
    let counts: Buffer<u32> = array(counts_file.clone(), &[nodes.len()])?;
    if let Some(at) = first_position(&counts, |count| count == 0) {
        return Err(GraphError::format(
            counts_file,
            format!("entry {at} is 0, but nodes without reads are not listed"),
        ));
    }
    Ok(HotNodes { nodes, counts })
}

fn features(path: PathBuf, rows: usize, dim: usize, dtype: FeatureDtype) -> Result<Option<Features>, GraphError> {
    (dim > 0).then(|| map_features(&path, [rows, dim], dtype)).transpose()
}

fn weights(path: PathBuf, num_edges: usize) -> Result<Buffer<f32>, GraphError> {
    let weights: Buffer<f32> = array(path.clone(), &[num_edges])?;
    match first_bad_weight(&weights) {
        Some(edge) => Err(GraphError::format(path, bad_weight(edge, weights[edge]))),
        None => Ok(weights),
    }
}

/// Maps the ids of edges.
fn edge_ids(dir: &Path, num_edges: usize, kind: EdgeIdKind) -> Result<EdgeIds, GraphError> {
    if kind == EdgeIdKind::Numbers {
        return Ok(EdgeIds::Numbers(array(dir.join("ids.npy"), &[num_edges])?));
    }
    let path = dir.join("id_ends.npy");
    let ends = array(path.clone(), &[num_edges])?;
    let (_, bytes) = map_npy::<u8>(&dir.join("id_bytes.npy"))?;
    Ok(EdgeIds::Texts(TextArray::new(bytes, ends).map_err(|why| GraphError::format(path, why))?))
}

/// Maps held-out edges into the owned `destinations`. The file holds a row of sources and a row of destinations.
fn edge_list(path: PathBuf, num_sources: usize, destinations: Range<u32>) -> Result<EdgeList, GraphError> {
    let (shape, ends) = map_npy::<u32>(&path)?;
    let [2, num_edges] = shape[..] else {
        return Err(GraphError::format(path, format!("its shape is {shape:?}, expected [2, number of edges]")));
    };
    let (src, dst) = ends.split_at(num_edges);
    if let Some(edge) = first_position(&src, |id| id as usize >= num_sources) {
        let why = format!("edge {edge} comes from node {}, past the last of {num_sources}", src[edge]);
        return Err(GraphError::format(path, why));
    }
    if let Some(edge) = first_position(&dst, |id| !destinations.contains(&id)) {
        let why = format!("edge {edge} goes to node {}, which this part does not own", dst[edge]);
        return Err(GraphError::format(path, why));
    }
    Ok(EdgeList::new(src, dst))
}

/// Maps the given negatives of held-out edges.
fn negatives_of_each(path: PathBuf, shape: [usize; 2], num_nodes: usize) -> Result<GivenNegatives, GraphError> {
    let dst: Buffer<u32> = array(path.clone(), &shape)?;
    if let Some(at) = first_position(&dst, |id| id as usize >= num_nodes) {
        let why = format!("negative {at} is node {}, past the last of {num_nodes}", dst[at]);
        return Err(GraphError::format(path, why));
    }
    Ok(GivenNegatives::OfEach { num: shape[1], dst })
}

/// Maps and checks the labels of the `num_edges` edges of a part, of `num_in_type` edges of the type.
fn edge_labels(
    dir: &Path,
    num_edges: usize,
    of_type: EdgeLabelsMeta,
    num_in_type: u64,
) -> Result<EdgeLabels, GraphError> {
    let values = match of_type.values {
        EdgeLabelKind::NumClasses(num_classes) => {
            let path = dir.join("labels.npy");
            let of_edges: Buffer<i64> = array(path.clone(), &[num_edges])?;
            let mut checked = check_classes(&of_edges, num_classes);
            // As for nodes, only a part that holds all edges can be checked alone.
            if num_edges as u64 == num_in_type {
                checked = checked.and_then(|()| check_num_classes(&of_edges, num_classes, "edge"));
            }
            checked.map_err(|why| GraphError::format(path, why))?;
            EdgeLabelValues::Classes { of_edges, num_classes }
        }
        EdgeLabelKind::Targets(meta) => {
            let values = targets(dir.join("targets.npy"), num_edges, meta, "edge")?;
            EdgeLabelValues::Targets(Targets { values, dim: meta.dim, kind: meta.kind })
        }
    };
    let path = dir.join("splits.npy");
    let labels = EdgeLabels { values, splits: array(path.clone(), &[num_edges])? };
    labels.check_splits(num_edges).map_err(|why| GraphError::format(path, why))?;
    Ok(labels)
}

fn labels(path: PathBuf, rows: usize, num_classes: usize) -> Result<Buffer<i64>, GraphError> {
    let labels: Buffer<i64> = array(path.clone(), &[rows])?;
    let classes = i64::try_from(num_classes).unwrap_or(i64::MAX);
    if let Some(row) = first_position(&labels, |label| !(-1..classes).contains(&label)) {
        return Err(GraphError::format(path, format!("row {row} has label {}, outside -1..{classes}", labels[row])));
    }
    Ok(labels)
}

fn targets(
    path: PathBuf,
    rows: usize,
    TargetMeta { dim, kind }: TargetMeta,
    item: &str,
) -> Result<Buffer<f32>, GraphError> {
    let targets: Buffer<f32> = array(path.clone(), &[rows, dim])?;
    match kind.first_wrong(&targets) {
        Some(at) => Err(GraphError::format(path, wrong_target(at, item, dim, targets[at], kind))),
        None => Ok(targets),
    }
}

fn array<T: NpyElement>(path: PathBuf, shape: &[usize]) -> Result<Buffer<T>, GraphError> {
    let (found, values) = map_npy::<T>(&path)?;
    if found != shape {
        return Err(GraphError::format(path, format!("its shape is {found:?}, but META.json wants {shape:?}")));
    }
    Ok(values)
}
