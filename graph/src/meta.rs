//! `META.json`: the description of a partitioned graph, with the checksum of each of its files.

use crate::{FeatureDtype, GraphError, HoldOutChoice, OverlapPolicy, PartitionBook, PartitionId};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The file that describes a partitioned graph. It is written last, so a folder without it is incomplete.
pub const META_FILE: &str = "META.json";
/// The value of [`Meta::format`].
pub const FORMAT_NAME: &str = "edgecut-partition";
/// The version of the on-disk format that this build reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// The description of a partitioned graph, as specified in `docs/src/format.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`FORMAT_NAME`].
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// The dataset's name.
    pub dataset: String,
    /// The number of parts.
    pub num_parts: u32,
    /// The parameters of the partitioning.
    pub provenance: Provenance,
    /// Node types, in the order of their ids.
    pub node_types: Vec<NodeTypeMeta>,
    /// Edge types, in the order of their ids.
    pub edge_types: Vec<EdgeTypeMeta>,
    /// The quality of the partitioning.
    pub report: Report,
    /// All array files, by path relative to this file, with `/` as the separator.
    pub files: BTreeMap<String, FileMeta>,
}

/// The parameters of a partitioning. The same parameters on the same data give the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The partitioning method: `metis`, `ldg` or `random`, or [`WHOLE`](crate::parts::WHOLE) for a dataset that was
    /// not partitioned.
    pub method: String,
    /// True if METIS used recursive bisection.
    pub recursive: bool,
    /// The seed of all random choices.
    pub seed: u64,
    /// The balanced quantities, any of `nodes`, `edges` and `train`.
    pub balance: Vec<String>,
    /// The split scheme, for a dataset with several of them.
    pub split: Option<String>,
    /// True if the reverse of every edge was added on request. Defaults to false for older descriptions without this
    /// field.
    #[serde(default)]
    pub to_undirected: bool,
    /// True if a reverse edge type was added for each edge type.
    #[serde(default)]
    pub add_reverse_edges: bool,
    /// The shares of edges held out for validation and test. The choice uses the seed above.
    #[serde(default)]
    pub hold_out_edges: Option<[f64; 2]>,
    /// The criterion by which edges were held out.
    #[serde(default)]
    pub hold_out_choice: HoldOutChoice,
    /// The treatment of overlapping splits. Defaults to `error` for older descriptions without this field.
    #[serde(default)]
    pub overlap: OverlapPolicy,
}

/// The description of one node type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTypeMeta {
    /// The name, which is also the name of the type's folder in each part.
    pub name: String,
    /// The global id range of each part.
    pub book: PartitionBook,
    /// The number of features per node, 0 if the type has none.
    pub feature_dim: usize,
    /// The stored type of features.
    pub feature_dtype: FeatureDtype,
    /// True if nodes have labels.
    pub has_labels: bool,
    /// The number of classes, 0 without labels.
    pub num_classes: usize,
    /// The number of training, validation and test nodes over all parts.
    pub split_sizes: [u64; 3],
    /// True if nodes have times.
    #[serde(default)]
    pub has_times: bool,
}

/// The description of one edge type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeTypeMeta {
    /// The name of the source node type.
    pub src_type: String,
    /// The name of the relation.
    pub relation: String,
    /// The name of the destination node type.
    pub dst_type: String,
    /// The number of edges over all parts, without held-out edges.
    pub num_edges: u64,
    /// The number of features per edge, 0 if the type has none.
    #[serde(default)]
    pub feature_dim: usize,
    /// The stored type of features.
    #[serde(default)]
    pub feature_dtype: FeatureDtype,
    /// True if edges have weights.
    #[serde(default)]
    pub has_weights: bool,
    /// True if edges have times.
    #[serde(default)]
    pub has_times: bool,
    /// The number of held-out validation and test edges over all parts.
    #[serde(default)]
    pub held_out: [u64; 2],
    /// True if held-out edges have times.
    #[serde(default)]
    pub held_out_has_times: bool,
}

