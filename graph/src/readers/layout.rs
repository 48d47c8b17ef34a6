//! The layouts of datasets.

use super::dgl_chunks::METADATA_FILE;
use super::mag240m::PROCESSED_FOLDER;
use super::npy_folder::{EDGE_INDEX_FILE, EDGES_FOLDER, NODES_FOLDER};
use super::ogb::{DATA_FILE, TRIPLETS};
use super::text::find_csv;
use super::triples::find_train_triples;
use std::path::Path;

/// The layout of the files of a dataset.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    Npy,
    NpyTypes,
    Ogb,
    OgbHetero,
    OgbBinary,
    Mag240m,
    DglChunks,
    Triples,
}

impl Layout {
    /// Detects the layout of `folder`. Arrays take precedence over CSV files, which they were probably converted from.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        if folder.join(EDGE_INDEX_FILE).is_file() {
            return Some(Self::Npy);
        }
        if folder.join(NODES_FOLDER).is_dir() && folder.join(EDGES_FOLDER).is_dir() {
            return Some(Self::NpyTypes);
        }
        if folder.join(METADATA_FILE).is_file() {
            return Some(Self::DglChunks);
        }
        if folder.join(PROCESSED_FOLDER).join("paper").is_dir() {
            return Some(Self::Mag240m);
        }
        let raw = folder.join("raw");
        if raw.join(DATA_FILE).is_file() {
            return Some(Self::OgbBinary);
        }
        let layout = if find_csv(&raw, TRIPLETS).is_some() { Self::OgbHetero } else { Self::Ogb };
        if raw.is_dir() {
            return Some(layout);
        }
        find_train_triples(folder).map(|_| Self::Triples)
    }

    /// Returns the description of a layout that is always read into memory.
    pub(super) fn read_whole(self) -> Option<&'static str> {
        match self {
            Self::Npy | Self::NpyTypes | Self::OgbBinary | Self::Mag240m => None,
            Self::Ogb | Self::OgbHetero => Some("OGB's CSV files"),
            Self::DglChunks => Some("DGL's chunks"),
            Self::Triples => Some("triples"),
        }
    }

    /// Returns the description of a layout without a choice of split schemes.
    pub(super) fn with_one_split(self) -> Option<&'static str> {
        match self {
            Self::Npy | Self::NpyTypes | Self::Mag240m => Some(".npy arrays"),
            Self::DglChunks => Some("DGL's chunks"),
            Self::Triples => Some("triples"),
            Self::Ogb | Self::OgbHetero | Self::OgbBinary => None,
        }
    }
}
