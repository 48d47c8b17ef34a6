//! Verification of parts without the source graph.

mod edge_ids;

use crate::PartitionError;
use edgecut_graph::part_writer::{self, EdgeSlice, MeasuredPart, PartMeasure, TransformsDigests};
use edgecut_graph::{
    BUILT_FEATURES_FILE, DiskPartId, EdgeLabels, EdgeTypeId, FEATURES_FILE, GraphError, META_FILE, Meta, NodeTypeId,
    Overlaps, Part, Split, TRANSFORMS_FILE, count_distinct_labels, edge_dir, max_classes, node_dir, part_dir,
};
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The results of a verification that found no error.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// The metadata of the partitioned graph.
    #[serde(skip)]
    pub meta: Meta,
    /// The number of array files.
    pub files: usize,
    /// The size of all array files in bytes.
    pub bytes: u64,
    /// The held-out edges that are training edges as well, and the nodes that are in two splits. The format allows
    /// them, so they are counted and are not an error.
    pub overlaps: Overlaps,
}

/// Checks the partitioned graph in `dir` against `docs/src/format.md`: the size and checksum of every file, the absence
/// of other files, every invariant of arrays within and across parts, and the report and the digests of `transforms.json`,
/// which are computed again. It reads
/// all data about twice, and writes nothing.
///
/// # Errors
/// Returns the first error that it finds, with the file concerned.
pub fn verify(dir: &Path) -> Result<VerifyReport, PartitionError> {
    let meta = Meta::read(dir)?;
    meta.verify_files(dir, None)?;
    check_unlisted(dir, dir, &meta)?;
    let mut seen: Vec<Vec<bool>> = meta.node_types.iter().map(|t| vec![false; t.book.num_nodes()]).collect();
    let mut sums = Sums::new(&meta);
    let mut measures = Vec::with_capacity(meta.num_parts as usize);
    let ids = (0..meta.num_parts).map(DiskPartId);
    let parts = ids.map(|id| Part::open(dir, id, false)).collect::<Result<Vec<_>, _>>()?;
    // The times of an edge's source can be in another part, so they are collected over all parts first.
    let times: Vec<Option<Vec<i64>>> = (0..meta.node_types.len()).map(|t| times(&parts, t)).collect();
    for (id, part) in (0..).map(DiskPartId).zip(&parts) {
        let folder = dir.join(part_dir(id));
        for (t, seen) in seen.iter_mut().enumerate() {
            check_nodes(&folder, part, t, seen)?;
        }
        for e in part.edge_type_ids() {
            let of_sources = &times[part.edges(e).src_type.index()];
            check_edges(&folder, part, e, of_sources.as_deref())?;
        }
        let train = sums.add(part);
        measures.push(measure_part(part, train));
    }
    for e in (0..).map(EdgeTypeId).take(meta.edge_types.len()) {
        edge_ids::check(dir, &parts, e)?;
    }
    sums.check(dir, &meta)?;
    if part_writer::report(&measures) != meta.report {
        return wrong(dir.join(META_FILE), "its report differs from the one computed from the parts".into());
    }
    check_classes(dir, &meta, &parts)?;
    check_transforms(dir, &meta)?;
    let overlaps = Part::overlaps(&parts);
    Ok(VerifyReport { files: meta.files.len(), bytes: meta.files.values().map(|f| f.bytes).sum(), overlaps, meta })
}

fn wrong<T>(path: PathBuf, why: String) -> Result<T, PartitionError> {
    Err(GraphError::format(path, why).into())
}

/// Fails on any entry of a part's folder, and any entry named like a part, that `META.json` does not list.
fn check_unlisted(root: &Path, dir: &Path, meta: &Meta) -> Result<(), PartitionError> {
    let mut entries: Vec<_> =
        std::fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(|e| GraphError::io(dir, e))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let listed = path.strip_prefix(root).ok().and_then(Path::to_str);
        if dir == root && !listed.is_some_and(|name| name.starts_with("part_")) {
            continue;
        }
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            let prefix = listed.map(|name| format!("{name}/"));
            if prefix.is_none_or(|prefix| !meta.files.keys().any(|file| file.starts_with(&prefix))) {
                return wrong(path, format!("{META_FILE} lists nothing in this folder"));
            }
            check_unlisted(root, &path, meta)?;
        } else if listed.is_none_or(|name| !meta.files.contains_key(name) && !is_deferred(meta, name)) {
            return wrong(path, format!("{META_FILE} does not list this file"));
        }
    }
    Ok(())
}

