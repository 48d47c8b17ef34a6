//! Checking parts without the graph that they were made of.

use crate::PartitionError;
use edgecut_graph::parts::{self, EdgeSlice, PartMeasure};
use edgecut_graph::{
    EdgeTypeId, GraphError, META_FILE, Meta, NodeTypeId, Overlaps, Part, PartitionId, Split, count_distinct_labels,
    edge_dir, max_classes, node_dir, part_dir,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What was found to be in order.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// The description of the partitioned graph.
    #[serde(skip)]
    pub meta: Meta,
    /// Array files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The held-out edges that are training edges as well, and the nodes that are in two splits. The format allows
    /// them, as a user may.
    pub overlaps: Overlaps,
}

/// Checks the partitioned graph in `dir` against `docs/format.md`: size and checksum of every file, no file too many,
/// and every invariant of arrays within and across parts, up to the report, which is computed again. Reads everything
/// about twice, and writes nothing.
///
/// # Errors
/// The first thing that is wrong, with the file it is in.
pub fn verify(dir: &Path) -> Result<VerifyReport, PartitionError> {
    let meta = Meta::read(dir)?;
    meta.verify_files(dir, None)?;
    check_unlisted(dir, dir, &meta)?;
    let mut seen: Vec<Vec<bool>> = meta.node_types.iter().map(|t| vec![false; t.book.num_nodes()]).collect();
    let mut sums = Sums::new(&meta);
    let mut measures = Vec::with_capacity(meta.num_parts as usize);
    let open = |id| Part::open(dir, PartitionId(id), false);
    let parts = (0..meta.num_parts).map(open).collect::<Result<Vec<_>, _>>()?;
    let times: Vec<Option<Vec<i64>>> = (0..meta.node_types.len()).map(|t| times(&parts, t)).collect();
    for part in &parts {
        for (t, seen) in seen.iter_mut().enumerate() {
            check_nodes(dir, part, t, seen)?;
        }
        for e in part.edge_type_ids() {
            let of_sources = &times[part.edges(e).src_type.index()];
            check_edges(dir, part, e, of_sources.as_deref())?;
        }
        let train = sums.add(part);
        measures.push(measure_part(part, train));
    }
    sums.check(dir, &meta)?;
    if parts::report(&measures) != meta.report {
        return wrong(dir.join(META_FILE), "its report is not what its parts add up to".into());
    }
    check_classes(dir, &meta, &parts)?;
    let overlaps = Part::overlaps(&parts);
    Ok(VerifyReport { files: meta.files.len(), bytes: meta.files.values().map(|f| f.bytes).sum(), overlaps, meta })
}

fn wrong<T>(path: PathBuf, why: String) -> Result<T, PartitionError> {
    Err(GraphError::format(path, why).into())
}

/// Fails on whatever is in a part's folder, or looks like one, and is not listed.
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
        } else if listed.is_none_or(|name| !meta.files.contains_key(name)) {
            return wrong(path, format!("{META_FILE} does not list this file"));
        }
    }
    Ok(())
}

/// Checks what [`Part::open`] does not of the nodes of one type in one part, and marks their original ids in `seen`.
fn check_nodes(root: &Path, part: &Part, t: usize, seen: &mut [bool]) -> Result<(), PartitionError> {
    let (meta, nodes) = (&part.meta().node_types[t], part.nodes(NodeTypeId(t as u16)));
    let file = |name: &str| root.join(part_dir(part.id())).join(node_dir(&meta.name)).join(name);
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
    let Some(labels) = &nodes.labels else { return Ok(()) };
    for split in Split::ALL {
        if let Some(row) = nodes.splits.get(split).iter().find(|&&row| labels[row as usize] < 0) {
            return wrong(file(&format!("{}.npy", split.name())), format!("row {row} has no label"));
        }
    }
    Ok(())
}

/// The time of each node of a type, by global id.
fn times(parts: &[Part], t: usize) -> Option<Vec<i64>> {
    let of_part = |part: &Part| part.nodes(NodeTypeId(t as u16)).times.as_deref().map(<[i64]>::to_vec);
    let of_parts: Option<Vec<Vec<i64>>> = parts.iter().map(of_part).collect();
    of_parts.map(|times| times.concat())
}

/// Checks that no node type has many more classes than different labels.
fn check_classes(dir: &Path, meta: &Meta, parts: &[Part]) -> Result<(), PartitionError> {
    for (t, of_type) in meta.node_types.iter().enumerate() {
        if of_type.num_classes <= max_classes(0) {
            continue;
        }
        let labels = parts.iter().filter_map(|part| part.nodes(NodeTypeId(t as u16)).labels.as_deref());
        let distinct = count_distinct_labels(&labels.collect::<Vec<_>>().concat());
        if of_type.num_classes > max_classes(distinct) {
            let why = format!(
                "node type {} has {} classes, but its labels have {distinct} different values, which allow at most {}: \
                 partition the graph again with its classes numbered 0, 1, 2 and so on",
                of_type.name,
                of_type.num_classes,
                max_classes(distinct)
            );
            return wrong(dir.join(META_FILE), why);
        }
    }
    Ok(())
}