/// The quality of a partitioning: sizes and cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The size of each part.
    pub parts: Vec<PartMeta>,
    /// The number of edges whose ends are in different parts.
    pub cut_edges: u64,
    /// `cut_edges` divided by the number of all edges.
    pub cut_fraction: f64,
    /// The expected fraction of remote nodes among a node's sampled in-neighbors: the fraction of in-neighbors that
    /// another part owns, averaged over all nodes with in-neighbors.
    pub remote_neighbor_fraction: f64,
}

/// The size of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartMeta {
    /// The number of owned nodes of all types.
    pub nodes: u64,
    /// The number of edges whose destination is owned.
    pub edges: u64,
    /// The number of owned training nodes.
    pub train_nodes: u64,
    /// The number of distinct nodes of other parts that are sources of this part's edges.
    pub halo_nodes: u64,
}

/// The size and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// The size in bytes.
    pub bytes: u64,
    /// The XXH3-64 checksum of the whole file, as 16 hexadecimal digits.
    pub xxh3: String,
}

/// Returns true if `name` can be the name of a folder: not empty, not hidden, and without separators and control
/// characters.
pub fn is_folder_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

/// Returns the XXH3-64 checksum of `bytes`, in the form of [`FileMeta::xxh3`].
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

impl Meta {
    /// Reads `META.json` in `dir`.
    ///
    /// # Errors
    /// Fails if the file is missing or malformed, or has another version. The error says what to do.
    pub fn read(dir: &Path) -> Result<Self, GraphError> {
        let path = dir.join(META_FILE);
        let bytes = std::fs::read(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => GraphError::format(
                dir,
                format!(
                    "it is not a partitioned graph, because {META_FILE} is missing: pass the N-parts folder that \
                     partition-graph wrote"
                ),
            ),
            _ => GraphError::io(&path, source),
        })?;
        // The version is checked before the other fields are parsed, which another version may not have.
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
                    "node type {} has {} classes, but its {} nodes allow at most {most} (1000 plus 10 per node): \
                     partition the graph again with its classes numbered 0, 1, 2 and so on",
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
            return Err(format!("the name {name:?} cannot be a folder name"));
        }
        let expected = self.file_names();
        if let Some(name) = expected.iter().find(|name| !self.files.contains_key(*name)) {
            return Err(format!("it does not list the file {name}"));
        }
        if let Some(name) = self.files.keys().find(|name| !expected.contains(*name)) {
            return Err(format!("it lists the file {name:?}, which is not part of this format"));
        }
        Ok(())
    }

    /// Returns the paths of all files of a partitioned graph with these parts and types, in the form of
    /// [`Meta::files`].
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

    /// Returns a hash that identifies this partitioning. Processes may only work together on parts with the same
    /// fingerprint.
    pub fn fingerprint(&self) -> String {
        let text = serde_json::to_vec(self).expect("a Meta is always representable as JSON");
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&text))
    }

    /// Checks the size and checksum of the files of `part`, or of all parts, against this description.
    ///
    /// # Errors
    /// Names the first file, in order of paths, that is missing, truncated or altered.
    pub fn verify_files(&self, dir: &Path, part: Option<PartitionId>) -> Result<(), GraphError> {
        let prefix = part.map(|p| format!("{}/", crate::part_dir(p)));
        let wanted = |name: &&String| prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix));
        let names: Vec<&String> = self.files.keys().filter(wanted).collect();
        // Files are checked in parallel. Results are in the order of paths, so the reported error is reproducible.
        let checked: Vec<Result<(), GraphError>> =
            names.par_iter().map(|name| verify_file(&dir.join(name), &self.files[*name])).collect();
        checked.into_iter().collect()
    }
}

/// The fields that are present in every version.
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
            "it has {held} bytes, but {META_FILE} says {}: it is truncated or from another run; copy or partition \
             it again",
            expected.bytes
        );
        return Err(GraphError::format(path, why));
    }
    // SAFETY: The map is read-only and private; see `open` in npy.rs.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| GraphError::io(path, e))?;
    let found = checksum(&map);
    if found != expected.xxh3 {
        let why = format!(
            "its checksum is {found}, but {META_FILE} says {}: it is corrupt or from another run; copy or partition \
             it again",
            expected.xxh3
        );
        return Err(GraphError::format(path, why));
    }
    Ok(())
}
