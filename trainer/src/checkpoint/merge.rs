//! The state of a rank, put together from the states of another number of ranks.

use super::rank_state::{RankState, StoredBest, StoredModel, StoredShard};
use crate::floats::Floats;
use edgecut_dist_sampler::ShardValues;
use std::sync::Arc;

/// The state of one rank of a run that continues with another number of ranks, or with other parts.
///
/// Parameters, optimizer and counters are equal on all ranks. Rows of embeddings are found by the original ids of their
/// nodes. Statistics of batch normalization are divided over the ranks with the numbers of batches that they have
/// followed, so that their average over all ranks stays the same.
pub(super) struct Merge {
    rank: usize,
    world_size: usize,
    /// The tables of embeddings of this rank.
    tables: Vec<Table>,
    /// The state of the first old rank, without embeddings.
    state: Option<RankState>,
    /// The number of old ranks whose statistics belong to this rank, and the weighted sum of these.
    statistics: Statistics,
    /// The same for moving averages.
    averages: Statistics,
    /// The seeds that these old ranks have left out.
    left_out: u64,
}

/// The rows of an embedding that a rank holds.
struct Table {
    /// Pairs of a node's original id and its row, ascending.
    rows_by_id: Vec<(u32, u32)>,
    states: Rows,
    best: Rows,
}

/// Rows of a width that the first stored row tells.
#[derive(Default)]
struct Rows {
    values: Vec<f32>,
    num_filled: usize,
}

#[derive(Default)]
struct Statistics {
    batches: u64,
    sums: Vec<f64>,
    /// The parameters of the first of these ranks, which count if none of them has made a batch.
    first: Vec<f32>,
}

impl Rows {
    fn set(&mut self, row: usize, num_rows: usize, values: &[f32]) {
        if self.values.is_empty() {
            self.values = vec![0.0; num_rows * values.len()];
        }
        if let Some(slot) = self.values.get_mut(row * values.len()..(row + 1) * values.len()) {
            slot.copy_from_slice(values);
            self.num_filled += 1;
        }
    }
}

impl Table {
    fn new(held_ids: &[u32]) -> Self {
        let mut rows_by_id: Vec<(u32, u32)> = held_ids.iter().copied().zip(0..).collect();
        rows_by_id.sort_unstable();
        Self { rows_by_id, states: Rows::default(), best: Rows::default() }
    }

    /// Takes over the rows of the nodes that this rank holds. `best` has the values of the same nodes in the best model.
    fn take(&mut self, stored: &StoredShard, best: Option<&[f32]>) {
        let num_stored = stored.ids.len().max(1);
        let state = stored.rows.as_ref().map_or(&[][..], |rows| &rows.0);
        let width = state.len() / num_stored;
        let best_width = best.map_or(0, |best| best.len() / num_stored);
        for (at, id) in stored.ids.iter().enumerate() {
            let Ok(found) = self.rows_by_id.binary_search_by_key(id, |&(id, _)| id) else { continue };
            let row = self.rows_by_id[found].1 as usize;
            self.states.set(row, self.rows_by_id.len(), &state[at * width..(at + 1) * width]);
            if let Some(best) = best {
                self.best.set(row, self.rows_by_id.len(), &best[at * best_width..(at + 1) * best_width]);
            }
        }
    }
}

impl Merge {
    /// Makes the merged state of a rank that holds rows of nodes with these original ids, by table.
    pub(super) fn new(rank: usize, world_size: usize, held_ids: &[Vec<u32>]) -> Self {
        let tables = held_ids.iter().map(|ids| Table::new(ids)).collect();
        let (statistics, averages) = Default::default();
        Self { rank, world_size, tables, state: None, statistics, averages, left_out: 0 }
    }

    /// Takes what belongs to this rank from the state of old rank `old` of `num_old`. The states come in the order of
    /// their ranks.
    pub(super) fn take(&mut self, old: usize, num_old: usize, mut state: RankState) {
        let shards = std::mem::take(&mut state.embeddings);
        let best = state.best.as_ref().map(|best| best.model.shards.as_slice());
        for (number, (table, stored)) in self.tables.iter_mut().zip(&shards).enumerate() {
            table.take(stored, best.and_then(|best| best.get(number)).and_then(ShardValues::values));
        }
        // With more ranks than before, the additional ones copy statistics that do not count.
        let is_mine = if self.rank < num_old { old % self.world_size == self.rank } else { old == self.rank % num_old };
        if is_mine {
            let batches = if self.rank < num_old { state.own_batches } else { 0 };
            self.statistics.add(&state.parameters.0, batches);
            self.averages.add(&state.averages.0, batches);
            if self.rank < num_old {
                self.left_out += state.left_out;
            }
        }
        if self.state.is_none() {
            let versions =
                shards.iter().map(|shard| StoredShard { version: shard.version, ids: Vec::new(), rows: None });
            state.embeddings = versions.collect();
            self.state = Some(state);
        }
    }

    /// Returns the state.
    ///
    /// # Errors
    /// A message if a row of an embedding is in none of the states.
    pub(super) fn finish(self) -> Result<RankState, String> {
        let mut state = self.state.ok_or("the checkpoint has no file")?;
        state.parameters = Floats(self.statistics.parameters());
        state.averages = Floats(self.averages.parameters());
        state.own_batches = self.statistics.batches;
        state.left_out = self.left_out;
        let mut best_shards = Vec::new();
        for (number, (table, shard)) in self.tables.into_iter().zip(&mut state.embeddings).enumerate() {
            let num_rows = table.rows_by_id.len();
            let has_best = state.best.is_some();
            if table.states.num_filled != num_rows || (has_best && table.best.num_filled != num_rows) {
                return Err(format!(
                    "embedding {number} has {num_rows} rows here, but the checkpoint has {} of them",
                    table.states.num_filled
                ));
            }
            let holds_rows = num_rows > 0;
            shard.rows = holds_rows.then_some(Floats(table.states.values));
            best_shards.push(ShardValues::new(holds_rows.then_some(table.best.values)));
        }
        state.best = state.best.map(|best| {
            let parameters = best.model.parameters.clone();
            StoredBest { model: Arc::new(StoredModel { parameters, shards: best_shards }), ..best }
        });
        Ok(state)
    }
}

impl Statistics {
    fn add(&mut self, parameters: &[f32], batches: u64) {
        if self.first.is_empty() {
            self.first = parameters.to_vec();
            self.sums = vec![0.0; parameters.len()];
        }
        // In `f64`, products and sums of equal values are exact, so that parameters keep every bit.
        for (sum, &value) in self.sums.iter_mut().zip(parameters) {
            *sum += f64::from(value) * batches as f64;
        }
        self.batches += batches;
    }

    fn parameters(&self) -> Vec<f32> {
        if self.batches == 0 {
            return self.first.clone();
        }
        self.sums.iter().map(|sum| (sum / self.batches as f64) as f32).collect()
    }
}
