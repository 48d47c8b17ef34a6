//! The computed rows that one process holds.

use crate::arrays::{bytes_of, ids_in};
use crate::part::requests::{PullRequest, Refusal};
use bytes::Bytes;
use edgecut_graph::{Features, GatheredRows, prefetch_all};

/// The distance in rows at which rows are prefetched.
const ROWS_AHEAD: usize = 4;

/// Rows of `f32` in a mapped file. The file has no name anymore, so its space is freed with the last user.
#[derive(Debug)]
pub(crate) struct RowTable {
    rows: Features,
}

impl RowTable {
    pub(crate) fn new(rows: Features) -> Self {
        Self { rows }
    }

    pub(crate) fn dim(&self) -> usize {
        self.rows.dim()
    }

    /// Gathers rows, in parallel. Entries that are [`GatheredRows::ELSEWHERE`] are left out.
    pub(crate) fn gather(&self, wanted: &[u32]) -> GatheredRows {
        let rows = GatheredRows::new(wanted.len(), self.dim());
        rows.gather(&self.rows, wanted);
        rows
    }

    /// Returns the values of rows, which must be in range, as `[rows.len(), dim]`.
    fn read(&self, wanted: &[u32]) -> Vec<f32> {
        // Sequential, since this may run on a network thread, which must not wait for the worker threads.
        let dim = self.dim();
        let mut values = vec![0.0; wanted.len() * dim];
        for (at, (values, &row)) in values.chunks_exact_mut(dim).zip(wanted).enumerate() {
            if let Some(&soon) = wanted.get(at + ROWS_AHEAD) {
                prefetch_all(self.rows.row_bytes(soon as usize));
            }
            self.rows.copy_row(row as usize, values);
        }
        values
    }

    /// Returns the rows of a request.
    pub(crate) fn answer_pull(&self, request: &PullRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let wanted = ids_in(&request.rows).map_err(Refusal::Invalid)?;
        if let Some(row) = wanted.iter().find(|&&row| row as usize >= self.rows.num_rows()) {
            let held = self.rows.num_rows();
            return Err(Refusal::Invalid(format!(
                "row {row} was requested, but this process has computed {held} rows"
            )));
        }
        if wanted.len().saturating_mul(self.dim() * size_of::<f32>()) > max_bytes {
            return Err(Refusal::TooLarge);
        }
        Ok(bytes_of(self.read(wanted)))
    }
}
