//! Memory-mapped reading of `.npy` files.

use super::NpyElement;
use crate::GraphError;
use crate::memory::{Buffer, MappedFile};
use crate::parallel;
use bytemuck::Pod;
use npyz::{AutoSerialize, DType, NpyHeader, Order};
use std::io::{self, Cursor};
use std::path::Path;
use std::sync::Arc;

/// The rows of a transposed matrix that one task copies.
const ROWS_AT_ONCE: usize = 1024;
/// The longest header. Headers of supported arrays are far shorter.
const MAX_HEADER_BYTES: usize = 1 << 16;
/// The longest reason in the error of a damaged header.
const MAX_REASON: usize = 200;

/// Maps the array in `path` and returns its shape and values, row by row. A matrix in Fortran order, as NumPy saves a
/// transposed one, is copied to memory.
///
/// ```
/// use edgecut_graph::{map_npy, write_npy};
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("rows.npy");
/// write_npy(&path, &[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let (shape, values) = map_npy::<f32>(&path)?;
/// assert_eq!((shape, values[4]), (vec![2, 3], 5.0));
/// assert!(map_npy::<i64>(&path).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the file is not a `.npy` file, has another element type, is shorter or longer than its header says, or is in
/// Fortran order with more than two dimensions.
pub fn map_npy<T: NpyElement>(path: &Path) -> Result<(Vec<usize>, Buffer<T>), GraphError> {
    map_as(path, &T::default_dtype(), T::NAME)
}

/// Maps an array of NumPy's `bool`, which has one byte per value, 0 for false.
///
/// # Errors
/// As [`map_npy`].
pub(crate) fn map_npy_bool(path: &Path) -> Result<(Vec<usize>, Buffer<u8>), GraphError> {
    map_as(path, &bool::default_dtype(), "bool")
}

fn map_as<T: Pod + Send + Sync>(path: &Path, dtype: &DType, name: &str) -> Result<(Vec<usize>, Buffer<T>), GraphError> {
    let (map, header, offset) = open(path)?;
    let shape: Vec<usize> = header.shape().iter().map(|&n| n as usize).collect();
    if header.dtype() != *dtype {
        let why = format!("its type is {}, expected {name}", header.dtype().descr());
        return Err(GraphError::format(path, why));
    }
    // With at most one dimension longer than 1, Fortran and C order are the same.
    let is_transposed = header.order() == Order::Fortran && shape.iter().filter(|&&n| n > 1).count() > 1;
    if is_transposed && shape.len() > 2 {
        let why = "it has more than two dimensions in Fortran order; save it through numpy.ascontiguousarray";
        return Err(GraphError::format(path, why));
    }
    let len = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
    let bytes = len.and_then(|n| n.checked_mul(size_of::<T>()));
    let held = map.len() - offset;
    let (Some(len), true) = (len, bytes == Some(held)) else {
        let why = match bytes {
            Some(bytes) => {
                format!("its header promises {bytes} bytes of data, but it holds {held}: it is truncated or corrupt")
            }
            None => "its header promises more data than can be addressed".into(),
        };
        return Err(GraphError::format(path, why));
    };
    let buffer = Buffer::mapped(Arc::new(map), offset, len)
        .ok_or_else(|| GraphError::format(path, "its data is not aligned for its type; save it again with numpy"))?;
    let buffer = if is_transposed { by_rows(&buffer, shape[0]) } else { buffer };
    Ok((shape, buffer))
}

/// Copies a matrix that is stored column by column to row by row. `num_rows` is at least 1.
fn by_rows<T: Pod + Send + Sync>(by_columns: &[T], num_rows: usize) -> Buffer<T> {
    let num_columns = by_columns.len() / num_rows;
    let mut values = vec![T::zeroed(); by_columns.len()];
    parallel::for_each_chunk(&mut values, ROWS_AT_ONCE * num_columns, &|first, rows| {
        let first_row = first / num_columns;
        for (row, values) in rows.chunks_exact_mut(num_columns).enumerate() {
            let column = |column: usize| by_columns[column * num_rows + first_row + row];
            values.iter_mut().enumerate().for_each(|(at, value)| *value = column(at));
        }
    });
    values.into()
}

/// Returns the shape and the NumPy type string (such as `<f4`) from the header of `path`, without reading the data.
///
/// ```
/// use edgecut_graph::{npy_shape, write_npy};
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("ids.npy");
/// write_npy(&path, &[3], &[1_i64, 2, 3])?;
/// assert_eq!(npy_shape(&path)?, (vec![3], "<i8".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the file is not a `.npy` file.
pub fn npy_shape(path: &Path) -> Result<(Vec<usize>, String), GraphError> {
    let (_, header, _) = open(path)?;
    let descr = header.dtype().descr();
    Ok((header.shape().iter().map(|&n| n as usize).collect(), descr.trim_matches('\'').to_owned()))
}

