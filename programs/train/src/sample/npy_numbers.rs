//! Integers of 32 or 64 bits in `.npy` files.
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
    match dtype.as_str() {
        "<i8" => read::<i64, i64, N>(path, what),
        "<u8" => read::<u64, u64, N>(path, what),
        "<i4" => read::<i32, i64, N>(path, what),
        "<u4" => read::<u32, i64, N>(path, what),
        _ => bail!("{}: its type is {dtype}, expected int64, int32, uint64 or uint32", path.display()),
    }
}

/// Reads an array of `T`, and converts its elements to `N` by way of `W`.
fn read<T, W, N>(path: &Path, what: &str) -> anyhow::Result<(Vec<usize>, Vec<N>)>
where
    T: NpyElement + Into<W> + std::fmt::Display,
    W: TryInto<N>,
{
    let (shape, numbers) = read_npy::<T>(path)?;
    let mut converted = Vec::with_capacity(numbers.len());
    for (i, &number) in numbers.iter().enumerate() {
        match number.into().try_into() {
            Ok(number) => converted.push(number),
            Err(_) => bail!("{}: entry {i} is {number}, not a {what}", path.display()),
        }
    }
    Ok((shape, converted))
}
