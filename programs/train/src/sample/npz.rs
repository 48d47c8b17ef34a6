//! Archives of arrays in the format of `numpy.savez`.

use edgecut_graph::{NpyElement, npy_header};
use edgecut_output::OutputFile;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Writes an archive with the arrays that `add` adds.
pub(crate) fn write_npz(path: &Path, add: impl FnOnce(&mut Npz<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let output = OutputFile::create(path)?;
    let mut npz = Npz::new(output.file());
    add(&mut npz)?;
    npz.finish()?;
    Ok(output.commit()?)
}

/// The writer of an uncompressed archive of arrays.
pub(crate) struct Npz<'a>(ZipWriter<FirstError<BufWriter<&'a File>>>);

impl<'a> Npz<'a> {
    fn new(file: &'a File) -> Self {
        Self(ZipWriter::new(FirstError { inner: BufWriter::new(file), error: None }))
    }

    /// Appends an array. A file that cannot be written is an error of [`finish`](Self::finish).
    pub(crate) fn array<T: NpyElement>(&mut self, name: &str, shape: &[usize], values: &[T]) -> anyhow::Result<()> {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
        self.0.start_file(format!("{name}.npy"), options)?;
        self.0.write_all(&npy_header::<T>(shape)?)?;
        Ok(self.0.write_all(bytemuck::cast_slice(values))?)
    }

    /// Completes the archive.
    fn finish(self) -> anyhow::Result<()> {
        let FirstError { mut inner, error } = self.0.finish()?;
        match error {
            Some(error) => Err(error.into()),
            None => Ok(inner.flush()?),
        }
    }
}

/// A writer that keeps its first error and writes nothing after it. `ZipWriter` prints errors that occur when it is
/// dropped, beside those that it has returned.
struct FirstError<W> {
    inner: W,
    error: Option<io::Error>,
}

impl<W> FirstError<W> {
    /// Runs an operation unless an earlier one has failed, whose result is then `otherwise`.
    fn run<T>(&mut self, otherwise: T, operation: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.error.is_some() {
            return Ok(otherwise);
        }
        operation(&mut self.inner).or_else(|error| {
            self.error = Some(error);
            Ok(otherwise)
        })
    }
}

impl<W: Write> Write for FirstError<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.run(bytes.len(), |inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.run((), Write::flush)
    }
}

impl<W: Seek> Seek for FirstError<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.run(0, |inner| inner.seek(to))
    }
}
