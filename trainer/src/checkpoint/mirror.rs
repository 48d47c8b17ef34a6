//! Copies of checkpoints outside of the machine.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

/// A place outside of the machine for the files of checkpoints, such as an object store. Errors show its `Debug` form.
pub trait CheckpointMirror: Debug + Send + Sync {
    /// Stores the file with this path below the folder of the checkpoints.
    ///
    /// # Errors
    /// A file that cannot be stored. The error names the place.
    fn put(&self, name: &Path) -> io::Result<()>;

    /// Returns true if the place has a file with this path below the folder of the checkpoints.
    ///
    /// # Errors
    /// A place that does not answer. The error names the place.
    fn has(&self, name: &Path) -> io::Result<bool>;

    /// Removes files with these paths below the folder of the checkpoints, in this order. What cannot be removed only takes space.
    fn remove(&self, names: &[PathBuf]);
}