/// Checks what [`Part::open`] does not of the edges of one type in one part.
fn check_edges(root: &Path, part: &Part, e: EdgeTypeId, times: Option<&[i64]>) -> Result<(), PartitionError> {
    let edges = part.edges(e);
    let dir = root.join(part_dir(part.id())).join(edge_dir(&part.meta().edge_types[e.index()]));
    if let Some((edge, column)) = edges.attributes.features.as_ref().and_then(|f| f.first_not_finite()) {
        return wrong(dir.join("features.npy"), format!("feature {column} of edge {edge} is NaN or infinite"));
    }
    if let (Some(found), Some(times)) = (&edges.src_times, times) {
        let expected = |edge: usize| times[edges.csc.indices()[edge] as usize];
        if let Some(edge) = (0..found.len()).find(|&edge| found[edge] != expected(edge)) {
            let why = format!("edge {edge} comes from a node of time {}, not {}", expected(edge), found[edge]);
            return wrong(dir.join("src_times.npy"), why);
        }
    }
    Ok(())
}

/// What all parts together have.
struct Sums {
    splits: Vec<[u64; 3]>,
    edges: Vec<u64>,
    held_out: Vec<[u64; 2]>,
}

impl Sums {
    fn new(meta: &Meta) -> Self {
        let (node_types, edge_types) = (meta.node_types.len(), meta.edge_types.len());
        Self { splits: vec![[0; 3]; node_types], edges: vec![0; edge_types], held_out: vec![[0; 2]; edge_types] }
    }

    /// Adds a part, and returns how many training nodes it has.
    fn add(&mut self, part: &Part) -> u64 {
        let mut train = 0;
        for (t, sums) in self.splits.iter_mut().enumerate() {
            let splits = &part.nodes(NodeTypeId(t as u16)).splits;
            Split::ALL.iter().zip(sums).for_each(|(s, n)| *n += splits.get(*s).len() as u64);
            train += splits.train.len() as u64;
        }
        for e in part.edge_type_ids() {
            let edges = part.edges(e);
            self.edges[e.index()] += edges.csc.num_edges() as u64;
            let lists = edges.held_out.lists();
            self.held_out[e.index()].iter_mut().zip(lists).for_each(|(n, (_, list))| *n += list.len() as u64);
        }
        train
    }

    /// Checks that it is what `META.json` says. Each part's ids are new ones in range, and the books say how many there
    /// are, so that all were seen.
    fn check(&self, dir: &Path, meta: &Meta) -> Result<(), PartitionError> {
        for (t, found) in meta.node_types.iter().zip(&self.splits) {
            if t.split_sizes != *found {
                let sizes = t.split_sizes;
                let why = format!("split sizes of node type {} are {sizes:?}, but parts have {found:?}", t.name);
                return wrong(dir.join(META_FILE), why);
            }
        }
        for ((e, &found), held_out) in meta.edge_types.iter().zip(&self.edges).zip(&self.held_out) {
            if e.num_edges != found {
                let why = format!("{} has {} edges, but parts have {found}", edge_dir(e), e.num_edges);
                return wrong(dir.join(META_FILE), why);
            }
            if e.held_out != *held_out {
                let why = format!("{} has {:?} held-out edges, but parts have {held_out:?}", edge_dir(e), e.held_out);
                return wrong(dir.join(META_FILE), why);
            }
        }
        Ok(())
    }
}

fn measure_part(part: &Part, train: u64) -> (u64, u64, PartMeasure) {
    let meta = part.meta();
    let owned: Vec<_> = (0..meta.node_types.len())
        .map(|t| part.owned(NodeTypeId(t as u16)))
        .map(|range| range.start as usize..range.end as usize)
        .collect();
    let num_nodes: Vec<usize> = meta.node_types.iter().map(|t| t.book.num_nodes()).collect();
    let slice = |e| {
        let edges = part.edges(e);
        let (src_type, dst_type) = (edges.src_type.index(), edges.dst_type.index());
        EdgeSlice { src_type, dst_type, indptr: edges.csc.indptr(), indices: edges.csc.indices() }
    };
    let slices: Vec<EdgeSlice> = part.edge_type_ids().map(slice).collect();
    let nodes = owned.iter().map(|range| range.len() as u64).sum();
    (nodes, train, PartMeasure::new(&owned, &num_nodes, &slices))
}
