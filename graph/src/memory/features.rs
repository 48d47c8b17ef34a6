//! Feature matrices.

use super::feature_dtype::{SCALE_BYTES, encode_int8};
use super::{Buffer, FeatureDtype, prefetch_all};
use crate::parallel;
use crate::scan::first_position;
use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

/// The prefetch distance of row copies, in rows.
pub(super) const ROWS_AHEAD: usize = 4;
/// The number of rows that one task converts or selects.
pub(super) const ROWS_PER_TASK: usize = 1024;

/// A feature matrix with one row per node or edge. `dim` is at least 1, and the number of values is a multiple of it.
///
/// # Shapes
/// `[num_nodes, dim]` or `[num_edges, dim]`, row-major.
#[derive(Clone, Debug)]
pub enum Features {
    /// 32-bit floats.
    F32 {
        /// The values, row-major.
        values: Buffer<f32>,
        /// The number of features per row.
        dim: usize,
    },
    /// 16-bit IEEE floats.
    F16 {
        /// The values, row-major.
        values: Buffer<f16>,
        /// The number of features per row.
        dim: usize,
    },
    /// 16-bit floats with the range of `f32`.
    Bf16 {
        /// The values, row-major.
        values: Buffer<bf16>,
        /// The number of features per row.
        dim: usize,
    },
    /// 8-bit integers with a scale per row.
    Int8 {
        /// The rows end to end, each a scale (`f32`, little-endian) and `dim` signed 8-bit integers.
        rows: Buffer<u8>,
        /// The number of features per row.
        dim: usize,
    },
}

impl Features {
    /// Returns features of no rows.
    pub fn empty(dim: usize, dtype: FeatureDtype) -> Self {
        match dtype {
            FeatureDtype::F32 => Self::F32 { values: Buffer::default(), dim },
            FeatureDtype::F16 => Self::F16 { values: Buffer::default(), dim },
            FeatureDtype::Bf16 => Self::Bf16 { values: Buffer::default(), dim },
            FeatureDtype::Int8 => Self::Int8 { rows: Buffer::default(), dim },
        }
    }

    /// Returns true if the values are in a mapped file, so that reading them may wait for the disk.
    pub fn is_mapped(&self) -> bool {
        match self {
            Self::F32 { values, .. } => values.is_mapped(),
            Self::F16 { values, .. } => values.is_mapped(),
            Self::Bf16 { values, .. } => values.is_mapped(),
            Self::Int8 { rows, .. } => rows.is_mapped(),
        }
    }

    /// Gives the memory of mapped values back to the system until they are read again.
    pub(crate) fn release_pages(&self) {
        match self {
            Self::F32 { values, .. } => values.release_pages(),
            Self::F16 { values, .. } => values.release_pages(),
            Self::Bf16 { values, .. } => values.release_pages(),
            Self::Int8 { rows, .. } => rows.release_pages(),
        }
    }

    /// Returns the number of features per row.
    pub fn dim(&self) -> usize {
        match self {
            Self::F32 { dim, .. } | Self::F16 { dim, .. } | Self::Bf16 { dim, .. } | Self::Int8 { dim, .. } => *dim,
        }
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        self.bytes().len().checked_div(self.dtype().row_bytes(self.dim())).unwrap_or(0)
    }

    /// Returns the stored type.
    pub fn dtype(&self) -> FeatureDtype {
        match self {
            Self::F32 { .. } => FeatureDtype::F32,
            Self::F16 { .. } => FeatureDtype::F16,
            Self::Bf16 { .. } => FeatureDtype::Bf16,
            Self::Int8 { .. } => FeatureDtype::Int8,
        }
    }

    /// Returns the number of columns of the stored array: `dim`, and for rows with a scale the bytes of a row.
    pub(crate) fn stored_width(&self) -> usize {
        match self {
            Self::Int8 { dim, .. } => SCALE_BYTES + dim,
            _ => self.dim(),
        }
    }

