//! Comparison of files with their checksums.

use super::folders::part_dir;
use super::meta::{META_FILE, Meta};
use crate::npy::{FileMeta, checksum};
use crate::{GraphError, PartitionId, parallel};
use std::fs::File;
use std::path::Path;

impl Meta {
    /// Checks the size and checksum of the files of `part`, or of all parts, against this description.
    ///
    /// ```
    /// use edgecut_graph::part_writer::write_one_part;
    /// use edgecut_graph::readers::{FakeOptions, fake};
    /// use edgecut_graph::{Meta, PartitionId};
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// write_one_part(fake(&FakeOptions { avg_num_nodes: 100, ..FakeOptions::default() })?, dir)?;
    /// let meta = Meta::read(dir)?;
    /// std::fs::write(dir.join("part_0/nodes/node/train.npy"), "damaged")?;
    /// assert!(meta.verify_files(dir, Some(PartitionId(0))).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Names the first file, in order of paths, that is missing, truncated or altered.
    pub fn verify_files(&self, dir: &Path, part: Option<PartitionId>) -> Result<(), GraphError> {
        let prefix = part.map(|p| format!("{}/", part_dir(p)));
        let wanted = |name: &&String| prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix));
        let names: Vec<&String> = self.files.keys().filter(wanted).collect();
        let verify = |file: usize| verify_file(&dir.join(names[file]), &self.files[names[file]]);
        parallel::try_collect(names.len(), &verify).map(drop)
    }
}

fn verify_file(path: &Path, expected: &FileMeta) -> Result<(), GraphError> {
    let file = File::open(path).map_err(|e| GraphError::io(path, e))?;
    let held = file.metadata().map_err(|e| GraphError::io(path, e))?.len();
    if held != expected.bytes {
        let why = format!(
            "it has {held} bytes, but {META_FILE} says {}: it is truncated or from another run; copy or partition \
             it again",
            expected.bytes
        );
        return Err(GraphError::format(path, why));
    }
    // SAFETY: The map is read-only and private; see `open` in npy/map.rs.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| GraphError::io(path, e))?;
    let found = checksum(&map);
    if found != expected.xxh3 {
        let why = format!(
            "its checksum is {found}, but {META_FILE} says {}: it is corrupt or from another run; copy or partition \
             it again",
            expected.xxh3
        );
        return Err(GraphError::format(path, why));
    }
    Ok(())
}
