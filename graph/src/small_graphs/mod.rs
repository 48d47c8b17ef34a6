//! Sets of many small graphs: [`GraphDataset`], the text files of TUDataset, generated sets, and splits.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod attribute_rows;
mod fake_graphs;
mod files;
mod format;
mod graph_data;
mod graph_dataset;
mod graph_view;
mod source;
mod splits;
mod tu_dataset;

pub use attribute_rows::{AttributeRows, OneHotLabels};
pub use fake_graphs::{FAKE_GRAPHS_NAME, FakeGraphsOptions, fake_graphs};
pub use graph_data::GraphData;
pub use graph_dataset::GraphDataset;
pub use graph_view::GraphView;
pub use source::{GraphSource, load_graphs};
pub use splits::{Fold, hold_out, read_folds, split_dataset, stratified_folds};
pub use tu_dataset::read_tu;
