//! Atomic output files. A file is written under a temporary name in the folder of its destination, synced and renamed,
//! so readers see the complete old content or the complete new content. [`FolderLock`] reserves a folder. [`OwnEntries`]
//! removes outputs, and [`TemporaryFolder`] temporary folders of processes that have ended, without touching what is not theirs.
//!
//! ```
//! use edgecut_output::{OutputFile, check_output, write_output};
//! use std::io::Write;
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("result.json");
//! check_output(&path)?;
//! write_output(&path, b"{}")?;
//! let output = OutputFile::create(&path)?;
//! output.file().write_all(b"[]")?;
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! output.commit()?;
//! assert_eq!(std::fs::read(&path)?, b"[]");
//! # Ok::<(), std::io::Error>(())
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod destination;
mod folder_lock;
mod host;
mod output_file;
mod own_entries;
mod sync;
mod temporary_folder;
#[doc(hidden)]
pub mod testing;
mod timeouts;

pub use destination::{destination, is_same_file};
pub use folder_lock::FolderLock;
pub use host::host_tag;
pub use output_file::{OutputFile, check_output, remove_abandoned, remove_abandoned_in, write_output};
pub use own_entries::{OwnEntries, is_numbered};
pub use sync::sync_folder;
pub use temporary_folder::{TemporaryFolder, remove_dead_folders, remove_temporary_folders};
