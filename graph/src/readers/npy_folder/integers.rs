//! Whole numbers from `.npy` files of several integer types.

use crate::GraphError;
use crate::memory::{Buffer, Workspace};
use crate::npy::{NpyElement, StoredArray, npy_shape};
use crate::parallel;
use crate::scan::first_position;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of values that one task converts.
const RUN: usize = 1 << 14;

/// A stored integer type.
trait Integer: NpyElement + Ord {
    /// Returns the number, or `i64::MAX` if it is larger.
    fn wide(self) -> i64;
    /// Returns the number modulo 2^32.
    fn low(self) -> u32;
}

macro_rules! integer {
    ($t:ty, $wide:expr, $low:expr) => {
        impl Integer for $t {
            fn wide(self) -> i64 {
                $wide(self)
            }
            fn low(self) -> u32 {
                $low(self)
            }
        }
    };
}
integer!(i64, |v| v, |v| v as u32);
integer!(u64, |v| i64::try_from(v).unwrap_or(i64::MAX), |v| v as u32);
integer!(i32, i64::from, |v| v as u32);
integer!(u32, i64::from, |v| v);
integer!(i16, i64::from, |v| v as u32);
integer!(u16, i64::from, u32::from);
integer!(i8, i64::from, |v| v as u32);
integer!(u8, i64::from, u32::from);

/// An array of whole numbers in its stored type, which is read when it is needed.
pub(in crate::readers) enum Integers {
    I64(StoredArray<i64>),
    U64(StoredArray<u64>),
    I32(StoredArray<i32>),
    U32(StoredArray<u32>),
    I16(StoredArray<i16>),
    U16(StoredArray<u16>),
    I8(StoredArray<i8>),
    /// Also NumPy's `bool`.
    U8(StoredArray<u8>),
}

macro_rules! for_each_type {
    ($integers:expr, $values:ident => $body:expr) => {
        match $integers {
            Integers::I64($values) => $body,
            Integers::U64($values) => $body,
            Integers::I32($values) => $body,
            Integers::U32($values) => $body,
            Integers::I16($values) => $body,
            Integers::U16($values) => $body,
            Integers::I8($values) => $body,
            Integers::U8($values) => $body,
        }
    };
}

impl Integers {
    /// Opens the array in `path`.
    ///
    /// # Errors
    /// As [`read_npy`](crate::read_npy), and for a type that does not hold whole numbers.
    pub(in crate::readers) fn open(path: &Path) -> Result<(Vec<usize>, Self), GraphError> {
        let (_, dtype) = npy_shape(path)?;
        fn of<T: NpyElement>(
            path: &Path,
            wrap: fn(StoredArray<T>) -> Integers,
        ) -> Result<(Vec<usize>, Integers), GraphError> {
            StoredArray::open(path).map(|array| (array.shape().to_vec(), wrap(array)))
        }
        match little_endian(&dtype).as_str() {
            "<i8" => of(path, Self::I64),
            "<u8" => of(path, Self::U64),
            "<i4" => of(path, Self::I32),
            "<u4" => of(path, Self::U32),
            "<i2" => of(path, Self::I16),
            "<u2" => of(path, Self::U16),
            "|i1" => of(path, Self::I8),
            "|u1" => of(path, Self::U8),
            "|b1" => {
                let array = StoredArray::open_bool(path)?;
                Ok((array.shape().to_vec(), Self::U8(array)))
            }
            other => {
                let why = format!("its type is {other}, expected whole numbers; save it through .astype(numpy.int64)");
                Err(GraphError::format(path, why))
            }
        }
    }

    /// Returns the numbers as floats, into `space`.
    ///
    /// # Errors
    /// As for reading, and for a number that floats of 32 bits do not hold.
    pub(super) fn into_floats(self, space: &Workspace, path: &Path) -> Result<Buffer<f32>, GraphError> {
        if let Some(at) = self.position(|number| number == i64::MAX || number as f32 as i64 != number)? {
            let why = format!(
                "entry {at} is {}, which floats of 32 bits do not hold; .astype(numpy.float32) rounds it",
                self.get(at)?
            );
            return Err(GraphError::format(path, why));
        }
        for_each_type!(self, values => values.convert_to(space, "converting to floats", |v| v.wide() as f32))
    }

    /// Returns the length of the array.
    pub(in crate::readers) fn len(&self) -> usize {
        for_each_type!(self, values => values.len())
    }

    /// Returns the largest number, if any. Numbers above `i64::MAX` count as `i64::MAX`.
    pub(super) fn max(&self) -> Result<Option<i64>, GraphError> {
        self.max_of(0..self.len())
    }

    /// Returns the largest number in `range`, if any. Numbers above `i64::MAX` count as `i64::MAX`.
    pub(in crate::readers) fn max_of(&self, range: Range<usize>) -> Result<Option<i64>, GraphError> {
        let mut largest = None;
        for_each_type!(self, values => values.find_in_pieces(range, |_, piece| {
            largest = largest.max(parallel::max(piece).map(|v| v.wide()));
            None::<()>
        }))?;
        Ok(largest)
    }

    /// Returns the number at `index`. Numbers above `i64::MAX` count as `i64::MAX`.
    pub(in crate::readers) fn get(&self, index: usize) -> Result<i64, GraphError> {
        for_each_type!(self, values => Ok(values.read(index..index + 1)?[0].wide()))
    }

