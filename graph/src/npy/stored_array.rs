//! Arrays in `.npy` files that are read by system calls.

use super::NpyElement;
use super::map::by_rows;
use crate::memory::{Buffer, Workspace};
use crate::{GraphError, parallel};
use bytemuck::Pod;
use npyz::{AutoSerialize, DType, NpyHeader, Order};
use std::fs::File;
use std::io::{self, Cursor, ErrorKind};
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The longest header. Headers of supported arrays are far shorter.
const MAX_HEADER_BYTES: usize = 1 << 16;
/// The longest reason in the error of a damaged header.
const MAX_REASON: usize = 200;
/// The values that one system call reads.
const READ_AT_ONCE: usize = 1 << 14;
/// The values of a piece of an array that is read in pieces. Its memory is not planned for.
const PIECE: usize = 1 << 17;

/// Reads the array in `path`, and returns its shape and values, row by row.
///
/// # Errors
/// As [`map_npy`](super::map_npy), except that the data may be at any offset.
pub fn read_npy<T: NpyElement>(path: &Path) -> Result<(Vec<usize>, Vec<T>), GraphError> {
    let array = StoredArray::<T>::open(path)?;
    let values = array.read(0..array.len())?;
    Ok((array.shape, values))
}

/// An array in a file that its owner may change at any time. It is read by system calls and never mapped, so that a change
/// can give other values or an error, but no undefined behavior.
pub(crate) struct StoredArray<T> {
    file: File,
    path: PathBuf,
    pub(super) shape: Vec<usize>,
    /// The position of the first value in bytes.
    pub(super) offset: usize,
    len: usize,
    /// True if the values are big-endian.
    pub(super) is_swapped: bool,
    /// True if the values are column by column.
    pub(super) is_transposed: bool,
    /// The values of a transposed array, row by row.
    by_rows: Option<Vec<T>>,
    element: PhantomData<T>,
}

impl<T: NpyElement> StoredArray<T> {
    /// Opens the array in `path`.
    ///
    /// # Errors
    /// As [`read_npy`].
    pub(crate) fn open(path: &Path) -> Result<Self, GraphError> {
        Self::describe(path, &T::default_dtype(), T::NAME)?.transposed()
    }
}

impl StoredArray<u8> {
    /// Opens an array of NumPy's `bool`, which has one byte per value, 0 for false.
    ///
    /// # Errors
    /// As [`read_npy`].
    pub(crate) fn open_bool(path: &Path) -> Result<Self, GraphError> {
        Self::describe(path, &bool::default_dtype(), "bool")?.transposed()
    }
}

impl<T: Pod + Send + Sync> StoredArray<T> {
    /// Opens a file and checks that its size is that of its header.
    pub(super) fn describe(path: &Path, dtype: &DType, name: &str) -> Result<Self, GraphError> {
        let file = open(path)?;
        let Header { header, offset, file_bytes } = Header::read(&file, path)?;
        let shape: Vec<usize> = header.shape().iter().map(|&n| n as usize).collect();
        let found = header.dtype().descr();
        let is_swapped = found.starts_with("'>") && found.replacen('>', "<", 1) == dtype.descr();
        if !is_swapped && header.dtype() != *dtype {
            return Err(GraphError::format(path, format!("its type is {found}, expected {name}")));
        }
        // With at most one dimension longer than 1, Fortran and C order are the same.
        let is_transposed = header.order() == Order::Fortran && shape.iter().filter(|&&n| n > 1).count() > 1;
        if is_transposed && shape.len() > 2 {
            let why = "it has more than two dimensions in Fortran order; save it through numpy.ascontiguousarray";
            return Err(GraphError::format(path, why));
        }
        let len = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
        let bytes = len.and_then(|n| n.checked_mul(size_of::<T>()));
        let held = file_bytes - offset;
        let (Some(len), true) = (len, bytes == Some(held)) else {
            let why = match bytes {
                Some(bytes) => {
                    format!(
                        "its header promises {bytes} bytes of data, but it holds {held}: it is truncated or corrupt"
                    )
                }
                None => "its header promises more data than can be addressed".into(),
            };
            return Err(GraphError::format(path, why));
        };
        Ok(Self {
            file,
            path: path.into(),
            shape,
            offset,
            len,
            is_swapped,
            is_transposed,
            by_rows: None,
            element: PhantomData,
        })
    }

