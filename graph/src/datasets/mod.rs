//! Graphs from files and from a generator.
//!
//! [`load`] finds a dataset by name and tells its layout by what is in its folder:
//!
//! | layout | told by | reader |
//! |---|---|---|
//! | `.npy` folder: arrays saved from PyG, DGL or NumPy | `edge_index.npy` | [`read_npy_folder`] |
//! | OGB raw CSV | `raw/` | [`read_ogb`] |
//! | none, generated | the name `fake` | [`fake`](fn@fake) |
//!
//! What they return passes [`Dataset::validate`](crate::Dataset::validate); every reader reports bad values with their file and place.

mod blocks;
mod csv;
mod fake;
mod node_ids;
mod npy_folder;
mod numbers;
mod ogb;
mod source;
mod splits;
mod weighted_nodes;

pub use fake::{FAKE_NAME, FakeOptions, fake};
pub use npy_folder::{export_npy, read_npy_folder};
pub use ogb::read_ogb;
pub use source::{DatasetSource, load};
