//! The reader of some rows of a table in a file.

use super::ModelFileError;
use super::file_header::FileHeader;
use edgecut_dist_sampler::SetRow;
use safetensors::tensor::TensorInfo;

/// The maximum number of unneeded bytes between two wanted rows that are read in one system call instead of two.
const GAP_BYTES: usize = 16 << 10;

/// The position of a row in a piece of a file, and its position among the wanted rows.
pub(super) struct Taken {
    pub(super) in_piece: usize,
    pub(super) wanted: usize,
}

/// A reader of the rows of a table in an open file.
pub(super) struct RowReader<'a> {
    header: &'a FileHeader,
    dim: usize,
    values: TensorInfo,
    bytes: Vec<u8>,
    row: Vec<f32>,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(header: &'a FileHeader, values: TensorInfo, dim: usize) -> Self {
        Self { header, dim, values, bytes: Vec::new(), row: vec![0.0; dim] }
    }

    /// Reads rows of the piece that begins at row `start` and passes them to `set`. Rows near each other are read
    /// together.
    pub(super) fn read(&mut self, start: usize, taken: &[Taken], set: SetRow<'_>) -> Result<(), ModelFileError> {
        let row_bytes = self.dim * size_of::<f32>();
        let max_gap = GAP_BYTES / row_bytes + 1;
        for near in taken.chunk_by(|a, b| b.in_piece - a.in_piece <= max_gap) {
            let first = near[0].in_piece;
            let rows = near.last().map_or(0, |last| last.in_piece + 1 - first);
            self.bytes.resize(rows * row_bytes, 0);
            self.header.read_at(&self.values, (start + first) * row_bytes, &mut self.bytes)?;
            for taken in near {
                let (words, _) = self.bytes[(taken.in_piece - first) * row_bytes..][..row_bytes].as_chunks::<4>();
                self.row.iter_mut().zip(words).for_each(|(value, word)| *value = f32::from_le_bytes(*word));
                if let Some(column) = self.row.iter().position(|value| !value.is_finite()) {
                    let row = start + taken.in_piece;
                    let value = self.row[column];
                    let what = format!("row {row} of its embeddings holds {value}, expected finite values");
                    return Err(ModelFileError::content(&self.header.path, what));
                }
                set(taken.wanted, &self.row);
            }
        }
        Ok(())
    }
}
