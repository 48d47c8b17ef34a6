//! Comparison of files with their checksums.

use super::deferred_features;
use super::folders::{node_dir, part_dir};
use super::meta::{META_FILE, Meta};
use crate::memory::MappedFile;
use crate::npy::{FileMeta, checksum};
use crate::{GraphError, PartitionId, parallel};
use std::path::Path;

/// The end of the paths of features.
const FEATURES: &str = "/features.npy";

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
        self.check_listed(dir, part, &|_| true)?;
        let parts = part.map_or(0..self.num_parts, |part| part.0..part.0 + 1);
        parts.map(PartitionId).try_for_each(|part| self.check_deferred(dir, part))
    }

    /// Checks the size of each file of `part`, and the checksum of each except those of features. With `verify`, also
    /// the checksums of features.
    ///
    /// # Errors
    /// As [`Meta::verify_files`].
    pub(super) fn check_part(&self, dir: &Path, part: PartitionId, verify: bool) -> Result<(), GraphError> {
        // Opening a part reads the other files anyway. Features are by far the largest, and are read on demand.
        self.check_listed(dir, Some(part), &|name| verify || !name.ends_with(FEATURES))?;
        if verify { self.check_deferred(dir, part) } else { Ok(()) }
    }

    /// Checks the checksums of the features of a part that were built after the parts.
    fn check_deferred(&self, dir: &Path, part: PartitionId) -> Result<(), GraphError> {
        let root = dir.join(part_dir(part));
        let deferred = self.node_types.iter().filter(|of_type| of_type.has_deferred_features);
        deferred.map(|of_type| root.join(node_dir(&of_type.name))).try_for_each(|dir| {
            deferred_features::check_size(&dir, part, self)?;
            deferred_features::check_content(&dir, part, self)
        })
    }

    /// Checks the sizes of files, and the checksums of those that `has_checksum` chooses by their paths.
    fn check_listed(
        &self,
        dir: &Path,
        part: Option<PartitionId>,
        has_checksum: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<(), GraphError> {
        let prefix = part.map(|p| format!("{}/", part_dir(p)));
        let wanted = |name: &&String| prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix));
        let names: Vec<&String> = self.files.keys().filter(wanted).collect();
        let check = |file: usize| {
            let path = dir.join(names[file]);
            let expected = &self.files[names[file]];
            check_size(&path, expected)?;
            if has_checksum(names[file]) { check_checksum(&path, expected) } else { Ok(()) }
        };
        parallel::try_collect(names.len(), &check).map(drop)
    }
}

fn check_size(path: &Path, expected: &FileMeta) -> Result<(), GraphError> {
    let found = std::fs::metadata(path).map_err(|e| GraphError::io(path, e))?.len();
    if found == expected.bytes {
        return Ok(());
    }
    let why = format!(
        "it has {found} bytes, but {META_FILE} says {}: it is truncated or from another run; copy or partition it again",
        expected.bytes
    );
    Err(GraphError::format(path, why))
}

fn check_checksum(path: &Path, expected: &FileMeta) -> Result<(), GraphError> {
    let found = checksum(&MappedFile::open(path)?);
    if found == expected.xxh3 {
        return Ok(());
    }
    let why = format!(
        "its checksum is {found}, but {META_FILE} says {}: it is corrupt or from another run; copy or partition it again",
        expected.xxh3
    );
    Err(GraphError::format(path, why))
}
