//! Learnable embeddings of nodes, each held by the process that owns the node.

mod dist_embedding;
mod shard;
mod sparse_adam;

pub use dist_embedding::{DistEmbedding, EmbeddingConfig, ShardValues};
pub use shard::SetRow;
pub(crate) use shard::{Shard, Update};
pub use sparse_adam::SparseAdam;

use std::sync::{Arc, PoisonError, RwLock};

/// The shards that a process serves, by the number of their table.
#[derive(Debug, Default)]
pub(crate) struct Shards(RwLock<Vec<Option<Arc<Shard>>>>);

impl Shards {
    /// Adds a table and returns its number. `None` means that this process holds no rows of the table.
    pub(crate) fn add(&self, shard: Option<Arc<Shard>>) -> u16 {
        let mut shards = self.0.write().unwrap_or_else(PoisonError::into_inner);
        shards.push(shard);
        shards.len() as u16 - 1
    }

    pub(crate) fn get(&self, table: u16) -> Option<Arc<Shard>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(usize::from(table)).cloned().flatten()
    }
}