/// Returns true for the files of features that were built after the parts.
fn is_deferred(meta: &Meta, name: &str) -> bool {
    meta.node_types.iter().filter(|of_type| of_type.has_deferred_features).any(|of_type| {
        let dir = node_dir(&of_type.name);
        let ends = [FEATURES_FILE, BUILT_FEATURES_FILE].map(|file| format!("/{dir}/{file}"));
        ends.iter().any(|end| name.ends_with(end.as_str()))
    })
}

/// Checks the properties of one node type in one part that [`Part::open`] does not check, and marks the original ids in
/// `seen`. `folder` is that of the part.
fn check_nodes(folder: &Path, part: &Part, t: usize, seen: &mut [bool]) -> Result<(), PartitionError> {
    let meta = &part.meta().node_types[t];
    let nodes = part.nodes(NodeTypeId(t as u16));
    let file = |name: &str| folder.join(node_dir(&meta.name)).join(name);
    for &id in nodes.original_ids.iter() {
        match seen.get_mut(id as usize) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return wrong(file("original_ids.npy"), format!("node {id} is in another part as well")),
            None => return wrong(file("original_ids.npy"), format!("node {id} is past the last of {}", seen.len())),
        }
    }
    if let Some((row, column)) = nodes.features.as_ref().and_then(|f| f.first_not_finite()) {
        return wrong(file("features.npy"), format!("feature {column} of row {row} is NaN or infinite"));
    }
    if let Some(row) = nodes.features.as_ref().and_then(|f| f.first_not_normalized()) {
        let why = format!("row {row} is not scaled to a greatest entry of 127, or its scale has more than 17 bits");
        return wrong(file("features.npy"), why);
    }
    Ok(())
}

/// Returns the time of each node of a type by global id, or `None` if the type has no times.
fn times(parts: &[Part], t: usize) -> Option<Vec<i64>> {
    let of_parts: Option<Vec<&[i64]>> =
        parts.iter().map(|part| part.nodes(NodeTypeId(t as u16)).times.as_deref()).collect();
    Some(of_parts?.concat())
}

/// Checks that no type has many more classes than distinct labels.
fn check_classes(dir: &Path, meta: &Meta, parts: &[Part]) -> Result<(), PartitionError> {
    for (t, of_type) in meta.node_types.iter().enumerate() {
        let labels = parts.iter().filter_map(|part| part.nodes(NodeTypeId(t as u16)).labels.as_deref());
        check_classes_of(dir, &format!("node type {}", of_type.name), of_type.num_classes, labels)?;
        for (at, label) in of_type.more_labels.iter().enumerate() {
            let labels =
                parts.iter().filter_map(|part| part.nodes(NodeTypeId(t as u16)).more_labels[at].labels.as_deref());
            let of_label = format!("node type {}:{}", of_type.name, label.name);
            check_classes_of(dir, &of_label, label.num_classes, labels)?;
        }
    }
    for (e, of_type) in (0..).map(EdgeTypeId).zip(&meta.edge_types) {
        let of_part = |part: &'_ Part| part.edges(e).attributes.labels.clone();
        let all: Vec<EdgeLabels> = parts.iter().filter_map(of_part).collect();
        let labels = all.iter().filter_map(|labels| labels.values.classes().map(|classes| &classes[..]));
        let num_classes = of_type.labels.map_or(0, |labels| labels.values.num_classes());
        check_classes_of(dir, &edge_dir(of_type), num_classes, labels)?;
    }
    Ok(())
}

