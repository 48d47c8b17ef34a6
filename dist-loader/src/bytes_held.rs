//! Sizes of arrays in memory.

/// Returns the bytes of memory that a vector holds, including unused capacity.
pub(crate) fn bytes_held<T>(values: &Vec<T>) -> usize {
    values.capacity() * size_of::<T>()
}
