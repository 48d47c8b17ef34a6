//! The place for the large arrays of a job: memory, or scratch files.

use super::scratch_file::{ScatterFile, ScratchWriter};
use super::{Buffer, GrowingArray, select_rows};
use crate::{GraphError, parallel};
use bytemuck::Pod;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The smallest number of bytes that a step may work with.
const MIN_WORK_BYTES: usize = 1 << 16;

/// An observer of the steps that write scratch files. `()` ignores them.
pub trait WorkObserver: Send + Sync {
    /// Called when `done` of `total` bytes of a step are processed.
    fn worked(&self, _step: &'static str, _done: u64, _total: u64) {}
}

impl WorkObserver for () {}

/// The place for arrays with a row per edge, and for converted features: the memory of the process, or scratch files that
/// are mapped. With scratch files, each step works in pieces and takes a bounded number of bytes besides arrays with an
/// entry per node.
///
/// Scratch files have no name, so the kernel frees them when the process ends in any way.
///
/// Invariant: readers see a `Buffer` in both cases, so parts that are written from scratch files have the same bytes as
/// those from memory (`programs/partition-graph/tests/memory_limit.rs`). Arrays with an entry per node stay in memory.
#[derive(Clone, Default)]
pub struct Workspace {
    scratch: Option<Arc<Scratch>>,
    /// The observer without scratch files.
    observer: Option<Arc<dyn WorkObserver>>,
}

/// The folder of scratch files, and the bytes that a step may take.
pub(crate) struct Scratch {
    dir: PathBuf,
    work_bytes: usize,
    observer: Box<dyn WorkObserver>,
}

impl Workspace {
    /// Uses scratch files in `dir`, which is created if it does not exist. A step takes about `work_bytes` bytes.
    ///
    /// # Errors
    /// [`GraphError::Scratch`] if no file can be created in `dir`.
    pub fn scratch(
        dir: impl Into<PathBuf>,
        work_bytes: usize,
        observer: impl WorkObserver + 'static,
    ) -> Result<Self, GraphError> {
        let dir = dir.into();
        let create = || std::fs::create_dir_all(&dir).and_then(|()| tempfile::tempfile_in(&dir));
        create().map_err(|source| GraphError::Scratch { dir: dir.clone(), source })?;
        let work_bytes = work_bytes.max(MIN_WORK_BYTES);
        let scratch = Scratch { dir, work_bytes, observer: Box::new(observer) };
        Ok(Self { scratch: Some(Arc::new(scratch)), observer: None })
    }

    /// Uses the memory of the process. The observer is told about steps that read files in pieces.
    pub fn in_memory(observer: impl WorkObserver + 'static) -> Self {
        Self { scratch: None, observer: Some(Arc::new(observer)) }
    }

    /// Tells the observer that `done` of `total` bytes of a step are processed.
    pub fn worked(&self, step: &'static str, done: u64, total: u64) {
        match (&self.scratch, &self.observer) {
            (Some(scratch), _) => scratch.worked(step, done, total),
            (None, Some(observer)) => observer.worked(step, done, total),
            (None, None) => {}
        }
    }

    /// Returns true if arrays are in scratch files.
    pub fn is_scratch(&self) -> bool {
        self.scratch.is_some()
    }

    /// Checks that the array in `path` can be read or mapped in pieces, which a matrix in Fortran order cannot.
    ///
    /// # Errors
    /// [`GraphError::MemoryLimit`] if arrays are in scratch files.
    pub(crate) fn check_pieces(&self, path: &Path, has_pieces: bool) -> Result<(), GraphError> {
        if !self.is_scratch() || has_pieces {
            return Ok(());
        }
        let path = path.display();
        let why = format!("{path} is in Fortran order, so it is read whole: save it through numpy.ascontiguousarray");
        Err(GraphError::MemoryLimit { why })
    }

    /// Returns the scratch folder, if arrays are in scratch files.
    pub(crate) fn get(&self) -> Option<&Scratch> {
        self.scratch.as_deref()
    }

    /// Builds an array of `len` values, which `values` returns for ranges in ascending order. In memory there is a single
    /// range; with scratch files, as many as the working memory requires.
    ///
    /// # Errors
    /// Those of `values`, and [`GraphError::Scratch`].
    ///
    /// # Panics
    /// If `values` returns another number of values than the range has.
    pub fn build<T: Pod + Send + Sync>(
        &self,
        len: usize,
        step: &'static str,
        values: impl Fn(Range<usize>) -> Result<Vec<T>, GraphError> + Sync,
    ) -> Result<Buffer<T>, GraphError> {
        self.build_rows(len, 1, step, values)
    }

    /// Returns the values that `value` has for `0..len`, in order, without those that are `None`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub(crate) fn filter_map<T: Pod + Send>(
        &self,
        len: usize,
        step: &'static str,
        value: impl Fn(usize) -> Option<T> + Sync,
    ) -> Result<Buffer<T>, GraphError> {
        let Some(scratch) = self.get() else { return Ok(parallel::filter_map(len, value).into()) };
        let piece = (scratch.work_bytes / 2 / size_of::<T>()).max(1);
        let mut kept = self.growing()?;
        for start in (0..len).step_by(piece) {
            let end = len.min(start + piece);
            kept.append(parallel::filter_map(end - start, |at| value(start + at)))?;
            self.worked(step, end as u64, len as u64);
        }
        kept.finish()
    }

