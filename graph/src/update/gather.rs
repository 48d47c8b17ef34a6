//! Rows of several arrays, selected into one.

use crate::GraphError;
use crate::memory::{Buffer, FeatureDtype, Features, Workspace};
use bytemuck::Pod;

/// The name of a step in progress reports.
const STEP: &str = "updating attributes";

/// Returns the rows at `positions`, in that order, of arrays that are counted end to end. A row has `width` values.
///
/// # Panics
/// If a position is past the last row.
pub(super) fn gather<T: Pod + Send + Sync>(
    space: &Workspace,
    pieces: &[&[T]],
    width: usize,
    positions: &[u64],
) -> Result<Buffer<T>, GraphError> {
    let mut ends = Vec::with_capacity(pieces.len());
    let mut end = 0;
    for piece in pieces {
        end += (piece.len() / width.max(1)) as u64;
        ends.push(end);
    }
    space.build_rows(positions.len(), width, STEP, |range| {
        let mut out = Vec::with_capacity(range.len() * width);
        for &position in &positions[range] {
            let piece = ends.partition_point(|&end| end <= position);
            let start = if piece == 0 { 0 } else { ends[piece - 1] };
            out.extend_from_slice(&pieces[piece][(position - start) as usize * width..][..width]);
        }
        Ok(out)
    })
}

/// Like [`gather`], for features of one type and number of columns.
pub(super) fn gather_features(
    space: &Workspace,
    pieces: &[&Features],
    dim: usize,
    dtype: FeatureDtype,
    positions: &[u64],
) -> Result<Features, GraphError> {
    let mut floats = Vec::new();
    let mut halves = Vec::new();
    let mut brains = Vec::new();
    let mut bytes = Vec::new();
    for piece in pieces {
        match piece {
            Features::F32 { values, .. } => floats.push(&values[..]),
            Features::F16 { values, .. } => halves.push(&values[..]),
            Features::Bf16 { values, .. } => brains.push(&values[..]),
            Features::Int8 { rows, .. } => bytes.push(&rows[..]),
        }
    }
    Ok(match dtype {
        FeatureDtype::F32 => Features::F32 { values: gather(space, &floats, dim, positions)?, dim },
        FeatureDtype::F16 => Features::F16 { values: gather(space, &halves, dim, positions)?, dim },
        FeatureDtype::Bf16 => Features::Bf16 { values: gather(space, &brains, dim, positions)?, dim },
        FeatureDtype::Int8 => Features::Int8 { rows: gather(space, &bytes, dtype.row_bytes(dim), positions)?, dim },
    })
}
