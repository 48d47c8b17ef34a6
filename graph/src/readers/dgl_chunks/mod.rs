//! Graphs in DGL's chunked format: a `metadata.json` and files with pieces of arrays.

mod arrays;
mod metadata;
mod read;

pub(super) use metadata::METADATA_FILE;
pub use read::read_dgl_chunks;