/// Checks that a type does not have many more classes than `labels` of all parts have values.
fn check_classes_of<'a>(
    dir: &Path,
    of_type: &str,
    num_classes: usize,
    labels: impl Iterator<Item = &'a [i64]>,
) -> Result<(), PartitionError> {
    if num_classes <= max_classes(0) {
        return Ok(());
    }
    let distinct = count_distinct_labels(&labels.collect::<Vec<_>>().concat());
    if num_classes <= max_classes(distinct) {
        return Ok(());
    }
    let why = format!(
        "{of_type} has {num_classes} classes, but its labels have {distinct} different values, which allow at most {}: \
         partition the graph again with its classes numbered 0, 1, 2 and so on",
        max_classes(distinct)
    );
    wrong(dir.join(META_FILE), why)
}

/// Compares the digests of features and classes in `META.json` with those of `transforms.json`. Digests of contents and of
/// ids would need all arrays in their original order, and are not compared.
fn check_transforms(dir: &Path, meta: &Meta) -> Result<(), PartitionError> {
    if !meta.has_transforms {
        return Ok(());
    }
    let path = dir.join(TRANSFORMS_FILE);
    let mut text = String::new();
    let read = meta.open_file(dir, TRANSFORMS_FILE)?.read_to_string(&mut text);
    read.map_err(|error| GraphError::io(&path, error))?;
    let mut expected = TransformsDigests::of(&path, &text)?;
    for of_type in &meta.node_types {
        let of_labels = expected.labels.remove(&of_type.name).unwrap_or_default();
        if let Some(label) =
            of_type.more_labels.iter().find(|label| label.classes.as_ref() != of_labels.get(&label.name))
        {
            let of_label = format!("the classes of {}:{}", of_type.name, label.name);
            let why = format!("its digest of {of_label} is not that of {TRANSFORMS_FILE}");
            return wrong(dir.join(META_FILE), why);
        }
    }
    let nodes = meta.node_types.iter().map(|t| (t.name.clone(), &t.digests, expected.node_types.remove(&t.name)));
    let edges = meta.edge_types.iter().map(|e| {
        let name = [&e.src_type[..], &e.relation, &e.dst_type].join("__");
        let expected = expected.edge_types.remove(&name);
        (name, &e.digests, expected)
    });
    for (name, found, expected) in nodes.chain(edges) {
        let expected = expected.unwrap_or_default();
        for (what, found, expected) in
            [("features", &found.transforms, &expected.transforms), ("classes", &found.classes, &expected.classes)]
        {
            // Parts of earlier versions have no digests.
            if found.is_some() && found != expected {
                let why = format!("its digest of the {what} of {name} is not that of {TRANSFORMS_FILE}");
                return wrong(dir.join(META_FILE), why);
            }
        }
    }
    Ok(())
}

/// Checks the properties of one edge type in one part that [`Part::open`] does not check. `folder` is that of the part.
fn check_edges(folder: &Path, part: &Part, e: EdgeTypeId, times: Option<&[i64]>) -> Result<(), PartitionError> {
    let edges = part.edges(e);
    let dir = folder.join(edge_dir(&part.meta().edge_types[e.index()]));
    if let Some((edge, column)) = edges.attributes.features.as_ref().and_then(|f| f.first_not_finite()) {
        return wrong(dir.join("features.npy"), format!("feature {column} of edge {edge} is NaN or infinite"));
    }
    if let (Some(found), Some(times)) = (&edges.src_times, times) {
        for (edge, (&found, &source)) in found.iter().zip(edges.csc.indices()).enumerate() {
            let expected = times[source as usize];
            if found != expected {
                let why = format!("edge {edge} comes from a node of time {expected}, not {found}");
                return wrong(dir.join("src_times.npy"), why);
            }
        }
    }
    Ok(())
}

/// The sums over all parts that `META.json` has to agree with.
struct Sums {
    /// The sizes of the training, validation and test splits, per node type and label.
    splits: Vec<Vec<[u64; 3]>>,
    /// The number of edges, per edge type.
    edges: Vec<u64>,
    /// The number of held-out edges for validation and test, per edge type.
    held_out: Vec<[u64; 2]>,
    /// The number of labeled edges of the training, validation and test splits, per edge type.
    labeled: Vec<[u64; 3]>,
}