/// Maps a `.npy` file and parses its header. Returns the map, the header and the offset of the data in bytes.
fn open(path: &Path) -> Result<(MappedFile, NpyHeader, usize), GraphError> {
    let map = MappedFile::open(path)?;
    if !shape_is_addressable(&map) {
        return Err(GraphError::format(path, "its header promises more data than can be addressed"));
    }
    let damaged = |source| GraphError::NpyHeader { path: path.into(), source };
    let length = header_length(&map);
    if length > map.len().min(MAX_HEADER_BYTES) {
        let why = format!("its header of {length} bytes is longer than the file or than {MAX_HEADER_BYTES} bytes");
        return Err(damaged(io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    let mut cursor = Cursor::new(&map[..]);
    let header = NpyHeader::from_reader(&mut cursor).map_err(|source| damaged(shortened(source)))?;
    let offset = cursor.position() as usize;
    Ok((map, header, offset))
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
    use half::f16;
    use npyz::WriterBuilder;
    use std::path::PathBuf;

    fn file(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
        let path = dir.path().join("array.npy");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn why<T: NpyElement + std::fmt::Debug>(path: &Path) -> String {
        map_npy::<T>(path).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_mapped_back_and_its_data_starts_at_a_multiple_of_64_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        for rows in [0_usize, 1, 9, 1000] {
            let values: Vec<i64> = (0..rows as i64 * 2).map(|v| v * v - 7).collect();
            write_npy(&path, &[rows, 2], &values).unwrap();
            let (shape, read) = map_npy::<i64>(&path).unwrap();
            assert_eq!((shape, &read[..]), (vec![rows, 2], &values[..]));
            assert_eq!(open(&path).unwrap().2 % 64, 0);
            assert_eq!(npy_shape(&path).unwrap(), (vec![rows, 2], "<i8".to_owned()));
        }
    }

    #[test]
    fn halves_and_scalars_survive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let halves = [0.0, -1.5, 65504.0, f32::INFINITY].map(f16::from_f32);
        write_npy(&path, &[2, 2], &halves).unwrap();
        assert_eq!(map_npy::<f16>(&path).unwrap().1[..], halves);
        assert_eq!(npy_shape(&path).unwrap().1, "<f2");
        write_npy(&path, &[], &[7_u64]).unwrap();
        let (shape, scalar) = map_npy::<u64>(&path).unwrap();
        assert_eq!((shape.len(), &scalar[..]), (0, &[7][..]));
    }

    #[test]
    fn rejects_another_type() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        write_npy(&path, &[3], &[1_i32, 2, 3]).unwrap();
        let why = why::<i64>(&path);
        assert!(why.contains("a.npy: its type is '<i4', expected int64"), "{why}");
        assert!(map_npy_bool(&path).is_err());
    }

    #[test]
    fn rejects_truncated_and_extra_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        write_npy(&path, &[3], &[1_u64, 2, 3]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for changed in [bytes[..bytes.len() - 1].to_vec(), [&bytes[..], &[0]].concat()] {
            let why = why::<u64>(&file(&dir, &changed));
            assert!(why.contains("promises 24 bytes of data, but it holds 2"), "{why}");
        }
        let why = why::<u64>(&file(&dir, &bytes[..40]));
        assert!(why.contains("its header is damaged"), "{why}");
    }

    #[test]
    fn rejects_what_is_no_npy_file() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [&b""[..], b"0,1\n1,0\n", &[0; 200]] {
            let why = why::<f32>(&file(&dir, bytes));
            assert!(why.contains("it is not a .npy file"), "{why}");
        }
        assert!(matches!(map_npy::<f32>(&dir.path().join("absent.npy")), Err(GraphError::Io { .. })));
    }

    #[test]
    fn a_matrix_in_fortran_order_is_transposed() {
        let dir = tempfile::tempdir().unwrap();
        let with_order = |shape: &[u64]| {
            let mut bytes = Vec::new();
            npyz::WriteOptions::new_header_only()
                .dtype(f32::default_dtype())
                .shape(shape)
                .order(Order::Fortran)
                .writer(&mut bytes)
                .write_header_only()
                .unwrap();
            bytes.extend((0..shape.iter().product()).flat_map(|value| (value as f32).to_le_bytes()));
            file(&dir, &bytes)
        };
        let mapped = |shape: &[u64]| map_npy::<f32>(&with_order(shape)).unwrap();
        let (shape, values) = mapped(&[2, 3]);
        assert_eq!((shape, &values[..]), (vec![2, 3], &[0.0, 2.0, 4.0, 1.0, 3.0, 5.0][..]));
        let (_, values) = mapped(&[3000, 2]);
        assert!((0..3000).all(|row| values[2 * row..][..2] == [row as f32, (3000 + row) as f32]));
        // One column is the same in both orders.
        assert_eq!(mapped(&[6, 1]).1[..], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let why = why::<f32>(&with_order(&[2, 3, 4]));
        assert!(why.contains("save it through numpy.ascontiguousarray"), "{why}");
    }

    #[test]
    fn rejects_a_header_that_is_longer_than_the_file() {
        let dir = tempfile::tempdir().unwrap();
        for length in [100, 1 << 20, u32::MAX] {
            let header = [b"\x93NUMPY\x02\x00", &length.to_le_bytes()[..], b"{'descr': '<f4'"].concat();
            let why = why::<f32>(&file(&dir, &header));
            assert!(why.contains(&format!("its header of {length} bytes is longer")), "{why}");
        }
    }

    #[test]
    fn a_long_malformed_header_is_quoted_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("{{'shape': {}", "(".repeat(50_000));
        let header = [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
        let why = why::<f32>(&file(&dir, &header));
        assert!(why.contains("its header is damaged") && why.len() < 500, "{why}");
    }

    #[test]
    fn rejects_a_header_that_promises_more_than_can_be_addressed() {
        let dir = tempfile::tempdir().unwrap();
        for shape in [&[usize::MAX, 2][..], &[0, 1 << 40, 1 << 40], &[1 << 62]] {
            let text =
                format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape:?}, }}").replace(['[', ']'], "");
            let text = text.replace("'shape': ", "'shape': (").replace(", }", ",), }");
            let header = [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
            let why = why::<f32>(&file(&dir, &header));
            assert!(why.contains("more data than can be addressed"), "{why}");
        }
    }
}
