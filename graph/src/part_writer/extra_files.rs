//! Files that a caller adds to parts.

use super::{Files, WriteError};
use crate::memory::FeatureDtype;
use crate::npy::{FileMeta, checksum};
use crate::part::{ID_MAP_FILE, TRANSFORMS_FILE, TypeDigests, node_file};
use crate::{DiskPartId, GraphError, TimeUnit, parallel};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The maps from nodes to the ids that users know them by. The writer of parts stores one per part and node type.
pub trait NodeFiles: Sync {
    /// Returns true if the nodes of a type, counted from 0, have other ids than their numbers.
    fn has_id_map(&self, node_type: usize) -> bool;

    /// Returns a digest of the ids of all nodes of a type in the order of their numbers; `None` if the ids are these
    /// numbers.
    fn ids_digest(&self, node_type: usize) -> Option<String>;

    /// Writes the ids of `nodes` of a type to `path`, in this order. `nodes` are the original ids of a part, whose first
    /// global id is `first`.
    ///
    /// # Errors
    /// Fails on an I/O error.
    fn write_id_map(&self, node_type: usize, nodes: &[u32], first: u32, path: &Path) -> Result<(), GraphError>;
}

/// No node type has an id map.
impl NodeFiles for () {
    fn has_id_map(&self, _: usize) -> bool {
        false
    }

    fn ids_digest(&self, _: usize) -> Option<String> {
        None
    }

    fn write_id_map(&self, _: usize, _: &[u32], _: u32, path: &Path) -> Result<(), GraphError> {
        Err(GraphError::format(path, "the nodes have no id map"))
    }
}

/// Facts about a node type that its arrays do not tell, to record in `META.json`.
#[derive(Clone, Debug, Default)]
pub struct NodeTypeFacts {
    /// True if the nodes are rows of a table.
    pub has_table: bool,
    /// The digests of the contents that the type had with its first nodes only.
    pub earlier_contents: Vec<String>,
}

/// Files that are written with parts.
#[derive(Clone, Copy)]
pub struct ExtraFiles<'a> {
    /// The id maps.
    pub nodes: &'a dyn NodeFiles,
    /// The content of `transforms.json`, if there is one.
    pub transforms: Option<&'a str>,
    /// For each node type whose features are built after the parts, their number and stored type. Types past the end of the
    /// list have no such features.
    pub deferred_features: &'a [Option<(usize, FeatureDtype)>],
    /// The facts of each node type that its arrays do not tell. Types past the end of the list have the default.
    pub node_facts: &'a [NodeTypeFacts],
    /// The unit of the times, to record in `META.json`.
    pub time_unit: Option<TimeUnit>,
}

impl Default for ExtraFiles<'_> {
    fn default() -> Self {
        Self { nodes: &(), transforms: None, deferred_features: &[], node_facts: &[], time_unit: None }
    }
}

/// The digests of the features and classes of all types that come from tables, by the names of the types. The name of an
/// edge type has those of its source, its relation and its destination, joined by two underscores.
#[derive(Default)]
pub struct TransformsDigests {
    /// By the name of the node type.
    pub node_types: BTreeMap<String, TypeDigests>,
    /// By the name of the edge type.
    pub edge_types: BTreeMap<String, TypeDigests>,
    /// The digest of the names of classes of each label after the first one, by the name of the node type and of the label.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
}

impl TransformsDigests {
    /// Computes the digests of the features and classes in the text of `transforms.json`, which is the file `path` in errors.
    ///
    /// # Errors
    /// A text that is not one of transforms.
    pub fn of(path: &Path, text: &str) -> Result<Self, GraphError> {
        let saved: SavedTransforms = serde_json::from_str(text).map_err(|error| GraphError::json(path, error))?;
        let of_types = |types: BTreeMap<String, SavedType>| {
            types.into_iter().map(|(name, of_type)| (name, of_type.digests())).collect()
        };
        let mut labels: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (name, of_type) in &saved.node_types {
            for (label, of_label) in &of_type.labels {
                if let Some(classes) = of_label.digests().classes {
                    labels.entry(name.clone()).or_default().insert(label.clone(), classes);
                }
            }
        }
        Ok(Self { node_types: of_types(saved.node_types), edge_types: of_types(saved.edge_types), labels })
    }
}