    /// Reads the values of a transposed array, which are needed in another order.
    fn transposed(mut self) -> Result<Self, GraphError> {
        if self.is_transposed {
            let by_columns = self.read(0..self.len)?;
            self.by_rows = Some(by_rows(&by_columns, self.shape[0]));
        }
        Ok(self)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the shape.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if pieces of the array can be read alone, as those of a transposed one cannot.
    pub(crate) fn has_pieces(&self) -> bool {
        !self.is_transposed
    }

    /// Reads a range of the values.
    ///
    /// # Errors
    /// [`GraphError::Io`], or [`GraphError::Format`] for a file that has become shorter.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Vec<T>, GraphError> {
        if let Some(values) = &self.by_rows {
            return Ok(values[range].to_vec());
        }
        let mut values = vec![T::zeroed(); range.len()];
        let failure = Mutex::new(None);
        parallel::for_each_chunk(&mut values, READ_AT_ONCE, &|first, values| {
            let start = self.offset + (range.start + first) * size_of::<T>();
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
            if let Err(error) = self.file.read_exact_at(bytes, start as u64) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            if self.is_swapped {
                bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
            }
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(values),
            Some(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let why = "it has become shorter while it was read: run again when no other program writes it";
                Err(GraphError::format(&self.path, why))
            }
            Some(error) => Err(GraphError::io(&self.path, error)),
        }
    }

    /// Calls `visit` with the pieces of a range, in order, and the position of their first value, until it returns a value.
    ///
    /// # Errors
    /// As [`StoredArray::read`].
    pub(crate) fn find_in_pieces<R>(
        &self,
        range: Range<usize>,
        mut visit: impl FnMut(usize, &[T]) -> Option<R>,
    ) -> Result<Option<R>, GraphError> {
        for start in range.clone().step_by(PIECE) {
            let found = visit(start, &self.read(start..range.end.min(start + PIECE))?);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Reads a range of the values and converts each.
    ///
    /// # Errors
    /// As [`StoredArray::read`].
    pub(crate) fn convert<U: Copy + Default + Send>(
        &self,
        range: Range<usize>,
        value: impl Fn(&T) -> U + Sync,
    ) -> Result<Vec<U>, GraphError> {
        let mut converted = Vec::with_capacity(range.len());
        self.find_in_pieces(range, |_, piece| {
            converted.extend(parallel::map(piece, &value));
            None::<()>
        })?;
        Ok(converted)
    }

    /// Copies the array to `space`.
    ///
    /// # Errors
    /// As [`StoredArray::read`], and those of scratch files.
    pub(crate) fn copy_to(&self, space: &Workspace) -> Result<Buffer<T>, GraphError> {
        space.build(self.len, "reading arrays", |range| self.read(range))
    }

    /// Converts each value, into an array in `space`.
    ///
    /// # Errors
    /// As [`StoredArray::copy_to`].
    pub(crate) fn convert_to<U: Pod + Default + Send + Sync>(
        &self,
        space: &Workspace,
        step: &'static str,
        value: impl Fn(&T) -> U + Sync,
    ) -> Result<Buffer<U>, GraphError> {
        space.build(self.len, step, |range| self.convert(range, &value))
    }
}

/// Returns the shape and the NumPy type string (such as `<f4`, or `>f4` for big-endian values) from the header of `path`, without reading the data.
///
/// # Errors
/// Fails if the file is not a `.npy` file.
pub fn npy_shape(path: &Path) -> Result<(Vec<usize>, String), GraphError> {
    let Header { header, .. } = Header::read(&open(path)?, path)?;
    let descr = header.dtype().descr();
    Ok((header.shape().iter().map(|&n| n as usize).collect(), descr.trim_matches('\'').to_owned()))
}

fn open(path: &Path) -> Result<File, GraphError> {
    File::open(path).map_err(|error| GraphError::io(path, error))
}

/// The header of a file.
struct Header {
    header: NpyHeader,
    /// The position of the data in bytes.
    offset: usize,
    file_bytes: usize,
}

impl Header {
    /// Reads and parses the header of an open file.
    fn read(file: &File, path: &Path) -> Result<Self, GraphError> {
        let failed = |error| GraphError::io(path, error);
        let file_bytes = file.metadata().map_err(failed)?.len() as usize;
        // The longest header, and the magic number and the length before it.
        let mut start = vec![0; file_bytes.min(MAX_HEADER_BYTES + 12)];
        file.read_exact_at(&mut start, 0).map_err(failed)?;
        if !shape_is_addressable(&start) {
            return Err(GraphError::format(path, "its header promises more data than can be addressed"));
        }
        let damaged = |source| GraphError::NpyHeader { path: path.into(), source };
        let length = header_length(&start);
        if length > file_bytes.min(MAX_HEADER_BYTES) {
            let why = format!("its header of {length} bytes is longer than the file or than {MAX_HEADER_BYTES} bytes");
            return Err(damaged(io::Error::new(ErrorKind::InvalidData, why)));
        }
        let mut cursor = Cursor::new(&start[..]);
        let header = NpyHeader::from_reader(&mut cursor).map_err(|source| damaged(shortened(source)))?;
        let offset = cursor.position() as usize;
        Ok(Self { header, offset, file_bytes })
    }
}

/// Returns the length of the text that the header announces, for which `npyz` allocates memory before it reads it. 0 for
/// bytes that are too short, which the parser rejects.
fn header_length(bytes: &[u8]) -> usize {
    let version = bytes.get(6).copied().unwrap_or_default();
    let length = |range: std::ops::Range<usize>| {
        bytes.get(range).unwrap_or_default().iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte))
    };
    if version < 2 { length(8..10) } else { length(8..12) }
}

/// Returns the same error with a text of at most [`MAX_REASON`] characters: `npyz` quotes the whole header.
fn shortened(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.char_indices().nth(MAX_REASON) {
        Some((end, _)) => io::Error::new(error.kind(), format!("{} …", text[..end].trim_end())),
        None => error,
    }
}

/// Returns true if the product of the sizes in the header's shape, not counting zeros, fits into 64 bits. `npyz`
/// multiplies them without an overflow check. Bytes without a header pass this check and are rejected by the parser.
fn shape_is_addressable(bytes: &[u8]) -> bool {
    const KEY: &[u8] = b"'shape':";
    // Bounds the search in large files.
    let head = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
    let Some(at) = head.windows(KEY.len()).position(|window| window == KEY) else { return true };
    let sizes = head[at + KEY.len()..].split(|&b| b == b')').next().unwrap_or_default();
    sizes
        .split(|b| !b.is_ascii_digit())
        .filter_map(|digits| str::from_utf8(digits).ok().filter(|text| !text.is_empty()))
        .try_fold(1_u64, |product, size| product.checked_mul(size.parse::<u64>().ok()?.max(1)))
        .is_some()
}

#[cfg(test)]
mod tests {
    use super::super::write_npy;
    use super::*;
    use edgecut_testing::assert_has;