    /// Returns all rows as stored, end to end.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::F32 { values, .. } => bytemuck::cast_slice(values),
            Self::F16 { values, .. } => bytemuck::cast_slice(values),
            Self::Bf16 { values, .. } => bytemuck::cast_slice(values),
            Self::Int8 { rows, .. } => rows,
        }
    }

    /// Returns the [`FeatureDtype::row_bytes`] bytes of `row` as stored, little-endian.
    pub fn row_bytes(&self, row: usize) -> &[u8] {
        let row_bytes = self.dtype().row_bytes(self.dim());
        &self.bytes()[row * row_bytes..][..row_bytes]
    }

    /// Copies `row` to `out` as `f32`. `out` has `dim` entries.
    pub fn copy_row(&self, row: usize, out: &mut [f32]) {
        self.dtype().decode(self.row_bytes(row), out);
    }

    /// Converts the features to another stored type, in the memory of this process. Conversion to the present type, and
    /// to `f32` and back, is exact.
    ///
    /// # Errors
    /// [`OutOfRange`] for the first value that the type cannot represent.
    pub fn to_dtype(&self, dtype: FeatureDtype) -> Result<Self, OutOfRange> {
        let dim = self.dim();
        if dtype == self.dtype() || dim == 0 {
            return Ok(self.clone());
        }
        let converted = match dtype {
            FeatureDtype::F32 => Self::F32 { values: self.map_rows(dim, |row, out| out.copy_from_slice(row)), dim },
            FeatureDtype::F16 => {
                Self::F16 { values: self.map_rows(dim, |row, out| each(row, out, f16::from_f32)), dim }
            }
            FeatureDtype::Bf16 => {
                Self::Bf16 { values: self.map_rows(dim, |row, out| each(row, out, bf16::from_f32)), dim }
            }
            FeatureDtype::Int8 => Self::Int8 { rows: self.map_rows(SCALE_BYTES + dim, encode_int8), dim },
        };
        match converted.first_not_finite() {
            None => Ok(converted),
            Some((row, column)) => {
                let mut values = vec![0.0; dim];
                self.copy_row(row, &mut values);
                let column = values.iter().position(|value| !value.is_finite()).unwrap_or(column);
                Err(OutOfRange { row, column, value: values[column], dtype })
            }
        }
    }

    /// Joins features of one stored type. Each piece is dropped once it was copied.
    pub fn concat(dim: usize, dtype: FeatureDtype, pieces: Vec<Self>) -> Self {
        match dtype {
            FeatureDtype::F32 => Self::F32 { values: joined(pieces), dim },
            FeatureDtype::F16 => Self::F16 { values: joined(pieces), dim },
            FeatureDtype::Bf16 => Self::Bf16 { values: joined(pieces), dim },
            FeatureDtype::Int8 => Self::Int8 { rows: joined(pieces), dim },
        }
    }

    /// Returns the rows, each converted from `f32` to `width` values.
    fn map_rows<T: Zeroable + Clone + Send>(
        &self,
        width: usize,
        convert: impl Fn(&[f32], &mut [T]) + Sync,
    ) -> Buffer<T> {
        let mut converted = vec![T::zeroed(); self.num_rows() * width];
        parallel::for_each_chunk(&mut converted, ROWS_PER_TASK * width, &|first, out| {
            let mut values = vec![0.0; self.dim()];
            for (row, out) in (first / width..).zip(out.chunks_exact_mut(width)) {
                self.copy_row(row, &mut values);
                convert(&values, out);
            }
        });
        converted.into()
    }

    /// Appends `rows` as stored, end to end, to `out`.
    ///
    /// # Panics
    /// If a row is out of range.
    pub fn append_rows(&self, rows: &[u32], out: &mut Vec<u8>) {
        out.reserve(rows.len() * self.dtype().row_bytes(self.dim()));
        self.stored_rows(rows).for_each(|row| out.extend_from_slice(row));
    }

    /// Returns the given rows as they are stored. The next ones are prefetched.
    ///
    /// # Panics
    /// The iterator panics if a row is out of range.
    pub fn stored_rows<'a>(&'a self, rows: &'a [u32]) -> impl Iterator<Item = &'a [u8]> {
        let row_bytes = self.dtype().row_bytes(self.dim());
        let bytes = self.bytes();
        rows.iter().enumerate().map(move |(i, &wanted)| {
            if let Some(&soon) = rows.get(i + ROWS_AHEAD) {
                prefetch_all(&bytes[soon as usize * row_bytes..][..row_bytes]);
            }
            &bytes[wanted as usize * row_bytes..][..row_bytes]
        })
    }

    /// Returns the first row of integers that [`Features::to_dtype`] would not have made: its greatest entry is not 127,
    /// or its scale has too many significant bits. A cache would change such a row.
    pub fn first_not_normalized(&self) -> Option<usize> {
        let Self::Int8 { dim, .. } = self else { return None };
        let mut values = vec![0.0; *dim];
        let mut encoded = vec![0; self.stored_width()];
        (0..self.num_rows()).find(|&row| {
            self.copy_row(row, &mut values);
            encode_int8(&values, &mut encoded);
            encoded != self.row_bytes(row)
        })
    }

    /// Returns the (row, column) of the first value that is not finite, if any. Partitioning checks this once, because
    /// a single NaN makes every loss NaN.
    pub fn first_not_finite(&self) -> Option<(usize, usize)> {
        let at = match self {
            Self::F32 { values, .. } => first_position(values, |v| !v.is_finite()),
            Self::F16 { values, .. } => first_position(values, |v| !v.is_finite()),
            Self::Bf16 { values, .. } => first_position(values, |v| !v.is_finite()),
            // All values of a row have the same scale.
            Self::Int8 { rows, dim } => {
                let mut rows = rows.chunks_exact(SCALE_BYTES + dim);
                rows.position(|row| row.first_chunk().is_none_or(|&scale| !f32::from_le_bytes(scale).is_finite()))
                    .map(|row| row * dim)
            }
        }?;
        Some((at / self.dim(), at % self.dim()))
    }
}