/// The content of `transforms.json`, without its interpretation.
#[derive(Deserialize)]
struct SavedTransforms {
    node_types: BTreeMap<String, SavedType>,
    edge_types: BTreeMap<String, SavedType>,
}

/// The features and the names of classes of a type.
#[derive(Deserialize)]
struct SavedType {
    #[serde(default)]
    features: Vec<Value>,
    classes: Option<Vec<String>>,
    /// The labels after the first one.
    #[serde(default)]
    labels: BTreeMap<String, SavedType>,
}

impl SavedType {
    fn digests(&self) -> TypeDigests {
        // Other keys than those of features, such as units of times, do not change the meaning of a column.
        let transforms = (!self.features.is_empty()).then(|| Value::from(self.features.clone()).to_string());
        let classes = self.classes.as_ref().map(|names| Value::from(names.clone()).to_string());
        let digest = |text: String| checksum(text.as_bytes());
        TypeDigests { transforms: transforms.map(digest), classes: classes.map(digest), ..TypeDigests::default() }
    }
}

/// The nodes of a part whose ids are written.
pub(crate) struct IdMapJob<'a> {
    pub(crate) part: u32,
    pub(crate) node_type: usize,
    pub(crate) name: &'a str,
    pub(crate) nodes: &'a [u32],
    pub(crate) first: u32,
}

impl ExtraFiles<'_> {
    /// Returns the digests of the features and classes in `transforms.json`.
    pub(super) fn transforms_digests(&self, dir: &Path) -> Result<TransformsDigests, GraphError> {
        let Some(text) = self.transforms else { return Ok(TransformsDigests::default()) };
        TransformsDigests::of(&dir.join(TRANSFORMS_FILE), text)
    }

    /// Writes id maps below `dir`, and returns their sizes and checksums by path.
    pub(crate) fn write_id_maps(&self, jobs: &[IdMapJob], dir: &Path, is_synced: bool) -> Result<Files, WriteError> {
        let write = |at: usize| -> Result<(String, FileMeta), GraphError> {
            let job = &jobs[at];
            let name = node_file(DiskPartId(job.part), job.name, ID_MAP_FILE);
            let path = dir.join(&name);
            self.nodes.write_id_map(job.node_type, job.nodes, job.first, &path)?;
            if is_synced {
                File::open(&path).and_then(|file| file.sync_all()).map_err(|error| GraphError::io(&path, error))?;
            }
            let bytes = std::fs::read(&path).map_err(|error| GraphError::io(&path, error))?;
            Ok((name, FileMeta { bytes: bytes.len() as u64, xxh3: checksum(&bytes) }))
        };
        Ok(parallel::try_collect(jobs.len(), &write)?.into_iter().collect())
    }

    /// Writes the transforms below `dir`, if there are any, and returns their size and checksum.
    pub(crate) fn write_transforms(&self, dir: &Path, is_synced: bool) -> Result<Files, WriteError> {
        let mut files = Files::new();
        if let Some(text) = self.transforms {
            let path = dir.join(TRANSFORMS_FILE);
            let write = || -> std::io::Result<()> {
                let mut file = File::create(&path)?;
                file.write_all(text.as_bytes())?;
                if is_synced { file.sync_all() } else { Ok(()) }
            };
            write().map_err(|error| GraphError::io(&path, error))?;
            let meta = FileMeta { bytes: text.len() as u64, xxh3: checksum(text.as_bytes()) };
            files.insert(TRANSFORMS_FILE.to_owned(), meta);
        }
        Ok(files)
    }
}