    #[test]
    fn pieces_are_those_of_the_whole_array() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let values: Vec<i64> = (0..(PIECE + READ_AT_ONCE + 5) as i64).collect();
        write_npy(&path, &[values.len()], &values).unwrap();
        let array = StoredArray::<i64>::open(&path).unwrap();
        assert!(array.read(0..array.len()).unwrap() == values);
        assert_eq!(array.read(7..9).unwrap(), [7, 8]);
        assert_eq!(array.convert(PIECE - 1..PIECE + 1, |&v| v as u32).unwrap(), [PIECE as u32 - 1, PIECE as u32]);
        let first_above = |least: i64| {
            let found = array.find_in_pieces(3..array.len(), |start, piece| {
                piece.iter().position(|&v| v > least).map(|at| start + at)
            });
            found.unwrap()
        };
        assert_eq!(
            (first_above(0), first_above(PIECE as i64), first_above(i64::MAX)),
            (Some(3), Some(PIECE + 1), None)
        );
    }

    #[test]
    fn a_file_may_change_while_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        write_npy(&path, &[1000], &[7_i64; 1000]).unwrap();
        let array = StoredArray::<i64>::open(&path).unwrap();
        let read = array.read(0..1000).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0; 8], array.offset as u64).unwrap();
        // Values that were read stay, whatever happens to the file.
        assert_eq!((read[0], array.read(0..2).unwrap()), (7, vec![0, 7]));
        file.set_len(array.offset as u64 + 100).unwrap();
        assert_has(array.read(0..1000).unwrap_err().to_string(), &["a.npy", "become shorter while it was read"]);
        assert_eq!(read, [7; 1000]);
    }
}
