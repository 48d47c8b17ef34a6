//! `META.json`: what a partitioned graph is, and the checksum of each of its files.

use crate::{FeatureDtype, GraphError, HoldOutChoice, OverlapPolicy, PartitionBook, PartitionId};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The file that describes a partitioned graph; written last, so that a folder without it is no partitioning.
pub const META_FILE: &str = "META.json";
/// The value of [`Meta::format`].
pub const FORMAT_NAME: &str = "edgecut-partition";
/// The version of the on-disk format that this build reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// The description of a partitioned graph, as `docs/format.md` lays it down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`FORMAT_NAME`].
    pub format: String,
    /// The format's version.
    pub version: u32,
    /// The dataset's name.
    pub dataset: String,
    /// The number of parts.
    pub num_parts: u32,
    /// How the parts were made.
    pub provenance: Provenance,
    /// Node types, in the order of their ids.
    pub node_types: Vec<NodeTypeMeta>,
    /// Edge types, in the order of their ids.
    pub edge_types: Vec<EdgeTypeMeta>,
    /// What the partitioning is worth.
    pub report: Report,
    /// Every array file, by its path relative to this file with `/` between names.
    pub files: BTreeMap<String, FileMeta>,
}

/// The parameters that made a partitioning; the same parameters on the same data give the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// `metis`, `ldg` or `random`; [`WHOLE`](crate::parts::WHOLE) for a dataset that was not split.
    pub method: String,
    /// Whether METIS bisected recursively.
    pub recursive: bool,
    /// The seed of every random choice.
    pub seed: u64,
    /// What was balanced: of `nodes`, `edges`, `train`.
    pub balance: Vec<String>,
    /// Which split scheme was read, where the dataset has several.
    pub split: Option<String>,
    /// Whether it was asked for to add the reverse of every edge; false in descriptions from before it was noted.
    #[serde(default)]
    pub to_undirected: bool,
    /// Whether each edge type was given a reverse.
    #[serde(default)]
    pub add_reverse_edges: bool,
    /// The shares of validation and test edges that were held out, by the seed above.
    #[serde(default)]
    pub hold_out_edges: Option<[f64; 2]>,
    /// The edges that were held out.
    #[serde(default)]
    pub hold_out_choice: HoldOutChoice,
    /// The treatment of overlapping splits; `error` in descriptions from before it was noted.
    #[serde(default)]
    pub overlap: OverlapPolicy,
}

/// One node type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTypeMeta {
    /// Its name, which is also its folder in each part.
    pub name: String,
    /// Global id ranges per part.
    pub book: PartitionBook,
    /// Features per node, 0 without features.
    pub feature_dim: usize,
    /// The stored type of features.
    pub feature_dtype: FeatureDtype,
    /// Whether nodes have labels.
    pub has_labels: bool,
    /// The number of classes, 0 without labels.
    pub num_classes: usize,
    /// Training, validation and test nodes over all parts.
    pub split_sizes: [u64; 3],
    /// Whether nodes have times.
    #[serde(default)]
    pub has_times: bool,
}

/// One edge type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeTypeMeta {
    /// The name of the source type.
    pub src_type: String,
    /// The relation's name.
    pub relation: String,
    /// The name of the destination type.
    pub dst_type: String,
    /// Edges over all parts, held-out ones not counted.
    pub num_edges: u64,
    /// Features per edge, 0 without features.
    #[serde(default)]
    pub feature_dim: usize,
    /// The stored type of features.
    #[serde(default)]
    pub feature_dtype: FeatureDtype,
    /// Whether edges have weights.
    #[serde(default)]
    pub has_weights: bool,
    /// Whether edges have times.
    #[serde(default)]
    pub has_times: bool,
    /// Held-out validation and test edges over all parts.
    #[serde(default)]
    pub held_out: [u64; 2],
    /// True if held-out edges have times.
    #[serde(default)]
    pub held_out_has_times: bool,
}

