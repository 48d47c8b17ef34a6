//! Readers and generators of graphs.
//!
//! [`load`] finds a dataset by name and detects its layout from the contents of its folder:
//!
//! | layout | detected by | reader |
//! |---|---|---|
//! | `.npy` folder: arrays saved from PyG, DGL or NumPy | `edge_index.npy` | [`read_npy_folder`] |
//! | `.npy` folder with one folder per type | `nodes/` and `edges/` | [`read_npy_types`] |
//! | OGB raw CSV | `raw/` | [`read_ogb`] |
//! | heterogeneous OGB raw CSV | `raw/triplet-type-list` | [`read_ogb_hetero`] |
//! | triples of a knowledge graph | `train.ids.tsv` or `train.tsv` | [`read_triples`] |
//! | none, generated homogeneous graph | the name `fake` | [`fake`](fn@fake) |
//! | none, generated heterogeneous graph | the name `fake-hetero` | [`fake_hetero`](fn@fake_hetero) |
//!
//! [`load_graphs`] does the same for sets of many small graphs: the text files of TUDataset ([`read_tu`]), or
//! `fake-graphs` ([`fake_graphs`](fn@fake_graphs)).
//!
//! The returned datasets pass [`Dataset::validate`](crate::Dataset::validate). Every reader reports bad values with the
//! file and the position.

mod blocks;
mod count;
mod csv;
mod fake;
mod fake_attributes;
mod fake_graphs;
mod fake_hetero;
mod graph_source;
mod node_ids;
mod npy_attributes;
mod npy_edges;
mod npy_export;
mod npy_folder;
mod numbers;
mod ogb;
mod ogb_hetero;
mod source;
mod splits;
mod triples;
mod tu;
mod vocabulary;
mod weighted_nodes;

pub use fake::{FAKE_NAME, FakeOptions, fake};
pub use fake_graphs::{FAKE_GRAPHS_NAME, FakeGraphsOptions, fake_graphs};
pub use fake_hetero::{FAKE_HETERO_NAME, fake_hetero};
pub use graph_source::{GraphSource, load_graphs};
pub use npy_export::export_npy;
pub use npy_folder::{read_npy_folder, read_npy_types};
pub use ogb::read_ogb;
pub use ogb_hetero::read_ogb_hetero;
pub use source::{DatasetSource, Loaded, is_dataset, load, load_with_warnings};
pub use triples::read_triples;
pub use tu::read_tu;
