//! `transforms.json`: the fitted transforms of a graph.

use super::Fitted;
use super::feature::FittedFeature;
use super::impute::FittedImpute;
use crate::TableError;
use crate::saved_split::SavedSplit;
use edgecut_graph::{GroupLimits, META_FILE, Meta, TRANSFORMS_FILE, TimeUnit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The version of the file. Files of version 1 do not have the unit of times, and files of version 2 do not have the rules
/// of splits.
const VERSION: u32 = 3;
/// The version of files with several labels of a node type.
const VERSION_OF_LABELS: u32 = 4;

/// The fitted transforms and the classes of a graph, as `transforms.json` stores them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transforms {
    version: u32,
    /// The unit of all times of the graph, if it has times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_unit: Option<TimeUnit>,
    /// By the name of the node type.
    pub(crate) node_types: BTreeMap<String, SavedType>,
    /// By the names of source type, relation and destination type, joined by two underscores.
    pub(crate) edge_types: BTreeMap<String, SavedType>,
}

/// The transforms and the classes of a node type or relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedType {
    /// The features, in the order of their columns.
    #[serde(default)]
    pub(crate) features: Vec<SavedFeature>,
    /// The name of each class, if labels are texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) classes: Option<Vec<String>>,
    /// The rule that divides rows with labels, or that holds out edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) split: Option<SavedSplit>,
    /// The division of groups into splits, if groups decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group_limits: Option<GroupLimits>,
    /// The name of the first label. Files of earlier versions have it only if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label_name: Option<String>,
    /// The classes and the splits of the labels after the first one, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, SavedType>,
}

/// A feature and its transform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedFeature {
    /// The name.
    pub(crate) name: String,
    /// The first column of the feature in the feature matrix, and the column after its last.
    pub(crate) columns: [usize; 2],
    /// The transform.
    transform: Fitted,
    /// The replacement of missing values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    impute: Option<FittedImpute>,
}

impl SavedFeature {
    /// Creates the feature `name` in `columns` of the feature matrix.
    pub(crate) fn new(name: &str, columns: [usize; 2], fitted: &FittedFeature) -> Self {
        let FittedFeature { transform, impute } = fitted.reduced();
        Self { name: name.to_owned(), columns, transform, impute }
    }

    /// Returns the fitted feature.
    pub(crate) fn fitted(&self) -> FittedFeature {
        FittedFeature { transform: self.transform.clone(), impute: self.impute.clone() }
    }
}

impl Default for Transforms {
    fn default() -> Self {
        Self { version: VERSION, time_unit: None, node_types: BTreeMap::new(), edge_types: BTreeMap::new() }
    }
}

impl Transforms {
    /// Reads the file `path`, or the file in the folder of parts `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, has another version, or has values that no fit gives.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        let parts = path;
        let path = &if parts.is_dir() { parts.join(TRANSFORMS_FILE) } else { parts.to_path_buf() };
        let mut bytes = Vec::new();
        let mut opened = if parts.join(META_FILE).exists() {
            Meta::read(parts)?.open_file(parts, TRANSFORMS_FILE)?
        } else {
            File::open(path).map_err(|error| TableError::io(path, error))?
        };
        opened.read_to_end(&mut bytes).map_err(|error| TableError::io(path, error))?;
        let read: Self = serde_json::from_slice(&bytes).map_err(|error| TableError::table(path, error))?;
        if !(1..=VERSION_OF_LABELS).contains(&read.version) {
            let why = format!("its version is {}, expected 1 to {VERSION_OF_LABELS}", read.version);
            return Err(TableError::file(path, why));
        }
        for (name, of_type) in read.node_types.iter().chain(&read.edge_types) {
            of_type.check(name).map_err(|why| TableError::file(path, why))?;
        }
        Ok(read)
    }

    /// Returns the names of the columns of a node type's features; empty for a type without transforms.
    ///
    /// A feature of one number has its name. A category is `name=category`, the column that marks missing values
    /// `name is missing`, and any other of several numbers `name[position]`.
    pub fn node_columns(&self, node_type: &str) -> Vec<String> {
        self.node_types.get(node_type).map(SavedType::column_names).unwrap_or_default()
    }

    /// Like [`node_columns`](Self::node_columns), for an edge type: the names of its source type, relation and destination
    /// type, joined by two underscores.
    pub fn edge_columns(&self, edge_type: &str) -> Vec<String> {
        self.edge_types.get(edge_type).map(SavedType::column_names).unwrap_or_default()
    }

    /// Returns true for a file of a version that does not have the unit of times.
    pub(crate) fn is_without_unit(&self) -> bool {
        self.version < 2
    }

    /// Returns true for a file of a version that has the rules of splits.
    pub(crate) fn has_splits(&self) -> bool {
        self.version >= 3
    }

    /// Returns the content of the file.
    pub fn to_json(&self) -> String {
        let has_labels = self.node_types.values().any(|of_type| !of_type.labels.is_empty());
        // Earlier builds read files without further labels.
        let version = if has_labels { VERSION_OF_LABELS } else { self.version };
        let written = Self { version, ..self.clone() };
        let mut text = serde_json::to_string_pretty(&written).expect("transforms are always representable as JSON");
        text.push('\n');
        text
    }

    /// Returns true if there is nothing to save.
    pub fn is_empty(&self) -> bool {
        let is_empty = |of_type: &SavedType| *of_type == SavedType::default();
        self.time_unit.is_none() && self.node_types.values().chain(self.edge_types.values()).all(is_empty)
    }
}

