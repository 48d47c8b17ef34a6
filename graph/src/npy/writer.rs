//! Buffered writing of `.npy` files.

use super::{FileMeta, NpyElement};
use crate::GraphError;
use npyz::WriterBuilder;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Writes `values` as an array of `shape` to a new file, and syncs it to disk.
///
/// # Errors
/// Any I/O error, with `path`.
///
/// # Panics
/// If `shape` does not match the number of values.
pub fn write_npy<T: NpyElement>(path: &Path, shape: &[usize], values: &[T]) -> Result<(), GraphError> {
    let mut writer = NpyWriter::create(path, shape)?;
    writer.write(values)?;
    writer.finish().map(drop)
}

/// A writer of one `.npy` file in pieces. It computes the checksum along the way, so an array need not be in memory as
/// a whole, and no file is read again.
pub(crate) struct NpyWriter<T> {
    path: PathBuf,
    out: BufWriter<File>,
    hash: Xxh3,
    bytes: u64,
    missing: usize,
    element: PhantomData<T>,
}

impl<T: NpyElement> NpyWriter<T> {
    /// Creates or truncates the file, and writes the header of an array of `shape`.
    ///
    /// # Errors
    /// Any I/O error, with `path`.
    pub(crate) fn create(path: &Path, shape: &[usize]) -> Result<Self, GraphError> {
        let fail = |e| GraphError::io(path, e);
        let header = npy_header::<T>(shape).map_err(fail)?;
        let out = BufWriter::with_capacity(1 << 17, File::create(path).map_err(fail)?);
        let missing = shape.iter().product();
        let mut writer = Self { path: path.into(), out, hash: Xxh3::new(), bytes: 0, missing, element: PhantomData };
        writer.write_bytes(&header)?;
        Ok(writer)
    }

    /// Appends `values`, in C order.
    ///
    /// # Errors
    /// Any I/O error, with the path of the file.
    ///
    /// # Panics
    /// If there are more values than the shape holds.
    pub(crate) fn write(&mut self, values: &[T]) -> Result<(), GraphError> {
        assert!(values.len() <= self.missing, "more values than the shape of {}", self.path.display());
        self.missing -= values.len();
        self.write_bytes(bytemuck::cast_slice(values))
    }

    /// Syncs the file to disk, and returns its size and checksum.
    ///
    /// # Errors
    /// Any I/O error, with the path of the file.
    ///
    /// # Panics
    /// If there are fewer values than the shape holds.
    pub(crate) fn finish(self) -> Result<FileMeta, GraphError> {
        self.end(true)
    }

    /// Like [`NpyWriter::finish`], but without syncing, for a file that need not survive a crash of the machine.
    ///
    /// # Errors
    /// As [`NpyWriter::finish`].
    ///
    /// # Panics
    /// As [`NpyWriter::finish`].
    pub(crate) fn finish_unsynced(self) -> Result<FileMeta, GraphError> {
        self.end(false)
    }

    fn end(self, is_synced: bool) -> Result<FileMeta, GraphError> {
        assert_eq!(self.missing, 0, "fewer values than the shape of {}", self.path.display());
        let fail = |e| GraphError::io(&self.path, e);
        let file = self.out.into_inner().map_err(|e| fail(e.into_error()))?;
        if is_synced {
            file.sync_all().map_err(fail)?;
        }
        Ok(FileMeta { bytes: self.bytes, xxh3: format!("{:016x}", self.hash.digest()) })
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), GraphError> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|e| GraphError::io(&self.path, e))
    }
}

/// Returns the header of the `.npy` file of an array of `shape`. The values follow it, little-endian.
///
/// # Errors
/// Fails if the format cannot represent the shape.
pub fn npy_header<T: NpyElement>(shape: &[usize]) -> std::io::Result<Vec<u8>> {
    let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    let mut bytes = Vec::new();
    npyz::WriteOptions::new_header_only()
        .dtype(T::default_dtype())
        .shape(&shape)
        .writer(&mut bytes)
        .write_header_only()?;
    Ok(bytes)
}
