//! Scratch files: arrays that are written once, then mapped.
//!
//! The files have no name. They are written by system calls, not through a map, so that a full disk is an error and not
//! a signal.

use super::workspace::Scratch;
use super::{Buffer, MappedFile};
use crate::GraphError;
use bytemuck::Pod;
use std::fs::File;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The bytes that are written at a time.
const WRITE_BYTES: usize = 1 << 22;
/// The largest and the smallest buffer of a range, in bytes.
const MAX_RANGE_BYTES: usize = 1 << 20;
const MIN_RANGE_BYTES: usize = 1 << 12;

/// An array in a scratch file, to which values are appended.
pub(crate) struct ScratchWriter<'a, T> {
    scratch: &'a Scratch,
    step: &'static str,
    file: File,
    written: usize,
    /// The announced number of values, 0 if it is unknown.
    len: usize,
    element: PhantomData<T>,
}

impl<'a, T: Pod> ScratchWriter<'a, T> {
    pub(super) fn new(scratch: &'a Scratch, step: &'static str, len: usize) -> Result<Self, GraphError> {
        let file = tempfile::tempfile_in(scratch.dir()).map_err(|error| scratch.failed(error))?;
        Ok(Self { scratch, step, file, written: 0, len, element: PhantomData })
    }

    /// Appends values.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub(crate) fn write(&mut self, values: &[T]) -> Result<(), GraphError> {
        let size = size_of::<T>();
        for piece in values.chunks((WRITE_BYTES / size).max(1)) {
            self.file.write_all(bytemuck::cast_slice(piece)).map_err(|error| self.scratch.failed(error))?;
            self.written += piece.len();
            if self.len > 0 {
                let total = self.len.max(self.written);
                self.scratch.worked(self.step, (self.written * size) as u64, (total * size) as u64);
            }
        }
        Ok(())
    }

    /// Maps the values that were written, of which there may be fewer than announced.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub(crate) fn finish(self) -> Result<Buffer<T>, GraphError> {
        map(self.scratch, &self.file, self.written)
    }
}

/// An array in a scratch file of which several ranges are filled at the same time. Errors are kept until
/// [`ScatterFile::finish`].
pub(crate) struct ScatterFile<'a, T> {
    scratch: &'a Scratch,
    step: &'static str,
    file: File,
    ranges: Vec<FilledRange<T>>,
    len: usize,
    written: usize,
    result: io::Result<()>,
}

/// A range of the array, with the values that are not written yet.
struct FilledRange<T> {
    /// The position in the file of the first buffered value.
    next: u64,
    buffer: Vec<T>,
}

impl<'a, T: Pod> ScatterFile<'a, T> {
    pub(super) fn new(
        scratch: &'a Scratch,
        step: &'static str,
        bounds: &[u64],
        buffer_bytes: usize,
    ) -> Result<Self, GraphError> {
        let num_ranges = bounds.len().saturating_sub(1);
        let range_bytes = (buffer_bytes / num_ranges.max(1)).clamp(MIN_RANGE_BYTES, MAX_RANGE_BYTES);
        let range =
            |&start: &u64| FilledRange { next: start, buffer: Vec::with_capacity(range_bytes / size_of::<T>()) };
        Ok(Self {
            scratch,
            step,
            file: tempfile::tempfile_in(scratch.dir()).map_err(|error| scratch.failed(error))?,
            ranges: bounds[..num_ranges].iter().map(range).collect(),
            len: bounds.last().copied().unwrap_or(0) as usize,
            written: 0,
            result: Ok(()),
        })
    }

    /// Appends a value to a range.
    pub(crate) fn push(&mut self, range: usize, value: T) {
        let filled = &mut self.ranges[range];
        filled.buffer.push(value);
        if filled.buffer.len() == filled.buffer.capacity() {
            self.flush(range);
        }
    }

    fn flush(&mut self, range: usize) {
        let FilledRange { next, buffer } = &mut self.ranges[range];
        let size = size_of::<T>();
        if self.result.is_ok() && !buffer.is_empty() {
            self.result = self.file.write_all_at(bytemuck::cast_slice(buffer), *next * size as u64);
            self.written += buffer.len();
            self.scratch.worked(self.step, (self.written * size) as u64, (self.len * size) as u64);
        }
        *next += buffer.len() as u64;
        buffer.clear();
    }

    /// Maps the array. All ranges must be filled.
    ///
    /// # Errors
    /// [`GraphError::Scratch`], also for an earlier write.
    pub(crate) fn finish(mut self) -> Result<Buffer<T>, GraphError> {
        (0..self.ranges.len()).for_each(|range| self.flush(range));
        self.ranges.clear();
        self.result.map_err(|error| self.scratch.failed(error))?;
        map(self.scratch, &self.file, self.len)
    }
}

/// Maps the first `len` values of a file.
fn map<T: Pod>(scratch: &Scratch, file: &File, len: usize) -> Result<Buffer<T>, GraphError> {
    if len == 0 {
        return Ok(Buffer::default());
    }
    let map = MappedFile::of(file, scratch.dir()).map_err(|error| scratch.failed(error))?;
    let short = || scratch.failed(io::Error::new(io::ErrorKind::UnexpectedEof, "a scratch file is too short"));
    Buffer::mapped(Arc::new(map), 0, len).ok_or_else(short)
}
