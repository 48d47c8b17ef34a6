//! The files of the ids of edges.

use super::WriteError;
use super::files::{Content, Meter, PIECE_BYTES, Selection, write_pieces};
use crate::dataset::{EdgeIds, TextArray};
use crate::npy::FileMeta;
use std::path::Path;

/// The number of texts gathered at a time.
const TEXTS_AT_ONCE: usize = 1 << 14;

/// Returns the names and the contents of the files of the ids of edges. `pieces` are of one kind, and are counted end to end.
pub(super) fn id_files<'a>(pieces: &[&'a EdgeIds], rows: &'a [u64]) -> Vec<(&'static str, Content<'a>)> {
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    for piece in pieces {
        match piece {
            EdgeIds::Numbers(piece) => numbers.push(&piece[..]),
            EdgeIds::Texts(piece) => texts.push(piece),
        }
    }
    if texts.is_empty() {
        return vec![("ids", Content::Whole(numbers, Selection::Rows(rows)))];
    }
    let texts = SelectedTexts { pieces: texts, rows };
    vec![("id_ends", Content::TextEnds(texts.clone())), ("id_bytes", Content::TextBytes(texts))]
}

/// A selection of texts, by their position in the pieces.
#[derive(Clone)]
pub(crate) struct SelectedTexts<'a> {
    pieces: Vec<&'a TextArray>,
    rows: &'a [u64],
}

impl SelectedTexts<'_> {
    fn get(&self, position: u64) -> &[u8] {
        let mut at = position as usize;
        let mut piece = 0;
        while at >= self.pieces[piece].len() {
            at -= self.pieces[piece].len();
            piece += 1;
        }
        self.pieces[piece].get(at)
    }

    /// Writes the end of each text in the file of their bytes.
    pub(super) fn write_ends(&self, path: &Path, meter: &Meter) -> Result<FileMeta, WriteError> {
        let mut end = 0;
        let pieces = self.rows.chunks(PIECE_BYTES / 8).map(|rows| {
            let mut ends = Vec::with_capacity(rows.len());
            for &row in rows {
                end += self.get(row).len() as u64;
                ends.push(end);
            }
            ends
        });
        write_pieces(path, &[self.rows.len()], pieces, meter)
    }

    /// Writes the texts end to end.
    pub(super) fn write_bytes(&self, path: &Path, meter: &Meter) -> Result<FileMeta, WriteError> {
        let num_bytes = self.rows.iter().map(|&row| self.get(row).len()).sum();
        let pieces = self.rows.chunks(TEXTS_AT_ONCE).map(|rows| {
            let mut bytes = Vec::new();
            rows.iter().for_each(|&row| bytes.extend_from_slice(self.get(row)));
            bytes
        });
        write_pieces(path, &[num_bytes], pieces, meter)
    }
}
