//! Arrays in memory or in mapped files.

use super::MappedFile;
use bytemuck::Pod;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A read-only array of `T`, owned or memory-mapped. Cloning only increments a reference count.
///
/// Invariant: the bytes of a mapped buffer are aligned for `T` and form a whole number of elements.
#[derive(Clone)]
pub struct Buffer<T>(Source<T>);

#[derive(Clone)]
enum Source<T> {
    Owned(Arc<Vec<T>>),
    Mapped { map: Arc<MappedFile>, offset: usize, bytes: usize },
}

impl<T: Pod> Buffer<T> {
    /// Returns the array of `len` elements at `offset` in `map`, or `None` if it is misaligned or extends past the end
    /// of the file.
    pub(crate) fn mapped(map: Arc<MappedFile>, offset: usize, len: usize) -> Option<Self> {
        let bytes = len.checked_mul(size_of::<T>())?;
        let slice = map.get(offset..offset.checked_add(bytes)?)?;
        bytemuck::try_cast_slice::<u8, T>(slice).ok()?;
        Some(Self(Source::Mapped { map, offset, bytes }))
    }
}

impl<T: Pod> Buffer<T> {
    /// Splits the array into the first `at` elements and the rest. The halves of a mapped array are mapped; those of an
    /// owned array are copies.
    ///
    /// # Panics
    /// If the array has fewer than `at` elements.
    pub(crate) fn split_at(&self, at: usize) -> (Self, Self) {
        let (first, rest) = self.deref().split_at(at);
        let first_bytes = size_of_val(first);
        let rest_bytes = size_of_val(rest);
        match &self.0 {
            Source::Owned(_) => (first.to_vec().into(), rest.to_vec().into()),
            Source::Mapped { map, offset, .. } => {
                let mapped = |offset, bytes| Self(Source::Mapped { map: map.clone(), offset, bytes });
                (mapped(*offset, first_bytes), mapped(*offset + first_bytes, rest_bytes))
            }
        }
    }

    /// Returns the same bytes as an array of `U`, which has the size of `T`.
    pub(crate) fn cast<U: Pod>(self) -> Buffer<U> {
        assert_eq!((size_of::<T>(), align_of::<T>()), (size_of::<U>(), align_of::<U>()), "the layout of an element");
        Buffer(match self.0 {
            Source::Owned(values) => Source::Owned(Arc::new(bytemuck::cast_slice(&values).to_vec())),
            Source::Mapped { map, offset, bytes } => Source::Mapped { map, offset, bytes },
        })
    }

    /// Returns the same bytes as an array of another type, of which they form a whole number of elements. A mapped array
    /// starts at a multiple of the page size.
    pub(crate) fn reinterpret<U: Pod>(self) -> Buffer<U> {
        match &self.0 {
            Source::Mapped { map, offset, .. } => {
                Buffer::mapped(map.clone(), *offset, size_of_val(&self[..]) / size_of::<U>())
            }
            Source::Owned(_) => None,
        }
        .unwrap_or_else(|| bytemuck::pod_collect_to_vec(&self).into())
    }

    /// Returns true if the array is in a mapped file, so that reading it may wait for the disk.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Source::Mapped { .. })
    }

    /// Gives the memory of a mapped array back to the system until it is read again.
    pub(crate) fn release_pages(&self) {
        if let Source::Mapped { map, .. } = &self.0 {
            map.release_pages();
        }
    }

    /// Copies the array into the memory of this process if it is mapped.
    pub(crate) fn into_memory(self) -> Self {
        match &self.0 {
            Source::Owned(_) => self,
            Source::Mapped { .. } => self.to_vec().into(),
        }
    }
}

impl<T> From<Vec<T>> for Buffer<T> {
    fn from(values: Vec<T>) -> Self {
        Self(Source::Owned(Arc::new(values)))
    }
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T: Pod> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.0 {
            Source::Owned(values) => values,
            Source::Mapped { map, offset, bytes } => bytemuck::cast_slice(&map[*offset..*offset + *bytes]),
        }
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self[..self.len().min(8)];
        write!(f, "{} elements, {shown:?}", self.len())
    }
}
