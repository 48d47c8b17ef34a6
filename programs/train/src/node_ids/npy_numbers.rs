//! Whole numbers in `.npy` files.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

use anyhow::bail;
use edgecut_graph::{NpyElement, npy_shape, read_npy};
use std::path::Path;

/// Reads a one-dimensional array of integers and converts them to `N`. `what` names an entry in errors.
pub(crate) fn read_numbers<N: TryFrom<i64> + TryFrom<u64>>(path: &Path, what: &str) -> anyhow::Result<Vec<N>> {
    let (shape, numbers) = read_array(path, what)?;
    if shape.len() != 1 {
        bail!("{}: its shape is {shape:?}, but it has to be one-dimensional", path.display());
    }
    Ok(numbers)
}

/// Reads an array of integers and converts them to `N`, row by row. Also returns its shape.
pub(crate) fn read_array<N: TryFrom<i64> + TryFrom<u64>>(
    path: &Path,
    what: &str,
) -> anyhow::Result<(Vec<usize>, Vec<N>)> {
    let (_, dtype) = npy_shape(path)?;
    // Big-endian numbers are converted as they are read.
    match dtype.trim_start_matches(['<', '>', '|']) {
        "i8" => read::<i64, i64, N>(path, what),
        "u8" => read::<u64, u64, N>(path, what),
        "i4" => read::<i32, i64, N>(path, what),
        "u4" => read::<u32, i64, N>(path, what),
        "i2" => read::<i16, i64, N>(path, what),
        "u2" => read::<u16, i64, N>(path, what),
        "i1" => read::<i8, i64, N>(path, what),
        "u1" => read::<u8, i64, N>(path, what),
        texts if texts.starts_with(['U', 'S']) => bail!(
            "{}: it has texts: save them as CSV, for example with numpy.savetxt(\"ids.csv\", ids, fmt=\"%s\")",
            path.display()
        ),
        _ => bail!(
            "{}: its type is {dtype}, expected whole numbers; save it through .astype(numpy.int64)",
            path.display()
        ),
    }
}

/// Reads an array of `T` and converts its numbers through `W`.
fn read<T, W, N>(path: &Path, what: &str) -> anyhow::Result<(Vec<usize>, Vec<N>)>
where
    T: NpyElement + Into<W> + std::fmt::Display,
    W: TryInto<N>,
{
    let (shape, stored) = read_npy::<T>(path)?;
    let mut numbers = Vec::with_capacity(stored.len());
    for (at, number) in stored.into_iter().enumerate() {
        let wide: W = number.into();
        let Ok(converted) = wide.try_into() else {
            bail!("{}: entry {at} is {number}, not a {what}", path.display());
        };
        numbers.push(converted);
    }
    Ok((shape, numbers))
}
