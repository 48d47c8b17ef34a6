//! Targets from `.npy` files.

use super::attributes::read_floats;
use super::integers::Integers;
use crate::GraphError;
use crate::dataset::{MAX_TARGETS, TargetKind, Targets, wrong_target};
use crate::memory::{Buffer, Workspace};
use crate::npy::npy_shape;
use crate::parallel;
use crate::readers::row_count::RowCount;
use crate::scan::first_position;
use std::path::Path;

/// Up to this bound, `f32` represents every whole number.
const EXACT: u64 = 1 << 24;
/// The name of the step that converts targets.
const STEP: &str = "converting targets";

/// Returns the numbers per `item` of the array in `path`, or 0 if it does not exist.
pub(super) fn target_dim(path: &Path, item: &str) -> Result<usize, GraphError> {
    if !path.exists() {
        return Ok(0);
    }
    match npy_shape(path)?.0[..] {
        [_] => Ok(1),
        [_, dim] if (1..=MAX_TARGETS).contains(&dim) => Ok(dim),
        [_, dim] => {
            Err(GraphError::format(path, format!("it has {dim} columns, but {item}s have 1 to {MAX_TARGETS} targets")))
        }
        ref shape => {
            let why = format!("its shape is {shape:?}, expected [num_{item}s] or [num_{item}s, num_targets]");
            Err(GraphError::format(path, why))
        }
    }
}

/// Reads targets from `path`, a row for each of `rows`, if the file exists. Numbers that are all 0, 1 or NaN are labels.
pub(super) fn read_targets(space: &Workspace, path: &Path, rows: RowCount) -> Result<Option<Targets>, GraphError> {
    let item = rows.item();
    let dim = target_dim(path, item)?;
    if dim == 0 {
        return Ok(None);
    }
    let (shape, dtype) = npy_shape(path)?;
    rows.check_rows(path, shape[0])?;
    let values: Buffer<f32> = if dtype.contains('f') {
        read_floats(space, path, &dtype)?
    } else {
        let whole = Integers::open(path)?.1.into_i64(space)?;
        if let Some(at) = first_position(&whole, |value| value.unsigned_abs() > EXACT) {
            let why =
                format!("target {} of {item} {} is {}, too large for a 32-bit float", at % dim, at / dim, whole[at]);
            return Err(GraphError::format(path, why));
        }
        space.build(whole.len(), STEP, |range| Ok(parallel::map(&whole[range], |&v| v as f32)))?
    };
    let kind = TargetKind::of(&values);
    match kind.first_wrong(&values) {
        Some(at) => Err(GraphError::format(path, wrong_target(at, item, dim, values[at], kind))),
        None => Ok(Some(Targets { values, dim, kind })),
    }
}
