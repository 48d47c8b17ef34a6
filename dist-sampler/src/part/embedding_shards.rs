//! The shards of embeddings and of computed rows that one process holds.

use crate::arrays::{bytes_of, ids_in};
use crate::part::embedding_shard::{Shard, Update};
use crate::part::requests::{PullRequest, PushRequest, Refusal};
use crate::part::row_table::RowTable;
use bytes::Bytes;
use std::sync::{Arc, PoisonError, RwLock};

/// The shards that a process serves, by the number of their table.
#[derive(Debug, Default)]
pub(crate) struct Shards(RwLock<Vec<Held>>);

/// The rows of a table that a process holds.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    Nothing,
    Embedding(Arc<Shard>),
    Rows(Arc<RowTable>),
}

impl Shards {
    /// Adds a table and returns its number. `None` means that this process holds no rows of the table.
    pub(crate) fn add(&self, shard: Option<Arc<Shard>>) -> u32 {
        self.push(shard.map_or(Held::Nothing, Held::Embedding))
    }

    /// Adds a table of computed rows and returns its number.
    pub(crate) fn add_rows(&self, rows: Arc<RowTable>) -> u32 {
        self.push(Held::Rows(rows))
    }

    fn push(&self, held: Held) -> u32 {
        let mut shards = self.0.write().unwrap_or_else(PoisonError::into_inner);
        shards.push(held);
        shards.len() as u32 - 1
    }

    /// Stops serving a table. Its number is not used again.
    pub(crate) fn remove(&self, table: u32) {
        let mut shards = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = shards.get_mut(table as usize) {
            *held = Held::Nothing;
        }
    }

    /// Returns the rows of a table that this process holds.
    pub(crate) fn held(&self, table: u32) -> Held {
        let shards = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shards.get(table as usize).cloned().unwrap_or(Held::Nothing)
    }

    /// Returns the rows of an embedding that this process holds.
    pub(crate) fn embedding(&self, table: u32) -> Result<Arc<Shard>, Refusal> {
        match self.held(table) {
            Held::Embedding(shard) => Ok(shard),
            Held::Nothing | Held::Rows(_) => Err(absent(table)),
        }
    }
}

/// Returns the refusal of a request for a table whose rows this process does not hold.
pub(crate) fn absent(table: u32) -> Refusal {
    Refusal::Invalid(format!("this process holds no rows of table {table}"))
}

impl Shard {
    /// Returns the rows of a request, which must have taken the steps that it asks for.
    pub(crate) fn answer_pull(&self, request: &PullRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let rows = ids_in(&request.rows).map_err(Refusal::Invalid)?;
        self.check_rows(rows)?;
        if rows.len().saturating_mul(self.dim() * size_of::<f32>()) > max_bytes {
            return Err(Refusal::TooLarge);
        }
        Ok(bytes_of(self.read(rows)))
    }

    /// Stores the gradients of a request of rank `from` for the step that it names.
    pub(crate) fn answer_push(&self, from: u32, request: &PushRequest) -> Result<Bytes, Refusal> {
        let words = ids_in(&request.data).map_err(Refusal::Invalid)?;
        let num_rows = request.num_rows as usize;
        if words.len() != num_rows.saturating_mul(1 + self.dim()) {
            let why = format!("{} words are not {num_rows} rows with their gradients", words.len());
            return Err(Refusal::Invalid(why));
        }
        let (rows, gradients) = words.split_at(num_rows);
        self.check_rows(rows)?;
        let gradients = gradients.iter().map(|&bits| f32::from_bits(bits)).collect();
        let update = Update { rows: rows.to_vec(), gradients };
        self.push(request.version, (from, request.piece), update).map_err(Refusal::Invalid)?;
        Ok(Bytes::new())
    }

    fn check_rows(&self, rows: &[u32]) -> Result<(), Refusal> {
        match rows.iter().find(|&&row| row as usize >= self.num_rows()) {
            Some(row) => Err(Refusal::Invalid(format!(
                "row {row} was requested, but the embedding has {} rows here",
                self.num_rows()
            ))),
            None => Ok(()),
        }
    }
}
