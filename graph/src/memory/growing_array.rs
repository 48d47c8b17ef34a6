//! Arrays of an unknown length.

use super::Buffer;
use super::scratch_file::ScratchWriter;
use crate::GraphError;
use bytemuck::Pod;

/// An array that [`Workspace::growing`](crate::Workspace::growing) starts, in memory or in a scratch file.
pub struct GrowingArray<'a, T>(Values<'a, T>);

enum Values<'a, T> {
    Memory(Vec<T>),
    Scratch(ScratchWriter<'a, T>),
}

impl<'a, T: Pod> GrowingArray<'a, T> {
    pub(super) fn in_memory() -> Self {
        Self(Values::Memory(Vec::new()))
    }

    pub(super) fn in_scratch(writer: ScratchWriter<'a, T>) -> Self {
        Self(Values::Scratch(writer))
    }

    /// Appends values.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub fn append(&mut self, mut values: Vec<T>) -> Result<(), GraphError> {
        match &mut self.0 {
            Values::Memory(all) => {
                all.append(&mut values);
                Ok(())
            }
            Values::Scratch(writer) => writer.write(&values),
        }
    }

    /// Returns the array.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub fn finish(self) -> Result<Buffer<T>, GraphError> {
        match self.0 {
            Values::Memory(all) => Ok(all.into()),
            Values::Scratch(writer) => writer.finish(),
        }
    }
}
