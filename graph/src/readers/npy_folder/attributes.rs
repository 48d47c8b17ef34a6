//! Attributes of nodes and edges from `.npy` files.

use super::integers::{Integers, little_endian};
use crate::GraphError;
use crate::dataset::{bad_weight, first_bad_weight, is_too_small, why_too_small};
use crate::memory::{Buffer, Features, Workspace};
use crate::npy::{StoredArray, map_npy, npy_shape};
use crate::readers::row_count::RowCount;
use crate::scan::first_position;
use half::f16;
use std::path::Path;

/// Reads features from `path`, one row for each of `rows`. Returns `None` if the file does not exist or has no columns.
pub(in crate::readers) fn read_features(
    space: &Workspace,
    path: &Path,
    rows: RowCount,
) -> Result<Option<Features>, GraphError> {
    if !path.exists() {
        return Ok(None);
    }
    let (shape, dtype) = npy_shape(path)?;
    let [found, dim] = shape[..] else {
        let why = format!("its shape is {shape:?}, expected [num_{}s, num_features]", rows.item());
        return Err(GraphError::format(path, why));
    };
    rows.check_rows(path, found)?;
    let features = match dtype.as_str() {
        "<f4" => Features::F32 { values: map_npy(path)?.1, dim },
        "<f2" => Features::F16 { values: map_npy(path)?.1, dim },
        ">f2" => Features::F16 { values: StoredArray::open(path)?.copy_to(space)?, dim },
        other => Features::F32 { values: read_floats(space, path, other)?, dim },
    };
    if dim == 0 {
        return Ok(None);
    }
    space.check_pieces(path, features.is_mapped() || found == 0)?;
    if let Some((row, column)) = features.first_not_finite() {
        let item = rows.item();
        let why = format!("feature {column} of {item} {row} is NaN or infinite, or too large for 32 bits");
        return Err(GraphError::format(path, why));
    }
    Ok(Some(match features {
        // The file is mapped again, because the check has read all pages of this map, and they may not be needed for a
        // long time.
        Features::F32 { dim, .. } if dtype == "<f4" => Features::F32 { values: map_npy(path)?.1, dim },
        Features::F16 { dim, .. } if dtype == "<f2" => Features::F16 { values: map_npy(path)?.1, dim },
        converted => converted,
    }))
}

/// Reads weights from `path`, one for each of `rows`, if the file exists.
pub(in crate::readers) fn read_weights(
    space: &Workspace,
    path: &Path,
    rows: RowCount,
) -> Result<Option<Buffer<f32>>, GraphError> {
    if !path.exists() {
        return Ok(None);
    }
    let (shape, dtype) = npy_shape(path)?;
    check_list(path, &shape, rows)?;
    if little_endian(&dtype) == "<f8" {
        check_small_weights(path)?;
    }
    let weights = read_floats(space, path, &dtype)?;
    match first_bad_weight(&weights) {
        Some(edge) => Err(GraphError::format(path, bad_weight(edge, weights[edge]))),
        None => Ok(Some(weights)),
    }
}

/// Checks that no positive weight is too small for 32 bits.
fn check_small_weights(path: &Path) -> Result<(), GraphError> {
    let weights = StoredArray::<f64>::open(path)?;
    let found = weights.find_in_pieces(0..weights.len(), |first, piece| {
        let at = first_position(piece, is_too_small)?;
        Some((first + at, why_too_small(piece[at])?))
    })?;
    match found {
        Some((edge, why)) => Err(GraphError::format(path, format!("the weight of edge {edge}: {why}"))),
        None => Ok(()),
    }
}

/// Reads times from `path`, one for each of `rows`, if the file exists.
pub(in crate::readers) fn read_times(
    space: &Workspace,
    path: &Path,
    rows: RowCount,
) -> Result<Option<Buffer<i64>>, GraphError> {
    if !path.exists() {
        return Ok(None);
    }
    let (shape, times) = Integers::open(path)?;
    check_list(path, &shape, rows)?;
    let times = times.into_i64(space)?;
    // Values that do not fit into `i64` read as `i64::MAX`.
    if let Some(row) = first_position(&times, |time| time == i64::MAX) {
        let why = format!("the time of {} {row} does not fit into 63 bits", rows.item());
        return Err(GraphError::format(path, why));
    }
    Ok(Some(times))
}

fn check_list(path: &Path, shape: &[usize], rows: RowCount) -> Result<(), GraphError> {
    match shape {
        &[found] | &[found, 1] => rows.check_rows(path, found),
        _ => Err(GraphError::format(path, format!("its shape is {shape:?}, expected [num_{}s]", rows.item()))),
    }
}

/// Reads the numbers in `path` as floats of 32 bits. `float64` is rounded, as for features.
pub(super) fn read_floats(space: &Workspace, path: &Path, dtype: &str) -> Result<Buffer<f32>, GraphError> {
    const STEP: &str = "converting to 32 bits";
    match little_endian(dtype).as_str() {
        "<f4" => StoredArray::open(path)?.copy_to(space),
        "<f8" => StoredArray::<f64>::open(path)?.convert_to(space, STEP, |&v| v as f32),
        "<f2" => StoredArray::<f16>::open(path)?.convert_to(space, STEP, |v| v.to_f32()),
        other if other.contains(['i', 'u', 'b']) => Integers::open(path)?.1.into_floats(space, path),
        _ => {
            let why = format!("its type is {dtype}, expected numbers; save it through .astype(numpy.float32)");
            Err(GraphError::format(path, why))
        }
    }
}
