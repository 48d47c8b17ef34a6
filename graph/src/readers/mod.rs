//! Readers and generators of datasets.
//!
//! [`load`] finds a dataset by name and detects its layout from the contents of its folder:
//!
//! | layout | detected by | reader |
//! |---|---|---|
//! | `.npy` folder: arrays saved from PyG, DGL or NumPy | `edge_index.npy` | [`read_npy_folder`] |
//! | `.npy` folder with one folder per type | `nodes/` and `edges/` | [`read_npy_types`] |
//! | OGB raw CSV | `raw/` | [`read_ogb`] |
//! | heterogeneous OGB raw CSV | `raw/triplet-type-list` | [`read_ogb_hetero`] |
//! | OGB's binary layout (papers100M) | `raw/data.npz` | [`read_ogb_binary`] |
//! | MAG240M | `processed/` | [`read_mag240m`] |
//! | DGL's chunked graphs | `metadata.json` | [`read_dgl_chunks`] |
//! | triples of a knowledge graph | `train.ids.tsv` or `train.tsv` | [`read_triples`] |
//! | none, generated homogeneous graph | the name `fake` | [`fake`](fn@fake) |
//! | none, generated heterogeneous graph | the name `fake-hetero` | [`fake_hetero`](fn@fake_hetero) |
//!
//! [`small_graphs`](crate::small_graphs) reads and generates sets of many small graphs.
//!
//! The returned datasets pass [`Dataset::validate`](crate::Dataset::validate). Every reader reports bad values with the
//! file and the position.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod assignment;
mod dgl_chunks;
mod fake;
mod layout;
mod mag240m;
mod npy_folder;
mod ogb;
mod row_count;
mod seen_ids;
mod shape;
mod source;
mod splits;
pub(crate) mod text;
mod triples;

pub use assignment::read_assignment;
pub use dgl_chunks::read_dgl_chunks;
pub use fake::{FakeOptions, fake, fake_hetero, fake_in};
pub use mag240m::read_mag240m;
pub use npy_folder::{export_npy, read_npy_folder, read_npy_types};
pub use ogb::{read_ogb, read_ogb_binary, read_ogb_hetero};
pub use shape::{EdgeShape, GraphShape, NodeShape};
pub use source::{
    DatasetSource, Loaded, is_dataset, load, load_with_warnings, prepare, why_no_dataset, why_unreadable,
};
pub use triples::read_triples;