    /// Returns the first index whose number is `wrong`.
    pub(in crate::readers) fn position(
        &self,
        wrong: impl Fn(i64) -> bool + Sync + Send,
    ) -> Result<Option<usize>, GraphError> {
        self.position_in(0..self.len(), wrong)
    }

    /// Returns the first index in `range` whose number is `wrong`.
    pub(super) fn position_in(
        &self,
        range: Range<usize>,
        wrong: impl Fn(i64) -> bool + Sync + Send,
    ) -> Result<Option<usize>, GraphError> {
        for_each_type!(self, values => values.find_in_pieces(range, |start, piece| {
            first_position(piece, |v| wrong(v.wide())).map(|at| start + at)
        }))
    }

    /// Converts `range` to node ids. Returns `None` if one of them is not below `num_nodes`. Checks and converts the same
    /// values, since the file may change.
    pub(in crate::readers) fn to_checked_ids(
        &self,
        range: Range<usize>,
        num_nodes: usize,
    ) -> Result<Option<Vec<u32>>, GraphError> {
        let mut ids = Vec::with_capacity(range.len());
        let wrong = for_each_type!(self, values => values.find_in_pieces(range, |_, piece| {
            match checked_ids(piece, num_nodes) {
                Some(piece) => ids.extend(piece),
                None => return Some(()),
            }
            None
        }))?;
        Ok(wrong.is_none().then_some(ids))
    }

    /// Like [`Integers::to_checked_ids`], into an array in `space`.
    pub(super) fn to_checked_ids_in(
        &self,
        space: &Workspace,
        range: Range<usize>,
        num_nodes: usize,
    ) -> Result<Option<Buffer<u32>>, GraphError> {
        let all_fit = AtomicBool::new(true);
        let ids = space.build(range.len(), "reading edges", |piece| {
            let piece = range.start + piece.start..range.start + piece.end;
            let length = piece.len();
            Ok(self.to_checked_ids(piece, num_nodes)?.unwrap_or_else(|| {
                all_fit.store(false, Ordering::Relaxed);
                vec![0; length]
            }))
        })?;
        Ok(all_fit.into_inner().then_some(ids))
    }

    /// Returns true if pieces of the array can be read alone.
    pub(in crate::readers) fn has_pieces(&self) -> bool {
        for_each_type!(self, values => values.has_pieces())
    }

    /// Reads `range` as `i64`. Numbers above `i64::MAX` count as `i64::MAX`.
    pub(in crate::readers) fn to_i64(&self, range: Range<usize>) -> Result<Vec<i64>, GraphError> {
        for_each_type!(self, values => values.convert(range, |v| v.wide()))
    }

    /// Reads the array as `i64`, into `space`.
    pub(in crate::readers) fn into_i64(self, space: &Workspace) -> Result<Buffer<i64>, GraphError> {
        for_each_type!(self, values => values.convert_to(space, "reading whole numbers", |v| v.wide()))
    }
}

/// Returns the type string of the same type in little-endian order.
pub(super) fn little_endian(dtype: &str) -> String {
    dtype.replacen('>', "<", 1)
}

fn checked_ids<T: Integer>(values: &[T], num_nodes: usize) -> Option<Vec<u32>> {
    let mut ids = vec![0; values.len()];
    let all_fit = AtomicBool::new(true);
    parallel::for_each_chunk(&mut ids, RUN, &|first, ids| {
        // Without a branch between values, the compiler can use vector instructions. Negative numbers wrap to large
        // ones.
        let fit = ids.iter_mut().zip(&values[first..]).fold(true, |fit, (id, value)| {
            *id = value.low();
            fit & ((value.wide() as u64) < num_nodes as u64)
        });
        all_fit.fetch_and(fit, Ordering::Relaxed);
    });
    all_fit.into_inner().then_some(ids)
}

/// Returns the shape of a mask and its entries, 0 and 1. Masks are of NumPy's type `bool`, or of a type of whole numbers
/// with these values.
///
/// # Errors
/// As [`read_npy`](crate::read_npy), and for a number other than 0 and 1.
pub(super) fn read_mask(path: &Path, item: &str) -> Result<(Vec<usize>, Vec<u8>), GraphError> {
    let (_, dtype) = npy_shape(path)?;
    if dtype == "|b1" {
        let array = StoredArray::open_bool(path)?;
        let mask = array.read(0..array.len())?;
        return Ok((array.shape().to_vec(), parallel::map(&mask, |&is_in| u8::from(is_in != 0))));
    }
    let (shape, mask) = Integers::open(path)?;
    let Some(mask) = mask.to_checked_ids(0..mask.len(), 2)? else {
        let at = mask.position(|value| !(0..=1).contains(&value))?.unwrap_or_default();
        let stem = path.file_name().unwrap_or_default().to_string_lossy().replace("_mask.npy", "");
        let why = format!(
            "entry {at} is {}, but a mask has only 0 and 1; ids of {item}s belong in {stem}_idx.npy",
            mask.get(at)?
        );
        return Err(GraphError::format(path, why));
    };
    Ok((shape, parallel::map(&mask, |&is_in| is_in as u8)))
}
