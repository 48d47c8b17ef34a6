//! Atomic output files. A file is written under a temporary name in the folder of its destination, synced and renamed,
//! so readers see the complete old content or the complete new content.
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

mod destination;
mod output_file;
mod sync;

pub use destination::destination;
pub use output_file::{OutputFile, check_output, remove_abandoned, remove_abandoned_in, write_output};
pub use sync::sync_folder;
