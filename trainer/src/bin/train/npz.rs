//! Archives of arrays in the format of `numpy.savez`.

use edgecut_graph::{NpyElement, npy_header};
use std::fs::File;
use std::io::{BufWriter, IntoInnerError, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The writer of an uncompressed archive of arrays.
pub(crate) struct Npz<'a>(ZipWriter<BufWriter<&'a File>>);

impl<'a> Npz<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        Self(ZipWriter::new(BufWriter::new(file)))
    }

    /// Appends an array.
    pub(crate) fn array<T: NpyElement>(&mut self, name: &str, shape: &[usize], values: &[T]) -> anyhow::Result<()> {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
        self.0.start_file(format!("{name}.npy"), options)?;
        self.0.write_all(&npy_header::<T>(shape)?)?;
        Ok(self.0.write_all(bytemuck::cast_slice(values))?)
    }

    /// Completes the archive.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        self.0.finish()?.into_inner().map_err(IntoInnerError::into_error)?;
        Ok(())
    }
}