impl Sums {
    fn new(meta: &Meta) -> Self {
        let edge_types = meta.edge_types.len();
        Self {
            splits: meta.node_types.iter().map(|of_type| vec![[0; 3]; of_type.labels().len()]).collect(),
            edges: vec![0; edge_types],
            held_out: vec![[0; 2]; edge_types],
            labeled: vec![[0; 3]; edge_types],
        }
    }

    /// Adds a part, and returns its number of training nodes.
    fn add(&mut self, part: &Part) -> u64 {
        let mut train = 0;
        for (t, sums) in self.splits.iter_mut().enumerate() {
            let nodes = part.nodes(NodeTypeId(t as u16));
            let of_labels = std::iter::once(&nodes.splits).chain(nodes.more_labels.iter().map(|label| &label.splits));
            for (splits, sums) in of_labels.zip(sums) {
                Split::ALL.iter().zip(sums).for_each(|(s, n)| *n += splits.get(*s).len() as u64);
            }
            train += nodes.splits.train.len() as u64;
        }
        for e in part.edge_type_ids() {
            let edges = part.edges(e);
            self.edges[e.index()] += edges.csc.num_edges() as u64;
            let labeled = &mut self.labeled[e.index()];
            Split::ALL.iter().zip(labeled).for_each(|(&split, n)| *n += edges.split_index.len(split) as u64);
            let lists = edges.held_out.lists();
            self.held_out[e.index()].iter_mut().zip(lists).for_each(|(n, (_, list))| *n += list.len() as u64);
        }
        train
    }

    /// Checks that the sums agree with `META.json`. Nodes need no sum: the ids of each part are distinct and in range,
    /// and the books give their number, so all of them were seen.
    fn check(&self, dir: &Path, meta: &Meta) -> Result<(), PartitionError> {
        for (t, found) in meta.node_types.iter().zip(&self.splits) {
            for (label, found) in t.labels().iter().zip(found) {
                if label.split_sizes != *found {
                    let of_label = if label.name.is_empty() { String::new() } else { format!(":{}", label.name) };
                    let sizes = label.split_sizes;
                    let why = format!(
                        "split sizes of node type {}{of_label} are {sizes:?}, but parts have {found:?}",
                        t.name
                    );
                    return wrong(dir.join(META_FILE), why);
                }
            }
        }
        let sums = self.edges.iter().zip(&self.held_out).zip(&self.labeled);
        for (e, ((&found, held_out), labeled)) in meta.edge_types.iter().zip(sums) {
            if e.num_edges != found {
                let why = format!("{} has {} edges, but parts have {found}", edge_dir(e), e.num_edges);
                return wrong(dir.join(META_FILE), why);
            }
            if e.held_out != *held_out {
                let why = format!("{} has {:?} held-out edges, but parts have {held_out:?}", edge_dir(e), e.held_out);
                return wrong(dir.join(META_FILE), why);
            }
            let sizes = e.labels.map_or([0; 3], |labels| labels.split_sizes);
            if sizes != *labeled {
                let why = format!("split sizes of {} are {sizes:?}, but parts have {labeled:?}", edge_dir(e));
                return wrong(dir.join(META_FILE), why);
            }
        }
        Ok(())
    }
}

/// Measures a part with `train_nodes` training nodes.
fn measure_part(part: &Part, train_nodes: u64) -> MeasuredPart {
    let meta = part.meta();
    let owned: Vec<_> = (0..meta.node_types.len())
        .map(|t| part.owned(NodeTypeId(t as u16)))
        .map(|range| range.start as usize..range.end as usize)
        .collect();
    let num_nodes: Vec<usize> = meta.node_types.iter().map(|t| t.book.num_nodes()).collect();
    let mut slices = Vec::new();
    for e in part.edge_type_ids() {
        let edges = part.edges(e);
        let src_type = edges.src_type.index();
        let dst_type = edges.dst_type.index();
        slices.push(EdgeSlice { src_type, dst_type, indptr: edges.csc.indptr(), indices: edges.csc.indices() });
    }
    let nodes = owned.iter().map(|range| range.len() as u64).sum();
    MeasuredPart { nodes, train_nodes, measure: PartMeasure::new(&owned, &num_nodes, &slices) }
}
