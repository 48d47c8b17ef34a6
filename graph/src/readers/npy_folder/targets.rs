//! Targets from `.npy` files.

use super::attributes::{narrow, no_floats};
use super::integers::Integers;
use crate::GraphError;
use crate::dataset::{TargetKind, Targets, wrong_target};
use crate::memory::{Buffer, Workspace};
use crate::npy::{map_npy, map_npy_bool, npy_shape};
use crate::parallel;
use crate::readers::row_count::RowCount;
use std::path::Path;

/// Returns the numbers per node of the array in `path`, or 0 if it does not exist.
pub(super) fn target_dim(path: &Path) -> Result<usize, GraphError> {
    if !path.exists() {
        return Ok(0);
    }
    match npy_shape(path)?.0[..] {
        [_] => Ok(1),
        [_, dim] => Ok(dim),
        ref shape => {
            let why = format!("its shape is {shape:?}, expected [num_nodes] or [num_nodes, num_targets]");
            Err(GraphError::format(path, why))
        }
    }
}

/// Reads targets from `path`, a row for each of `nodes`, if the file exists. Numbers that are all 0, 1 or NaN are labels.
pub(super) fn read_targets(space: &Workspace, path: &Path, nodes: RowCount) -> Result<Option<Targets>, GraphError> {
    let dim = target_dim(path)?;
    if dim == 0 {
        return Ok(None);
    }
    let (shape, dtype) = npy_shape(path)?;
    nodes.check_rows(path, shape[0])?;
    let values: Buffer<f32> = match dtype.as_str() {
        "<f4" => map_npy(path)?.1,
        "<f8" => narrow(space, &map_npy::<f64>(path)?.1)?,
        "|b1" => {
            let mask = map_npy_bool(path)?.1;
            let number = |&is_set: &u8| if is_set != 0 { 1.0 } else { 0.0 };
            space.build(mask.len(), "converting targets", |range| Ok(parallel::map(&mask[range], number)))?
        }
        other if other.contains('f') => return Err(no_floats(path, other)),
        _ => {
            let whole = Integers::map(path)?.1.into_i64(space)?;
            space.build(whole.len(), "converting targets", |range| Ok(parallel::map(&whole[range], |&v| v as f32)))?
        }
    };
    let kind = TargetKind::of(&values);
    match kind.first_wrong(&values) {
        Some(at) => Err(GraphError::format(path, wrong_target(at, dim, values[at], kind))),
        None => Ok(Some(Targets { values, dim, kind })),
    }
}
