//! Local copies of what `s3://`, `gs://` and `az://` URLs name, and uploads.
//!
//! Parts are memory-mapped and read by positions, and tables are read several times. [`Stores`] therefore fetches files into
//! a folder once, and the programs work on that. Outputs are written to a local folder and uploaded when they are complete,
//! with the file last that makes the others count.
//!
//! The copy of a folder belongs to one state of it: the names, sizes and ETags of its objects. Another state gets a copy of
//! its own, and copies of earlier states are removed once no process uses them. A file appears under its name when it is
//! complete. Processes of a machine wait for the one that fetches, as long as it makes progress. Complete outputs stay until
//! they are uploaded.
//!
//! Credentials come from the environment, as for the tools of the providers. Errors do not repeat them.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod cache;
mod cache_folder;
#[cfg_attr(not(feature = "clouds"), path = "absent.rs")]
mod client;
mod error;
mod fetch;
mod files;
mod limits;
mod progress;
mod store_url;
mod stores;
#[cfg(all(test, feature = "clouds"))]
mod tests;
mod timeouts;
mod upload;

pub use cache_folder::default_cache_folder;
pub use error::StoreError;
pub use fetch::Snapshot;
pub use store_url::StoreUrl;
pub use stores::{CopiesInUse, OutputRole, Stores};
