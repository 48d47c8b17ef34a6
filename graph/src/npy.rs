//! Reading `.npy` files by mapping them, and writing them.

use crate::{Buffer, GraphError};
use bytemuck::Pod;
use half::f16;
use memmap2::Mmap;
use npyz::{NpyHeader, Order, WriterBuilder};
use std::fs::File;
use std::io::{BufWriter, Cursor, Write};
use std::path::Path;
use std::sync::Arc;

/// An element type of the arrays that Edgecut stores, always little-endian.
pub trait NpyElement: Pod + npyz::AutoSerialize + npyz::Deserialize + Send + Sync {
    /// NumPy's name of the type.
    const NAME: &'static str;
}

macro_rules! npy_element {
    ($($t:ty, $name:literal;)*) => { $(impl NpyElement for $t { const NAME: &'static str = $name; })* };
}
npy_element! { u8, "uint8"; u32, "uint32"; i32, "int32"; u64, "uint64"; i64, "int64"; f32, "float32"; f64, "float64"; f16, "float16"; }

/// Maps the array in `path`.
///
/// # Errors
/// A file that is no `.npy` file, holds another type or Fortran order, or is shorter or longer than its header says.
pub fn map_npy<T: NpyElement>(path: &Path) -> Result<(Vec<usize>, Buffer<T>), GraphError> {
    let (map, header, offset) = open(path)?;
    let shape: Vec<usize> = header.shape().iter().map(|&n| n as usize).collect();
    if header.dtype() != T::default_dtype() {
        let why = format!("its type is {}, expected {}", header.dtype().descr(), T::NAME);
        return Err(GraphError::format(path, why));
    }
    if header.order() == Order::Fortran && shape.iter().filter(|&&n| n > 1).count() > 1 {
        return Err(GraphError::format(path, "it is in Fortran order; save it through numpy.ascontiguousarray"));
    }
    let len = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
    let bytes = len.and_then(|n| n.checked_mul(size_of::<T>()));
    let held = map.len() - offset;
    let (Some(len), true) = (len, bytes == Some(held)) else {
        let why = match bytes {
            Some(bytes) => {
                format!("its header promises {bytes} bytes of data, but it holds {held}: it is truncated or corrupt")
            }
            None => "its header promises more data than can be addressed".into(),
        };
        return Err(GraphError::format(path, why));
    };
    let buffer = Buffer::mapped(Arc::new(map), offset, len)
        .ok_or_else(|| GraphError::format(path, "its data is not aligned for its type; save it again with numpy"))?;
    Ok((shape, buffer))
}

/// The shape and NumPy type string (such as `<f4`) that the header of `path` states, without reading the data.
///
/// # Errors
/// A file that is no `.npy` file.
pub fn npy_shape(path: &Path) -> Result<(Vec<usize>, String), GraphError> {
    let (_, header, _) = open(path)?;
    let descr = header.dtype().descr();
    Ok((header.shape().iter().map(|&n| n as usize).collect(), descr.trim_matches('\'').to_owned()))
}

fn open(path: &Path) -> Result<(Mmap, NpyHeader, usize), GraphError> {
    let file = File::open(path).map_err(|e| GraphError::io(path, e))?;
    // SAFETY: the map is read-only and private to this process. A file that another process truncates or rewrites while
    // it is mapped would break this; parts are only ever replaced by renaming whole directories (docs/format.md).
    let map = unsafe { Mmap::map(&file) }.map_err(|e| GraphError::io(path, e))?;
    let mut cursor = Cursor::new(&map[..]);
    let header = NpyHeader::from_reader(&mut cursor)
        .map_err(|e| GraphError::format(path, format!("it is not a .npy file, or its header is damaged ({e})")))?;
    let offset = cursor.position() as usize;
    Ok((map, header, offset))
}

/// Writes `values` as an array of `shape` to a new file and syncs it to disk.
///
/// # Errors
/// Any I/O error, naming `path`.
///
/// # Panics
/// If `shape` does not multiply to the number of values.
pub fn write_npy<T: NpyElement>(path: &Path, shape: &[usize], values: &[T]) -> Result<(), GraphError> {
    assert_eq!(shape.iter().product::<usize>(), values.len(), "shape and values of {}", path.display());
    let write = || -> std::io::Result<()> {
        let file = File::create(path)?;
        let mut out = BufWriter::with_capacity(1 << 16, &file);
        out.write_all(&npy_header::<T>(shape)?)?;
        out.write_all(bytemuck::cast_slice(values))?;
        out.flush()?;
        drop(out);
        file.sync_all()
    };
    write().map_err(|e| GraphError::io(path, e))
}

fn npy_header<T: NpyElement>(shape: &[usize]) -> std::io::Result<Vec<u8>> {
    let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    let mut bytes = Vec::new();
    npyz::WriteOptions::new_header_only()
        .dtype(T::default_dtype())
        .shape(&shape)
        .writer(&mut bytes)
        .write_header_only()?;
    Ok(bytes)
}
