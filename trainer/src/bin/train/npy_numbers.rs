//! Integers in `.npy` files of any integer type.

use anyhow::bail;
use edgecut_graph::{NpyElement, map_npy, npy_shape};
use std::path::Path;

/// Reads a one-dimensional array of integers and converts them to `N`. `what` names an entry in errors.
pub(crate) fn read_numbers<N: TryFrom<i64> + TryFrom<u64>>(path: &Path, what: &str) -> anyhow::Result<Vec<N>> {
    fn read<T: NpyElement + TryInto<N> + std::fmt::Display, N>(path: &Path, what: &str) -> anyhow::Result<Vec<N>> {
        let (shape, numbers) = map_npy::<T>(path)?;
        if shape.len() != 1 {
            bail!("{}: its shape is {shape:?}, but it has to be one-dimensional", path.display());
        }
        let check = |(i, &number): (usize, &T)| {
            number.try_into().map_err(|_| anyhow::anyhow!("{}: entry {i} is {number}, not a {what}", path.display()))
        };
        numbers.iter().enumerate().map(check).collect()
    }
    let (_, dtype) = npy_shape(path)?;
    match dtype.as_str() {
        "<i8" => read::<i64, N>(path, what),
        "<u8" => read::<u64, N>(path, what),
        "<i4" => widen(read::<i32, i64>(path, what)?, path, what),
        "<u4" => widen(read::<u32, i64>(path, what)?, path, what),
        _ => bail!("{}: its type is {dtype}, expected int64, int32, uint64 or uint32", path.display()),
    }
}

fn widen<N: TryFrom<i64>>(numbers: Vec<i64>, path: &Path, what: &str) -> anyhow::Result<Vec<N>> {
    let check = |(i, number): (usize, i64)| {
        number.try_into().map_err(|_| anyhow::anyhow!("{}: entry {i} is {number}, not a {what}", path.display()))
    };
    numbers.into_iter().enumerate().map(check).collect()
}
