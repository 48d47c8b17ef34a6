//! The layouts of datasets.

use super::dgl_chunks::{METADATA_FILE, read_dgl_chunks};
use super::mag240m::{PROCESSED_FOLDER, mag240m_shape, read_mag240m_in};
use super::npy_folder::{
    EDGE_INDEX_FILE, EDGES_FOLDER, NODES_FOLDER, npy_folder_shape, npy_types_shape, read_npy_folder_in,
    read_npy_types_in, stray_arrays,
};
use super::ogb::{DATA_FILE, OgbProperties, TRIPLETS, ogb_binary_shape, read_ogb, read_ogb_binary_in, read_ogb_hetero};
use super::text::find_csv;
use super::triples::{find_train_triples, read_triples};
use super::{DatasetSource, GraphShape};
use crate::GraphError;
use crate::dataset::Dataset;
use std::path::{Path, PathBuf};

/// Reads a dataset, and appends warnings for its user.
type Read = fn(&DatasetSource, &Path, &mut Vec<String>) -> Result<Dataset, GraphError>;

/// Reads the sizes of a dataset with a name from the headers of its files.
type ReadShape = fn(&str, &Path) -> Result<GraphShape, GraphError>;

/// A layout of the files of a dataset. A new layout is a module with its reader, and an entry of [`LAYOUTS`].
pub(super) struct Layout {
    /// The description of the files, for errors.
    pub(super) what: &'static str,
    /// Returns true if a folder is in this layout, unless it is in an earlier one of the list.
    is_in: fn(&Path) -> bool,
    pub(super) read: Read,
    /// True if a dataset can have several split schemes.
    pub(super) has_split_schemes: bool,
    /// Reads the sizes of a dataset with a name from the headers of its files. A layout without it is read whole into memory.
    pub(super) shape: Option<ReadShape>,
    /// Returns arrays that the reader does not take, which may be misspelled.
    pub(super) strays: fn(&Path) -> Result<Vec<PathBuf>, GraphError>,
    /// Returns a note on a dataset with a name.
    pub(super) note: fn(&str, &Path) -> Result<Option<String>, GraphError>,
}

/// All layouts. Arrays take precedence over CSV files, which they were probably converted from.
const LAYOUTS: &[Layout] = &[
    Layout {
        shape: Some(|_, folder| npy_folder_shape(folder)),
        strays: |folder| stray_arrays(folder, true, true),
        ..Layout::new(
            ".npy arrays",
            |folder| folder.join(EDGE_INDEX_FILE).is_file(),
            |source, folder, _| read_npy_folder_in(&source.space, &source.name, folder),
        )
    },
    Layout {
        shape: Some(|_, folder| npy_types_shape(folder)),
        strays: strays_of_types,
        ..Layout::new(
            ".npy arrays",
            |folder| folder.join(NODES_FOLDER).is_dir() && folder.join(EDGES_FOLDER).is_dir(),
            |source, folder, _| read_npy_types_in(&source.space, &source.name, folder),
        )
    },
    Layout::new(
        "DGL's chunks",
        |folder| folder.join(METADATA_FILE).is_file(),
        |source, folder, warnings| {
            let (dataset, unread) = read_dgl_chunks(&source.name, folder)?;
            warnings.extend(unread);
            Ok(dataset)
        },
    ),
    Layout {
        shape: Some(|_, folder| mag240m_shape(folder)),
        ..Layout::new(
            ".npy arrays",
            |folder| folder.join(PROCESSED_FOLDER).join("paper").is_dir(),
            |source, folder, _| read_mag240m_in(&source.space, &source.name, folder),
        )
    },
    Layout {
        shape: Some(ogb_binary_shape),
        ..Layout::of_ogb(
            "OGB's arrays",
            |folder| folder.join("raw").join(DATA_FILE).is_file(),
            |source, folder, _| read_ogb_binary_in(&source.space, &source.name, folder, source.split.as_deref()),
        )
    },
    Layout::of_ogb(
        "OGB's CSV files",
        |folder| find_csv(&folder.join("raw"), TRIPLETS).is_some(),
        |source, folder, _| read_ogb_hetero(&source.name, folder, source.split.as_deref()),
    ),
    Layout::of_ogb(
        "OGB's CSV files",
        |folder| folder.join("raw").is_dir(),
        |source, folder, _| read_ogb(&source.name, folder, source.split.as_deref()),
    ),
    Layout::new(
        "triples",
        |folder| find_train_triples(folder).is_some(),
        |source, folder, _| read_triples(&source.name, folder),
    ),
];

impl Layout {
    /// Detects the layout of a folder.
    pub(super) fn of(folder: &Path) -> Option<&'static Self> {
        LAYOUTS.iter().find(|layout| (layout.is_in)(folder))
    }

    /// Returns a layout that is read whole and has one split.
    const fn new(what: &'static str, is_in: fn(&Path) -> bool, read: Read) -> Self {
        let has_split_schemes = false;
        Self { what, is_in, read, has_split_schemes, shape: None, strays: |_| Ok(Vec::new()), note: |_, _| Ok(None) }
    }

    /// Returns a layout of OGB that is read whole.
    const fn of_ogb(what: &'static str, is_in: fn(&Path) -> bool, read: Read) -> Self {
        Self {
            has_split_schemes: true,
            note: |name, folder| Ok(OgbProperties::find(name, folder)?.note_on_metric(name)),
            ..Self::new(what, is_in, read)
        }
    }
}

/// Returns the stray arrays of a dataset with a folder per type.
fn strays_of_types(folder: &Path) -> Result<Vec<PathBuf>, GraphError> {
    let mut strays = Vec::new();
    for (parent, of_nodes) in [(NODES_FOLDER, true), (EDGES_FOLDER, false)] {
        let dir = folder.join(parent);
        let entries = std::fs::read_dir(&dir).map_err(|error| GraphError::io(&dir, error))?;
        for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
            strays.extend(stray_arrays(&entry.path(), of_nodes, !of_nodes)?);
        }
    }
    Ok(strays)
}
