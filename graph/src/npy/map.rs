//! Memory-mapped reading of `.npy` files.

use super::NpyElement;
use super::stored_array::StoredArray;
use crate::GraphError;
use crate::memory::{Buffer, MappedFile};
use crate::parallel;
use bytemuck::Pod;
use std::path::Path;
use std::sync::Arc;

/// The rows of a transposed matrix that one task copies.
const ROWS_AT_ONCE: usize = 1024;

/// Maps the array in `path` and returns its shape and values, row by row. A matrix in Fortran order, as NumPy saves a
/// transposed one, is copied to memory.
///
/// Nobody may change the file while it is mapped, only replace it by renaming another one. This holds for the files that
/// this project writes. Files of users are read by [`read_npy`](super::read_npy), except their features.
///
/// Features of users may exceed the memory, so they are mapped, and no code depends on their values.
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
    let array = StoredArray::<T>::describe(path, &T::default_dtype(), T::NAME)?;
    if array.is_swapped {
        let why = format!("it is big-endian; save it through .astype(numpy.{})", T::NAME);
        return Err(GraphError::format(path, why));
    }
    let map = MappedFile::of(array.file(), path).map_err(|error| GraphError::io(path, error))?;
    let len = array.len();
    let StoredArray { shape, offset, is_transposed, .. } = array;
    let buffer = Buffer::mapped(Arc::new(map), offset, len)
        .ok_or_else(|| GraphError::format(path, "its data is not aligned for its type; save it again with numpy"))?;
    let buffer = if is_transposed { by_rows(&buffer, shape[0]).into() } else { buffer };
    Ok((shape, buffer))
}

/// Copies a matrix that is stored column by column to row by row. `num_rows` is at least 1.
pub(super) fn by_rows<T: Pod + Send + Sync>(by_columns: &[T], num_rows: usize) -> Vec<T> {
    let num_columns = by_columns.len() / num_rows;
    let mut values = vec![T::zeroed(); by_columns.len()];
    parallel::for_each_chunk(&mut values, ROWS_AT_ONCE * num_columns, &|first, rows| {
        let first_row = first / num_columns;
        for (row, values) in rows.chunks_exact_mut(num_columns).enumerate() {
            let column = |column: usize| by_columns[column * num_rows + first_row + row];
            values.iter_mut().enumerate().for_each(|(at, value)| *value = column(at));
        }
    });
    values
}

#[cfg(test)]
mod tests {
    use super::super::{npy_shape, write_npy};
    use super::*;
    use edgecut_testing::assert_has;
    use half::f16;
    use npyz::{AutoSerialize, Order, WriterBuilder};
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
            assert_eq!(StoredArray::<i64>::open(&path).unwrap().offset % 64, 0);
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
    fn rejects_another_type_and_an_absent_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        write_npy(&path, &[3], &[1_i32, 2, 3]).unwrap();
        assert_has(why::<i64>(&path), &["a.npy: its type is '<i4', expected int64"]);
        assert!(StoredArray::open_bool(&path).is_err());
        assert!(matches!(map_npy::<f32>(&dir.path().join("absent.npy")), Err(GraphError::Io { .. })));
    }

    /// Returns a file of version 1 that has a header alone.
    fn header(text: &str) -> Vec<u8> {
        [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
    }

    #[test]
    fn rejects_damaged_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        write_npy(&path, &[3], &[1.0_f32, 2.0, 3.0]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut cases = vec![
            (bytes[..bytes.len() - 1].to_vec(), "promises 12 bytes of data, but it holds 11".to_owned()),
            ([&bytes[..], &[0]].concat(), "promises 12 bytes of data, but it holds 13".to_owned()),
            (bytes[..40].to_vec(), "its header is damaged".to_owned()),
            (header(&format!("{{'shape': {}", "(".repeat(50_000))), "its header is damaged".to_owned()),
        ];
        for foreign in [&b""[..], b"0,1\n1,0\n", &[0; 200]] {
            cases.push((foreign.to_vec(), "it is not a .npy file".to_owned()));
        }
        for length in [100, 1 << 20, u32::MAX] {
            let longer = [b"\x93NUMPY\x02\x00", &length.to_le_bytes()[..], b"{'descr': '<f4'"].concat();
            cases.push((longer, format!("its header of {length} bytes is longer")));
        }
        for shape in ["18446744073709551615, 2", "0, 1099511627776, 1099511627776", "4611686018427387904"] {
            let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape},), }}");
            cases.push((header(&text), "more data than can be addressed".to_owned()));
        }
        for (bytes, expected) in cases {
            let why = why::<f32>(&file(&dir, &bytes));
            assert!(why.contains(&expected), "{why}, expected {expected}");
            assert!(why.len() < 500, "a long header is quoted in part: {why}");
        }
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
        assert_has(why::<f32>(&with_order(&[2, 3, 4])), &["save it through numpy.ascontiguousarray"]);
    }
}
