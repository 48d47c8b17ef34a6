//! Folders of `.npy` arrays.

mod attributes;
mod edge_labels;
mod edges;
mod export;
mod files;
mod integers;
mod read;
mod shape;
mod targets;

pub(super) use attributes::{read_features, read_times, read_weights};
pub(super) use edges::EdgeFiles;
pub use export::export_npy;
pub(super) use files::{EDGE_INDEX_FILE, EDGES_FOLDER, NODES_FOLDER, near_array, stray_arrays};
pub(super) use integers::Integers;
pub(super) use read::{mask_ids, read_labels, read_splits};
pub use read::{read_npy_folder, read_npy_types};
pub(super) use read::{read_npy_folder_in, read_npy_types_in};
pub(super) use shape::{edge_shape, feature_shape, npy_folder_shape, npy_types_shape, num_rows};
