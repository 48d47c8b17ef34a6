//! Feature matrices of `f32` or `f16`.

use super::{Buffer, prefetch_all};
use crate::scan::first_position;
use half::f16;
use half::slice::HalfFloatSliceExt;
use serde::{Deserialize, Serialize};

/// The prefetch distance of row copies, in rows.
pub(super) const ROWS_AHEAD: usize = 4;

/// The stored type of features. All arithmetic is in `f32`.
///
/// ```
/// use edgecut_graph::FeatureDtype;
/// assert_eq!((FeatureDtype::F32.size(), FeatureDtype::F16.size()), (4, 2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureDtype {
    /// 32-bit floats.
    #[default]
    F32,
    /// 16-bit IEEE floats, which take half the space on disk and on the wire.
    F16,
}

impl FeatureDtype {
    /// Returns the size of one value in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}

/// A feature matrix with one row per node or edge. `dim` is at least 1, and the number of values is a multiple of it.
///
/// ```
/// use edgecut_graph::{FeatureDtype, Features};
/// let features = Features::F32 { values: vec![1.0, 2.0, 3.0, 4.0].into(), dim: 2 };
/// assert_eq!((features.num_rows(), features.dtype()), (2, FeatureDtype::F32));
/// let mut row = [0.0; 2];
/// features.copy_row(1, &mut row);
/// assert_eq!(row, [3.0, 4.0]);
/// ```
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
}

impl Features {
    /// Returns features of no rows.
    pub(crate) fn empty(dim: usize, dtype: FeatureDtype) -> Self {
        match dtype {
            FeatureDtype::F32 => Self::F32 { values: Buffer::default(), dim },
            FeatureDtype::F16 => Self::F16 { values: Buffer::default(), dim },
        }
    }

    /// Returns true if the values are in a mapped file, so that reading them may wait for the disk.
    pub fn is_mapped(&self) -> bool {
        match self {
            Self::F32 { values, .. } => values.is_mapped(),
            Self::F16 { values, .. } => values.is_mapped(),
        }
    }

    /// Returns the number of features per row.
    pub fn dim(&self) -> usize {
        match self {
            Self::F32 { dim, .. } | Self::F16 { dim, .. } => *dim,
        }
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        match self {
            Self::F32 { values, dim } => values.len() / dim,
            Self::F16 { values, dim } => values.len() / dim,
        }
    }

    /// Returns the stored type.
    pub fn dtype(&self) -> FeatureDtype {
        match self {
            Self::F32 { .. } => FeatureDtype::F32,
            Self::F16 { .. } => FeatureDtype::F16,
        }
    }

    /// Returns the `dim * dtype.size()` bytes of `row` as stored, little-endian.
    pub fn row_bytes(&self, row: usize) -> &[u8] {
        match self {
            Self::F32 { values, dim } => bytemuck::cast_slice(&values[row * dim..(row + 1) * dim]),
            Self::F16 { values, dim } => bytemuck::cast_slice(&values[row * dim..(row + 1) * dim]),
        }
    }

    /// Copies `row` to `out` as `f32`. `out` has `dim` entries.
    pub fn copy_row(&self, row: usize, out: &mut [f32]) {
        match self {
            Self::F32 { values, dim } => out.copy_from_slice(&values[row * dim..(row + 1) * dim]),
            Self::F16 { values, dim } => values[row * dim..(row + 1) * dim].convert_to_f32_slice(out),
        }
    }

    /// Appends `rows` as stored, end to end, to `out`.
    ///
    /// ```
    /// use edgecut_graph::Features;
    /// let features = Features::F32 { values: vec![1.0, 2.0, 3.0].into(), dim: 1 };
    /// let mut bytes = Vec::new();
    /// features.append_rows(&[2, 0], &mut bytes);
    /// assert_eq!(bytes, [3.0_f32.to_le_bytes(), 1.0_f32.to_le_bytes()].concat());
    /// ```
    ///
    /// # Panics
    /// If a row is out of range.
    pub fn append_rows(&self, rows: &[u32], out: &mut Vec<u8>) {
        let row_bytes = self.dim() * self.dtype().size();
        let bytes: &[u8] = match self {
            Self::F32 { values, .. } => bytemuck::cast_slice(values),
            Self::F16 { values, .. } => bytemuck::cast_slice(values),
        };
        let row = |row: u32| &bytes[row as usize * row_bytes..][..row_bytes];
        out.reserve(rows.len() * row_bytes);
        for (i, &wanted) in rows.iter().enumerate() {
            if let Some(&soon) = rows.get(i + ROWS_AHEAD) {
                prefetch_all(row(soon));
            }
            out.extend_from_slice(row(wanted));
        }
    }

    /// Returns the (row, column) of the first value that is not finite, if any. Partitioning checks this once, because
    /// a single NaN makes every loss NaN.
    ///
    /// ```
    /// use edgecut_graph::Features;
    /// let features = Features::F32 { values: vec![1.0, 2.0, 3.0, f32::NAN].into(), dim: 2 };
    /// assert_eq!(features.first_not_finite(), Some((1, 1)));
    /// ```
    pub fn first_not_finite(&self) -> Option<(usize, usize)> {
        let at = match self {
            Self::F32 { values, .. } => first_position(values, |v| !v.is_finite()),
            Self::F16 { values, .. } => first_position(values, |v| !v.is_finite()),
        }?;
        Some((at / self.dim(), at % self.dim()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the same values in both stored types.
    pub(crate) fn both(values: &[f32], dim: usize) -> [Features; 2] {
        let halves: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
        [Features::F32 { values: values.to_vec().into(), dim }, Features::F16 { values: halves.into(), dim }]
    }

    #[test]
    fn rows_come_out_as_f32_whatever_the_stored_type() {
        for features in both(&[0.5, -2.0, 3.0, 4.0, 0.0, 65504.0], 3) {
            assert_eq!((features.num_rows(), features.dim()), (2, 3));
            let mut row = [9.0; 3];
            features.copy_row(1, &mut row);
            assert_eq!(row, [4.0, 0.0, 65504.0]);
            assert_eq!(features.row_bytes(0).len(), 3 * features.dtype().size());
        }
        let [wide, _] = both(&[1.0, 2.0], 1);
        assert_eq!(wide.row_bytes(1), 2.0_f32.to_le_bytes());
    }

    #[test]
    fn rows_are_appended_as_stored() {
        let values: Vec<f32> = (0..30).map(|v| v as f32 / 4.0).collect();
        for features in both(&values, 3) {
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
            for features in both(&[0.0, 1.0, 2.0, bad, bad, 5.0], 2) {
                assert_eq!(features.first_not_finite(), Some((1, 1)));
            }
        }
        for features in both(&[0.0, -0.0, 1e-7, 65504.0], 2) {
            assert_eq!(features.first_not_finite(), None);
        }
    }
}
