//! The files that belong to a folder of parts.

use super::deferred_features::{BUILT_FEATURES_FILE, FEATURES_FILE, PARTIAL_FILE};
use super::meta::{ID_MAP_FILE, META_FILE, TRANSFORMS_FILE};
use super::node_dir;
use edgecut_output::OwnEntries;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The names of the arrays of a node type, without the extension.
const NODE_ARRAYS: [&str; 10] =
    ["original_ids", "features", "labels", "targets", "times", "hot_nodes", "hotness", "train", "valid", "test"];
/// The names of the arrays of a label after the first one, without the extension.
const LABEL_ARRAYS: [&str; 5] = ["labels", "targets", "train", "valid", "test"];
/// The names of the arrays of an edge type, without the extension.
const EDGE_ARRAYS: [&str; 18] = [
    "indptr",
    "indices",
    "features",
    "weights",
    "times",
    "labels",
    "targets",
    "splits",
    "ids",
    "id_ends",
    "id_bytes",
    "src_times",
    "valid_edges",
    "test_edges",
    "valid_negatives",
    "test_negatives",
    "valid_edge_times",
    "test_edge_times",
];

/// Returns the files that a folder of parts may have, complete or not.
pub fn possible_files() -> OwnEntries {
    let mut forms = vec![META_FILE.to_owned(), TRANSFORMS_FILE.to_owned()];
    forms.extend(NODE_ARRAYS.map(|array| format!("part_#/nodes/*/{array}.npy")));
    forms.extend([ID_MAP_FILE, BUILT_FEATURES_FILE, PARTIAL_FILE].map(|file| format!("part_#/nodes/*/{file}")));
    forms.extend(LABEL_ARRAYS.map(|array| format!("part_#/nodes/*/labels/*/{array}.npy")));
    forms.extend(EDGE_ARRAYS.map(|array| format!("part_#/edges/*/{array}.npy")));
    OwnEntries::forms(&forms)
}

/// Returns the files of the parts in `dir`: those that their `META.json` lists, in any version of the format, and features
/// that were built after the parts.
///
/// # Errors
/// A `META.json` that cannot be read or does not have such a list.
pub fn listed_files(dir: &Path) -> io::Result<OwnEntries> {
    let meta: Listing = serde_json::from_slice(&std::fs::read(dir.join(META_FILE))?)?;
    let mut paths: BTreeSet<String> = [META_FILE, TRANSFORMS_FILE].map(str::to_owned).into();
    let parts: BTreeSet<&str> = meta.files.keys().filter_map(|path| Some(path.split_once('/')?.0)).collect();
    for part in parts {
        for of_type in meta.node_types.iter().filter(|of_type| of_type.has_deferred_features) {
            let dir = format!("{part}/{}", node_dir(&of_type.name));
            paths.extend([FEATURES_FILE, BUILT_FEATURES_FILE, PARTIAL_FILE].map(|file| format!("{dir}/{file}")));
        }
    }
    paths.extend(meta.files.into_keys());
    Ok(OwnEntries::default().with_paths(paths))
}

/// The fields of `META.json` that name files.
#[derive(Deserialize)]
struct Listing {
    files: BTreeMap<String, serde::de::IgnoredAny>,
    node_types: Vec<NodeTypeListing>,
}

/// The fields of a node type that name files.
#[derive(Deserialize)]
struct NodeTypeListing {
    name: String,
    #[serde(default)]
    has_deferred_features: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::meta::Meta;
    use crate::part_writer::write_one_part;
    use crate::readers::{FakeOptions, fake_hetero};

    #[test]
    fn the_files_of_a_part_are_listed_and_have_known_names() {
        let dir = tempfile::tempdir().unwrap();
        let graph = fake_hetero(&FakeOptions { avg_num_nodes: 50, ..FakeOptions::default() }).unwrap();
        write_one_part(graph, dir.path()).unwrap();
        for entries in [possible_files(), listed_files(dir.path()).unwrap()] {
            assert_eq!(entries.first_foreign(dir.path()).unwrap(), None);
        }
        // A file that these parts do not have is not theirs, whatever its name.
        let times = dir.path().join("part_0/nodes/v0/times.npy");
        std::fs::write(&times, "").unwrap();
        let foreign = listed_files(dir.path()).unwrap().first_foreign(dir.path()).unwrap();
        assert_eq!(foreign, Some("part_0/nodes/v0/times.npy".into()));
    }

    #[test]
    fn all_names_of_the_format_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let graph = fake_hetero(&FakeOptions { avg_num_nodes: 50, ..FakeOptions::default() }).unwrap();
        let mut meta: Meta = write_one_part(graph, dir.path()).unwrap();
        meta.has_transforms = true;
        for of_type in &mut meta.node_types {
            (of_type.has_labels, of_type.has_times, of_type.has_hotness, of_type.has_id_map) = (true, true, true, true);
            of_type.targets = Some(crate::TargetMeta { dim: 1, kind: crate::TargetKind::Regression });
            let label = crate::NodeLabelMeta { name: "b".into(), has_labels: true, ..crate::NodeLabelMeta::default() };
            of_type.more_labels = vec![label];
        }
        for of_type in &mut meta.edge_types {
            (of_type.feature_dim, of_type.held_out, of_type.held_out_has_times) = (1, [1, 1], true);
            (of_type.has_weights, of_type.has_times) = (true, true);
            of_type.negatives = [Some(crate::NegativesMeta::Shared(1)); 2];
        }
        let targets = crate::TargetMeta { dim: 1, kind: crate::TargetKind::Regression };
        let mut names = BTreeSet::new();
        for (values, ids) in [
            (crate::EdgeLabelKind::NumClasses(1), crate::EdgeIdKind::Numbers),
            (crate::EdgeLabelKind::Targets(targets), crate::EdgeIdKind::Texts),
        ] {
            let labels = crate::EdgeLabelsMeta { values, split_sizes: [0; 3] };
            meta.edge_types.iter_mut().for_each(|of_type| (of_type.labels, of_type.ids) = (Some(labels), Some(ids)));
            names.extend(meta.file_names());
        }
        for name in names {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(possible_files().first_foreign(dir.path()).unwrap(), None);
    }
}