/// Returns the stored bytes of all pieces as one array.
fn joined<T: Pod>(pieces: Vec<Features>) -> Buffer<T> {
    let num_bytes: usize = pieces.iter().map(|piece| piece.bytes().len()).sum();
    let mut all: Vec<T> = Vec::with_capacity(num_bytes / size_of::<T>());
    pieces.into_iter().for_each(|piece| all.extend_from_slice(bytemuck::cast_slice(piece.bytes())));
    all.into()
}

/// A feature that a stored type cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("feature {column} of row {row} is {value}, which {dtype} cannot represent")]
pub struct OutOfRange {
    /// The row of the feature matrix.
    pub row: usize,
    /// The column.
    pub column: usize,
    /// The value.
    pub value: f32,
    /// The type.
    pub dtype: FeatureDtype,
}

/// Returns the rows of a row-major matrix at `positions`, in that order.
///
/// # Panics
/// If a position is out of range.
pub(crate) fn select_rows<T: Pod + Send + Sync>(values: &[T], dim: usize, positions: &[u64]) -> Vec<T> {
    let mut out = vec![T::zeroed(); positions.len() * dim];
    parallel::for_each_chunk(&mut out, (ROWS_PER_TASK * dim).max(1), &|first, out| {
        for (row, out) in positions[first / dim..].iter().zip(out.chunks_exact_mut(dim)) {
            out.copy_from_slice(&values[*row as usize * dim..][..dim]);
        }
    });
    out
}

