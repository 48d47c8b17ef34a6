//! Feature matrices in `.npy` files.

use super::{FileMeta, NpyWriter, map_npy};
use crate::GraphError;
use crate::memory::{FeatureDtype, Features};
use std::path::Path;

/// Writes features to a new file, for other processes of this machine: the file is not synced to disk.
///
/// NumPy has no bf16, so their bits are written as `uint16`. Rows of integers are written as `uint8`, with their scales.
///
/// # Errors
/// Any I/O error, with `path`.
pub fn write_features(path: &Path, features: &Features) -> Result<(), GraphError> {
    write_features_with(path, features, false).map(drop)
}

/// Like [`write_features`], and syncs the file to disk if `is_synced`. Returns its size and checksum.
pub(crate) fn write_features_with(path: &Path, features: &Features, is_synced: bool) -> Result<FileMeta, GraphError> {
    let shape = [features.num_rows(), features.stored_width()];
    match features {
        Features::F32 { values, .. } => write(path, &shape, values, is_synced),
        Features::F16 { values, .. } => write(path, &shape, values, is_synced),
        Features::Bf16 { values, .. } => write(path, &shape, bytemuck::cast_slice::<_, u16>(values), is_synced),
        Features::Int8 { rows, .. } => write(path, &shape, rows, is_synced),
    }
}

fn write<T: super::NpyElement>(
    path: &Path,
    shape: &[usize],
    values: &[T],
    is_synced: bool,
) -> Result<FileMeta, GraphError> {
    let mut writer = NpyWriter::create(path, shape)?;
    writer.write(values)?;
    if is_synced { writer.finish() } else { writer.finish_unsynced() }
}

/// Maps features of a shape `[rows, dim]` and a stored type.
///
/// # Errors
/// Fails if the file is missing, truncated, or of another type or shape.
pub fn map_features(path: &Path, [rows, dim]: [usize; 2], dtype: FeatureDtype) -> Result<Features, GraphError> {
    let (shape, features) = match dtype {
        FeatureDtype::F32 => map_npy(path).map(|(shape, values)| (shape, Features::F32 { values, dim })),
        FeatureDtype::F16 => map_npy(path).map(|(shape, values)| (shape, Features::F16 { values, dim })),
        FeatureDtype::Bf16 => {
            map_npy::<u16>(path).map(|(shape, values)| (shape, Features::Bf16 { values: values.cast(), dim }))
        }
        FeatureDtype::Int8 => map_npy(path).map(|(shape, rows)| (shape, Features::Int8 { rows, dim })),
    }?;
    if dim == 0 {
        return Err(GraphError::format(path, "features have at least one column"));
    }
    let expected = [rows, features.stored_width()];
    if shape != expected {
        let why = format!("its shape is {shape:?}, expected {expected:?} for features of type {dtype}");
        return Err(GraphError::format(path, why));
    }
    Ok(features)
}