impl SavedType {
    /// Checks the values of a type or of one of its labels.
    ///
    /// # Errors
    /// Names the first value that no fit gives.
    fn check(&self, name: &str) -> Result<(), String> {
        for feature in &self.features {
            feature.fitted().check().map_err(|why| format!("feature {} of {name}: {why}", feature.name))?;
        }
        if let Some(Err(why)) = self.split.as_ref().map(SavedSplit::check) {
            return Err(format!("split of {name}: {why}"));
        }
        for (label, of_label) in &self.labels {
            of_label.check(&format!("{name}, label {label}"))?;
        }
        Ok(())
    }

    /// The transforms of a type without features.
    pub(crate) const NONE: &Self = &Self {
        features: Vec::new(),
        classes: None,
        split: None,
        group_limits: None,
        label_name: None,
        labels: BTreeMap::new(),
    };

    /// Returns the names of all columns.
    fn column_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for feature in &self.features {
            let [first, end] = feature.columns;
            names.extend(feature.fitted().column_names(&feature.name, end.saturating_sub(first)));
        }
        names
    }

    /// Returns the classes of the label at a position of a configuration. Files with one label know nothing about others, and
    /// files of earlier versions do not name it.
    ///
    /// # Errors
    /// Names the labels of the file if this one is not among them.
    pub(crate) fn label(&self, position: usize, name: &str) -> Result<&Self, String> {
        let is_first = self.label_name.as_ref().map_or(position == 0, |first| first == name);
        if is_first {
            return Ok(self);
        }
        if position > 0 && self.labels.is_empty() {
            return Ok(Self::NONE);
        }
        self.labels.get(name).ok_or_else(|| {
            let mut known: Vec<&str> = self.label_name.iter().map(String::as_str).collect();
            known.extend(self.labels.keys().map(String::as_str));
            format!(
                "{TRANSFORMS_FILE} has no label {name}, but {}, whose classes and splits are applied: name its column, leave the \
                 label out, or partition all tables together without these transforms",
                known.join(", ")
            )
        })
    }

    /// Returns the feature `name`.
    pub(crate) fn feature(&self, name: &str) -> Option<FittedFeature> {
        self.features.iter().find(|feature| feature.name == name).map(SavedFeature::fitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_split::{SplitBy, SplitTask};

    #[test]
    fn splits_of_all_labels_are_checked() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(TRANSFORMS_FILE);
        for (share, is_ok) in [(0.1, true), (0.9, false), (-0.5, false)] {
            let split = SavedSplit {
                task: SplitTask::Labels,
                split_pct: Some([0.5, 0.2, share]),
                by: SplitBy::Random,
                unit: None,
                seed: 1,
            };
            let vip = SavedType { split: Some(split), ..SavedType::default() };
            let labels = BTreeMap::from([("vip".to_owned(), vip)]);
            let user = SavedType { label_name: Some("churn".into()), labels, ..SavedType::default() };
            let node_types = BTreeMap::from([("user".to_owned(), user)]);
            std::fs::write(&path, Transforms { node_types, ..Transforms::default() }.to_json()).expect("a file");
            match Transforms::read(&path) {
                Ok(_) => assert!(is_ok, "{share}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!is_ok && text.contains("split of user, label vip: "), "{text}");
                }
            }
        }
    }
}
