//! `META.json`: the description of a partitioned graph, with the checksum of each of its files.

use super::folders::{edge_dir, is_folder_name, label_dir, node_dir, part_dir};
use super::format::check_format;
use super::{EdgeTypeMeta, NodeTypeMeta, PartsOnDisk, Provenance, Report};
use crate::dataset::{EdgeIdKind, MAX_TARGETS, TargetMeta, plan_feature_dtypes};
use crate::memory::{FeatureDtype, FeatureDtypes};
use crate::npy::FileMeta;
use crate::{DiskPartId, EdgeTypeId, GraphError, NodeTypeId, TimeUnit, max_classes};
use edgecut_settings::near_path;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that describes a partitioned graph. It is written last, so a folder without it is incomplete.
pub const META_FILE: &str = "META.json";
/// The file of the transforms that made the features, beside `META.json`.
pub const TRANSFORMS_FILE: &str = "transforms.json";
/// The file that maps the nodes of a part to the ids that users know them by, in the folder of each node type.
pub const ID_MAP_FILE: &str = "id_map.parquet";

/// The description of a partitioned graph, as specified in `docs/src/format.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`FORMAT_NAME`](crate::FORMAT_NAME).
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
    /// True if the transforms of the features are stored in [`TRANSFORMS_FILE`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_transforms: bool,
    /// The unit of all times, if the dataset tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<TimeUnit>,
    /// All files of the parts, by path relative to this file, with `/` as the separator.
    pub files: BTreeMap<String, FileMeta>,
    /// The parts on disk, if the parts described here are groups of them.
    #[serde(skip)]
    pub(crate) on_disk: Option<Arc<PartsOnDisk>>,
}

/// The levels of folders below a folder without parts in which parts are searched for.
const DEEPEST_PARTS: usize = 2;
/// The most entries of a folder in which parts are searched for.
const MOST_ENTRIES: usize = 100;

/// Returns how to name the parts that are meant by a folder without parts: the first ones below it, or the parts that it
/// belongs to.
pub fn remedy_without_parts(dir: &Path) -> String {
    let around = dir.parent().filter(|parent| parent.join(META_FILE).is_file()).map(Path::to_owned);
    match first_parts(dir, DEEPEST_PARTS).or(around).or_else(|| near_path(dir)) {
        Some(parts) if parts.as_os_str().is_empty() => "did you mean the current folder (`.`)?".to_owned(),
        Some(parts) => format!("did you mean {}?", parts.display()),
        None => "pass the N-parts folder that partition-graph wrote".to_owned(),
    }
}

fn first_parts(dir: &Path, levels: usize) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten().take(MOST_ENTRIES);
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    let found = folders.iter().find(|folder| folder.join(META_FILE).is_file()).cloned();
    if found.is_some() || levels <= 1 {
        return found;
    }
    folders.iter().find_map(|folder| first_parts(folder, levels - 1))
}

impl Meta {
    /// Returns true if an edge of a type and its reverse are the same edge. The lists of held-out edges may have it in one
    /// direction only.
    pub fn is_undirected(&self, edge_type: EdgeTypeId) -> bool {
        let edges = &self.edge_types[edge_type.index()];
        self.provenance.to_undirected && edges.src_type == edges.dst_type
    }

    /// Returns the pairs of edge types that were declared as each other's reverse when the graph was partitioned.
    pub fn declared_reverses(&self) -> Vec<(EdgeTypeId, EdgeTypeId)> {
        let mut pairs = Vec::new();
        for declared in &self.provenance.reverse_types {
            for (forward, from) in (0..).map(EdgeTypeId).zip(&self.edge_types) {
                if !from.names().is_named(&declared.0) {
                    continue;
                }
                for (reverse, to) in (0..).map(EdgeTypeId).zip(&self.edge_types) {
                    if from.names().is_pair(&to.names(), declared) {
                        pairs.push((forward, reverse));
                    }
                }
            }
        }
        pairs
    }