/// What a partitioning is worth: balance and cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// A line per part.
    pub parts: Vec<PartMeta>,
    /// Edges whose ends lie in different parts.
    pub cut_edges: u64,
    /// `cut_edges` over all edges.
    pub cut_fraction: f64,
    /// The expected share of a node's sampled in-neighbors that another part owns: the mean over nodes with
    /// in-neighbors of the share of those that are remote.
    pub remote_neighbor_fraction: f64,
}

/// The size of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartMeta {
    /// Nodes of all types that the part owns.
    pub nodes: u64,
    /// Edges whose destination the part owns.
    pub edges: u64,
    /// Training nodes that the part owns.
    pub train_nodes: u64,
    /// Distinct nodes of other parts that the part's edges come from.
    pub halo_nodes: u64,
}

/// Size and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// Bytes.
    pub bytes: u64,
    /// XXH3-64 of the whole file, 16 hexadecimal digits.
    pub xxh3: String,
}

/// Whether a type's name can be the name of its folder: not empty, not hidden, and without separators or control
/// characters.
pub fn is_folder_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

/// The XXH3-64 checksum of `bytes`, as [`FileMeta::xxh3`] holds it.
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

impl Meta {
    /// Reads `META.json` in `dir`.
    ///
    /// # Errors
    /// A missing or malformed file, or another version, with what to do.
    pub fn read(dir: &Path) -> Result<Self, GraphError> {
        let path = dir.join(META_FILE);
        let bytes = std::fs::read(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => GraphError::format(
                dir,
                format!("it is no partitioned graph: {META_FILE} is missing (give the N-parts folder that partition-graph wrote)"),
            ),
            _ => GraphError::io(&path, source),
        })?;
        let head: Head = serde_json::from_slice(&bytes).map_err(|e| GraphError::format(&path, e.to_string()))?;
        if head.format != FORMAT_NAME {
            return Err(GraphError::format(&path, format!("its format is {:?}, not {FORMAT_NAME:?}", head.format)));
        }
        if head.version != FORMAT_VERSION {
            let why = format!(
                "format version {}, but this build reads version {FORMAT_VERSION}: partition again",
                head.version
            );
            return Err(GraphError::format(&path, why));
        }
        let meta: Self = serde_json::from_slice(&bytes).map_err(|e| GraphError::format(&path, e.to_string()))?;
        meta.check().map_err(|why| GraphError::format(&path, why))?;
        Ok(meta)
    }

    fn check(&self) -> Result<(), String> {
        if self.num_parts == 0 || self.report.parts.len() != self.num_parts as usize {
            return Err(format!("{} parts, but the report has {}", self.num_parts, self.report.parts.len()));
        }
        for t in &self.node_types {
            if t.book.num_parts() != self.num_parts as usize {
                return Err(format!(
                    "node type {} has {} ranges for {} parts",
                    t.name,
                    t.book.num_parts(),
                    self.num_parts
                ));
            }
            let most = crate::max_classes(t.book.num_nodes());
            if t.num_classes > most {
                return Err(format!(
                    "node type {} has {} classes, but its {} nodes allow at most {most} (10 for each, and 1000): partition \
                     the graph again with its classes numbered 0, 1, 2 and so on",
                    t.name,
                    t.num_classes,
                    t.book.num_nodes()
                ));
            }
        }
        let mut taken = BTreeSet::new();
        if let Some(t) = self.node_types.iter().find(|t| !taken.insert(&t.name)) {
            return Err(format!("two node types have the name {}", t.name));
        }
        let mut taken = BTreeSet::new();
        if let Some(dir) = self.edge_types.iter().map(crate::edge_dir).find(|dir| !taken.insert(dir.clone())) {
            return Err(format!("two edge types have the folder {dir}"));
        }
        for e in &self.edge_types {
            for end in [&e.src_type, &e.dst_type] {
                if !self.node_types.iter().any(|t| &t.name == end) {
                    return Err(format!("edge type {} joins unknown node type {end}", e.relation));
                }
            }
        }
        let names = self.node_types.iter().map(|t| &t.name);
        let names = names.chain(self.edge_types.iter().map(|e| &e.relation));
        if let Some(name) = names.into_iter().find(|name| !is_folder_name(name)) {
            return Err(format!("the name {name:?} cannot be a folder"));
        }
        let expected = self.file_names();
        if let Some(name) = expected.iter().find(|name| !self.files.contains_key(*name)) {
            return Err(format!("it does not list the file {name}"));
        }
        if let Some(name) = self.files.keys().find(|name| !expected.contains(*name)) {
            return Err(format!("it lists the file {name:?}, which is not of this format"));
        }
        Ok(())
    }

    /// The paths of all files that a partitioned graph of these parts and types has, as in [`Meta::files`].
    pub fn file_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for part in (0..self.num_parts).map(|p| crate::part_dir(PartitionId(p))) {
            for t in &self.node_types {
                let dir = format!("{part}/{}", crate::node_dir(&t.name));
                let features = (t.feature_dim > 0).then_some("features");
                let labels = t.has_labels.then_some("labels");
                let times = t.has_times.then_some("times");
                let present = ["original_ids", "train", "valid", "test"].into_iter();
                let present = present.chain(features).chain(labels).chain(times);
                names.extend(present.map(|file| format!("{dir}/{file}.npy")));
            }
            for e in &self.edge_types {
                let dir = format!("{part}/{}", crate::edge_dir(e));
                let src_times = self.node_types.iter().any(|t| t.name == e.src_type && t.has_times);
                let held_out = e.held_out != [0, 0];
                let optional = [
                    ("features", e.feature_dim > 0),
                    ("weights", e.has_weights),
                    ("times", e.has_times),
                    ("src_times", src_times),
                    ("valid_edges", held_out),
                    ("test_edges", held_out),
                    ("valid_edge_times", held_out && e.held_out_has_times),
                    ("test_edge_times", held_out && e.held_out_has_times),
                ];
                let optional = optional.into_iter().filter(|&(_, is_there)| is_there).map(|(file, _)| file);
                names.extend(["indptr", "indices"].into_iter().chain(optional).map(|file| format!("{dir}/{file}.npy")));
            }
        }
        names
    }

    /// A name for this very partitioning: processes may only work together on parts with the same fingerprint.
    pub fn fingerprint(&self) -> String {
        let text = serde_json::to_vec(self).expect("a Meta is always representable as JSON");
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&text))
    }

    /// Checks size and checksum of the files of `part`, or of all parts, against this description.
    ///
    /// # Errors
    /// The first file, in order of its path, that is missing, truncated or altered.
    pub fn verify_files(&self, dir: &Path, part: Option<PartitionId>) -> Result<(), GraphError> {
        let prefix = part.map(|p| format!("{}/", crate::part_dir(p)));
        let wanted = |name: &&String| prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix));
        let names: Vec<&String> = self.files.keys().filter(wanted).collect();
        let checked: Vec<Result<(), GraphError>> =
            names.par_iter().map(|name| verify_file(&dir.join(name), &self.files[*name])).collect();
        checked.into_iter().collect()
    }
}

/// The fields that every version has.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

fn verify_file(path: &PathBuf, expected: &FileMeta) -> Result<(), GraphError> {
    let file = File::open(path).map_err(|e| GraphError::io(path, e))?;
    let held = file.metadata().map_err(|e| GraphError::io(path, e))?.len();
    if held != expected.bytes {
        let why = format!(
            "it has {held} bytes, but {META_FILE} says {}: it is truncated or of another run; copy or partition it again",
            expected.bytes
        );
        return Err(GraphError::format(path, why));
    }
    // SAFETY: read-only and private; see `open` in npy.rs.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| GraphError::io(path, e))?;
    let found = checksum(&map);
    if found != expected.xxh3 {
        let why = format!(
            "its checksum is {found}, but {META_FILE} says {}: it is corrupt or of another run; copy or partition it again",
            expected.xxh3
        );
        return Err(GraphError::format(path, why));
    }
    Ok(())
}