fn each<T>(row: &[f32], out: &mut [T], convert: impl Fn(f32) -> T) {
    out.iter_mut().zip(row).for_each(|(out, &value)| *out = convert(value));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the same values in all stored types.
    pub(crate) fn in_all_types(values: &[f32], dim: usize) -> [Features; 4] {
        let features = Features::F32 { values: values.to_vec().into(), dim };
        FeatureDtype::ALL.map(|dtype| features.to_dtype(dtype).unwrap())
    }

    #[test]
    fn rows_come_out_as_f32_whatever_the_stored_type() {
        for (features, dtype) in in_all_types(&[0.5, -2.0, 3.0, 127.0, 0.0, -64.0], 3).iter().zip(FeatureDtype::ALL) {
            assert_eq!((features.num_rows(), features.dim(), features.dtype()), (2, 3, dtype));
            let mut row = [9.0; 3];
            features.copy_row(1, &mut row);
            assert_eq!(row, [127.0, 0.0, -64.0]);
            assert_eq!(features.row_bytes(0).len(), dtype.row_bytes(3));
            let again = features.to_dtype(FeatureDtype::F32).unwrap().to_dtype(dtype).unwrap();
            assert_eq!(again.bytes(), features.bytes(), "{dtype} by way of f32");
        }
        let [wide, ..] = in_all_types(&[1.0, 2.0], 1);
        assert_eq!(wide.row_bytes(1), 2.0_f32.to_le_bytes());
    }

    #[test]
    fn values_too_large_for_a_type_are_named() {
        let features = Features::F32 { values: vec![1.0, 65504.0, -70000.0, f32::MAX].into(), dim: 2 };
        let fail = |dtype| features.to_dtype(dtype).unwrap_err().to_string();
        assert_eq!(fail(FeatureDtype::F16), "feature 0 of row 1 is -70000, which f16 cannot represent");
        assert!(fail(FeatureDtype::Bf16).starts_with("feature 1 of row 1 is 3402823"));
        assert!(features.to_dtype(FeatureDtype::Int8).is_ok());
        // Among the NaNs are those with all bits set, of which one is what GPUs produce.
        for nan in [f32::NAN, f32::from_bits(0x7fff_ffff), f32::from_bits(0xffff_ffff)] {
            let features = Features::F32 { values: vec![1.0, 2.0, 3.0, nan].into(), dim: 2 };
            for dtype in [FeatureDtype::F16, FeatureDtype::Bf16, FeatureDtype::Int8] {
                let error = features.to_dtype(dtype).unwrap_err().to_string();
                assert_eq!(error, format!("feature 1 of row 1 is NaN, which {dtype} cannot represent"));
            }
        }
    }

    #[test]
    fn rows_are_appended_as_stored() {
        let values: Vec<f32> = (0..30).map(|v| v as f32 / 4.0).collect();
        for features in in_all_types(&values, 3) {
            let rows: Vec<u32> = (0..2000).map(|i| i * 31 % 10).collect();
            let mut bytes = vec![7];
            features.append_rows(&rows, &mut bytes);
            let expected: Vec<u8> = rows.iter().flat_map(|&row| features.row_bytes(row as usize).to_vec()).collect();
            assert_eq!(bytes[1..], expected);
        }
    }

    #[test]
    fn the_first_value_that_is_not_finite_is_found() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let wide = Features::F32 { values: vec![0.0, 1.0, 2.0, bad, bad, 5.0].into(), dim: 2 };
            assert_eq!(wide.first_not_finite(), Some((1, 1)));
            let halves: Vec<f16> = [0.0, 1.0, 2.0, bad].map(f16::from_f32).into();
            assert_eq!(Features::F16 { values: halves.into(), dim: 2 }.first_not_finite(), Some((1, 1)));
            let rows =
                [[0.0_f32.to_le_bytes(), [1; 4]], [bad.to_le_bytes(), [2; 4]]].as_flattened().as_flattened().to_vec();
            assert_eq!(Features::Int8 { rows: rows.into(), dim: 4 }.first_not_finite(), Some((1, 0)));
        }
        for features in in_all_types(&[0.0, -0.0, 1e-7, 65504.0], 2) {
            assert_eq!(features.first_not_finite(), None);
        }
    }
}
