//! Operations on feature matrices whose results may be in scratch files.

use super::features::ROWS_PER_TASK;
use super::{Buffer, FeatureDtype, Features, OutOfRange, Workspace};
use crate::GraphError;
use bytemuck::Pod;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

impl Features {
    /// Returns the rows at `positions`, in that order, in `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    ///
    /// # Panics
    /// If a position is out of range.
    pub(crate) fn select_in(&self, space: &Workspace, positions: &[u64]) -> Result<Self, GraphError> {
        const STEP: &str = "reordering features";
        let dim = self.dim();
        let width = self.stored_width();
        Ok(match self {
            Self::F32 { values, .. } => Self::F32 { values: space.select_rows(values, width, positions, STEP)?, dim },
            Self::F16 { values, .. } => Self::F16 { values: space.select_rows(values, width, positions, STEP)?, dim },
            Self::Bf16 { values, .. } => Self::Bf16 { values: space.select_rows(values, width, positions, STEP)?, dim },
            Self::Int8 { rows, .. } => Self::Int8 { rows: space.select_rows(rows, width, positions, STEP)?, dim },
        })
    }

    /// Like [`Features::to_dtype`], in `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`]. The inner error is that of [`Features::to_dtype`].
    pub fn to_dtype_in(&self, space: &Workspace, dtype: FeatureDtype) -> Result<Result<Self, OutOfRange>, GraphError> {
        let dim = self.dim();
        if !space.is_scratch() || dtype == self.dtype() || dim == 0 {
            return Ok(self.to_dtype(dtype));
        }
        let row_bytes = dtype.row_bytes(dim);
        let failure = Mutex::new(None);
        let bytes = space.build_rows(self.num_rows(), row_bytes, "converting features", |range| {
            let mut bytes: Vec<u8> = Vec::with_capacity(range.len() * row_bytes);
            for first in range.clone().step_by(ROWS_PER_TASK) {
                let rows = first..range.end.min(first + ROWS_PER_TASK);
                match self.rows(rows.clone()).to_dtype(dtype) {
                    Ok(converted) => bytes.extend_from_slice(converted.bytes()),
                    Err(error) => {
                        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        failure.get_or_insert(OutOfRange { row: first + error.row, ..error });
                        bytes.resize(bytes.len() + rows.len() * row_bytes, 0);
                    }
                }
            }
            Ok(bytes)
        })?;
        if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Err(error));
        }
        Ok(Ok(match dtype {
            FeatureDtype::F32 => Self::F32 { values: bytes.reinterpret(), dim },
            FeatureDtype::F16 => Self::F16 { values: bytes.reinterpret(), dim },
            FeatureDtype::Bf16 => Self::Bf16 { values: bytes.reinterpret(), dim },
            FeatureDtype::Int8 => Self::Int8 { rows: bytes, dim },
        }))
    }

    /// Copies the rows of a range.
    fn rows(&self, range: Range<usize>) -> Self {
        let dim = self.dim();
        let width = self.stored_width();
        fn cut<T: Pod>(values: &Buffer<T>, width: usize, range: Range<usize>) -> Buffer<T> {
            values[range.start * width..range.end * width].to_vec().into()
        }
        match self {
            Self::F32 { values, .. } => Self::F32 { values: cut(values, width, range), dim },
            Self::F16 { values, .. } => Self::F16 { values: cut(values, width, range), dim },
            Self::Bf16 { values, .. } => Self::Bf16 { values: cut(values, width, range), dim },
            Self::Int8 { rows, .. } => Self::Int8 { rows: cut(rows, width, range), dim },
        }
    }
}
