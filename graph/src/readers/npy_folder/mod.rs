//! Folders of `.npy` arrays.

mod attributes;
mod edges;
mod export;
mod files;
mod integers;
mod read;

pub use export::export_npy;
pub(super) use files::{EDGE_INDEX_FILE, EDGES_FOLDER, NODES_FOLDER, stray_arrays};
pub use read::{read_npy_folder, read_npy_types};