    /// Reads `META.json` in `dir`.
    ///
    /// # Errors
    /// Fails if the file is missing or malformed, differs from its digest, or has another version. The error says what to
    /// do.
    pub fn read(dir: &Path) -> Result<Self, GraphError> {
        let path = dir.join(META_FILE);
        let bytes = std::fs::read(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory if !dir.is_dir() => {
                GraphError::format(dir, format!("there is no such folder: {}", remedy_without_parts(dir)))
            }
            std::io::ErrorKind::NotFound => GraphError::format(
                dir,
                format!("it is not a partitioned graph, because {META_FILE} is missing: {}", remedy_without_parts(dir)),
            ),
            _ => GraphError::io(&path, source),
        })?;
        Self::parse(&path, &bytes)
    }

    /// Parses and checks the contents of `META.json`. `path` is only used in errors.
    ///
    /// # Errors
    /// Fails if the contents are malformed, differ from their digest, or have another version.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, GraphError> {
        // The version is checked before the other fields are parsed, which another version may not have.
        check_format(path, bytes)?;
        let meta = Self::parse_description(path, bytes)?;
        meta.check_files().map_err(|why| GraphError::format(path, why))?;
        Ok(meta)
    }

    /// Parses and checks a description whose list of files may be missing, as a process sends to one that holds no part
    /// of the graph. `origin` is only used in errors.
    ///
    /// # Errors
    /// Fails if the text is malformed.
    pub fn parse_description(origin: &Path, text: &[u8]) -> Result<Self, GraphError> {
        let meta: Self = serde_json::from_slice(text).map_err(|e| GraphError::json(origin, e))?;
        meta.check().map_err(|why| GraphError::format(origin, why))?;
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
            let mut taken = BTreeSet::new();
            for label in t.labels() {
                if label.targets.is_some() && label.has_labels {
                    return Err(format!("node type {} has both targets and labels", t.name));
                }
                let of_type = format!("node type {}", t.name);
                check_labels(&of_type, "node", label.targets, label.num_classes, t.book.num_nodes())?;
                if !t.more_labels.is_empty() && !is_folder_name(&label.name) {
                    return Err(format!("{of_type}: the name of its label {:?} cannot be a folder name", label.name));
                }
                if !taken.insert(label.name.clone()) {
                    return Err(format!("{of_type} has two labels with the name {}", label.name));
                }
            }
        }
        let mut taken = BTreeSet::new();
        if let Some(t) = self.node_types.iter().find(|t| !taken.insert(&t.name)) {
            return Err(format!("two node types have the name {}", t.name));
        }
        let mut taken = BTreeSet::new();
        if let Some(dir) = self.edge_types.iter().map(edge_dir).find(|dir| !taken.insert(dir.clone())) {
            return Err(format!("two edge types have the folder {dir}"));
        }
        for e in &self.edge_types {
            for end in [&e.src_type, &e.dst_type] {
                if !self.node_types.iter().any(|t| &t.name == end) {
                    return Err(format!("edge type {} joins unknown node type {end}", e.relation));
                }
            }
            if self.provenance.edge_ids && e.ids != Some(EdgeIdKind::Numbers) {
                let name = e.full_name();
                return Err(format!(
                    "edge type {name} has no numbers as ids, which `provenance.edge_ids` says: partition again"
                ));
            }
            if let Some(labels) = e.labels {
                let of_type = format!("edge type {}__{}__{}", e.src_type, e.relation, e.dst_type);
                let num_edges = usize::try_from(e.num_edges).unwrap_or(usize::MAX);
                check_labels(&of_type, "edge", labels.values.targets(), labels.values.num_classes(), num_edges)?;
            }
        }
        let names = self.node_types.iter().map(|t| &t.name);
        let names = names.chain(self.edge_types.iter().map(|e| &e.relation));
        if let Some(name) = names.into_iter().find(|name| !is_folder_name(name)) {
            return Err(format!("the name {name:?} cannot be a folder name"));
        }
        Ok(())
    }

    /// Checks that the files are listed that these parts and types have.
    fn check_files(&self) -> Result<(), String> {
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
    pub(super) fn file_names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.has_transforms.then(|| TRANSFORMS_FILE.to_owned()).into_iter().collect();
        for part in (0..self.num_parts).map(|p| part_dir(DiskPartId(p))) {
            for t in &self.node_types {
                let dir = format!("{part}/{}", node_dir(&t.name));
                let features = (t.feature_dim > 0 && !t.has_deferred_features).then_some("features");
                let labels = t.has_labels.then_some("labels");
                let targets = t.targets.map(|_| "targets");
                let times = t.has_times.then_some("times");
                let present = ["original_ids", "train", "valid", "test"].into_iter();
                let hot = t.has_hotness.then_some(["hot_nodes", "hotness"]).into_iter().flatten();
                let present = present.chain(features).chain(labels).chain(targets).chain(times).chain(hot);
                names.extend(present.map(|file| format!("{dir}/{file}.npy")));
                for label in &t.more_labels {
                    let dir = format!("{part}/{}", label_dir(&t.name, &label.name));
                    let values = label.has_labels.then_some("labels").into_iter();
                    let values = values.chain(label.targets.map(|_| "targets"));
                    names.extend(values.chain(["train", "valid", "test"]).map(|file| format!("{dir}/{file}.npy")));
                }
                names.extend(t.has_id_map.then(|| format!("{dir}/{ID_MAP_FILE}")));
            }
            for e in &self.edge_types {
                let dir = format!("{part}/{}", edge_dir(e));
                let src_times = self.node_types.iter().any(|t| t.name == e.src_type && t.has_times);
                let held_out = e.held_out != [0, 0];
                let optional = [
                    ("features", e.feature_dim > 0),
                    ("weights", e.has_weights),
                    ("times", e.has_times),
                    ("labels", e.labels.is_some_and(|labels| labels.values.targets().is_none())),
                    ("targets", e.labels.is_some_and(|labels| labels.values.targets().is_some())),
                    ("splits", e.labels.is_some()),
                    ("src_times", src_times),
                    ("valid_edges", held_out),
                    ("test_edges", held_out),
                    ("valid_edge_times", held_out && e.held_out_has_times),
                    ("test_edge_times", held_out && e.held_out_has_times),
                    ("valid_negatives", held_out && e.negatives[0].is_some()),
                    ("test_negatives", held_out && e.negatives[1].is_some()),
                ];
                let optional = optional.into_iter().filter(|&(_, is_there)| is_there).map(|(file, _)| file);
                let optional = optional.chain(e.ids.iter().flat_map(|kind| kind.arrays()).copied());
                names.extend(["indptr", "indices"].into_iter().chain(optional).map(|file| format!("{dir}/{file}.npy")));
            }
        }
        names
    }

    /// Returns the node types whose features are to be stored in another type than now, with these types.
    ///
    /// # Errors
    /// [`GraphError::FeatureDtypes`] for a named type that does not exist or has no features.
    pub fn new_feature_dtypes(&self, dtypes: &FeatureDtypes) -> Result<Vec<(NodeTypeId, FeatureDtype)>, GraphError> {
        let types: Vec<(&str, bool)> = self.node_types.iter().map(|t| (t.name.as_str(), t.feature_dim > 0)).collect();
        let planned = plan_feature_dtypes(dtypes, &types)?;
        let changed = planned.into_iter().enumerate().filter_map(|(t, dtype)| Some((t, dtype?)));
        let changed = changed.filter(|&(t, dtype)| dtype != self.node_types[t].feature_dtype);
        Ok(changed.map(|(t, dtype)| (NodeTypeId(t as u16), dtype)).collect())
    }

    /// Returns a hash that identifies this partitioning. Processes may only work together on parts with the same
    /// fingerprint.
    #[expect(clippy::expect_used, reason = "no description of a graph fails to become JSON")]
    pub fn fingerprint(&self) -> String {
        let text = serde_json::to_vec(self).expect("a Meta is always representable as JSON");
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&text))
    }
}

/// Checks the number of targets and of classes that the `count` items of a type have.
fn check_labels(
    of_type: &str,
    item: &str,
    targets: Option<TargetMeta>,
    num_classes: usize,
    count: usize,
) -> Result<(), String> {
    if let Some(TargetMeta { dim, .. }) = targets.filter(|targets| !(1..=MAX_TARGETS).contains(&targets.dim)) {
        return Err(format!("{of_type} has {dim} targets per {item}, expected 1 to {MAX_TARGETS}"));
    }
    let most = max_classes(count);
    if num_classes > most {
        return Err(format!(
            "{of_type} has {num_classes} classes, but its {count} {item}s allow at most {most} (1000 plus 10 per {item}): \
             partition the graph again with its classes numbered 0, 1, 2 and so on"
        ));
    }
    Ok(())
}
