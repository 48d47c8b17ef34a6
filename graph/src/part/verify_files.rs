//! Comparison of files with their checksums.

use super::deferred_features;
use super::folders::{node_dir, part_dir};
use super::meta::{META_FILE, Meta};
use crate::memory::MappedFile;
use crate::npy::{FileMeta, checksum};
use crate::{DiskPartId, GraphError, parallel};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// The end of the paths of features.
const FEATURES: &str = "/features.npy";
/// The bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

impl Meta {
    /// Checks the size and checksum of the files of `part`, or of all parts, against this description.
    ///
    /// # Errors
    /// Names the first file, in order of paths, that is missing, truncated or altered.
    pub fn verify_files(&self, dir: &Path, part: Option<DiskPartId>) -> Result<(), GraphError> {
        self.check_listed(dir, part, &|_| true)?;
        let parts = part.map_or(0..self.num_parts, |part| part.0..part.0 + 1);
        parts.map(DiskPartId).try_for_each(|part| self.check_deferred(dir, part))
    }

    /// Opens the file `name` of [`Meta::files`] below `dir`, after a comparison of its size and checksum. [`Part::open`]
    /// does the same for the arrays of a part, so a caller opens only other files with it, such as those of parts that this
    /// process does not hold.
    ///
    /// [`Part::open`]: crate::Part::open
    ///
    /// # Errors
    /// Fails if the file is missing, truncated or altered, or if this description does not list it.
    pub fn open_file(&self, dir: &Path, name: &str) -> Result<File, GraphError> {
        let path = dir.join(name);
        let Some(expected) = self.files.get(name) else {
            return Err(GraphError::format(path, format!("{META_FILE} does not list this file")));
        };
        // The checksum is that of the opened file, which stays the same if another one takes its name.
        let open = || -> io::Result<(File, FileMeta)> {
            let mut file = File::open(&path)?;
            let found = measure(&mut file)?;
            file.rewind()?;
            Ok((file, found))
        };
        let (file, found) = open().map_err(|error| GraphError::io(&path, error))?;
        compare_size(&path, found.bytes, expected)?;
        compare_checksum(&path, &found.xxh3, expected)?;
        Ok(file)
    }

    /// Checks the size of each file of `part`, and the checksum of each except those of features. With `verify`, also
    /// the checksums of features.
    ///
    /// # Errors
    /// As [`Meta::verify_files`].
    pub(super) fn check_part(&self, dir: &Path, part: DiskPartId, verify: bool) -> Result<(), GraphError> {
        // Opening a part reads the other files anyway. Features are by far the largest, and are read on demand.
        self.check_listed(dir, Some(part), &|name| verify || !name.ends_with(FEATURES))?;
        if verify { self.check_deferred(dir, part) } else { Ok(()) }
    }

    /// Checks the checksums of the features of a part that were built after the parts.
    fn check_deferred(&self, dir: &Path, part: DiskPartId) -> Result<(), GraphError> {
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
        part: Option<DiskPartId>,
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

/// Reads a file to its end.
fn measure(file: &mut File) -> io::Result<FileMeta> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut hash = Xxh3::new();
    let mut bytes = 0;
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(FileMeta { bytes, xxh3: format!("{:016x}", hash.digest()) }),
            count => {
                hash.update(&piece[..count]);
                bytes += count as u64;
            }
        }
    }
}

fn check_size(path: &Path, expected: &FileMeta) -> Result<(), GraphError> {
    let found = std::fs::metadata(path).map_err(|e| GraphError::io(path, e))?.len();
    compare_size(path, found, expected)
}

fn compare_size(path: &Path, found: u64, expected: &FileMeta) -> Result<(), GraphError> {
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
    compare_checksum(path, &checksum(&MappedFile::open(path)?), expected)
}

fn compare_checksum(path: &Path, found: &str, expected: &FileMeta) -> Result<(), GraphError> {
    if found == expected.xxh3 {
        return Ok(());
    }
    let why = format!(
        "its checksum is {found}, but {META_FILE} says {}: it is corrupt or from another run; copy or partition it again",
        expected.xxh3
    );
    Err(GraphError::format(path, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part_writer::write_one_part;
    use crate::readers::{FakeOptions, fake};
    use edgecut_testing::assert_has;

    #[test]
    fn only_files_with_their_size_and_checksum_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write_one_part(fake(&FakeOptions { avg_num_nodes: 40, ..FakeOptions::default() }).unwrap(), dir).unwrap();
        let meta = Meta::read(dir).unwrap();
        let name = "part_0/nodes/node/train.npy";
        let written = std::fs::read(dir.join(name)).unwrap();
        let mut read = Vec::new();
        meta.open_file(dir, name).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, written);
        let error = |name: &str| meta.open_file(dir, name).unwrap_err().to_string();
        let mut changed = written.clone();
        *changed.last_mut().unwrap() ^= 1;
        for (bytes, why) in [(&changed[..], "its checksum is"), (&written[1..], "bytes, but META.json says")] {
            std::fs::write(dir.join(name), bytes).unwrap();
            assert_has(error(name), &[name, why]);
        }
        std::fs::remove_file(dir.join(name)).unwrap();
        assert!(error(name).contains(name));
        assert!(error("part_0/nodes/node/other.npy").contains("META.json does not list this file"));
    }
}