    /// Starts an array whose length becomes known when all values are appended.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub fn growing<T: Pod>(&self) -> Result<GrowingArray<'_, T>, GraphError> {
        Ok(match self.get() {
            None => GrowingArray::in_memory(),
            Some(scratch) => GrowingArray::in_scratch(scratch.writer("", 0)?),
        })
    }

    /// Like [`Workspace::build`], for rows of `width` values.
    ///
    /// # Errors
    /// As for [`Workspace::build`].
    ///
    /// # Panics
    /// As for [`Workspace::build`].
    pub fn build_rows<T: Pod + Send + Sync>(
        &self,
        num_rows: usize,
        width: usize,
        step: &'static str,
        values: impl Fn(Range<usize>) -> Result<Vec<T>, GraphError> + Sync,
    ) -> Result<Buffer<T>, GraphError> {
        self.build_pieces(num_rows, width, step, &values)
    }

    /// Builds rows. Not generic over `values`, which is called once per piece.
    fn build_pieces<T: Pod + Send + Sync>(
        &self,
        num_rows: usize,
        width: usize,
        step: &'static str,
        values: &(dyn Fn(Range<usize>) -> Result<Vec<T>, GraphError> + Sync),
    ) -> Result<Buffer<T>, GraphError> {
        let checked = |range: Range<usize>| {
            let expected = range.len() * width;
            let values = values(range)?;
            assert_eq!(values.len(), expected, "the number of values of a range");
            Ok(values)
        };
        let Some(scratch) = self.get() else { return checked(0..num_rows).map(Buffer::from) };
        let mut out = scratch.writer(step, num_rows * width)?;
        // One piece is written while the next one is computed.
        let piece = (scratch.work_bytes / 2 / (width * size_of::<T>()).max(1)).max(1);
        let range = |start: usize| start..num_rows.min(start + piece);
        let mut start = 0;
        let mut ready = checked(range(0))?;
        while start < num_rows {
            start += piece;
            let next = || if start < num_rows { checked(range(start)) } else { Ok(Vec::new()) };
            let (written, next) = parallel::join(|| out.write(&ready), next);
            written?;
            ready = next?;
        }
        out.finish()
    }

    /// Returns the rows of a row-major matrix at `positions`, in that order.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    ///
    /// # Panics
    /// If a position is out of range.
    pub(crate) fn select_rows<T: Pod + Send + Sync>(
        &self,
        values: &[T],
        width: usize,
        positions: &[u64],
        step: &'static str,
    ) -> Result<Buffer<T>, GraphError> {
        self.build_rows(positions.len(), width, step, |range| Ok(select_rows(values, width, &positions[range])))
    }
}

impl Scratch {
    /// Returns the scratch folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the number of bytes that a step may take.
    pub(crate) fn work_bytes(&self) -> usize {
        self.work_bytes
    }

    /// Starts an array of `len` values, which are appended in order.
    pub(crate) fn writer<T: Pod>(&self, step: &'static str, len: usize) -> Result<ScratchWriter<'_, T>, GraphError> {
        ScratchWriter::new(self, step, len)
    }

    /// Starts an array that consists of ranges, `bounds[i]..bounds[i + 1]`, which are filled in any order, each from its
    /// start. Buffers take up to `buffer_bytes`.
    pub(crate) fn scatter<T: Pod>(
        &self,
        step: &'static str,
        bounds: &[u64],
        buffer_bytes: usize,
    ) -> Result<ScatterFile<'_, T>, GraphError> {
        ScatterFile::new(self, step, bounds, buffer_bytes)
    }

    /// Reports progress.
    pub(super) fn worked(&self, step: &'static str, done: u64, total: u64) {
        self.observer.worked(step, done, total);
    }

    /// Creates an error of a scratch file.
    pub(super) fn failed(&self, source: std::io::Error) -> GraphError {
        GraphError::Scratch { dir: self.dir.clone(), source }
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scratch {
            None => f.write_str("memory"),
            Some(scratch) => write!(f, "scratch files in {}", scratch.dir.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_in_scratch_files_are_those_in_memory_and_leave_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Workspace::scratch(dir.path(), 1, ()).unwrap();
        for num_rows in [0, 1, 5000, 100_000] {
            let rows = |range: Range<usize>| Ok(range.flat_map(|row| [row as u32, !row as u32, 7]).collect());
            let mapped = scratch.build_rows(num_rows, 3, "test", rows).unwrap();
            let owned = Workspace::default().build_rows(num_rows, 3, "test", rows).unwrap();
            assert_eq!(mapped[..], owned[..]);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn ranges_are_filled_in_any_order() {
        let dir = tempfile::tempdir().unwrap();
        let space = Workspace::scratch(dir.path(), 1, ()).unwrap();
        let bounds = [0, 3000, 3000, 3001, 9000];
        let mut out = space.get().unwrap().scatter::<u64>("test", &bounds, 1).unwrap();
        let mut next = bounds.map(|bound| bound as usize);
        for turn in 0..6000 {
            for range in [3, 0, 2] {
                if next[range] < bounds[range + 1] as usize {
                    out.push(range, (range * 10_000 + turn) as u64);
                    next[range] += 1;
                }
            }
        }
        let values = out.finish().unwrap();
        assert!((0..3000).all(|at| values[at] == at as u64));
        assert_eq!(values[3000], 20_000);
        assert!((0..5999).all(|at| values[3001 + at] == 30_000 + at as u64));
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Workspace::scratch(&file, 1, ()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`scratch_dir` {}", file.display())), "{error}");
    }
}
