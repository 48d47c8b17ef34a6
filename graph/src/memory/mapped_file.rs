//! Read-only mapped files.

use super::mapped_ranges::MappedRange;
use crate::GraphError;
use memmap2::{Mmap, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// The bytes of a file, mapped read-only. Pages are read on first use.
///
/// The file must not change while it is mapped. If it is truncated, or a page cannot be read, the access fails with
/// SIGBUS, which [`end_on_unreadable_pages`](super::end_on_unreadable_pages) turns into an error message.
#[derive(Debug)]
pub(crate) struct MappedFile {
    /// Dropped before `map`, so that no range is listed that is not mapped.
    _range: Option<MappedRange>,
    map: Mmap,
}

impl MappedFile {
    /// Maps the file in `path`.
    ///
    /// # Errors
    /// [`GraphError::Io`].
    pub(crate) fn open(path: &Path) -> Result<Self, GraphError> {
        File::open(path).and_then(|file| Self::of(&file, path)).map_err(|e| GraphError::io(path, e))
    }

    /// Maps an open file. Messages about pages that cannot be read name `path`.
    ///
    /// # Errors
    /// Any I/O error.
    pub(crate) fn of(file: &File, path: &Path) -> io::Result<Self> {
        // SAFETY: The map is read-only and private to this process. Rewriting the file while it is mapped would violate
        // this. Therefore parts are only replaced by renaming whole directories (docs/src/format.md), and scratch files
        // are mapped only after their last write. Of the files of users, only features are mapped, which may exceed the
        // memory: the guide asks not to write them meanwhile (docs/src/data.md). No code depends on their values.
        let map = unsafe { Mmap::map(file) }?;
        let range = (!map.is_empty()).then(|| MappedRange::new(&map, path));
        Ok(Self { _range: range, map })
    }

    /// Gives the memory of all pages back to the system. They are read again on the next use.
    pub(crate) fn release_pages(&self) {
        if self.map.is_empty() {
            return;
        }
        // SAFETY: The map is read-only and shared with its file, so its pages have no other content than the file.
        let released = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
        // Advice: without it, the pages only stay longer.
        drop(released);
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.map
    }
}
