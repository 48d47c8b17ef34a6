//! The state of a rank between two steps.

use crate::embeddings::EmbeddingShards;
use crate::floats::Floats;
use crate::loss::SeedTotals;
use crate::optimizer::optimizer_state::OptimizerState;
use edgecut_dist_loader::EpochSegment;
use edgecut_dist_sampler::{ShardState, ShardValues};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// A position in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The epoch, counted from 0: the number of finished epochs.
    pub epoch: u64,
    /// The number of steps taken in this epoch, by all numbers of processes that have trained in it.
    pub step: usize,
    /// The number of steps taken since the start of the run.
    pub steps: u64,
}

/// The state of a rank between two steps. Parameters and optimizer are equal on all ranks; statistics and embeddings are
/// not.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankState {
    pub(crate) position: Position,
    /// The segments of the epoch so far, the last of them by the ranks that wrote this state. Empty between epochs.
    pub(crate) segments: Vec<EpochSegment>,
    /// The parameters and statistics of the model.
    pub(crate) parameters: Floats,
    pub(crate) optimizer: OptimizerState,
    /// The number of steps of the optimizer.
    pub(crate) steps_done: u64,
    pub(crate) plateau: Plateau,
    pub(crate) accumulated: StoredGradients,
    pub(crate) totals: SeedTotals,
    /// The number of this epoch's batches that have updated this rank's statistics.
    pub(crate) own_batches: u64,
    pub(crate) embeddings: Vec<StoredShard>,
    pub(crate) best: Option<StoredBest>,
    /// The values of the metric so far.
    pub(crate) history: Vec<Option<f64>>,
    /// The number of validations since the best one.
    pub(crate) num_worse: u64,
    /// The moving averages of the parameters and statistics; empty without. They follow the other values in the file, whose
    /// earlier versions lack them.
    #[serde(skip)]
    pub(crate) averages: Floats,
    /// The number of seeds that this rank's batches of the epoch have left out. It follows the averages in the file, if it is not 0.
    #[serde(skip)]
    pub(crate) left_out: u64,
}

/// The state of a learning rate that falls when the metric stops rising.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plateau {
    pub(crate) best: f64,
    pub(crate) num_worse: u64,
    pub(crate) factor: f64,
}

/// The gradients since the last step of the optimizer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredGradients {
    pub(crate) num_steps: u64,
    pub(crate) sum: Floats,
    pub(crate) weight: f64,
}

/// This rank's rows of an embedding.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredShard {
    pub(super) version: u64,
    /// The original ids of the nodes of these rows, and of the best model's.
    pub(super) ids: Vec<u32>,
    pub(super) rows: Option<Floats>,
}

impl StoredShard {
    pub(crate) fn new(state: ShardState, ids: Vec<u32>) -> Self {
        Self { version: state.version, ids, rows: state.rows.map(Floats) }
    }
}

impl From<StoredShard> for ShardState {
    fn from(stored: StoredShard) -> Self {
        Self { version: stored.version, rows: stored.rows.map(|rows| rows.0) }
    }
}

/// The best model so far.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredBest {
    pub(crate) epoch: u64,
    pub(crate) valid_metric: Option<f64>,
    // Shared with the training loop: the best model rarely changes between checkpoints.
    #[serde(with = "shared_model")]
    pub(crate) model: Arc<StoredModel>,
}

/// The parameters of a model, and this rank's rows of its embeddings.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct StoredModel {
    pub(crate) parameters: Floats,
    pub(crate) shards: EmbeddingShards,
}

mod shared_model {
    use super::*;

    /// The rows of an embedding, borrowed.
    struct Rows<'a>(&'a [f32]);

    impl Serialize for Rows<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(bytemuck::cast_slice(self.0))
        }
    }

    pub(super) fn serialize<S: Serializer>(model: &Arc<StoredModel>, serializer: S) -> Result<S::Ok, S::Error> {
        let shards: Vec<Option<Rows<'_>>> = model.shards.iter().map(|shard| shard.values().map(Rows)).collect();
        (&model.parameters, shards).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<StoredModel>, D::Error> {
        let (parameters, shards) = <(Floats, Vec<Option<Floats>>)>::deserialize(deserializer)?;
        let shards = shards.into_iter().map(|rows| ShardValues::new(rows.map(|rows| rows.0))).collect();
        Ok(Arc::new(StoredModel { parameters, shards }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let model = StoredModel {
            parameters: Floats(vec![f32::MIN_POSITIVE, -0.0]),
            shards: vec![ShardValues::new(None), ShardValues::new(Some(vec![1.5; 3]))],
        };
        let state = RankState {
            position: Position { epoch: 3, step: 7, steps: 67 },
            segments: vec![EpochSegment { world_size: 2, num_groups: 1, num_steps: 9, steps: 7 }],
            parameters: Floats(vec![0.1, 1e30]),
            optimizer: OptimizerState { steps: vec![0, 5], values: Floats(vec![0.3]) },
            steps_done: 60,
            plateau: Plateau { best: f64::NEG_INFINITY, num_worse: 1, factor: 0.1 },
            accumulated: StoredGradients { num_steps: 1, sum: Floats(vec![2.5]), weight: 0.1 },
            totals: SeedTotals { loss: 1.0 / 3.0, correct: 2.0, seeds: 3.0, weight: 4.0 },
            own_batches: 7,
            embeddings: vec![
                StoredShard::new(ShardState { version: 67, rows: Some(vec![0.7; 6]) }, vec![4]),
                StoredShard::new(ShardState::default(), Vec::new()),
            ],
            best: Some(StoredBest { epoch: 2, valid_metric: Some(0.1 + 0.2), model: Arc::new(model) }),
            history: vec![None, Some(0.3)],
            num_worse: 1,
            averages: Floats::default(),
            left_out: 0,
        };
        let bytes = bincode::serialize(&state).expect("bytes");
        assert_eq!(bincode::deserialize::<RankState>(&bytes).expect("a state"), state);
        assert!(bincode::deserialize::<RankState>(&bytes[..bytes.len() - 1]).is_err());
    }
}
